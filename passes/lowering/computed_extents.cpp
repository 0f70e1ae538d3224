// SPDX-License-Identifier: Apache-2.0
// Extents that a statement of run computes: the number is read, checked and told to what follows.
#include "passes/lowering/computed_extents.h"

#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::Operation;
using mlir::StringAttr;

namespace {

bool mentions(llvm::ArrayRef<StringAttr> names, StringAttr extent) {
  return llvm::is_contained(names, extent);
}

bool mentions(mlir::Type type, StringAttr extent) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  auto dims =
      tensor ? llvm::dyn_cast_if_present<op::DimsAttr>(tensor.getEncoding()) : op::DimsAttr();
  return dims && mentions(dims.getNames(), extent);
}

/// Whether the op, or one in its regions, has the extent in a type or an attribute of its own.
bool mentions(Operation* op, StringAttr extent) {
  const auto result = op->walk([&](Operation* inner) {
    const bool inTypes =
        llvm::any_of(inner->getResultTypes(), [&](mlir::Type t) { return mentions(t, extent); });
    const bool inAttributes = llvm::any_of(inner->getAttrs(), [&](mlir::NamedAttribute attribute) {
      auto dims = llvm::dyn_cast<op::DimsAttr>(attribute.getValue());
      return dims && mentions(dims.getNames(), extent);
    });
    return inTypes || inAttributes ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return result.wasInterrupted();
}

bool readsOneOf(Operation* op, const llvm::DenseSet<Operation*>& makers) {
  const auto result = op->walk([&](Operation* inner) {
    const bool reads = llvm::any_of(inner->getOperands(), [&](mlir::Value operand) {
      return operand.getDefiningOp() && makers.contains(operand.getDefiningOp());
    });
    return reads ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return result.wasInterrupted();
}

LogicalResult lowerSetExtent(op::SetExtentOp op, LoweringContext& context) {
  const mlir::FailureOr<mlir::Value> number = context.scalarIndex(op.getLoc(), op.getValue());
  if (failed(number)) {
    return mlir::failure();
  }
  mlir::Value value = *number;
  if (!value.getType().isInteger(64)) {
    value = mlir::arith::ExtSIOp::create(context.builder(), op.getLoc(),
                                         context.builder().getI64Type(), value);
  }
  kernel::SetExtentOp::create(context.builder(), op.getLoc(), op.getExtent(), value);
  context.setKnown(op.getExtentAttr());
  return mlir::success();
}

LogicalResult lowerCheck(op::CheckOp op, LoweringContext& context) {
  const mlir::FailureOr<mlir::Value> holds = context.scalarIndex(op.getLoc(), op.getCondition());
  if (failed(holds)) {
    return mlir::failure();
  }
  kernel::CheckOp::create(context.builder(), op.getLoc(), *holds, op.getMessage());
  return mlir::success();
}

}  // namespace

void orderBehindExtents(mlir::Block& block) {
  llvm::SmallVector<op::SetExtentOp> sets;
  block.walk([&](op::SetExtentOp set) { sets.push_back(set); });
  for (op::SetExtentOp set : sets) {
    llvm::SmallVector<Operation*> around;  // the op itself, then what it is in, up to `block`
    for (Operation* op = set;; op = op->getParentOp()) {
      around.push_back(op);
      if (op->getBlock() == &block) {
        break;
      }
    }
    llvm::DenseSet<Operation*> late;
    llvm::SmallVector<Operation*> moved;
    for (Operation* ancestor : llvm::reverse(around)) {
      for (Operation& op : *ancestor->getBlock()) {
        if (&op == ancestor) {
          break;
        }
        if (mentions(&op, set.getExtentAttr()) || readsOneOf(&op, late)) {
          late.insert(&op);
          moved.push_back(&op);
        }
      }
    }
    for (Operation* op : llvm::reverse(moved)) {
      op->moveAfter(set);
    }
  }
}

void registerComputedExtentsRules(RuleSet& rules) {
  rules.add(lowerSetExtent);
  rules.add(lowerCheck);
}

}  // namespace straightline::lowering
