// SPDX-License-Identifier: Apache-2.0
// Where values are written: the places that their users have for them, storage that may be
// overwritten, and memory of their own.
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::Operation;
using mlir::Value;

namespace {

/// The result of an op that is its operand with some elements replaced; null: the operand is read.
Value updatedBy(const Rule* rule, mlir::OpOperand& use) {
  if (rule && rule->updatesFirstOperand && use.getOperandNumber() == 0) {
    return use.getOwner()->getResult(0);
  }
  return rule && rule->updated ? rule->updated(use) : Value();
}

/// Whether `maker` has `old` once, as the operand whose new value is `tensor`.
bool updatesAlone(const Rule* rule, Operation* maker, Value old, Value tensor) {
  return llvm::count(maker->getOperands(), old) == 1 &&
         llvm::any_of(maker->getOpOperands(), [&](mlir::OpOperand& use) {
           return use.get() == old && updatedBy(rule, use) == tensor;
         });
}

/// Read by something outside prepare, directly or through views.
bool outlivesPrepare(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation* user) {
    return user->hasTrait<op::View>() ? outlivesPrepare(user->getResult(0)) : !op::isPrepared(user);
  });
}

}  // namespace

/// The op that writes the first element of `tensor`: the one that makes it or, for a value that is
/// made of others in their places (a concatenation), the op of the part that is being lowered.
Operation* LoweringContext::firstWriter(Value tensor) const {
  Operation* maker = tensor.getDefiningOp();
  Operation* current = currentIn(maker->getBlock());
  return current && current->isBeforeInBlock(maker) ? current : maker;
}

/// True when `tensor` may be written into `storage` although it holds a value that is still read:
/// every reader of the old value stands before the first writer, or makes the tensor and reads the
/// same element or what it leaves as it is.
bool LoweringContext::isSafeInPlace(Value tensor, Value storage) {
  Operation* maker = tensor.getDefiningOp();
  Operation* writer = firstWriter(tensor);
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
      if (ancestor == maker) {
        const Rule* rule = rules_.find(maker);
        const bool sameElement =
            maker == writer && rule && rule->isElementwise && old.getType() == tensor.getType();
        if (sameElement || updatesAlone(rule, maker, old, tensor)) {
          continue;
        }
        return false;
      }
      if (!ancestor->isBeforeInBlock(writer)) {
        return false;
      }
    }
  }
  return true;
}

/// Whether a result of the op has an extent that is computed later: where parts of it lie, and with
/// what strides, is not known to what is computed next.
bool LoweringContext::makesUnknown(Operation* op) const {
  return !unknownExtents_.empty() && llvm::any_of(op->getResultTypes(), [&](mlir::Type type) {
    auto tensor = llvm::cast<mlir::RankedTensorType>(type);
    auto dims = llvm::dyn_cast_if_present<op::DimsAttr>(tensor.getEncoding());
    return dims && llvm::any_of(dims.getNames(), [&](mlir::StringAttr name) {
             return unknownExtents_.contains(name);
           });
  });
}

llvm::SmallVector<Value> LoweringContext::takePlaces(Value tensor) {
  auto found = morePlaces_.find(tensor);
  if (inPrepare_ || found == morePlaces_.end()) {
    return {};
  }
  llvm::SmallVector<Value> taken, left;
  for (Value place : found->second) {
    (isSafeInPlace(tensor, place) ? taken : left).push_back(place);
  }
  found->second = left;
  return taken;
}

/// A place that already holds a value is used only where that value may be overwritten.
Value LoweringContext::wantedPlace(Value tensor) {
  if (inPrepare_) {
    return {};
  }
  const auto ifSafe = [&](Value place) {
    return place && isSafeInPlace(tensor, place) ? place : Value();
  };
  for (mlir::OpOperand& use : tensor.getUses()) {
    Operation* user = use.getOwner();
    if (makesUnknown(user)) {
      continue;
    }
    Value place;
    if (llvm::isa<mlir::func::ReturnOp>(user)) {
      const unsigned result = use.getOperandNumber();
      auto function = llvm::cast<mlir::func::FuncOp>(user->getParentOp());
      place = op::tieOf(function, result) ? ifSafe(placeOf(tensor)) : outputs_.lookup(result);
    } else if (llvm::isa<op::YieldOp>(user)) {
      place = ifSafe(placeOf(tensor));
    } else if (const Rule* rule = rules_.find(user); Value updated = updatedBy(rule, use)) {
      place = tensor.hasOneUse() ? wantedPlace(updated) : Value();
    } else if (rule && rule->place) {
      place = rule->place(use, *this);
    }
    if (place && (!rowsOf(place) || mayWriteRow(tensor, user))) {
      return place;
    }
  }
  return {};
}

/// Whether a region or the function gives `tensor`, or a view of it, to what is outside.
static bool isGivenAway(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation* user) {
    return user->hasTrait<mlir::OpTrait::IsTerminator>() ||
           (user->hasTrait<op::View>() && isGivenAway(user->getResult(0)));
  });
}

Value LoweringContext::updatedPlace(Value tensor, Value operand) {
  if (buffers_.contains(tensor) || inPrepare_) {
    return destination(tensor);
  }
  Value place = wantedPlace(tensor);
  Value buffer = bufferOf(operand);
  // What is made outside of a loop is read in each iteration.
  const auto isMadeHere = [&](Value value) {
    return value.getDefiningOp() && value.getParentBlock() == tensor.getParentBlock();
  };
  const bool isOfThisBlock = llvm::all_of(buffers_, [&](const auto& bound) {
    return root(bound.second) != root(buffer) || bound.first == tensor ||
           (isMadeHere(bound.first) && !isGivenAway(bound.first));
  });
  if (!place && root(buffer).getDefiningOp<kernel::SlotOp>() && isOfThisBlock &&
      isSafeInPlace(tensor, buffer)) {
    place = buffer;
  }
  if (!place) {
    return destination(tensor);
  }
  bind(tensor, place);
  return place;
}

/// Memory of a value's own, in the layout that assign_layouts chose or that its readers prefer.
Value LoweringContext::allocate(Value tensor) {
  const Exprs extents = extentsOf(tensor);
  mlir::Type element = elementType(tensor);
  Operation* op = tensor.getDefiningOp();
  const op::LayoutAttr layout = op ? op::layoutOf(op) : op::LayoutAttr();
  const Rule* rule = op ? rules_.find(op) : nullptr;
  const llvm::SmallVector<int64_t> before =
      !layout && rule && rule->order ? rule->order(tensor) : llvm::SmallVector<int64_t>();
  if (!layout && before.empty()) {
    return slot(contiguousType(extents, element));
  }
  const llvm::ArrayRef<int64_t> order = layout ? layout.getOrder() : before;
  llvm::SmallVector<int64_t> widths(layout ? layout.getBorder() : llvm::ArrayRef<int64_t>());
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

Value LoweringContext::destination(Value tensor) {
  auto found = buffers_.find(tensor);
  if (found != buffers_.end()) {
    return found->second;
  }
  Value buffer = wantedPlace(tensor);
  for (RuleSet::FindPlace find : rules_.placeFinders()) {
    if (buffer || inPrepare_) {
      break;
    }
    buffer = find(tensor, *this);
  }
  if (!buffer && inPrepare_) {
    // Something that run reads outlives prepare; what only prepare reads is scratch.
    if (outlivesPrepare(tensor)) {
      buffer = preparedBuffer(tensor.getLoc(),
                              contiguousType(extentsOf(tensor), elementType(tensor)), "prepared.");
    }
  }
  if (!buffer) {
    buffer = allocate(tensor);
  }
  bind(tensor, buffer);
  return buffer;
}

}  // namespace straightline::lowering
