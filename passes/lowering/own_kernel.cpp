// SPDX-License-Identifier: Apache-2.0
// Ops that a user's own C function computes (op.own_kernel): a declaration with the arguments of
// the function, and one call over row-major buffers. What it updates is updated where it lies,
// unless something reads the old value later.
#include <algorithm>

#include "dialect/error_kind.h"
#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"
#include "dialect/op/own_kernel.h"
#include "dialect/own_argument.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// Microseconds for each byte that is read or written, of one thread.
constexpr double kUsPerByte = 1e-4;

class OwnKernelLowering {
 public:
  OwnKernelLowering(op::OwnKernelOp own, LoweringContext& context)
      : own_(own), context_(context), loc_(own.getLoc()) {}

  LogicalResult lower() {
    if (failed(verify())) {
      return mlir::failure();
    }
    constexpr llvm::StringLiteral kWhy = "a kernel of the user's reads rows";
    const auto updates = static_cast<unsigned>(own_.getUpdates());
    for (Value operand : own_.getInputs().drop_back(updates)) {
      inputs_.push_back(aligned(context_.contiguous(loc_, context_.bufferOf(operand), kWhy)));
    }
    for (auto [i, result] : llvm::enumerate(own_.getResults())) {
      const bool isUpdated = i < updates;
      const Value operand = isUpdated ? own_.getInputs()[own_.countRead() + i] : Value();
      wanted_.push_back(isUpdated ? context_.updatedPlace(result, operand)
                                  : context_.destination(result));
      outputs_.push_back(rowMajor(wanted_.back()));
      if (isUpdated && !context_.isSamePlace(context_.bufferOf(operand), outputs_.back())) {
        context_.copy(loc_, context_.bufferOf(operand), outputs_.back(), "copy",
                      "the kernel updates it, and its old value is read later or lies elsewhere");
      }
    }
    if (own_.getSource()) {
      launch();
    } else {
      call();
    }
    for (auto [made, wanted] : llvm::zip(outputs_, wanted_)) {
      if (made != wanted) {
        context_.copy(loc_, made, wanted, "copy",
                      "the result is wanted in another layout than the kernel writes");
      }
    }
    return success();
  }

 private:
  bool has(llvm::StringRef trait) {
    return llvm::is_contained(llvm::split(own_.getTraits(), ' '), trait);
  }

  LogicalResult verify() {
    for (Value operand : llvm::concat<Value>(llvm::to_vector(own_.getOperands()),
                                             llvm::to_vector(own_.getResults()))) {
      const int64_t rank = llvm::cast<mlir::RankedTensorType>(operand.getType()).getRank();
      if (rank > SL_MAX_RANK) {
        return emitUnsupported(own_) << own_.getName() << " has an operand of rank " << rank
                                     << "; the nearest supported form has rank " << SL_MAX_RANK;
      }
    }
    const Target& target = targetNamedBy(context_.target());
    const bool isOnDevice = target.hasQueue();
    if (isOnDevice && !target.launchesGraphs()) {
      return emitUnsupported(own_)
             << own_.getName() << " is a kernel of the user's, which runs on "
             << "the cpu and on CUDA devices, but the program runs on " << target.name()
             << "; the nearest supported form is a kernel of the plug-in";
    }
    if (own_.getSource() && !isOnDevice) {
      return emitUnsupported(own_) << own_.getName()
                                   << " is a CUDA kernel but the program runs on the host; the "
                                      "nearest supported form is a C function, c_kernel";
    }
    if (has("device") && !isOnDevice) {
      return emitUnsupported(own_)
             << own_.getName()
             << " is a function for a CUDA device but the program runs on the "
                "host; the nearest supported form is one of the host";
    }
    if (isOnDevice && !own_.getSource() && !has("stream")) {
      return emitUnsupported(own_)
             << own_.getName() << " is a function of the host but the program runs on "
             << context_.target().getBackend()
             << "; the nearest supported form is a function that takes the stream, stream=True";
    }
    if (own_.getImage() &&
        !targetNamedBy(context_.target()).runsMachineCode(own_.getMachine(), context_.target())) {
      return emitUnsupported(own_) << own_.getName() << " is machine code for " << own_.getMachine()
                                   << " but the program is for " << context_.target().getCpu()
                                   << "; the nearest supported form is a cubin for "
                                   << context_.target().getCpu() << ", or the kernel's source";
    }
    return success();
  }

  /// The place, or memory for it where it is not row-major.
  Value rowMajor(Value wanted) {
    const kernel::BufferType type = typeOf(wanted);
    const Exprs extents = context_.extentsOf(type), strides = context_.stridesOf(type);
    const Exprs dense = context_.rowMajor(extents);
    const bool isDense =
        !type.hasBorder() && llvm::all_of(llvm::seq<size_t>(0, extents.size()), [&](size_t dim) {
          return strides[dim] == dense[dim] || extents[dim] == context_.constant(1);
        });
    return isDense && isAligned(wanted)
               ? wanted
               : context_.slot(context_.contiguousType(extents, type.getElementType()));
  }

  /// Whether the buffer begins where machine code takes it to begin, as far as the program decides:
  /// its own memory and what a caller gives begins at such an address, and a part of it may not.
  bool isAligned(Value buffer) {
    const llvm::ArrayRef<int64_t> alignments =
        own_.getAlignments().value_or(llvm::ArrayRef<int64_t>());
    const int64_t bytes = alignments.empty() ? 1 : *llvm::max_element(alignments);
    for (; bytes > 1; buffer = buffer.getDefiningOp<kernel::ViewOp>().getBase()) {
      auto view = buffer.getDefiningOp<kernel::ViewOp>();
      if (!view) {
        break;
      }
      const AffineExpr offset = view.getOffset().getExpr() * typeOf(view.getBase()).elementBytes();
      if (!view.getIndices().empty() || !offset.isMultipleOf(bytes)) {
        return false;
      }
    }
    return true;
  }

  /// The buffer, or a copy of it that begins where machine code takes it to begin.
  Value aligned(Value buffer) {
    if (isAligned(buffer)) {
      return buffer;
    }
    const kernel::BufferType type = typeOf(buffer);
    const Value fresh =
        context_.slot(context_.contiguousType(context_.extentsOf(type), type.getElementType()));
    context_.copy(loc_, buffer, fresh, "copy",
                  "the kernel's machine code takes it to begin at an aligned address");
    return fresh;
  }

  /// Extents that only a call knows, operand by operand, then the sizes that arguments mean.
  mlir::ArrayAttr sizes() {
    llvm::SmallVector<mlir::Attribute> found;
    for (Value buffer : llvm::concat<Value>(inputs_, outputs_)) {
      for (AffineExpr extent : context_.extentsOf(typeOf(buffer))) {
        if (!symbolic::constantValue(extent)) {
          found.push_back(context_.number(extent));
        }
      }
    }
    llvm::append_range(found, namedSizes());
    return found.empty() ? mlir::ArrayAttr() : context_.builder().getArrayAttr(found);
  }

  double costUs() {
    double bytes = 0;
    for (Value buffer : llvm::concat<Value>(inputs_, outputs_)) {
      const kernel::BufferType type = typeOf(buffer);
      bytes +=
          static_cast<double>(context_.upperBound(context_.product(context_.extentsOf(type)))) *
          static_cast<double>(type.elementBytes());
    }
    return bytes * kUsPerByte;
  }

  kernel::DeclOp declare(mlir::ValueRange workspace) {
    mlir::OpBuilder builder = context_.endOfModule();
    const bool isOnDevice = targetNamedBy(context_.target()).hasQueue();
    const auto types = [&](mlir::ValueRange values) {
      return builder.getTypeArrayAttr(
          llvm::map_to_vector(values, [](Value value) { return value.getType(); }));
    };
    const auto updates = static_cast<size_t>(own_.getUpdates());
    llvm::SmallVector<llvm::StringRef> roles(outputs_.size(), "write");
    std::fill(roles.begin(), roles.begin() + static_cast<std::ptrdiff_t>(updates), "readwrite");
    llvm::SmallVector<mlir::NamedAttribute> problem;
    if (mlir::ArrayAttr known = sizes()) {
      problem.push_back(context_.named("sizes", known));
    }
    auto decl = kernel::DeclOp::create(
        builder, builder.getUnknownLoc(), builder.getStringAttr("own"), types(inputs_),
        builder.getDenseBoolArrayAttr(llvm::SmallVector<bool>(inputs_.size(), false)),
        types(outputs_), builder.getStrArrayAttr(roles), types(workspace), own_.getNameAttr(),
        builder.getDictionaryAttr(problem), own_.getSymbolAttr(), mlir::StringAttr(),
        mlir::StringAttr(), builder.getUnitAttr());
    kernel::setOwnArguments(decl, own_.getArguments(), own_.getTraits());
    if (isOnDevice && has("outside")) {
      kernel::setOutsideGraph(decl);
    }
    if (isOnDevice) {
      decl->setAttr(kernel::kRunsOnAttr, builder.getStringAttr(context_.target().getBackend()));
    }
    return shared(decl);
  }

  /// The declaration of that text, where there is one; else this one, with a name.
  kernel::DeclOp shared(kernel::DeclOp decl) {
    const auto unnamed = [](kernel::DeclOp of) {
      mlir::NamedAttrList attributes(of->getAttrDictionary());
      attributes.erase("sym_name");
      return attributes.getDictionary(of.getContext());
    };
    for (auto other : context_.module().getOps<kernel::DeclOp>()) {
      if (other != decl && unnamed(other) == unnamed(decl)) {
        decl.erase();
        return other;
      }
    }
    const std::string name = "own_" + own_.getName().split("::").second.str();
    const unsigned count = context_.nextNumber(name);
    decl.setSymName(name + (count ? "_" + std::to_string(count + 1) : ""));
    return decl;
  }

  /// A kernel whose body is the user's text.
  void launch() {
    mlir::Builder& builder = context_.builder();
    const llvm::SmallVector<mlir::Attribute> sizes = namedSizes();
    const auto blocksOf = [&](llvm::StringRef text) -> mlir::Attribute {
      const OwnArgument blocks = *parseOwnArgument(text);
      const int64_t number = blocks.integers.front();
      return blocks.kind == OwnArgumentKind::size ? sizes[static_cast<size_t>(number)]
                                                  : context_.number(number);
    };
    std::string name = own_.getName().str();
    KernelSpec spec;
    spec.name = "own_" + own_.getName().split("::").second.str();
    name.replace(name.find("::"), 2, ".");
    spec.op = name;
    spec.why = "own: a kernel of the user's";
    spec.why += own_.getNote().empty() ? "" : "; " + own_.getNote().str();
    spec.family = "own";
    spec.shape = {context_.named("blocks", blocksOf(own_.getBlocks())),
                  context_.named("sizes", builder.getArrayAttr(sizes))};
    spec.inputs = inputs_;
    spec.outputs = outputs_;
    llvm::SmallVector<mlir::Attribute> arguments(own_.getArguments().getValue());
    for (Value scratch : workspace()) {  // one more output, and how large it is
      arguments.push_back(builder.getStringAttr("@" + std::to_string(outputs_.size())));
      arguments.push_back(builder.getStringAttr("i:" + std::to_string(own_.getWorkspace())));
      spec.outputs.push_back(scratch);
    }
    spec.updates = own_.getUpdates() != 0;
    llvm::SmallVector<mlir::NamedAttribute> source = {
        context_.named("arguments", builder.getArrayAttr(arguments)),
        context_.named("function", own_.getSymbolAttr()),
        context_.named("source", own_.getSourceAttr()),
        context_.named("threads",
                       builder.getI64IntegerAttr(static_cast<int64_t>(own_.getThreads())))};
    if (own_.getImage()) {
      spec.shape.push_back(context_.named(
          "more_blocks",
          builder.getArrayAttr(llvm::map_to_vector(
              own_.getMoreBlocksAttr().getAsValueRange<mlir::StringAttr>(), blocksOf))));
      source.append({context_.named("image", own_.getImageAttr()),
                     context_.named("alignments", own_.getAlignmentsAttr()),
                     context_.named("shared_bytes", builder.getI64IntegerAttr(static_cast<int64_t>(
                                                        own_.getSharedBytes())))});
      if (own_.getWaits()) {
        source.push_back(context_.named("waits", builder.getUnitAttr()));
      }
      if (own_.getCooperative()) {
        source.push_back(context_.named("cooperative", builder.getUnitAttr()));
      }
    }
    spec.source = builder.getDictionaryAttr(source);
    context_.launch(loc_, spec);
  }

  llvm::SmallVector<mlir::Attribute> namedSizes() {
    llvm::SmallVector<mlir::Attribute> found;
    if (op::DimsAttr named = own_.getSizesAttr()) {
      for (AffineExpr expr : context_.rebased(named)) {
        found.push_back(kernel::ExtentAttr::get(context_.context(), context_.names(), expr));
      }
    }
    return found;
  }

  /// Scratch memory of the call, or none.
  llvm::SmallVector<Value> workspace() {
    const auto bytes = static_cast<int64_t>(own_.getWorkspace());
    if (bytes == 0) {
      return {};
    }
    return {context_.slot(
        context_.contiguousType({context_.constant(bytes)}, context_.builder().getI8Type()))};
  }

  void call() {
    const llvm::SmallVector<Value> scratch = workspace();
    kernel::DeclOp decl = declare(scratch);
    mlir::OpBuilder& builder = context_.builder();
    std::string name = own_.getName().str();
    name.replace(name.find("::"), 2, ".");
    auto call = kernel::CallOp::create(
        builder, loc_, mlir::FlatSymbolRefAttr::get(decl.getSymNameAttr()), inputs_, outputs_,
        Value(), scratch, mlir::FlatSymbolRefAttr::get(context_.context(), context_.teamQueue()),
        builder.getI64IntegerAttr(1), builder.getStringAttr(name),
        builder.getStringAttr("own: a kernel of the user's"));
    kernel::setCostUs(call, costUs());
  }

  op::OwnKernelOp own_;
  LoweringContext& context_;
  mlir::Location loc_;
  llvm::SmallVector<Value> inputs_, outputs_;  ///< as the function gets them
  llvm::SmallVector<Value> wanted_;            ///< where results are to be
};

LogicalResult lowerOwnKernel(op::OwnKernelOp own, LoweringContext& context) {
  return OwnKernelLowering(own, context).lower();
}

}  // namespace

void registerOwnKernelRules(RuleSet& rules) {
  rules.add(lowerOwnKernel).updated = [](mlir::OpOperand& use) -> Value {
    auto own = llvm::cast<op::OwnKernelOp>(use.getOwner());
    const unsigned number = use.getOperandNumber();
    return number < own.countRead() ? Value() : Value(own.getResult(number - own.countRead()));
  };
}

}  // namespace straightline::lowering
