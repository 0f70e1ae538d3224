// SPDX-License-Identifier: Apache-2.0
// Buffers of values, views of them, and storage of prepare.
#include <utility>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::Attribute;
using mlir::failure;
using mlir::FailureOr;
using mlir::Location;
using mlir::Operation;
using mlir::Value;

Value LoweringContext::bufferOf(Value tensor) {
  auto found = buffers_.find(tensor);
  if (found != buffers_.end()) {
    return inPrepare_ ? found->second : viewInRun(found->second);
  }
  Operation* op = tensor.getDefiningOp();
  assert(op && "a block argument is bound when its block is lowered");
  const Rule* rule = rules_.find(op);
  if (!rule || !rule->declare) {
    op->emitOpError("is read before it is lowered");
    llvm::report_fatal_error("a value is read before it is lowered", /*gen_crash_diag=*/false);
  }
  if (failed(rule->declare(op, *this))) {
    llvm::report_fatal_error("a value could not be declared", /*gen_crash_diag=*/false);
  }
  return buffers_.lookup(tensor);
}

Value LoweringContext::slot(kernel::BufferType type) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(inPrepare_ ? &parts_.prepare.getBody().front()
                                               : &parts_.run.getBody().front());
  return kernel::SlotOp::create(builder_, parts_.program.getLoc(), type).getBuffer();
}

Value LoweringContext::view(Location loc, Value base, kernel::BufferType type, AffineExpr offset,
                            llvm::ArrayRef<std::pair<std::string, Value>> indices) {
  if (indices.empty()) {
    // Views of views are one view: fewer names in the emitted text.
    if (auto inner = base.getDefiningOp<kernel::ViewOp>(); inner && inner.getIndices().empty()) {
      kernel::ExtentAttr before = inner.getOffset();
      return view(loc, inner.getBase(), type,
                  offset + rebased(before.getExpr(), before.getNames()));
    }
    if (offset == constant(0) && typeOf(base) == type) {
      return base;
    }
    return kernel::ViewOp::create(builder_, loc, type, base,
                                  kernel::ExtentAttr::get(context(), names(), offset))
        .getResult();
  }
  llvm::SmallVector<mlir::StringAttr> allNames(names());
  llvm::SmallVector<llvm::StringRef> indexNames;
  llvm::SmallVector<Value> values;
  for (const auto& [name, value] : indices) {
    indexNames.push_back(name);
    values.push_back(value);
    allNames.push_back(mlir::StringAttr::get(context(), name));
  }
  return kernel::ViewOp::create(builder_, loc, type, base,
                                kernel::ExtentAttr::get(context(), allNames, offset),
                                builder_.getStrArrayAttr(indexNames), values)
      .getResult();
}

FailureOr<Value> LoweringContext::viewAtIndex(mlir::Location loc, Value base, Value index,
                                              int64_t dim, Value part) {
  FailureOr<Value> number = indexValue(loc, index);
  if (failed(number)) {
    return failure();
  }
  const std::string name = "i" + std::to_string(nextNumber("index."));
  // behind the names of extents
  const AffineExpr position = mlir::getAffineSymbolExpr(names().size(), context());
  const Exprs strides = stridesOf(typeOf(base));
  return view(loc, base, type(extentsOf(part), typeOf(base).getElementType(), strides),
              position * strides[dim], {{name, *number}});
}

Value LoweringContext::tryReshape(Location loc, Value buffer, const Exprs& to) {
  kernel::BufferType from = typeOf(buffer);
  if (from.hasBorder()) {
    return {};
  }
  // Dims of size one carry no stride; the others are grouped from the left so that products of
  // extents agree, and inside a group the old dims must be mergeable (stride[i] == stride[i + 1] *
  // extent[i + 1]).
  Exprs extents;
  Exprs strides;
  for (auto [extent, stride] : llvm::zip(extentsOf(from), stridesOf(from))) {
    if (extent != constant(1)) {
      extents.push_back(extent);
      strides.push_back(stride);
    }
  }
  Exprs result(to.size(), constant(1));
  size_t old = 0;
  for (size_t dim = 0; dim < to.size();) {
    if (to[dim] == constant(1)) {
      ++dim;
      continue;
    }
    if (old == extents.size()) {
      return {};
    }
    size_t oldEnd = old + 1;
    size_t newEnd = dim + 1;
    AffineExpr oldProduct = extents[old];
    AffineExpr newProduct = to[dim];
    while (oldProduct != newProduct) {
      // Grow the smaller side; sizes that cannot be compared are compared by their bounds.
      if (upperBound(oldProduct) < upperBound(newProduct)) {
        if (oldEnd == extents.size()) {
          return {};
        }
        oldProduct = oldProduct * extents[oldEnd++];
      } else {
        if (newEnd == to.size()) {
          return {};
        }
        newProduct = newProduct * to[newEnd++];
      }
    }
    for (size_t i = old; i + 1 < oldEnd; ++i) {
      if (strides[i] != strides[i + 1] * extents[i + 1]) {
        return {};
      }
    }
    AffineExpr stride = strides[oldEnd - 1];
    for (size_t i = newEnd; i-- > dim;) {
      result[i] = stride;
      stride = stride * to[i];
    }
    old = oldEnd;
    dim = newEnd;
  }
  if (old != extents.size()) {
    return {};
  }
  return view(loc, buffer, type(to, from.getElementType(), result), constant(0));
}

Value LoweringContext::contiguous(Location loc, Value buffer, llvm::StringRef why) {
  kernel::BufferType from = typeOf(buffer);
  const Exprs extents = extentsOf(from);
  const Exprs strides = stridesOf(from), wanted = rowMajor(extents);
  if (!from.hasBorder() && strides == wanted) {
    return buffer;
  }
  // The stride of a dim of one element does not matter.
  if (!from.hasBorder() && llvm::all_of(llvm::enumerate(extents), [&](auto extent) {
        return extent.value() == constant(1) || strides[extent.index()] == wanted[extent.index()];
      })) {
    return view(loc, buffer, contiguousType(extents, from.getElementType()), constant(0));
  }
  Value fresh = slot(contiguousType(extents, from.getElementType()));
  copy(loc, buffer, fresh, "copy", why);
  return fresh;
}

Value LoweringContext::root(Value buffer) {
  while (auto view = buffer.getDefiningOp<kernel::ViewOp>()) {
    buffer = view.getBase();
  }
  return buffer;
}

bool LoweringContext::isSamePlace(Value buffer, Value place) const {
  const auto start = [&](Value value) -> std::pair<Value, Attribute> {
    auto view = value.getDefiningOp<kernel::ViewOp>();
    const Attribute zero = kernel::ExtentAttr::get(context(), 0);
    return view ? std::pair<Value, Attribute>(
                      view.getIndices().empty() ? view.getBase() : Value(view), view.getOffset())
                : std::pair<Value, Attribute>(value, zero);
  };
  if (start(buffer) != start(place) || extentsOf(typeOf(buffer)) != extentsOf(typeOf(place))) {
    return false;
  }
  const Exprs strides = stridesOf(typeOf(buffer)), wanted = stridesOf(typeOf(place));
  return llvm::all_of(llvm::enumerate(extentsOf(typeOf(place))), [&](auto extent) {
    return extent.value() == constant(1) || strides[extent.index()] == wanted[extent.index()];
  });
}

Value LoweringContext::preparedBuffer(Location loc, kernel::BufferType type, llvm::StringRef name) {
  const unsigned count = nextNumber("prepared." + name.str());
  const std::string number = count || name.ends_with(".") ? std::to_string(count) : "";
  mlir::OpBuilder builder = declarations();
  return kernel::PreparedOp::create(builder, loc, type, builder.getStringAttr(name + number),
                                    kernel::ExtentAttr());
}

void LoweringContext::atEndOfPrepare(llvm::function_ref<void()> make) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToEnd(&parts_.prepare.getBody().front());
  const bool before = std::exchange(inPrepare_, true);
  make();
  inPrepare_ = before;
}

bool LoweringContext::isFromPrepare(Value buffer) const {
  Operation* owner = root(buffer).getDefiningOp();
  return owner && !parts_.run->isAncestor(owner);
}

bool LoweringContext::isFixedInRun(Value tensor, Value buffer) {
  if (inPrepare() || !straightline::isFixedInRun(tensor)) {
    return false;
  }
  while (Operation* view = tensor.getDefiningOp()) {
    if (!view->hasTrait<op::View>()) {
      break;
    }
    tensor = view->getOperand(0);
  }
  return isFromPrepare(buffer) ||
         (llvm::isa<mlir::BlockArgument>(tensor) && root(buffer) == root(bufferOf(tensor)));
}

Value LoweringContext::viewInPrepare(Value buffer) {
  auto view = buffer.getDefiningOp<kernel::ViewOp>();
  if (!view || !parts_.run->isAncestor(view)) {
    return buffer;
  }
  Value base = viewInPrepare(view.getBase());
  mlir::OpBuilder builder = endOfPrepare();
  return kernel::ViewOp::create(builder, view.getLoc(), typeOf(buffer), base, view.getOffset())
      .getResult();
}

/// Likewise a view of prepare that run reads; the same one each time.
Value LoweringContext::viewInRun(Value buffer) {
  auto view = buffer.getDefiningOp<kernel::ViewOp>();
  if (!view || !parts_.prepare->isAncestor(view)) {
    return buffer;
  }
  const Value base = viewInRun(view.getBase());
  Value& made = viewsInRun_[buffer];
  if (!made) {
    mlir::OpBuilder builder(context());
    if (base == view.getBase()) {
      builder.setInsertionPointToStart(&parts_.run.getBody().front());
    } else {
      builder.setInsertionPointAfterValue(base);
    }
    made = kernel::ViewOp::create(builder, view.getLoc(), typeOf(buffer), base, view.getOffset())
               .getResult();
  }
  return made;
}

}  // namespace straightline::lowering
