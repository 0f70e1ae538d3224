// SPDX-License-Identifier: Apache-2.0
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_HOISTINVARIANTS
#include "passes/passes.h.inc"

using mlir::Operation;
using mlir::Value;

namespace {

/// Costs nothing where it stands, and may be a literal of a kernel there.
bool isCheap(Operation* operation) {
  return llvm::isa<op::FullOp, op::IotaOp, op::ParameterOp, op::ConstantOp>(operation) ||
         operation->hasTrait<op::View>();
}

/// What `value` is a view of.
Value sourceOf(Value value) {
  Operation* maker = value.getDefiningOp();
  while (maker && maker->hasTrait<op::View>()) {
    value = maker->getOperand(0);
    maker = value.getDefiningOp();
  }
  return value;
}

/// Whether the results of an elementwise op have no more elements than what it reads: else the loop
/// would read more from memory than it computes now, and memory would hold it all the while.
bool keepsSize(Operation* operation) {
  auto type = llvm::cast<mlir::RankedTensorType>(operation->getResult(0).getType());
  return llvm::any_of(operation->getOperands(), [&](Value operand) {
    auto source = llvm::cast<mlir::RankedTensorType>(sourceOf(operand).getType());
    return type.hasStaticShape() && source.hasStaticShape()
               ? type.getNumElements() <= source.getNumElements()
               : type.getShape() == source.getShape() && type.getEncoding() == source.getEncoding();
  });
}

/// Whether an op may be done once, before the loop, as far as it itself is concerned.
bool mayMove(Operation* operation) {
  if (isCheap(operation)) {
    return true;
  }
  return mlir::isPure(operation) && operation->getNumRegions() == 0 &&
         operation->getNumResults() > 0 && !operation->hasTrait<mlir::OpTrait::IsTerminator>() &&
         !llvm::isa<op::CloneOp, op::StateOp>(operation) &&
         (!llvm::isa<op::ElementwiseOpInterface>(operation) || keepsSize(operation));
}

/// The invariant ops of one block of a loop are moved before the loop.
class Hoist {
 public:
  Hoist(Operation* loop, mlir::Block& block) : loop_(loop), block_(block) {}

  void run() {
    for (Operation& operation : block_) {
      if (mayMove(&operation) && llvm::all_of(operation.getOperands(), [&](Value operand) {
            return !loop_->isAncestor(operand.getParentBlock()->getParentOp()) ||
                   invariant_.contains(operand.getDefiningOp());
          })) {
        invariant_.insert(&operation);
        if (!isCheap(&operation)) {
          moved_.insert(&operation);
        }
      }
    }
    // In reverse order users come before their operands, so that literals and views follow.
    for (Operation& operation : llvm::make_early_inc_range(llvm::reverse(block_))) {
      if (invariant_.contains(&operation) && isCheap(&operation)) {
        followUsers(&operation);
      }
    }
    for (Operation& operation : llvm::make_early_inc_range(block_)) {
      if (moved_.contains(&operation)) {
        operation.moveBefore(loop_);
      }
    }
  }

 private:
  /// A literal or view moves with all of its users, or is copied for those that move.
  void followUsers(Operation* operation) {
    const auto moves = [&](mlir::OpOperand& use) { return moved_.contains(use.getOwner()); };
    if (llvm::none_of(operation->getUses(), moves)) {
      return;
    }
    if (llvm::all_of(operation->getUses(), moves)) {
      moved_.insert(operation);
      return;
    }
    mlir::OpBuilder builder(operation);
    Operation* copy = builder.clone(*operation);
    moved_.insert(copy);
    operation->replaceUsesWithIf(copy, moves);
  }

  Operation* loop_;
  mlir::Block& block_;
  llvm::SmallPtrSet<Operation*, 16> invariant_, moved_;
};

struct HoistInvariantsPass : impl::HoistInvariantsBase<HoistInvariantsPass> {
  void runOnOperation() override {
    // Inner loops first: what leaves them may leave the outer one, too.
    getOperation().walk<mlir::WalkOrder::PostOrder>([](Operation* operation) {
      if (llvm::isa<op::WhileOp, op::ForOp>(operation)) {
        for (mlir::Region& region : operation->getRegions()) {
          Hoist(operation, region.front()).run();
        }
      }
    });
  }
};

}  // namespace

}  // namespace straightline::passes
