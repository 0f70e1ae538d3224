// SPDX-License-Identifier: Apache-2.0
// Ops that an external kernel computes (op.external): operands and results in a layout that the
// kernel's facts name, and the call that its calling rule describes.
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/contraction_problem.h"
#include "passes/external_call.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

class ExternalLowering {
 public:
  ExternalLowering(op::ExternalOp external, LoweringContext& context, const sl_kernel_desc& kernel)
      : external_(external), context_(context), kernel_(kernel), loc_(external.getLoc()) {}

  LogicalResult lower() {
    for (auto [tensor, role] : llvm::zip(external_.getInputs(), external_.getRoles())) {
      const sl_operand_facts facts = factsOfRole(kernel_, role);
      const bool isPlanned = (facts.flags & SL_OPERAND_PLANNED) != 0;
      if (isPlanned && !isKnownEarly(tensor)) {
        return external_.emitError() << "operand " << role << " is read by the plan of "
                                     << kernel_.name << " but is known only in a run";
      }
      isPlanned_.push_back(isPlanned);
      inputs_.push_back(given(tensor, facts, isPlanned));
    }
    for (auto [i, result] : llvm::enumerate(external_.getResults())) {
      wanted_.push_back(context_.destination(result));
      outputs_.push_back(written(wanted_.back(), outputFacts(kernel_, i)));
    }
    call();
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (made_[i] != wanted_[i]) {
        context_.copy(loc_, made_[i], wanted_[i], "copy",
                      "the result is wanted in another layout than the kernel writes");
      }
    }
    return success();
  }

 private:
  AffineExpr constant(int64_t value) { return context_.constant(value); }

  /// Strides of dense memory in which dim 1 is innermost.
  Exprs channelsLast(const Exprs& extents) {
    Exprs strides(extents.size());
    strides[1] = constant(1);
    AffineExpr stride = extents[1];
    for (size_t dim = extents.size(); dim-- > 2;) {
      strides[dim] = stride;
      stride = stride * extents[dim];
    }
    strides[0] = stride;
    return strides;
  }

  /// Whether the kernel takes memory as it lies. A description that names no layout is of a kernel
  /// of row-major operands.
  bool takes(kernel::BufferType type, uint32_t layouts) {
    const Exprs extents = context_.extentsOf(type), strides = context_.stridesOf(type);
    const size_t rank = extents.size();
    const auto isDense = [&](const Exprs& dense) {
      return !type.hasBorder() && llvm::all_of(llvm::seq<size_t>(0, rank), [&](size_t dim) {
        return strides[dim] == dense[dim] || extents[dim] == constant(1);
      });
    };
    const bool hasUnitStride = rank == 0 || strides[rank - 1] == constant(1) ||
                               (rank > 1 && strides[rank - 2] == constant(1));
    return (layouts & SL_LAYOUT_STRIDED) != 0 ||
           ((layouts & SL_LAYOUT_UNIT_STRIDE) != 0 && hasUnitStride) ||
           ((layouts & SL_LAYOUT_ROW_MAJOR) != 0 && isDense(context_.rowMajor(extents))) ||
           ((layouts & SL_LAYOUT_CHANNELS_LAST) != 0 && rank > 2 && isDense(channelsLast(extents)));
  }

  static uint32_t layoutsOf(const sl_operand_facts& facts) {
    return facts.layouts == 0 ? SL_LAYOUT_ROW_MAJOR : facts.layouts;
  }

  /// The type of memory of the kernel's own choice: of the layout that it prefers, else row-major
  /// where it takes that.
  kernel::BufferType typeFor(kernel::BufferType type, const sl_operand_facts& facts) {
    const Exprs extents = context_.extentsOf(type);
    const uint32_t layouts = facts.preferred != 0 ? facts.preferred : layoutsOf(facts);
    const bool isLast =
        layouts == SL_LAYOUT_CHANNELS_LAST && extents.size() > 2;  // else row-major is among them
    return context_.type(extents, type.getElementType(),
                         isLast ? channelsLast(extents) : context_.rowMajor(extents));
  }

  /// [.., k] as [rows, k], where the kernel wants matrices.
  Value asRows(Value buffer, const sl_operand_facts& facts) {
    const Exprs extents = context_.extentsOf(typeOf(buffer));
    if ((facts.flags & SL_OPERAND_ROWS) == 0 || extents.size() == 2 || extents.empty()) {
      return buffer;
    }
    const llvm::ArrayRef<AffineExpr> leading = llvm::ArrayRef(extents).drop_back();
    return context_.tryReshape(loc_, buffer, {context_.product(leading), extents.back()});
  }

  /// A matrix of the kernel's is dense: rows of several dims have one stride only there.
  static bool wantsRows(const sl_operand_facts& facts) {
    return (facts.flags & SL_OPERAND_ROWS) != 0;
  }
  uint32_t wantedLayouts(const sl_operand_facts& facts) {
    return wantsRows(facts) ? uint32_t{SL_LAYOUT_ROW_MAJOR} : layoutsOf(facts);
  }

  Value given(Value tensor, const sl_operand_facts& facts, bool isPlanned) {
    Value buffer = context_.bufferOf(tensor);
    if (!takes(typeOf(buffer), wantedLayouts(facts))) {
      constexpr llvm::StringLiteral kWhy = "the external kernel reads another layout";
      const kernel::BufferType type =
          wantsRows(facts) ? context_.contiguousType(context_.extentsOf(typeOf(buffer)),
                                                     typeOf(buffer).getElementType())
                           : typeFor(typeOf(buffer), facts);
      if (isPlanned && !context_.inPrepare()) {  // a plan reads it in prepare
        const Value early = context_.viewInPrepare(buffer);
        const Value copied = context_.preparedBuffer(loc_, type, "ordered.");
        context_.atEndOfPrepare([&] { context_.copy(loc_, early, copied, "copy", kWhy); });
        buffer = copied;
      } else {
        const Value copied = context_.slot(type);
        context_.copy(loc_, buffer, copied, "copy", kWhy);
        buffer = copied;
      }
    }
    return asRows(buffer, facts);
  }

  Value written(Value wanted, const sl_operand_facts& facts) {
    const bool fits = takes(typeOf(wanted), wantedLayouts(facts));
    made_.push_back(fits ? wanted
                         : context_.slot(wantsRows(facts) ? context_.contiguousType(
                                                                context_.extentsOf(typeOf(wanted)),
                                                                typeOf(wanted).getElementType())
                                                          : typeFor(typeOf(wanted), facts)));
    return asRows(made_.back(), facts);
  }

  void call() {
    Problem problem(external_.getName().str(), context_.target());
    llvm::SmallVector<mlir::Attribute> sizes;
    for (auto [i, buffer] : llvm::enumerate(llvm::concat<Value>(inputs_, outputs_))) {
      const Exprs extents = context_.extentsOf(typeOf(buffer));
      const Exprs strides = context_.stridesOf(typeOf(buffer));
      problem.addOperand(typeOf(buffer).getElementType(), staticOrDynamic(extents),
                         staticOrDynamic(strides), i < isPlanned_.size() && isPlanned_[i]);
      for (AffineExpr expr : llvm::concat<const AffineExpr>(extents, strides)) {
        if (!symbolic::constantValue(expr)) {
          sizes.push_back(context_.number(expr));
        }
      }
    }
    problem.setInputs(static_cast<int32_t>(inputs_.size()));
    problem.setText("", static_cast<int32_t>(sizes.size()));
    addTold(problem, external_.getTold());
    llvm::SmallVector<mlir::NamedAttribute> told = toldToPlan(kernel_, external_.getTold());
    const sl_problem asked = problem.view();
    if (kernel_.rule->tells_workspace != 0 && kernel_.workspace) {
      told.push_back(context_.named("workspace_bytes", context_.number(kernel_.workspace(&asked))));
    }
    if (!sizes.empty()) {
      told.push_back(context_.named("sizes", context_.builder().getArrayAttr(sizes)));
    }
    KernelSpec spec;
    spec.op = external_.getName().str();
    if (auto activation = external_.getTold().getAs<mlir::StringAttr>(kActivation)) {
      spec.op += ", " + activation.getValue().split('_').first.str();
    }
    spec.why = op::kernelChoiceOf(external_).getWhy().str();
    spec.alternatives = op::kernelChoiceOf(external_).getAlternatives();
    spec.costUs = kernel_.cost(&asked);
    context_.callLibrary(loc_, {kernel_, problem, spec}, {inputs_, isPlanned_, outputs_}, told);
  }

  op::ExternalOp external_;
  LoweringContext& context_;
  const sl_kernel_desc& kernel_;
  mlir::Location loc_;
  llvm::SmallVector<Value> inputs_, outputs_;  ///< as the kernel gets them
  llvm::SmallVector<bool> isPlanned_;
  llvm::SmallVector<Value> wanted_, made_;  ///< where results are to be, and where they are written
};

LogicalResult lowerExternal(op::ExternalOp external, LoweringContext& context) {
  const llvm::StringRef name = op::kernelChoiceOf(external).getKernel().getValue();
  const sl_kernel_desc* kernel = findKernel(name);
  if (!kernel || !isExternal(*kernel) || !kernel->rule || external.getName() != kernel->op) {
    return external.emitError() << "op.kernel names \"" << name
                                << "\", which is no external kernel with a calling rule for "
                                << external.getName() << " of this process's registry";
  }
  return ExternalLowering(external, context, *kernel).lower();
}

}  // namespace

void registerExternalRules(RuleSet& rules) { rules.add(lowerExternal); }

}  // namespace straightline::lowering
