// SPDX-License-Identifier: Apache-2.0
#include "passes/live_ranges.h"

#include <limits>

#include "dialect/kernel/recorded.h"

namespace straightline {

using mlir::Operation;
using mlir::Value;

LiveRanges::LiveRanges(mlir::Region& region) : region_(region) {
  int64_t next = 0;
  region.walk<mlir::WalkOrder::PreOrder>([&](Operation* op) { positions_[op] = next++; });
  region.walk([&](Operation* op) {
    int64_t end = positions_[op];
    for (mlir::Region& inner : op->getRegions()) {
      for (mlir::Block& block : inner) {
        for (Operation& nested : block) {
          end = std::max(end, ends_.lookup(&nested));
        }
      }
    }
    ends_[op] = end;
  });
}

llvm::SmallVector<Operation*> LiveRanges::users(Value root) {
  llvm::SmallVector<Operation*> result;
  llvm::SmallVector<Value> worklist = {root};
  while (!worklist.empty()) {
    for (Operation* user : worklist.pop_back_val().getUsers()) {
      if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
        worklist.push_back(view.getResult());
      } else {
        result.push_back(user);
      }
    }
  }
  return result;
}

LiveRange LiveRanges::of(Value root) const {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  LiveRange range{kEnd, -1};
  for (Operation* user : users(root)) {
    if (kernel::isWrittenEarly(user, root)) {
      return {0, kEnd};
    }
    int64_t first = positions_.lookup(user);
    int64_t last = first;
    // Loops between the user and the region in which the storage is made.
    for (Operation* parent = user->getParentOp();
         parent && region_.isAncestor(parent->getParentRegion()); parent = parent->getParentOp()) {
      if (parent->isAncestor(root.getParentBlock()->getParentOp())) {
        break;
      }
      if (llvm::isa<kernel::ForOp, kernel::WhileOp>(parent)) {
        first = std::min(first, positions_.lookup(parent));
        last = std::max(last, ends_.lookup(parent));
      }
    }
    range.first = std::min(range.first, first);
    range.last = std::max(range.last, last);
  }
  return range;
}

}  // namespace straightline
