// SPDX-License-Identifier: Apache-2.0
#include "llvm/ADT/STLExtras.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/phase.h"
#include "passes/targets/cuda/passes.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FOLDLAYERSCALE
#include "passes/targets/cuda/passes.h.inc"

using mlir::failure;
using mlir::FailureOr;
using mlir::PatternRewriter;
using mlir::success;
using mlir::Value;

namespace {

/// A linear of one reader, or a permute (of one reader) of it.
struct PermutedLinear {
  op::LinearOp linear;
  op::PermuteOp permute;  ///< null: none

  explicit PermutedLinear(Value value) : permute(value.getDefiningOp<op::PermuteOp>()) {
    linear = (permute ? permute.getX() : value).getDefiningOp<op::LinearOp>();
    if (!value.hasOneUse() || (linear && !linear->hasOneUse())) {
      linear = nullptr;
    }
  }
  explicit operator bool() const { return bool(linear); }
  /// Where the columns of the linear are.
  int64_t channelDim() {
    const int64_t last = linear.getType().getRank() - 1;
    return permute ? llvm::find(permute.getDims(), last) - permute.getDims().begin() : last;
  }
};

/// The vector [channels] that an expand repeats along all dims but `dim`; failure where it is none.
FailureOr<Value> vectorAlong(Value value, int64_t dim, ValueBuilder& build) {
  auto expand = value.getDefiningOp<op::ExpandOp>();
  if (!expand) {
    return failure();
  }
  const ValueBuilder::Extents from = build.extents(expand.getX()), to = build.extents(value);
  const auto added = static_cast<int64_t>(to.size() - from.size());
  if (dim < added || from[dim - added] != to[dim]) {
    return failure();
  }
  for (const auto [at, extent] : llvm::enumerate(from)) {
    if (static_cast<int64_t>(at) != dim - added && extent != build.number(1)) {
      return failure();
    }
  }
  return build.reshape(expand.getX(), {to[dim]});
}

/// permute(linear(x, w, b)) * expand(scale)  ->  permute(linear(x, w * scale, b * scale))
struct FoldScale : mlir::OpRewritePattern<op::MulOp> {
  FoldScale(mlir::MLIRContext* context, bool freeze) : OpRewritePattern(context), freeze_(freeze) {}

  llvm::LogicalResult matchAndRewrite(op::MulOp mul, PatternRewriter& rewriter) const override {
    for (const int side : {0, 1}) {
      PermutedLinear from(mul->getOperand(side));
      const Value factor = mul->getOperand(1 - side);
      const auto isF32 = [](Value value) { return ValueBuilder::elementOf(value).isF32(); };
      if (!from || !isF32(factor) || !isF32(from.linear.getX()) ||
          !isF32(from.linear.getWeight())) {
        continue;
      }
      PhaseAnalysis phases(freeze_);
      const Value bias = from.linear.getBias();
      if (!phases.isPrepared(factor) || !phases.isPrepared(from.linear.getWeight()) ||
          (bias && !phases.isPrepared(bias))) {
        return rewriter.notifyMatchFailure(mul, "weights or the scale depend on inputs");
      }
      ValueBuilder build(rewriter, rewriter.getFusedLoc({from.linear.getLoc(), mul.getLoc()}));
      const FailureOr<Value> scale = vectorAlong(factor, from.channelDim(), build);
      if (failed(scale)) {
        return rewriter.notifyMatchFailure(mul, "the factor is not one number a column");
      }
      const Value weight = build.scaled(from.linear.getWeight(), *scale, 0);
      const Value scaled =
          build.linear(from.linear.getX(), weight, bias ? build.scaled(bias, *scale, 0) : Value());
      rewriter.replaceOp(mul,
                         from.permute ? build.permute(scaled, from.permute.getDims()) : scaled);
      return success();
    }
    return rewriter.notifyMatchFailure(mul, "no factor is a linear of one reader");
  }

 private:
  bool freeze_;
};

/// Whether a kernel writes the value with its channels side by side, so that a permute that puts
/// them last is a view.
bool isChannelsLast(Value value, llvm::ArrayRef<int64_t> dims) {
  if (auto permute = value.getDefiningOp<op::PermuteOp>()) {
    return permute.getDims() == dims;
  }
  return bool(value.getDefiningOp<op::ConvolutionOp>());
}

/// x + permute(linear(...))  ->  permute(inverse(x) + linear(...))
struct SinkPermute : mlir::OpRewritePattern<op::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::AddOp add, PatternRewriter& rewriter) const override {
    for (const int side : {0, 1}) {
      PermutedLinear from(add->getOperand(side));
      const Value residual = add->getOperand(1 - side);
      if (!from || !from.permute || !isChannelsLast(residual, from.permute.getDims())) {
        continue;
      }
      const llvm::ArrayRef<int64_t> dims = from.permute.getDims();
      llvm::SmallVector<int64_t> inverse(dims.size());
      for (const auto [to, dim] : llvm::enumerate(dims)) {
        inverse[dim] = static_cast<int64_t>(to);
      }
      ValueBuilder build(rewriter, add.getLoc());
      const Value turned = build.permute(residual, inverse);
      const Value linear = from.linear.getResult();
      const Value sum =
          side == 0 ? build.make<op::AddOp>(linear, turned) : build.make<op::AddOp>(turned, linear);
      rewriter.replaceOp(add, build.permute(sum, dims));
      return success();
    }
    return rewriter.notifyMatchFailure(add, "no permuted linear is added to what lies as it does");
  }
};

struct FoldLayerScalePass : impl::FoldLayerScaleBase<FoldLayerScalePass> {
  using FoldLayerScaleBase::FoldLayerScaleBase;

  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<FoldScale>(&getContext(), freeze);
    patterns.add<SinkPermute>(&getContext());
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError() << "fold-layer-scale: the rewriting does not come to an end";
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
