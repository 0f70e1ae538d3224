// SPDX-License-Identifier: Apache-2.0
// Fewer kernels for values of few elements, each of which takes as long as its launch: the tables
// of a rotary embedding and the mask that a decode step computes from its position.
//
//   f = expand(to_f32(position)) * frequencies;  cos(cat(f, f))[:half], expanded to heads, to f32
//     ->  f = to_f32(expand(position)) * frequencies;  expand(to_f32(cos(f)))
//
// All of it is of one shape then, and fuse-pointwise makes one kernel of it. Views and CSE do the
// rest: both halves of the table are one value.
//
//   1. A slice of a concatenation that is one of its parts is that part, also behind ops of one
//      operand and views that keep the dim, where all readers of the sliced value are such slices.
//   2. An op of one operand that reads what an elementwise op made, expanded, and that several ops
//      read (so that it is a kernel by itself) is done before the expand, with what made its
//      operand.
//   3. Elementwise ops on one number that the caller gives are done by each element that reads it.
//   4. An iota is written by prepare, once.
//   5. What computes the number of a row that is replaced stands before what computes the row, so
//      that this may be written where it belongs (lowering, placeInRow).
//
// Refuses named extents, and 2 to 4 above kFew elements: there, time counts more than launches.
#include "dialect/op/canonicalize.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/fusion_group.h"
#include "passes/targets/cuda/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SHORTENCHAINS
#include "passes/targets/cuda/passes.h.inc"

namespace {

using mlir::LogicalResult;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

constexpr int64_t kFew = 65'536;  ///< elements

RankedTensorType typeOf(Value value) { return llvm::cast<RankedTensorType>(value.getType()); }
bool isStatic(Value value) { return typeOf(value).hasStaticShape(); }
bool isFew(Value value) { return isStatic(value) && typeOf(value).getNumElements() <= kFew; }

/// An elementwise op of run.
bool isElementwise(Operation* op) {
  return llvm::isa_and_present<op::ElementwiseOpInterface>(op) && !op::isPrepared(op) &&
         !isIndexArithmetic(op);
}
bool hasOneOperand(Operation* op) { return isElementwise(op) && op->getNumOperands() == 1; }

/// Elements [start, end) of a dim.
struct Part {
  int64_t dim, start, end;
};

std::optional<Part> partOf(op::SliceOp slice) {
  if (!isStatic(slice.getX()) || slice.getStep() != 1) {
    return std::nullopt;
  }
  const auto dim = static_cast<int64_t>(slice.getDim());
  const int64_t extent = typeOf(slice.getX()).getDimSize(dim);
  const auto start = static_cast<int64_t>(slice.getStart());
  const int64_t first = start < 0 ? start + extent : start;
  return Part{dim, first, first + typeOf(slice.getResult()).getDimSize(dim)};
}

/// Where the part is in the operand of a view that keeps its dim; nullopt for other views.
std::optional<Part> through(Operation* view, Part part) {
  const RankedTensorType from = typeOf(view->getOperand(0)), to = typeOf(view->getResult(0));
  if (!from.hasStaticShape() || !to.hasStaticShape()) {
    return std::nullopt;
  }
  if (llvm::isa<op::ExpandOp>(view)) {
    part.dim -= to.getRank() - from.getRank();
    const bool keeps = part.dim >= 0 && from.getDimSize(part.dim) ==
                                            to.getShape().take_back(from.getRank())[part.dim];
    return keeps ? std::optional(part) : std::nullopt;
  }
  const bool isLast = part.dim == to.getRank() - 1 && from.getRank() > 0;
  if (llvm::isa<op::ReshapeOp>(view) && isLast && from.getShape().back() == to.getShape().back()) {
    part.dim = from.getRank() - 1;
    return part;
  }
  return std::nullopt;
}

/// The part of a concatenation's dim that one of its operands is; null: none is.
Value operandAt(op::CatOp cat, Part part) {
  int64_t start = 0;
  for (Value tensor : cat.getTensors()) {
    const int64_t extent = isStatic(tensor) ? typeOf(tensor).getDimSize(part.dim) : -1;
    if (extent < 0 || static_cast<int64_t>(cat.getDim()) != part.dim) {
      return {};
    }
    if (start == part.start && start + extent == part.end) {
      return tensor;
    }
    start += extent;
  }
  return {};
}

/// Whether the part is made of an operand of a concatenation.
bool isOfOperand(Value value, Part part) {
  Operation* op = value.getDefiningOp();
  if (!op || op::isPrepared(op)) {
    return false;
  }
  if (auto cat = llvm::dyn_cast<op::CatOp>(op)) {
    return bool(operandAt(cat, part));
  }
  if (hasOneOperand(op)) {
    return isOfOperand(op->getOperand(0), part);
  }
  const std::optional<Part> inner =
      op->hasTrait<op::View>() ? through(op, part) : std::optional<Part>();
  return inner && isOfOperand(op->getOperand(0), *inner);
}

/// The same ops on that operand. Precondition: isOfOperand.
Value madeOfOperand(Value value, Part part, mlir::OpBuilder& builder) {
  Operation* op = value.getDefiningOp();
  if (auto cat = llvm::dyn_cast<op::CatOp>(op)) {
    return operandAt(cat, part);
  }
  const Part inner = op->hasTrait<op::View>() ? *through(op, part) : part;
  const Value operand = madeOfOperand(op->getOperand(0), inner, builder);
  llvm::SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[part.dim] = part.end - part.start;
  Operation* made = builder.clone(*op);
  made->setOperand(0, operand);
  made->getResult(0).setType(RankedTensorType::get(shape, typeOf(value).getElementType()));
  return made->getResult(0);
}

/// cos(cat(f, f))[:half] -> cos(f)
struct PartOfConcatenation : mlir::OpRewritePattern<op::SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(op::SliceOp slice, mlir::PatternRewriter& rewriter) const override {
    const auto isSuch = [](Operation* user) {
      auto other = llvm::dyn_cast<op::SliceOp>(user);
      const std::optional<Part> part =
          other && !op::isPrepared(other) ? partOf(other) : std::optional<Part>();
      return part && isOfOperand(other.getX(), *part);
    };
    if (!llvm::all_of(slice.getX().getUsers(), isSuch)) {
      return rewriter.notifyMatchFailure(slice, "a reader of the whole, or no part of it");
    }
    if (op::escapes(slice.getResult())) {
      return rewriter.notifyMatchFailure(slice, "a result would become another's alias");
    }
    rewriter.replaceOp(slice, madeOfOperand(slice.getX(), *partOf(slice), rewriter));
    return mlir::success();
  }
};

/// to_f32(expand(x)) -> expand(to_f32(x))
struct BeforeExpand : mlir::RewritePattern {
  explicit BeforeExpand(mlir::MLIRContext* context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation* op, mlir::PatternRewriter& rewriter) const override {
    if (!hasOneOperand(op) || llvm::all_equal(op->getUsers())) {
      return rewriter.notifyMatchFailure(op, "no op of one operand that several read");
    }
    llvm::SmallVector<Operation*> views;
    Value base = op->getOperand(0);
    while (llvm::isa_and_present<op::ExpandOp, op::ReshapeOp>(base.getDefiningOp())) {
      views.push_back(base.getDefiningOp());
      base = base.getDefiningOp()->getOperand(0);
    }
    Operation* maker = base.getDefiningOp();
    if (!isElementwise(maker) || maker->getBlock() != op->getBlock() || !isFew(base) ||
        !isStatic(op->getResult(0)) || typeOf(base).getNumElements() == 1 ||
        typeOf(base).getNumElements() >= typeOf(op->getResult(0)).getNumElements()) {
      return rewriter.notifyMatchFailure(op, "nothing few that an elementwise op made is expanded");
    }
    const mlir::Type element = typeOf(op->getResult(0)).getElementType();
    const auto copy = [&](Operation* of, Value operand, RankedTensorType type) {
      Operation* made = rewriter.clone(*of);
      made->setOperand(0, operand);
      made->getResult(0).setType(op::withElementType(type, element));
      return made->getResult(0);
    };
    Value value = copy(op, base, typeOf(base));
    for (Operation* view : llvm::reverse(views)) {
      value = copy(view, value, typeOf(view->getResult(0)));
    }
    rewriter.replaceOp(op, value);
    return mlir::success();
  }
};

/// Whether the one number is computed from what the caller gives by elementwise ops alone.
bool isGiven(Value value, llvm::SmallPtrSetImpl<Operation*>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || llvm::isa<op::StateOp, op::ParameterOp, op::ConstantOp, op::FullOp>(op) ||
      !seen.insert(op).second) {
    return true;
  }
  const bool isStep = op->hasTrait<op::View>() || isElementwise(op);
  return isStep &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isGiven(operand, seen); });
}

/// expand(to_f32(n)) * x -> to_f32(expand(n)) * x, once for all expands of one type: a number that
/// is read twice at each of many steps is still computed once.
struct NumberByReaders : mlir::OpRewritePattern<op::ExpandOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(op::ExpandOp expand,
                                mlir::PatternRewriter& rewriter) const override {
    Operation* op = expand.getX().getDefiningOp();
    llvm::SmallPtrSet<Operation*, 16> seen;
    if (!isElementwise(op) || !isStatic(expand.getX()) ||
        typeOf(expand.getX()).getNumElements() != 1 || !isGiven(expand.getX(), seen)) {
      return rewriter.notifyMatchFailure(expand, "nothing computed from one number of the caller");
    }
    const auto isRead = [&](Operation* user) {
      auto other = llvm::dyn_cast<op::ExpandOp>(user);
      return other && !op::isPrepared(other) && isFew(other.getResult()) &&
             other->getBlock() == op->getBlock() &&
             llvm::all_of(other->getUsers(),
                          [&](Operation* reader) { return isElementwise(reader); });
    };
    if (!llvm::all_of(op->getUsers(), isRead)) {
      return rewriter.notifyMatchFailure(expand, "another reader, or many elements");
    }
    const mlir::Type type = expand.getType();
    rewriter.setInsertionPointAfter(op);
    Operation* copy = rewriter.clone(*op);
    rewriter.setInsertionPoint(copy);
    llvm::SmallDenseMap<Value, Value> expanded;
    for (mlir::OpOperand& operand : copy->getOpOperands()) {
      Value& whole = expanded[operand.get()];
      if (!whole) {
        whole = op::ExpandOp::create(
            rewriter, expand.getLoc(),
            op::withElementType(expand.getType(), typeOf(operand.get()).getElementType()),
            operand.get());
      }
      operand.set(whole);
    }
    copy->getResult(0).setType(expand.getType());
    for (Operation* user : llvm::make_early_inc_range(op->getUsers())) {
      if (user->getResult(0).getType() == type) {
        rewriter.replaceOp(user, copy->getResult(0));
      }
    }
    return mlir::success();
  }
};

/// The index of a row that the op replaces; null where it is none.
Value rowNumberOf(Operation* op) {
  Value index;
  if (auto copy = llvm::dyn_cast<op::IndexCopyOp>(op)) {
    index = copy->getOperand(1);
  } else if (auto put = llvm::dyn_cast<op::IndexPutOp>(op); put && put.getIndices().size() == 1) {
    index = put.getIndices().front();
  }
  return index && isStatic(index) && typeOf(index).getNumElements() == 1 ? index : Value();
}

/// Adds the ops that make one number from what stands before all ops, operands first; false where
/// it is made from anything else.
bool addMakers(Value value, mlir::Block* block, llvm::SetVector<Operation*>& makers) {
  Operation* op = value.getDefiningOp();
  if (!op || op->getBlock() != block || op::isPrepared(op) || makers.contains(op) ||
      llvm::isa<op::ParameterOp, op::StateOp, op::ConstantOp>(op)) {
    return true;
  }
  const bool isSuch = llvm::isa<op::FullOp>(op) || op->hasTrait<op::View>() || isElementwise(op);
  if (!isSuch || !isStatic(value) || typeOf(value).getNumElements() != 1 ||
      !llvm::all_of(op->getOperands(),
                    [&](Value operand) { return addMakers(operand, block, makers); })) {
    return false;
  }
  makers.insert(op);
  return true;
}

/// Moves them to where the last of their operands is made, or to the front.
void moveUp(llvm::ArrayRef<Operation*> makers) {
  for (Operation* op : makers) {
    Operation* last = nullptr;
    for (Value operand : op->getOperands()) {
      Operation* maker = operand.getDefiningOp();
      if (maker && maker->getBlock() == op->getBlock() && (!last || last->isBeforeInBlock(maker))) {
        last = maker;
      }
    }
    if (last) {
      op->moveAfter(last);
    } else {
      op->moveBefore(&op->getBlock()->front());
    }
  }
}

struct ShortenChainsPass : impl::ShortenChainsBase<ShortenChainsPass> {
  void runOnOperation() override {
    if (getOperation().isExternal()) {
      return;
    }
    // Equal parts are one value first, whose readers then count.
    mlir::IRRewriter rewriter(&getContext());
    if (failed(rewrite<PartOfConcatenation>())) {
      return signalPassFailure();
    }
    mlir::DominanceInfo dominance(getOperation());
    mlir::eliminateCommonSubExpressions(rewriter, dominance, getOperation());
    if (failed(rewrite<BeforeExpand, NumberByReaders>())) {
      return signalPassFailure();
    }
    llvm::SmallVector<Value> numbers;
    getOperation().walk([&](Operation* op) {
      if (const Value number = rowNumberOf(op)) {
        numbers.push_back(number);
      }
    });
    for (Value number : numbers) {
      llvm::SetVector<Operation*> makers;
      if (number.getDefiningOp() && addMakers(number, number.getParentBlock(), makers)) {
        moveUp(makers.getArrayRef());
      }
    }
    for (auto iota : getOperation().getBody().front().getOps<op::IotaOp>()) {
      if (isFew(iota.getResult()) && !op::escapes(iota.getResult())) {
        op::setPrepared(iota);
      }
    }
  }

 private:
  template <typename... Patterns>
  LogicalResult rewrite() {
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<Patterns...>(&getContext());
    // Folding is disabled: a folded view of a value of prepare could have readers in run. A chain
    // takes an iteration a step, and each rewriting moves an op for good.
    const mlir::GreedyRewriteConfig config =
        mlir::GreedyRewriteConfig()
            .enableFolding(false)
            .setRegionSimplificationLevel(mlir::GreedySimplifyRegionLevel::Disabled)
            .setMaxIterations(mlir::GreedyRewriteConfig::kNoLimit);
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns), config))) {
      return getOperation().emitError() << "shorten-chains: the rewriting does not come to an end";
    }
    return mlir::success();
  }
};

}  // namespace

}  // namespace straightline::passes
