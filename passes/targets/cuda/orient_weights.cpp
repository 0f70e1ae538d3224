// SPDX-License-Identifier: Apache-2.0
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/contraction_problem.h"
#include "passes/routes.h"
#include "passes/targets/cuda/passes.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_ORIENTWEIGHTS
#include "passes/targets/cuda/passes.h.inc"

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// The most rows that the kernel for few rows takes (cuda.gemv). Other kernels read a weight of
/// either order equally well.
constexpr int64_t kMostRows = 16;

/// The permute that makes the value, if it transposes a matrix; else null.
op::PermuteOp turned(Value matrix) {
  auto permute = matrix.getDefiningOp<op::PermuteOp>();
  return permute && permute.getDims() == llvm::ArrayRef<int64_t>{1, 0} ? permute : op::PermuteOp();
}

/// The value as an operand in prepare: a view that stands in run is made there again.
Value inPrepare(mlir::OpBuilder& builder, Value value) {
  mlir::Operation* maker = value.getDefiningOp();
  if (op::isPrepared(maker) || llvm::isa<op::ParameterOp, op::ConstantOp>(maker)) {
    return value;
  }
  mlir::IRMapping known;
  for (Value operand : maker->getOperands()) {
    known.map(operand, inPrepare(builder, operand));
  }
  mlir::Operation* copy = builder.clone(*maker, known);
  op::setPrepared(copy);
  return copy->getResult(0);
}

/// `source`, or the matrix transposed, copied in prepare for `reader`: in the function's block,
/// where ops of prepare stand, also for a reader in a loop. Null where `source` is not of that
/// block.
Value cloneInPrepare(mlir::PatternRewriter& rewriter, mlir::Operation* reader, Value source,
                     bool isTurned) {
  mlir::Block& block = reader->getParentOfType<mlir::func::FuncOp>().getBody().front();
  if (source.getParentBlock() != &block) {
    return {};
  }
  const mlir::OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(block.findAncestorOpInBlock(*reader));
  ValueBuilder build(rewriter, reader->getLoc());
  Value value = inPrepare(rewriter, source);
  if (isTurned) {
    value = build.permute(value, {1, 0});
    op::setPrepared(value.getDefiningOp());
  }
  const Value copy = build.make<op::CloneOp>(value.getType(), value);
  op::setPrepared(copy.getDefiningOp());
  return copy;
}

/// Whether routes let the matmul become a linear: none for it, or the same backends for both.
bool mayBecomeLinear(op::MatmulOp product) {
  const std::optional<Route> matmul = routeOf(product);
  const std::optional<Route> linear = routeOf(product, "linear");
  return !matmul || (linear && linear->targets == matmul->targets &&
                     llvm::none_of(matmul->targets,
                                   [](llvm::StringRef target) { return target.contains('.'); }));
}

/// matmul(x [m, k], permute(w [n, k]))  ->  linear(x, w)
/// matmul(x [m, k], w [k, n])           ->  linear(x, clone(permute(w))), the clone in prepare
/// linear(x, permute(w [k, n]))         ->  linear(x, clone(permute(w))), the clone in prepare
struct OrientWeight : mlir::RewritePattern {
  explicit OrientWeight(mlir::MLIRContext* context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(mlir::Operation* product,
                                mlir::PatternRewriter& rewriter) const override {
    auto matmul = llvm::dyn_cast<op::MatmulOp>(product);
    auto linear = llvm::dyn_cast<op::LinearOp>(product);
    if ((!linear && !matmul) || op::isPrepared(product)) {
      return failure();
    }
    if (matmul && !mayBecomeLinear(matmul)) {
      return rewriter.notifyMatchFailure(product, "a route decides about it as a matmul");
    }
    const Value x = product->getOperand(0), weight = product->getOperand(1);
    auto type = llvm::cast<mlir::RankedTensorType>(product->getResult(0).getType());
    auto element = llvm::dyn_cast<mlir::FloatType>(ValueBuilder::elementOf(weight));
    if (!element || element.getWidth() > 32) {
      return rewriter.notifyMatchFailure(product, "the kernel for few rows has no such numbers");
    }
    if (matmul && type.getRank() != 2) {
      return rewriter.notifyMatchFailure(product, "a weight for each of several products");
    }
    const auto rows = type.getShape().drop_back();
    if (llvm::any_of(rows, mlir::ShapedType::isDynamic) ||
        mlir::ShapedType::getNumElements(rows) > kMostRows) {
      return rewriter.notifyMatchFailure(product, "not known to be few rows");
    }
    ValueBuilder build(rewriter, product->getLoc());
    if (op::PermuteOp turn = turned(weight); matmul && turn) {
      rewriter.replaceOp(product, build.linear(x, turn.getX(), Value()));
      return success();
    }
    if (!isKnownEarly(weight) || (linear && !turned(weight))) {
      return rewriter.notifyMatchFailure(
          product, "the weight is not known before the first run, or lies as it should");
    }
    Value source = linear ? turned(weight).getX() : weight;
    const Value copy = cloneInPrepare(rewriter, product, source, /*isTurned=*/true);
    if (!copy) {
      return rewriter.notifyMatchFailure(
          product, "the weight is a view within a loop or a branch, where nothing is prepared");
    }
    rewriter.replaceOp(product, build.linear(x, copy, linear ? linear.getBias() : Value()));
    return success();
  }
};

/// Whether the value is a view whose last dim is another one in memory.
bool isTurned(Value value) {
  while (auto reshape = value.getDefiningOp<op::ReshapeOp>()) {
    value = reshape.getX();
  }
  auto permute = value.getDefiningOp<op::PermuteOp>();
  return permute && permute.getDims().back() + 1 != static_cast<int64_t>(permute.getDims().size());
}

/// attention(.., permute(mask))  ->  attention(.., clone(permute(mask))), the clone in prepare:
/// each run would copy the mask, which kernels read along the keys.
struct OrientMask : mlir::OpRewritePattern<op::ScaledDotProductAttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(op::ScaledDotProductAttentionOp attention,
                                mlir::PatternRewriter& rewriter) const override {
    const Value mask = attention.getMask();
    if (!mask || op::isPrepared(attention) || !isTurned(mask) || !isKnownEarly(mask)) {
      return rewriter.notifyMatchFailure(attention, "no mask that is known early and turned");
    }
    const Value copy = cloneInPrepare(rewriter, attention, mask, /*isTurned=*/false);
    if (!copy) {
      return rewriter.notifyMatchFailure(
          attention, "the mask is a view within a loop or a branch, where nothing is prepared");
    }
    rewriter.modifyOpInPlace(attention, [&] { attention.getMaskMutable().assign(copy); });
    return success();
  }
};

struct OrientWeightsPass : impl::OrientWeightsBase<OrientWeightsPass> {
  using OrientWeightsBase::OrientWeightsBase;

  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<OrientWeight, OrientMask>(&getContext());
    // Folding is disabled: a folded view of a value of prepare could have readers in run.
    const mlir::GreedyRewriteConfig config =
        mlir::GreedyRewriteConfig().enableFolding(false).setRegionSimplificationLevel(
            mlir::GreedySimplifyRegionLevel::Disabled);
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns), config))) {
      getOperation().emitError() << "orient-weights: the rewriting does not come to an end";
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
