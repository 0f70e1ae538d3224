// SPDX-License-Identifier: Apache-2.0
#include "passes/step_order.h"

#include "passes/live_ranges.h"

namespace straightline {

using llvm::BitVector;
using mlir::Operation;
using mlir::Value;

StepOrder::StepOrder(mlir::Region& region) : block_(region.front()) {
  isOneOrder_ = llvm::none_of(block_, [](Operation& op) { return op.hasAttr(kernel::kStepAttr); });
  if (isOneOrder_) {
    return;
  }
  const auto count = static_cast<unsigned>(block_.getOperations().size());
  // for each step that has ended: its last statement and the statements before that one
  llvm::DenseMap<int64_t, BitVector> ends;
  int64_t current = -1;
  BitVector ahead(count);
  for (auto [place, op] : llvm::enumerate(block_)) {
    if (auto step = op.getAttrOfType<mlir::IntegerAttr>(kernel::kStepAttr)) {
      ends[current] = ahead;
      current = step.getInt();
      ahead.reset();
      for (int64_t after :
           op.getAttrOfType<mlir::DenseI64ArrayAttr>(kernel::kAfterAttr).asArrayRef()) {
        ahead |= ends.lookup(after);
      }
    }
    places_[&op] = static_cast<unsigned>(place);
    before_.push_back(ahead);
    ahead.set(static_cast<unsigned>(place));
  }
}

unsigned StepOrder::placeOf(Operation* op) const {
  return places_.lookup(block_.findAncestorOpInBlock(*op));
}

StepOrder::Places StepOrder::placesOf(Value root) const {
  Places places(static_cast<unsigned>(before_.size()));
  if (!isOneOrder_) {
    for (Operation* user : LiveRanges::users(root)) {
      places.set(placeOf(user));
    }
  }
  return places;
}

bool StepOrder::isBefore(Places earlier, unsigned place) const {
  earlier.reset(place);
  return !earlier.test(before_[place]);  // every statement of `earlier` has ended
}

bool StepOrder::isBefore(const Places& earlier, const Places& later) const {
  return llvm::all_of(later.set_bits(), [&](unsigned place) { return isBefore(earlier, place); });
}

bool StepOrder::isBefore(Value root, Operation* op) const {
  return isOneOrder_ || isBefore(placesOf(root), placeOf(op));
}

}  // namespace straightline
