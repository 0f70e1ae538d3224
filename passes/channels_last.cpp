// SPDX-License-Identifier: Apache-2.0
#include "passes/channels_last.h"

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "passes/value_builder.h"

namespace straightline::passes {

namespace {

using mlir::Operation;
using mlir::Value;

/// Whether the permute makes [n, c, h, w] of [n, h, w, c].
bool putsChannelsFirst(op::PermuteOp permute) {
  const auto rank = static_cast<int64_t>(permute.getDims().size());
  return (rank == 3 || rank == 4) &&
         permute.getDims() ==
             llvm::ArrayRef<int64_t>(mlir::invertPermutationVector(channelsLast(rank)));
}

/// How many ops a guess looks at on its way back.
constexpr int kFarthest = 32;

/// The permute, of those that an elementwise chain or a reduction of rows reads, that puts channels
/// last; null: none does.
op::PermuteOp permuteOfRows(Value value, int farthest, llvm::SmallPtrSetImpl<Operation*>& seen) {
  Operation* maker = value.getDefiningOp();
  if (auto permute = llvm::dyn_cast_if_present<op::PermuteOp>(maker)) {
    return permute.getDims() == llvm::ArrayRef(channelsLast(permute.getDims().size()))
               ? permute
               : op::PermuteOp();
  }
  if (farthest == 0 ||
      !llvm::isa_and_present<op::ElementwiseOpInterface, op::ReductionOpInterface>(maker) ||
      !seen.insert(maker).second) {
    return {};
  }
  for (Value operand : maker->getOperands()) {
    if (op::PermuteOp permute = permuteOfRows(operand, farthest - 1, seen)) {
      return permute;
    }
  }
  return {};
}

/// A guess looks at each op once, however many paths lead to it.
class Guess {
 public:
  bool willLie(Value value, int farthest) {
    Operation* maker = wholeOf(value).getDefiningOp();
    if (!maker || farthest == 0 || op::isPrepared(maker)) {
      return false;
    }
    if (auto known = known_.find(maker); known != known_.end()) {
      return known->second;
    }
    const bool lies = willLie(maker, farthest - 1);
    known_[maker] = lies;
    return lies;
  }

 private:
  bool willLie(Operation* maker, int farthest) {
    const auto lies = [&](Value operand) { return willLie(operand, farthest); };
    if (llvm::isa<op::ConvolutionOp>(maker)) {
      return true;
    }
    if (llvm::isa<op::MaxPool2dOp, op::AvgPool2dOp, op::GridSampler2dOp>(maker)) {
      return lies(maker->getOperand(0));
    }
    if (llvm::isa<op::CatOp>(maker)) {
      return llvm::all_of(maker->getOperands(), lies);
    }
    if (llvm::isa<op::ElementwiseOpInterface>(maker)) {
      return llvm::any_of(maker->getOperands(), lies);
    }
    if (auto permute = llvm::dyn_cast<op::PermuteOp>(maker);
        permute && putsChannelsFirst(permute)) {
      // A norm that reads its rows through the opposite permute keeps the order of that permute's
      // operand.
      llvm::SmallPtrSet<Operation*, 16> seen;
      op::PermuteOp there = permuteOfRows(permute.getX(), farthest, seen);
      return !there || lies(there.getX());
    }
    return false;
  }

  llvm::DenseMap<Operation*, bool> known_;
};

}  // namespace

Value wholeOf(Value value) {
  while (auto slice = value.getDefiningOp<op::SliceOp>()) {
    value = slice.getX();
  }
  return value;
}

bool liesChannelsLast(Value value) {
  Operation* maker = wholeOf(value).getDefiningOp();
  if (!maker) {
    return false;
  }
  if (const op::LayoutAttr layout = op::layoutOf(maker)) {
    return layout.getOrder() == llvm::ArrayRef(channelsLast(layout.getOrder().size()));
  }
  auto permute = llvm::dyn_cast<op::PermuteOp>(maker);
  Value rows = permute ? permute.getX() : Value();
  while (auto reshape = rows ? rows.getDefiningOp<op::ReshapeOp>() : op::ReshapeOp()) {
    rows = reshape.getX();
  }
  auto fusion = rows ? rows.getDefiningOp<op::FusionOp>() : op::FusionOp();
  if (!fusion || !putsChannelsFirst(permute) || op::layoutOf(fusion) || op::isPrepared(fusion)) {
    return false;
  }
  // A reduction that reads its rows through the opposite permute writes its result in the order of
  // that permute's operand (the lowering of row_reduction).
  op::PermuteOp there =
      fusion.getFamily() == "row_reduction" ? undoneBy(permute, fusion) : op::PermuteOp();
  return !there || liesChannelsLast(there.getX());
}

bool willLieChannelsLast(Value value) { return Guess().willLie(value, kFarthest); }

op::PermuteOp undoneBy(op::PermuteOp back, Operation* op) {
  for (Value operand : op->getOperands()) {
    auto there = operand.getDefiningOp<op::PermuteOp>();
    if (there && there.getDims().size() == back.getDims().size() &&
        back.getDims() == llvm::ArrayRef<int64_t>(mlir::invertPermutationVector(there.getDims()))) {
      return there;
    }
  }
  return {};
}

}  // namespace straightline::passes
