// SPDX-License-Identifier: Apache-2.0
// Checks the order of accesses on different queues with vector clocks. Each queue numbers its
// statements and keeps a clock: for each other queue, the number of the last statement that is
// certain to have ended. A record saves the clock of its queue, and a wait for its event raises the
// clock of the queue that waits. Loops are walked twice, so that accesses of one iteration are
// compared with those of the next.
#include "passes/levels/levels.h"

namespace straightline {

using mlir::Operation;
using mlir::StringAttr;
using mlir::Value;

namespace {

/// By queue: the number of its last statement that is known to have ended.
using Clock = llvm::DenseMap<StringAttr, int64_t>;

struct Past {
  Value root;
  bool writes;
  StringAttr queue;
  int64_t time;
  Operation* op;
};

struct State {
  llvm::DenseMap<StringAttr, Clock> known;  ///< the clock of each queue
  llvm::DenseMap<Value, Clock> events;
  llvm::SmallVector<Past> past;
};

void raise(Clock& clock, const Clock& other) {
  for (auto [queue, time] : other) {
    int64_t& own = clock[queue];
    own = std::max(own, time);
  }
}

/// What is known whichever of two branches was taken: the smaller number of each queue.
Clock knownInBoth(const Clock& a, const Clock& b) {
  Clock result;
  for (auto [queue, time] : a) {
    auto found = b.find(queue);
    if (found != b.end()) {
      result[queue] = std::min(time, found->second);
    }
  }
  return result;
}

class Checker {
 public:
  Checker(const MayShare& mayShare, llvm::StringRef constraint, StringAttr team, bool isAlone)
      : mayShare_(mayShare), constraint_(constraint), team_(team), isAlone_(isAlone) {}

  mlir::LogicalResult checkBlock(mlir::Block& block) {
    for (Operation& op : block) {
      if (failed(check(&op))) {
        return mlir::failure();
      }
    }
    return mlir::success();
  }

 private:
  mlir::LogicalResult check(Operation* op) {
    if (auto branch = llvm::dyn_cast<kernel::IfOp>(op)) {
      return checkIf(branch);
    }
    if (llvm::isa<kernel::ForOp, kernel::WhileOp>(op)) {
      for (int iteration = 0; iteration < 2; ++iteration) {
        for (mlir::Region& region : op->getRegions()) {
          if (failed(checkBlock(region.front()))) {
            return mlir::failure();
          }
        }
      }
      return mlir::success();
    }
    if (auto record = llvm::dyn_cast<kernel::RecordOp>(op)) {
      StringAttr queue = record.getQueueAttr().getAttr();
      Clock seen = state_.known[queue];
      seen[queue] = count_[queue];
      state_.events[record.getEvent()] = seen;
      return mlir::success();
    }
    if (auto wait = llvm::dyn_cast<kernel::WaitOp>(op)) {
      raise(state_.known[wait.getQueueAttr().getAttr()], state_.events[wait.getEvent()]);
      return mlir::success();
    }
    return checkAccesses(op);
  }

  mlir::LogicalResult checkIf(kernel::IfOp branch) {
    const State before = state_;
    if (failed(checkBlock(branch.getThenRegion().front()))) {
      return mlir::failure();
    }
    State taken = std::move(state_);
    state_ = before;
    if (!branch.getElseRegion().empty() && failed(checkBlock(branch.getElseRegion().front()))) {
      return mlir::failure();
    }
    for (auto& [queue, clock] : state_.known) {
      clock = knownInBoth(clock, taken.known[queue]);
    }
    state_.past.append(taken.past.begin() + before.past.size(), taken.past.end());
    return mlir::success();
  }

  mlir::LogicalResult checkAccesses(Operation* op) {
    auto symbol = op->getAttrOfType<mlir::FlatSymbolRefAttr>("queue");
    StringAttr queue = symbol ? symbol.getAttr() : team_;
    const int64_t time = ++count_[queue];
    for (const Access& access : accessesOf(op)) {
      for (const Past& past : state_.past) {
        if (past.queue == queue || !(past.writes || access.writes) ||
            !mayShare_(past.root, access.root)) {
          continue;
        }
        if (state_.known[queue].lookup(past.queue) >= past.time) {
          continue;
        }
        mlir::InFlightDiagnostic error =
            op->emitOpError() << (access.writes ? "writes" : "reads") << " on @" << queue.getValue()
                              << " what a statement " << (past.writes ? "writes" : "reads")
                              << " on @" << past.queue.getValue()
                              << ", without a record and a wait between (" << constraint_ << ")";
        error.attachNote(past.op->getLoc()) << "the other statement";
        return error;
      }
    }
    if (isAlone_ && llvm::isa<kernel::LoadOp>(op)) {
      return mlir::success();  // a team of one thread has it before it enqueues anything else
    }
    for (const Access& access : accessesOf(op)) {
      state_.past.push_back({access.root, access.writes, queue, time, op});
    }
    return mlir::success();
  }

  const MayShare& mayShare_;
  llvm::StringRef constraint_;
  StringAttr team_;
  bool isAlone_;  ///< the team is one thread
  State state_;
  llvm::DenseMap<StringAttr, int64_t> count_;
};

}  // namespace

llvm::SmallVector<Access> accessesOf(Operation* op) {
  llvm::SmallVector<Access> accesses;
  auto add = [&](Value buffer, bool writes) {
    accesses.push_back({kernel::storageRoot(buffer), writes, buffer});
  };
  if (auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op)) {
    for (Value input : call.getInputs()) {
      add(input, false);
    }
    for (mlir::OperandRange written : {call.getOutputs(), call.getWorkspace()}) {
      for (Value output : written) {
        add(output, true);
      }
    }
  } else if (auto plan = llvm::dyn_cast<kernel::PlanOp>(op)) {
    for (Value constant : plan.getConstants()) {
      add(constant, false);
    }
  } else if (auto copy = llvm::dyn_cast<kernel::CopyOp>(op)) {
    add(copy.getSource(), false);
    add(copy.getDestination(), true);
  } else if (auto load = llvm::dyn_cast<kernel::LoadOp>(op)) {
    add(load.getBuffer(), false);
  } else if (auto alloc = llvm::dyn_cast<kernel::AllocOp>(op)) {
    add(alloc.getCell(), true);
  }
  return accesses;
}

mlir::LogicalResult verifyQueueOrder(mlir::Region& region, const MayShare& mayShare,
                                     llvm::StringRef constraint) {
  auto program = region.getParentOfType<kernel::ProgramOp>();
  auto queues = program.getBodyBlock()->getOps<kernel::QueueOp>();
  kernel::QueueOp team = *queues.begin();
  return Checker(mayShare, constraint, team.getSymNameAttr(), program.getTarget().getThreads() == 1)
      .checkBlock(region.front());
}

}  // namespace straightline
