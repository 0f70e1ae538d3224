// SPDX-License-Identifier: Apache-2.0
#include "passes/fusion_group.h"
#include "passes/passes.h"
#include "passes/value_builder.h"

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

/// Reads a value with its dims in another order.
class Permuted {
 public:
  Permuted(mlir::OpBuilder& builder, mlir::Location loc, llvm::ArrayRef<int64_t> dims)
      : build_(builder, loc), dims_(dims) {}

  /// The op with operands and results in that order.
  Operation* elementwise(Operation* operation) {
    llvm::SmallDenseMap<Value, Value> permuted;
    for (Value operand : operation->getOperands()) {
      if (!permuted.contains(operand)) {
        permuted[operand] = value(operand);
      }
    }
    Operation* moved = build_.builder().clone(*operation);
    for (mlir::OpOperand& operand : moved->getOpOperands()) {
      operand.set(permuted[operand.get()]);
    }
    moved->getResult(0).setType(typeOf(operation->getResult(0)));
    return moved;
  }

 private:
  mlir::RankedTensorType typeOf(Value value) {
    return build_.type(ValueBuilder::elementOf(value), inOrder(build_.extents(value)));
  }
  op::ExtentSpace::Extents inOrder(llvm::ArrayRef<mlir::AffineExpr> extents) {
    op::ExtentSpace::Extents result;
    for (const int64_t dim : dims_) {
      result.push_back(extents[dim]);
    }
    return result;
  }
  /// Expands and splat literals stay what they are, for an outlined op has copies of these.
  Value value(Value operand) {
    if (auto literal = operand.getDefiningOp<op::FullOp>()) {
      return build_.make<op::FullOp>(typeOf(operand), literal.getValueAttr());
    }
    auto expand = operand.getDefiningOp<op::ExpandOp>();
    if (!expand) {
      return build_.permute(operand, dims_);
    }
    op::ExtentSpace::Extents extents(dims_.size(), build_.number(1));
    llvm::copy(
        build_.extents(expand.getX()),
        extents.end() - llvm::cast<mlir::RankedTensorType>(expand.getX().getType()).getRank());
    return build_.expand(build_.permute(build_.reshape(expand.getX(), extents), dims_),
                         inOrder(build_.extents(operand)));
  }

  ValueBuilder build_;
  llvm::ArrayRef<int64_t> dims_;
};

/// Whether memory has the elements in another order: a permute, perhaps behind other views.
bool isPermuted(Value value) {
  Operation* maker = value.getDefiningOp();
  while (maker && maker->hasTrait<op::View>() && !llvm::isa<op::PermuteOp>(maker)) {
    maker = maker->getOperand(0).getDefiningOp();
  }
  return maker && llvm::isa<op::PermuteOp>(maker);
}

/// sum(permute(mul(a, b))) -> sum(mul(permute(a), permute(b))), where only the sum reads them: dims
/// that are not the last ones were moved for the reduction, which shall have the product in its
/// kernel. So on for what makes a and b. An operand that is permuted already stays in a pass of its
/// own: the reduction reads neighbours of a row far apart, and lines of memory once for each.
void moveAbove(op::PermuteOp permute) {
  Operation* maker = permute.getX().getDefiningOp();
  if (!maker || !llvm::isa<op::ElementwiseOpInterface>(maker) || !maker->hasOneUse() ||
      maker->getNumResults() != 1 || maker->getBlock() != permute->getBlock() ||
      op::isPrepared(permute) || op::isPrepared(maker) ||
      llvm::any_of(maker->getOperands(), isPermuted)) {
    return;
  }
  mlir::OpBuilder builder(permute);
  Operation* moved = Permuted(builder, maker->getLoc(), permute.getDims()).elementwise(maker);
  permute.replaceAllUsesWith(moved->getResult(0));
  permute.erase();
  maker->erase();
  llvm::SmallSetVector<op::PermuteOp, 4> above;
  for (Value operand : moved->getOperands()) {
    if (auto before = operand.getDefiningOp<op::PermuteOp>()) {
      above.insert(before);
    }
  }
  for (op::PermuteOp before : above) {
    moveAbove(before);
  }
}

/// The permutes that one reduction of the block alone reads, once: a kernel of several stages would
/// make the elements anew in each.
llvm::SmallVector<op::PermuteOp> permutesOfReductions(mlir::Block& block) {
  llvm::SmallVector<op::PermuteOp> found;
  for (auto permute : block.getOps<op::PermuteOp>()) {
    auto reduction = permute->hasOneUse()
                         ? llvm::dyn_cast<op::ReductionOpInterface>(*permute->user_begin())
                         : nullptr;
    if (reduction && RowSplit::isTrailing(reduction) && !reduction.keepsShape() &&
        stagesOf(reduction) == 1) {
      found.push_back(permute);
    }
  }
  return found;
}

struct FuseReductionsPass : impl::FuseReductionsBase<FuseReductionsPass> {
  void runOnOperation() override {
    forEachBlock(getOperation(), [](mlir::Block& block) {
      for (op::PermuteOp permute : permutesOfReductions(block)) {
        moveAbove(permute);
      }
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
