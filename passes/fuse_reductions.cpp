// SPDX-License-Identifier: Apache-2.0
#include "passes/fusion_group.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FUSEREDUCTIONS
#include "passes/passes.h.inc"

using mlir::Operation;
using mlir::Value;

namespace {

/// The split of a fusion's shape into rows and columns.
class RowSplit {
 public:
  explicit RowSplit(op::ReductionOpInterface seed) {
    const Value x = seed->getOperand(0);
    full_ = shapeOf(x);
    columns_ = full_.size() == 0 ? 0 : seed.getReducedDims().size();
  }

  bool isFull(Value value) { return space_.equal(shapeOf(value), full_); }
  /// One value a row, with or without the reduced dims as 1.
  bool isRow(Value value) {
    const op::ExtentSpace::Extents extents = shapeOf(value);
    const llvm::ArrayRef<mlir::AffineExpr> all = extents,
                                           rows = llvm::ArrayRef<mlir::AffineExpr>(full_).drop_back(
                                               columns_);
    if (space_.equal(all, rows)) {
      return true;
    }
    return all.size() == full_.size() && space_.equal(all.drop_back(columns_), rows) &&
           llvm::all_of(all.take_back(columns_),
                        [](mlir::AffineExpr extent) { return extent == 1; });
  }
  /// One value a row that an expand to the full shape repeats along the row. Without the reduced
  /// dims it would be repeated along the last of the outer ones instead: an expand adds dims in
  /// front.
  bool isRowToExpand(Value value) {
    const op::ExtentSpace::Extents extents = shapeOf(value);
    return isRow(value) &&
           (extents.size() == full_.size() ||
            llvm::all_of(extents, [](mlir::AffineExpr extent) { return extent == 1; }));
  }
  /// The op reduces the same trailing dims of a tensor of the full shape.
  bool isReduction(Operation* operation) {
    auto reduction = llvm::dyn_cast<op::ReductionOpInterface>(operation);
    return reduction && isTrailing(reduction) && isFull(operation->getOperand(0)) &&
           (full_.empty() || reduction.getReducedDims().size() == columns_);
  }

  static bool isTrailing(op::ReductionOpInterface reduction) {
    const int64_t rank =
        llvm::cast<mlir::RankedTensorType>(reduction->getOperand(0).getType()).getRank();
    const llvm::SmallVector<int64_t> dims = reduction.getReducedDims();
    return rank == 0 || llvm::equal(dims, llvm::seq<int64_t>(rank - dims.size(), rank));
  }

 private:
  op::ExtentSpace::Extents shapeOf(Value value) { return space_.of(value); }

  op::ExtentSpace space_;
  op::ExtentSpace::Extents full_;
  size_t columns_ = 0;
};

/// Reductions that one kernel of the family can do one after the other.
constexpr int kMostStages = 4;

/// How many an op becomes: what decompose-reductions writes out is a maximum and a sum, or two
/// sums.
int stagesOf(Operation* operation) {
  if (!llvm::isa<op::ReductionOpInterface>(operation)) {
    return 0;
  }
  return llvm::isa<op::SoftmaxOp, op::LogSoftmaxOp, op::LayerNormOp, op::VarOp>(operation) ? 2 : 1;
}

int stagesOf(const FusionGroup& group) {
  int stages = 0;
  for (Operation* member : group) {
    stages += stagesOf(member);
  }
  return stages;
}

struct FuseReductionsPass : impl::FuseReductionsBase<FuseReductionsPass> {
  void runOnOperation() override {
    forEachBlock(getOperation(), [](mlir::Block& block) {
      while (Operation* seed = nextSeed(block)) {
        fuseFrom(seed);
      }
    });
  }

 private:
  static Operation* nextSeed(mlir::Block& block) {
    for (Operation& operation : block) {
      auto reduction = llvm::dyn_cast<op::ReductionOpInterface>(operation);
      if (reduction && RowSplit::isTrailing(reduction) && !operation.use_empty()) {
        return &operation;
      }
    }
    return nullptr;
  }

  static void fuseFrom(Operation* seed) {
    RowSplit split(llvm::cast<op::ReductionOpInterface>(seed));
    FusionGroup group;
    group.insert(seed);
    grow(group, [&](Operation* candidate) {
      if (llvm::isa<op::ElementwiseOpInterface>(candidate)) {
        const Value result = candidate->getResult(0);
        return (split.isFull(result) || split.isRow(result)) && !isIndexArithmetic(candidate);
      }
      // An expand or reshape belongs to the group when it carries one value a row from inside it.
      Operation* maker =
          candidate->getNumOperands() == 1 ? candidate->getOperand(0).getDefiningOp() : nullptr;
      const bool carries = maker && group.contains(maker) && split.isRow(candidate->getOperand(0));
      if (llvm::isa<op::ExpandOp>(candidate)) {
        return carries && split.isRowToExpand(candidate->getOperand(0)) &&
               split.isFull(candidate->getResult(0));
      }
      if (llvm::isa<op::ReshapeOp>(candidate)) {
        return carries && split.isRow(candidate->getResult(0));
      }
      return split.isReduction(candidate) && stagesOf(group) + stagesOf(candidate) <= kMostStages;
    });
    // An expand or a reshape at the end is a view of a result, which costs nothing outside.
    bool trimmed = true;
    while (trimmed) {
      trimmed = false;
      const llvm::SmallVector<Operation*> members(group.begin(), group.end());
      for (Operation* member : llvm::reverse(members)) {
        const bool inner =
            llvm::any_of(member->getUsers(), [&](Operation* user) { return group.contains(user); });
        if (member->hasTrait<op::View>() && !inner) {
          group.remove(member);
          trimmed = true;
        }
      }
    }
    outline(group, "row_reduction");
  }
};

}  // namespace

}  // namespace straightline::passes
