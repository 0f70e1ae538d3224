// SPDX-License-Identifier: Apache-2.0
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/passes.h"
#include "passes/phase.h"
#include "passes/refusals.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FOLDBATCHNORM
#include "passes/passes.h.inc"

using mlir::PatternRewriter;
using mlir::Value;
using op::BatchNormOp;
using Extents = ValueBuilder::Extents;

namespace {

/// y = x * scale + shift by channel; both f64 [c].
struct Affine {
  Value scale;
  Value shift;
};

/// scale = gamma / sqrt(var + eps), shift = beta - mean * scale.
Affine affineOf(BatchNormOp norm, ValueBuilder& build) {
  const mlir::Type wide = build.builder().getF64Type();
  const Value var = build.toDtype(norm.getVar(), wide), mean = build.toDtype(norm.getMean(), wide);
  const Value shifted =
      build.make<op::AddOp>(var, build.fullLike(var, norm.getEps().convertToDouble()));
  const Value deviation = build.make<op::SqrtOp>(shifted);
  const Value gamma =
      norm.getWeight() ? build.toDtype(norm.getWeight(), wide) : build.fullLike(var, 1.0);
  const Value scale = build.make<op::DivOp>(gamma, deviation);
  const Value moved = build.make<op::MulOp>(mean, scale);
  if (!norm.getBias()) {
    return {scale, build.make<op::NegOp>(moved)};
  }
  return {scale, build.make<op::SubOp>(build.toDtype(norm.getBias(), wide), moved)};
}

bool isPreparedNorm(BatchNormOp norm, PhaseAnalysis& phases) {
  return llvm::all_of(norm->getOperands().drop_front(),
                      [&](Value value) { return phases.isPrepared(value); });
}

/// bias * scale + shift, or shift.
Value scaledBias(ValueBuilder& build, Value bias, const Affine& affine, mlir::Type element) {
  if (!bias) {
    return build.toDtype(affine.shift, element);
  }
  const Value wide = build.toDtype(bias, build.builder().getF64Type());
  const Value product = build.make<op::MulOp>(wide, affine.scale);
  return build.toDtype(build.make<op::AddOp>(product, affine.shift), element);
}

/// batch_norm(convolution(x, w, b)) -> convolution(x, w * scale, b * scale + shift).
struct FoldIntoConvolution : mlir::OpRewritePattern<BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(BatchNormOp norm, PatternRewriter& rewriter) const override {
    auto convolution = norm.getX().getDefiningOp<op::ConvolutionOp>();
    PhaseAnalysis phases;
    if (!convolution || !convolution->hasOneUse()) {
      return rewriter.notifyMatchFailure(norm, "x is no convolution of single use");
    }
    if (!isPreparedNorm(norm, phases) || !phases.isPrepared(convolution.getWeight()) ||
        (convolution.getBias() && !phases.isPrepared(convolution.getBias()))) {
      return rewriter.notifyMatchFailure(norm, "weights or statistics depend on inputs");
    }
    if (convolution.getTransposed() && convolution.getGroups() != 1) {
      return rewriter.notifyMatchFailure(
          norm, "output channels of a grouped transposed convolution are no dim");
    }
    ValueBuilder build(rewriter, rewriter.getFusedLoc({convolution.getLoc(), norm.getLoc()}));
    const Affine affine = affineOf(norm, build);
    const int64_t channel = convolution.getTransposed() ? 1 : 0;
    const Value weight = build.scaled(convolution.getWeight(), affine.scale, channel);
    const Value bias =
        scaledBias(build, convolution.getBias(), affine, ValueBuilder::elementOf(weight));
    const Value folded = build.make<op::ConvolutionOp>(
        norm.getType(), convolution.getX(), weight, bias, convolution.getStride(),
        convolution.getPadding(), convolution.getDilation(), convolution.getTransposed(),
        convolution.getOutputPadding(), convolution.getGroups());
    rewriter.replaceOp(norm, folded);
    rewriter.eraseOp(convolution);
    return mlir::success();
  }
};

/// batch_norm(linear(x, w, b)) of rank 2 -> linear(x, w * scale, b * scale + shift).
struct FoldIntoLinear : mlir::OpRewritePattern<BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(BatchNormOp norm, PatternRewriter& rewriter) const override {
    auto linear = norm.getX().getDefiningOp<op::LinearOp>();
    PhaseAnalysis phases;
    if (!linear || !linear->hasOneUse() || linear.getType().getRank() != 2) {
      return rewriter.notifyMatchFailure(norm, "x is no linear of rank 2 and single use");
    }
    if (!isPreparedNorm(norm, phases) || !phases.isPrepared(linear.getWeight()) ||
        (linear.getBias() && !phases.isPrepared(linear.getBias()))) {
      return rewriter.notifyMatchFailure(norm, "weights or statistics depend on inputs");
    }
    ValueBuilder build(rewriter, rewriter.getFusedLoc({linear.getLoc(), norm.getLoc()}));
    const Affine affine = affineOf(norm, build);
    const Value weight = build.scaled(linear.getWeight(), affine.scale, 0);
    const Value bias = scaledBias(build, linear.getBias(), affine, ValueBuilder::elementOf(weight));
    rewriter.replaceOp(norm, build.make<op::LinearOp>(norm.getType(), linear.getX(), weight, bias));
    rewriter.eraseOp(linear);
    return mlir::success();
  }
};

/// Any other: x * scale + shift, in the statistics' element type when it is wider than x's.
struct UnfoldedBatchNorm : mlir::OpRewritePattern<BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(BatchNormOp norm, PatternRewriter& rewriter) const override {
    ValueBuilder build(rewriter, norm.getLoc());
    const Affine affine = affineOf(norm, build);
    const mlir::Type element = norm.getType().getElementType();
    const mlir::Type work = element.getIntOrFloatBitWidth() < 32 ? rewriter.getF32Type() : element;
    const Extents extents = build.extents(norm.getX());
    const Value scale = build.broadcast(build.toDtype(affine.scale, work), 1, extents);
    const Value shift = build.broadcast(build.toDtype(affine.shift, work), 1, extents);
    const Value product = build.make<op::MulOp>(build.toDtype(norm.getX(), work), scale);
    rewriter.replaceOp(norm, build.toDtype(build.make<op::AddOp>(product, shift), element));
    return mlir::success();
  }
};

struct FoldBatchNormPass : impl::FoldBatchNormBase<FoldBatchNormPass> {
  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<FoldIntoConvolution, FoldIntoLinear>(&getContext(), /*benefit=*/2);
    patterns.add<UnfoldedBatchNorm>(&getContext(), /*benefit=*/1);
    RefusalKeeper keeper;
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns),
                                           mlir::GreedyRewriteConfig().setListener(&keeper)))) {
      getOperation().emitError() << "fold-batch-norm: the rewriting does not come to an end";
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
