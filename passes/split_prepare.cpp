// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/recorded.h"
#include "passes/passes.h"
#include "passes/phase.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SPLITPREPARE
#include "passes/passes.h.inc"

using mlir::Operation;
using mlir::Value;

namespace {

bool isStorage(Operation* operation) {
  return llvm::isa<op::ParameterOp, op::ConstantOp, op::StateOp>(operation);
}

/// Costs nothing where it stands: literals and views.
bool isCheap(Operation* operation) {
  return llvm::isa<op::FullOp, op::IotaOp>(operation) || operation->hasTrait<op::View>();
}

/// The result, or a view of it, leaves the function.
bool isReturned(Value value) {
  llvm::SmallVector<Value> open = {value};
  while (!open.empty()) {
    for (Operation* user : open.pop_back_val().getUsers()) {
      if (user->hasTrait<mlir::OpTrait::IsTerminator>()) {
        return true;
      }
      if (user->hasTrait<op::View>()) {
        open.push_back(user->getResult(0));
      }
    }
  }
  return false;
}

struct SplitPreparePass : impl::SplitPrepareBase<SplitPreparePass> {
  using SplitPrepareBase::SplitPrepareBase;

  void runOnOperation() override {
    if (getOperation().isExternal()) {
      return;
    }
    mlir::Block& block = getOperation().getBody().front();
    PhaseAnalysis phases(freeze);
    if (!freeze) {
      op::setLiveParameters(getOperation());
    }
    for (Operation& operation : block) {
      const bool moves = !isStorage(&operation) && !isCheap(&operation) &&
                         operation.getNumResults() > 0 &&
                         llvm::all_of(operation.getResults(),
                                      [&](Value value) { return phases.isPrepared(value); }) &&
                         llvm::none_of(operation.getResults(), isReturned);
      if (moves) {
        mark(&operation);
      }
    }
    // In reverse order users come before their operands, so that chains of literals and views
    // follow their users.
    for (Operation& operation : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (op::isPrepared(&operation) || isStorage(&operation)) {
        continue;
      }
      if (isCheap(&operation)) {
        followUsers(&operation);
      } else if (llvm::any_of(operation.getUses(),
                              [&](mlir::OpOperand& use) { return isMarkedUse(use); })) {
        copyReturned(&operation);
      }
    }
  }

 private:
  void mark(Operation* operation) { op::setPrepared(operation); }

  /// The phase of a use is that of the op of the function's own block.
  bool isMarkedUse(mlir::OpOperand& use) {
    Operation* user = getOperation().getBody().front().findAncestorOpInBlock(*use.getOwner());
    return user && op::isPrepared(user);
  }

  /// Moves a result that the caller gets to prepare, so that what is computed from it can move too;
  /// the caller gets a copy.
  void copyReturned(Operation* operation) {
    mark(operation);
    mlir::OpBuilder builder(operation->getContext());
    builder.setInsertionPointAfter(operation);
    for (Value result : operation->getResults()) {
      if (!isReturned(result)) {
        continue;
      }
      const Value copy =
          op::CloneOp::create(builder, operation->getLoc(), result.getType(), result);
      result.replaceUsesWithIf(copy, [&](mlir::OpOperand& use) {
        Operation* user = use.getOwner();
        const bool isView = user->hasTrait<op::View>() && !isMarkedUse(use);
        return user->hasTrait<mlir::OpTrait::IsTerminator>() ||
               (isView && isReturned(user->getResult(0)));
      });
    }
  }

  void followUsers(Operation* operation) {
    const Value result = operation->getResult(0);
    const bool some =
        llvm::any_of(result.getUses(), [&](mlir::OpOperand& use) { return isMarkedUse(use); });
    const bool all =
        llvm::all_of(result.getUses(), [&](mlir::OpOperand& use) { return isMarkedUse(use); });
    if (!some) {
      return;
    }
    if (all) {
      mark(operation);
      return;
    }
    mlir::OpBuilder builder(operation);
    Operation* copy = builder.clone(*operation);
    mark(copy);
    operation->getResult(0).replaceUsesWithIf(
        copy->getResult(0), [&](mlir::OpOperand& use) { return isMarkedUse(use); });
  }
};

}  // namespace

}  // namespace straightline::passes
