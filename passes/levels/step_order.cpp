// SPDX-License-Identifier: Apache-2.0
// Checks the order of statements that a device may run concurrently (kernel.step), from the
// attributes and the buffers alone: for each pair of statements that touch the same bytes, one of
// them writing, the attributes must order the second after the first, directly or through other
// statements.
#include "passes/levels/levels.h"

namespace straightline {

using mlir::LogicalResult;
using mlir::Operation;

namespace {

struct Statement {
  Operation* op;
  llvm::SmallVector<Access> accesses;
  /// statements, the one before in its step or the ends of other steps
  llvm::SmallVector<size_t> after;
};

LogicalResult refuse(Operation* op, const llvm::Twine& what, llvm::StringRef constraint) {
  return op->emitOpError() << what << " (" << constraint << ")";
}

/// What the attributes say about the order of a block's statements.
class Steps {
 public:
  Steps(mlir::Region& region, llvm::StringRef constraint)
      : region_(region), constraint_(constraint) {}

  LogicalResult read() {
    for (Operation& op : region_.front()) {
      if (failed(readOne(op))) {
        return mlir::failure();
      }
    }
    return mlir::success();
  }

  bool areThere() const { return step_ >= 0; }
  llvm::ArrayRef<Statement> statements() const { return statements_; }

 private:
  LogicalResult readOne(Operation& op) {
    auto step = op.getAttrOfType<mlir::IntegerAttr>(kernel::kStepAttr);
    auto after = op.getAttrOfType<mlir::DenseI64ArrayAttr>(kernel::kAfterAttr);
    Statement statement{&op, {}, {}};
    const mlir::WalkResult walked = op.walk([&](Operation* inner) {
      const bool isStray =
          inner != &op && (inner->hasAttr(kernel::kStepAttr) || inner->hasAttr(kernel::kAfterAttr));
      statement.accesses.append(accessesOf(inner));
      return isStray ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
    });
    if (walked.wasInterrupted()) {
      return refuse(
          &op, "holds a statement that begins a step, expected steps in the block of run alone",
          constraint_);
    }
    if (op.hasAttr(kernel::kStepAttr) || op.hasAttr(kernel::kAfterAttr)) {
      if (!step || !after || statement.accesses.empty()) {
        return refuse(&op,
                      "begins a step, expected its number (i64), the steps before it (array<i64>) "
                      "and a statement that touches a buffer",
                      constraint_);
      }
      if (failed(begin(op, step.getInt(), after.asArrayRef()))) {
        return mlir::failure();
      }
    }
    if (!statement.accesses.empty()) {
      statement.after = ahead_;
      ahead_ = {statements_.size()};
      statements_.push_back(std::move(statement));
    }
    return mlir::success();
  }

  LogicalResult begin(Operation& op, int64_t number, llvm::ArrayRef<int64_t> after) {
    if (number != step_ + 1 || (step_ < 0 && !statements_.empty())) {
      return refuse(
          &op,
          "begins step " + llvm::Twine(number) + " after step " + llvm::Twine(step_) +
              ", expected steps numbered in order from 0, the step of the first statement",
          constraint_);
    }
    ends_.push_back(ahead_);  // at 0 that of no step
    ahead_.clear();
    for (int64_t other : after) {
      if (other < 0 || other >= number) {
        return refuse(&op,
                      "comes after step " + llvm::Twine(other) + ", expected a step below " +
                          llvm::Twine(number),
                      constraint_);
      }
      ahead_.append(ends_[static_cast<size_t>(other) + 1]);
    }
    step_ = number;
    return mlir::success();
  }

  mlir::Region& region_;
  llvm::StringRef constraint_;
  llvm::SmallVector<Statement> statements_;
  llvm::SmallVector<size_t> ahead_;
  std::vector<llvm::SmallVector<size_t>> ends_;
  int64_t step_ = -1;
};

bool conflict(const Access& a, const Access& b, const MayShare& mayShare) {
  return (a.writes || b.writes) &&
         (a.root == b.root ? kernel::mayOverlap(a.buffer, b.buffer) : mayShare(a.root, b.root));
}

}  // namespace

LogicalResult verifyStepOrder(mlir::Region& region, const MayShare& mayShare,
                              llvm::StringRef constraint) {
  Steps steps(region, constraint);
  if (failed(steps.read())) {
    return mlir::failure();
  }
  if (!steps.areThere()) {
    return mlir::success();
  }
  llvm::ArrayRef<Statement> all = steps.statements();
  llvm::SmallVector<bool> comesAhead;
  for (size_t late = 0; late < all.size(); ++late) {
    comesAhead.assign(late, false);
    llvm::SmallVector<size_t> worklist(all[late].after);
    while (!worklist.empty()) {
      const size_t place = worklist.pop_back_val();
      if (!comesAhead[place]) {
        comesAhead[place] = true;
        worklist.append(all[place].after);
      }
    }
    for (size_t early = 0; early < late; ++early) {
      if (comesAhead[early]) {
        continue;
      }
      for (const Access& access : all[late].accesses) {
        for (const Access& other : all[early].accesses) {
          if (!conflict(other, access, mayShare)) {
            continue;
          }
          mlir::InFlightDiagnostic error = all[late].op->emitOpError()
                                           << (access.writes ? "writes" : "reads")
                                           << " what a statement "
                                           << (other.writes ? "writes" : "reads")
                                           << " that may run at the same time: no chain of steps "
                                              "orders that one before this one ("
                                           << constraint << ")";
          error.attachNote(all[early].op->getLoc()) << "the other statement";
          return error;
        }
      }
    }
  }
  return mlir::success();
}

}  // namespace straightline
