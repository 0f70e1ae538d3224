// SPDX-License-Identifier: Apache-2.0
// Puts a barrier before every statement that depends on one that another thread of the team may still be running: it reads
// or writes memory that the other writes, or writes memory that the other reads. Memory is the storage of a buffer; two
// slots conflict when their places in the arena overlap, so it runs after plan_memory. Two statements of thread 0 alone need
// no barrier between them. A team of one needs none at all.
//
// Control flow is treated as a whole: a barrier before it, at the end of a loop's body and after it, when anything is pending.
#include "llvm/ADT/STLExtras.h"
#include "passes/kernel_passes.h"

namespace straightline {

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
  auto start = [](kernel::SlotOp slot) { return slot.getOffsetAttr() ? slot.getOffsetAttr().getConstant() : std::nullopt; };
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
    if (!pending_.empty()) {
      mlir::OpBuilder builder = block.mightHaveTerminator() ? mlir::OpBuilder(block.getTerminator())
                                                            : mlir::OpBuilder::atBlockEnd(&block);
      kernel::BarrierOp::create(builder, block.getParentOp()->getLoc(), queue_);
      pending_.clear();
    }
  }

  void flush(Operation* before) {
    if (!pending_.empty()) {
      mlir::OpBuilder builder(before);
      kernel::BarrierOp::create(builder, before->getLoc(), queue_);
      pending_.clear();
    }
  }

  void visit(Operation* op) {
    if (llvm::isa<kernel::BarrierOp>(op)) {
      pending_.clear();  // one that stands already counts
      return;
    }
    llvm::SmallVector<Touch> touches;
    if (auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op)) {
      const bool first = call.getTeamSize() == 1;
      for (Value input : call.getInputs()) {
        touches.push_back({kernel::storageRoot(input), false, first});
      }
      for (Value output : llvm::concat<const Value>(llvm::SmallVector<Value>(call.getOutputs()), llvm::SmallVector<Value>(call.getWorkspace()))) {
        touches.push_back({kernel::storageRoot(output), true, first});
      }
    } else if (auto load = llvm::dyn_cast<kernel::LoadOp>(op)) {
      touches.push_back({kernel::storageRoot(load.getBuffer()), false, false});
    } else if (auto copy = llvm::dyn_cast<kernel::CopyOp>(op)) {
      touches.push_back({kernel::storageRoot(copy.getSource()), false, true});
      touches.push_back({kernel::storageRoot(copy.getDestination()), true, true});
    }
    const bool conflict = llvm::any_of(touches, [&](const Touch& now) {
      return llvm::any_of(pending_, [&](const Touch& before) {
        return (now.writes || before.writes) && !(now.firstThreadOnly && before.firstThreadOnly) && overlap(now.root, before.root);
      });
    });
    if (conflict) {
      flush(op);
    }
    llvm::append_range(pending_, touches);
  }

  mlir::FlatSymbolRefAttr queue_;
  llvm::SmallVector<Touch> pending_;
};

struct InsertBarriers : mlir::PassWrapper<InsertBarriers, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(InsertBarriers)
  llvm::StringRef getArgument() const override { return "insert-barriers"; }
  llvm::StringRef getDescription() const override { return "separate dependent statements of a team"; }

  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (program.getTarget().getThreads() <= 1) {
        continue;
      }
      auto queues = program.getBodyBlock()->getOps<kernel::QueueOp>();
      if (queues.empty()) {
        program.emitOpError("has no kernel.queue, so there is no team whose statements could be separated");
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

std::unique_ptr<mlir::Pass> createInsertBarriersPass() { return std::make_unique<InsertBarriers>(); }

}  // namespace straightline
