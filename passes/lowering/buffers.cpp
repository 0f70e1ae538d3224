// SPDX-License-Identifier: Apache-2.0
// Where values live: buffers, views of them, storage that a value's reader has for it, storage of
// prepare.
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/loops.h"
#include "passes/lowering/lowering.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::Location;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

namespace {

/// Read by something outside prepare, directly or through views.
bool outlivesPrepare(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation* user) {
    return user->hasTrait<op::View>() ? outlivesPrepare(user->getResult(0))
                                      : !user->hasAttr("op.prepare");
  });
}

}  // namespace

kernel::BufferType Lowering::type(const Exprs& extents, mlir::Type element, const Exprs& strides,
                                  llvm::ArrayRef<int64_t> border) const {
  return kernel::BufferType::get(context_, names_, extents, element, strides, "host", border);
}

kernel::BufferType Lowering::contiguousType(const Exprs& extents, mlir::Type element) const {
  return type(extents, element, rowMajor(extents));
}

Value Lowering::slot(kernel::BufferType type) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(inPrepare_ ? &prepare_.getBody().front()
                                               : &run_.getBody().front());
  return kernel::SlotOp::create(builder_, function_.getLoc(), type).getBuffer();
}

Value Lowering::view(Location loc, Value base, kernel::BufferType type, AffineExpr offset,
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
                                  kernel::ExtentAttr::get(context_, names_, offset))
        .getResult();
  }
  llvm::SmallVector<mlir::StringAttr> allNames(names_);
  llvm::SmallVector<llvm::StringRef> indexNames;
  llvm::SmallVector<Value> values;
  for (const auto& [name, value] : indices) {
    indexNames.push_back(name);
    values.push_back(value);
    allNames.push_back(mlir::StringAttr::get(context_, name));
  }
  return kernel::ViewOp::create(builder_, loc, type, base,
                                kernel::ExtentAttr::get(context_, allNames, offset),
                                builder_.getStrArrayAttr(indexNames), values)
      .getResult();
}

Value Lowering::root(Value buffer) {
  while (auto view = buffer.getDefiningOp<kernel::ViewOp>()) {
    buffer = view.getBase();
  }
  return buffer;
}

Value Lowering::bufferOf(Value tensor) {
  auto found = buffers_.find(tensor);
  if (found != buffers_.end()) {
    return inPrepare_ ? found->second : viewInRun(found->second);
  }
  // Parameters, states and literals are declared when first used, so that unused ones cost nothing.
  Operation* op = tensor.getDefiningOp();
  assert(op && "a block argument is bound when its block is lowered");
  if (failed(lowerConstant(op))) {
    llvm::report_fatal_error("a value is read before it is lowered", /*gen_crash_diag=*/false);
  }
  return buffers_.lookup(tensor);
}

/// True when `tensor` may be written into `storage` although it holds a value that is still read:
/// every reader of the old value stands before the writer, or is the writer itself reading the same
/// element.
bool Lowering::safeInPlace(Value tensor, Value storage) {
  Operation* writer = tensor.getDefiningOp();
  llvm::SmallVector<Value> olds;
  for (auto& [value, buffer] : buffers_) {
    if (value != tensor && root(buffer) == root(storage)) {
      olds.push_back(value);
    }
  }
  for (Value old : olds) {
    for (Operation* user : old.getUsers()) {
      Operation* ancestor = writer->getBlock()->findAncestorOpInBlock(*user);
      if (!ancestor) {
        // read in an enclosing block, before or after the region: its own check covers it
        continue;
      }
      if (ancestor->hasTrait<mlir::OpTrait::IsTerminator>()) {
        continue;  // a returned state is the new value
      }
      if (user->hasTrait<op::View>() && ancestor->isBeforeInBlock(writer)) {
        // the view is bound to the same storage: its users are looked at in their own turn
        continue;
      }
      if (ancestor == writer) {
        auto fusion = llvm::dyn_cast<op::FusionOp>(writer);
        const bool sameElement =
            fusion && fusion.getFamily() == "pointwise" && old.getType() == tensor.getType();
        const bool scatter = llvm::isa<op::SliceScatterOp, op::DynamicUpdateSliceOp,
                                       op::IndexCopyOp, op::IndexAddOp>(writer) &&
                             writer->getOperand(0) == old &&
                             !llvm::is_contained(llvm::drop_begin(writer->getOperands()), old);
        if (sameElement || scatter) {
          continue;
        }
        return false;
      }
      if (writer->isBeforeInBlock(ancestor)) {
        return false;
      }
    }
  }
  return true;
}

Value Lowering::outputArgument(unsigned result) {
  auto found = outputOfResult_.find(result);
  if (found == outputOfResult_.end()) {
    return {};
  }
  return run_.getBody().getArgument(found->second);
}

Value Lowering::wantedDestination(Value tensor) {
  if (inPrepare_) {
    return {};
  }
  const Exprs extents = extentsOf(tensor);
  for (mlir::OpOperand& use : tensor.getUses()) {
    Operation* user = use.getOwner();
    Value place;
    if (llvm::isa<mlir::func::ReturnOp>(user)) {
      const unsigned result = use.getOperandNumber();
      if (auto tie = function_.getResultAttrOfType<mlir::StringAttr>(result, "op.tie")) {
        Value storage = placeOfYield_.lookup(tensor);
        place = storage && safeInPlace(tensor, storage) ? storage : Value();
      } else {
        place = outputArgument(result);
      }
    } else if (llvm::isa<op::YieldOp>(user)) {
      place = placeOfYield_.lookup(tensor);
      place = place && safeInPlace(tensor, place) ? place : Value();
    } else if (llvm::isa<op::ReshapeOp>(user)) {
      Value outer = wantedDestination(user->getResult(0));
      place = outer ? tryReshape(user->getLoc(), outer, extents) : Value();
    } else if (auto permute = llvm::dyn_cast<op::PermuteOp>(user)) {
      if (Value outer = wantedDestination(permute.getResult())) {
        Exprs strides(extents.size());
        const Exprs outerStrides = stridesOf(typeOf(outer));
        for (auto [to, from] : llvm::enumerate(permute.getDims())) {
          strides[from] = outerStrides[to];
        }
        place = view(user->getLoc(), outer, type(extents, typeOf(outer).getElementType(), strides),
                     constant(0));
      }
    } else if (auto cat = llvm::dyn_cast<op::CatOp>(user)) {
      const bool once = llvm::count(cat.getTensors(), tensor) == 1 && !isReadInParts(cat);
      place = once ? catPlace_.lookup({cat, tensor}) : Value();
      if (!place && once && cat->getBlock() == tensor.getParentBlock()) {
        Value whole = destination(cat.getResult());
        const Exprs strides = stridesOf(typeOf(whole));
        AffineExpr at = constant(0);
        for (Value part : cat.getTensors()) {
          const Exprs partExtents = extentsOf(part);
          catPlace_[{cat, part}] = view(user->getLoc(), whole,
                                        type(partExtents, typeOf(whole).getElementType(), strides),
                                        at * strides[cat.getDim()]);
          at = at + partExtents[cat.getDim()];
        }
        place = catPlace_.lookup({cat, tensor});
      }
    } else if (llvm::isa<op::SliceScatterOp, op::DynamicUpdateSliceOp, op::IndexCopyOp,
                         op::IndexAddOp>(user) &&
               use.getOperandNumber() == 0 && tensor.hasOneUse()) {
      place = wantedDestination(user->getResult(0));
    }
    if (place) {
      return place;
    }
  }
  return {};
}

/// A reduction over other dims than the last is one over the last ones of a permuted tensor,
/// permuted back: what it makes lies as its readers see it, and so in the order in which it is
/// read. Empty for anything else.
static llvm::SmallVector<int64_t> orderBeforePermute(Value tensor) {
  auto fusion = tensor.getDefiningOp<op::FusionOp>();
  if (!fusion || fusion.getFamily() != "row_reduction" || tensor.use_empty()) {
    return {};
  }
  auto back = llvm::dyn_cast<op::PermuteOp>(*tensor.getUsers().begin());
  const bool oneOrder = back && llvm::all_of(tensor.getUsers(), [&](Operation* user) {
                          auto permute = llvm::dyn_cast<op::PermuteOp>(user);
                          return permute && permute.getDims() == back.getDims();
                        });
  const bool undoes =
      oneOrder && llvm::any_of(fusion.getInputs(), [&](Value input) {
        auto there = input.getDefiningOp<op::PermuteOp>();
        return there && there.getDims().size() == back.getDims().size() &&
               llvm::all_of(llvm::enumerate(back.getDims()), [&](auto dim) {
                 return there.getDims()[dim.value()] == static_cast<int64_t>(dim.index());
               });
      });
  return undoes ? llvm::to_vector(back.getDims()) : llvm::SmallVector<int64_t>();
}

Value Lowering::allocatePlain(Value tensor) {
  const Exprs extents = extentsOf(tensor);
  mlir::Type element = llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
  Operation* op = tensor.getDefiningOp();
  auto layout = op ? op->getAttrOfType<mlir::DictionaryAttr>("op.layout") : mlir::DictionaryAttr();
  const llvm::SmallVector<int64_t> before =
      layout ? llvm::SmallVector<int64_t>() : orderBeforePermute(tensor);
  if (!layout && before.empty()) {
    return slot(contiguousType(extents, element));
  }
  const llvm::ArrayRef<int64_t> order =
      layout ? layout.getAs<mlir::DenseI64ArrayAttr>("order").asArrayRef() : before;
  auto border =
      layout ? layout.getAs<mlir::DenseI64ArrayAttr>("border") : mlir::DenseI64ArrayAttr();
  llvm::SmallVector<int64_t> widths(border ? border.asArrayRef() : llvm::ArrayRef<int64_t>());
  Exprs strides(extents.size());
  AffineExpr stride = constant(1);
  for (int64_t dim : llvm::reverse(order)) {
    strides[dim] = stride;
    const int64_t around = widths.empty() ? 0 : widths[2 * dim] + widths[2 * dim + 1];
    stride = stride * (extents[dim] + around);
  }
  if (llvm::all_of(widths, [](int64_t width) { return width == 0; })) {
    widths.clear();
  }
  Value buffer = slot(type(extents, element, strides, widths));
  if (!widths.empty()) {
    zeroBorder(tensor.getLoc(), buffer);
  }
  return buffer;
}

Value Lowering::preparedBuffer(Location loc, kernel::BufferType type, llvm::StringRef name) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPoint(prepare_);
  const unsigned count = usedNames_["prepared." + name.str()]++;
  const std::string number = count || name.ends_with(".") ? std::to_string(count) : "";
  return kernel::PreparedOp::create(builder_, loc, type, builder_.getStringAttr(name + number),
                                    kernel::ExtentAttr());
}

void Lowering::atEndOfPrepare(llvm::function_ref<void()> make) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToEnd(&prepare_.getBody().front());
  inPrepare_ = true;
  make();
  inPrepare_ = false;
}

Value Lowering::viewInPrepare(Value buffer) {
  auto view = buffer.getDefiningOp<kernel::ViewOp>();
  if (!view || !run_->isAncestor(view)) {
    return buffer;
  }
  mlir::OpBuilder builder(context());
  Value base = viewInPrepare(view.getBase());
  builder.setInsertionPointToEnd(&prepare_.getBody().front());
  return kernel::ViewOp::create(builder, view.getLoc(), typeOf(buffer), base, view.getOffset())
      .getResult();
}

Value Lowering::viewInRun(Value buffer) {
  auto view = buffer.getDefiningOp<kernel::ViewOp>();
  if (!view || !prepare_->isAncestor(view)) {
    return buffer;
  }
  const Value base = viewInRun(view.getBase());
  Value& made = viewsInRun_[buffer];
  if (!made) {
    mlir::OpBuilder builder(context());
    if (base == view.getBase()) {
      builder.setInsertionPointToStart(&run_.getBody().front());
    } else {
      builder.setInsertionPointAfterValue(base);
    }
    made = kernel::ViewOp::create(builder, view.getLoc(), typeOf(buffer), base, view.getOffset())
               .getResult();
  }
  return made;
}

Value Lowering::destination(Value tensor) {
  auto found = buffers_.find(tensor);
  if (found != buffers_.end()) {
    return found->second;
  }
  Value buffer = wantedDestination(tensor);
  if (!buffer && !inPrepare_) {
    buffer = takeRow(tensor);
  }
  if (!buffer && inPrepare_) {
    // Something that run reads outlives prepare; what only prepare reads is scratch.
    if (outlivesPrepare(tensor)) {
      const mlir::Type element =
          llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
      buffer =
          preparedBuffer(tensor.getLoc(), contiguousType(extentsOf(tensor), element), "prepared.");
    }
  }
  if (!buffer) {
    buffer = allocatePlain(tensor);
  }
  bind(tensor, buffer);
  return buffer;
}

Value Lowering::tryReshape(Location loc, Value buffer, const Exprs& to) {
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

Value Lowering::contiguous(Location loc, Value buffer, llvm::StringRef why) {
  kernel::BufferType from = typeOf(buffer);
  const Exprs extents = extentsOf(from);
  if (!from.hasBorder() && stridesOf(from) == rowMajor(extents)) {
    return buffer;
  }
  Value fresh = slot(contiguousType(extents, from.getElementType()));
  copy(loc, buffer, fresh, "copy", why);
  return fresh;
}

}  // namespace straightline::lowering
