// SPDX-License-Identifier: Apache-2.0
// Puts a barrier before every statement that depends on one that another thread of the team may
// still be running: it reads or writes memory that the other writes, or writes memory that the
// other reads. Memory is the storage of a buffer; two slots conflict when their places in the arena
// overlap, so it runs after plan_memory. Two statements of thread 0 alone need no barrier between
// them. A team of one needs none at all.
//
// Statements of other queues need none: thread 0 alone enqueues them, and record and wait order
// them. A record on the team counts what the whole team has done, so a barrier stands before it;
// where the team waits, thread 0 alone blocks, so a barrier stands between the wait and the next
// statement of the team.
//
// Control flow is treated as a whole: a barrier before it, at the end of a loop's body and after
// it, when anything is pending.
#include "llvm/ADT/STLExtras.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_INSERTBARRIERS
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::Value;

/// One storage touched by a pending statement.
struct Touch {
  Value root;
  bool writes;
  bool firstThreadOnly;
};

bool overlap(Value a, Value b) {
  if (a == b) {
    return true;
  }
  auto slotA = a.getDefiningOp<kernel::SlotOp>();
  auto slotB = b.getDefiningOp<kernel::SlotOp>();
  if (!slotA || !slotB) {
    return false;
  }
  auto typeA = llvm::cast<kernel::BufferType>(a.getType());
  auto typeB = llvm::cast<kernel::BufferType>(b.getType());
  if (typeA.getSpace() != typeB.getSpace()) {
    return false;
  }
  auto start = [](kernel::SlotOp slot) {
    return slot.getOffsetAttr() ? slot.getOffsetAttr().getConstant() : std::nullopt;
  };
  const std::optional<int64_t> startA = start(slotA);
  const std::optional<int64_t> startB = start(slotB);
  const std::optional<int64_t> bytesA = symbolic::constantValue(typeA.bytes());
  const std::optional<int64_t> bytesB = symbolic::constantValue(typeB.bytes());
  if (!startA || !startB || !bytesA || !bytesB) {
    return true;  // not known while compiling: assume the worst
  }
  return *startA < *startB + *bytesB && *startB < *startA + *bytesA;
}

class BarrierInserter {
 public:
  explicit BarrierInserter(mlir::FlatSymbolRefAttr queue) : queue_(queue) {}

  void run(mlir::Block& block) {
    for (Operation& op : llvm::make_early_inc_range(block)) {
      if (op.getNumRegions() > 0) {
        flush(&op);
        for (mlir::Region& region : op.getRegions()) {
          if (!region.empty()) {
            runNested(region.front());
          }
        }
        continue;
      }
      visit(&op);
    }
  }

 private:
  void runNested(mlir::Block& block) {
    pending_.clear();
    run(block);
    if (!pending_.empty() || waited_) {
      mlir::OpBuilder builder = block.mightHaveTerminator() ? mlir::OpBuilder(block.getTerminator())
                                                            : mlir::OpBuilder::atBlockEnd(&block);
      kernel::BarrierOp::create(builder, block.getParentOp()->getLoc(), queue_);
      pending_.clear();
      waited_ = false;
    }
  }

  void flush(Operation* before) {
    if (!pending_.empty() || waited_) {
      mlir::OpBuilder builder(before);
      kernel::BarrierOp::create(builder, before->getLoc(), queue_);
      pending_.clear();
      waited_ = false;
    }
  }

  void visit(Operation* op) {
    if (llvm::isa<kernel::BarrierOp>(op)) {
      pending_.clear();  // one that stands already counts
      return;
    }
    auto queue = op->getAttrOfType<mlir::FlatSymbolRefAttr>("queue");
    if (queue && queue != queue_) {
      return;
    }
    if (llvm::isa<kernel::RecordOp>(op)) {
      flush(op);
      return;
    }
    if (llvm::isa<kernel::WaitOp>(op)) {
      waited_ = true;
      return;
    }
    llvm::SmallVector<Touch> touches;
    if (auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op)) {
      const bool first = call.getTeamSize() == 1;
      for (Value input : call.getInputs()) {
        touches.push_back({kernel::storageRoot(input), false, first});
      }
      for (Value output :
           llvm::concat<const Value>(llvm::SmallVector<Value>(call.getOutputs()),
                                     llvm::SmallVector<Value>(call.getWorkspace()))) {
        touches.push_back({kernel::storageRoot(output), true, first});
      }
    } else if (auto plan = llvm::dyn_cast<kernel::PlanOp>(op)) {
      for (Value constant : plan.getConstants()) {
        touches.push_back({kernel::storageRoot(constant), false, true});
      }
    } else if (auto load = llvm::dyn_cast<kernel::LoadOp>(op)) {
      touches.push_back({kernel::storageRoot(load.getBuffer()), false, false});
    } else if (auto copy = llvm::dyn_cast<kernel::CopyOp>(op)) {
      touches.push_back({kernel::storageRoot(copy.getSource()), false, true});
      touches.push_back({kernel::storageRoot(copy.getDestination()), true, true});
    }
    const bool conflict = llvm::any_of(touches, [&](const Touch& now) {
      return llvm::any_of(pending_, [&](const Touch& before) {
        return (now.writes || before.writes) && !(now.firstThreadOnly && before.firstThreadOnly) &&
               overlap(now.root, before.root);
      });
    });
    if (conflict || (waited_ && !touches.empty())) {
      flush(op);
    }
    llvm::append_range(pending_, touches);
  }

  mlir::FlatSymbolRefAttr queue_;
  llvm::SmallVector<Touch> pending_;
  bool waited_ = false;  ///< thread 0 has waited for another queue since the last barrier
};

struct InsertBarriersPass : impl::InsertBarriersBase<InsertBarriersPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (program.getTarget().getThreads() <= 1) {
        continue;
      }
      auto queues = program.getBodyBlock()->getOps<kernel::QueueOp>();
      if (queues.empty()) {
        program.emitOpError(
            "has no kernel.queue, so there is no team whose statements could be separated");
        return signalPassFailure();
      }
      BarrierInserter inserter(mlir::FlatSymbolRefAttr::get((*queues.begin()).getSymNameAttr()));
      inserter.run(program.getRunOp().getBody().front());
      if (kernel::PrepareOp prepare = program.getPrepareOp()) {
        BarrierInserter early(mlir::FlatSymbolRefAttr::get((*queues.begin()).getSymNameAttr()));
        early.run(prepare.getBody().front());
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
