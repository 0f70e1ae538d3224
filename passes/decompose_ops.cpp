// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "dialect/error_kind.h"
#include "dialect/op/recorded.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/decompose_averages.h"
#include "passes/decompose_patch_convolution.h"
#include "passes/decompose_recurrent.h"
#include "passes/decompose_transposed_convolution.h"
#include "passes/passes.h"
#include "passes/refusals.h"
#include "passes/value_builder.h"
#include "passes/widen_half.h"

namespace straightline::passes {

#define GEN_PASS_DEF_DECOMPOSEOPS
#include "passes/passes.h.inc"

using mlir::AffineExpr;
using mlir::OpRewritePattern;
using mlir::PatternRewriter;
using mlir::RankedTensorType;
using mlir::success;
using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

/// The end of a slice that holds entry `index` alone.
int64_t endOf(int64_t index) {
  return index == -1 ? std::numeric_limits<int64_t>::max() : index + 1;
}

/// select(x, i) -> reshape(slice(x, i, i + 1)).
struct DecomposeSelect : OpRewritePattern<op::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::SelectOp select,
                                      PatternRewriter& rewriter) const override {
    ValueBuilder build(rewriter, select.getLoc());
    const int64_t index = select.getIndex();
    const Value slice = build.slice(select.getX(), select.getDim(), index, endOf(index));
    rewriter.replaceOp(select, build.reshape(slice, build.extents(select)));
    return success();
  }
};

/// select_scatter(x, src, i) -> slice_scatter(x, reshape(src), i, i + 1).
struct DecomposeSelectScatter : OpRewritePattern<op::SelectScatterOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::SelectScatterOp scatter,
                                      PatternRewriter& rewriter) const override {
    ValueBuilder build(rewriter, scatter.getLoc());
    const int64_t dim = scatter.getDim(), index = scatter.getIndex();
    Extents extents = build.extents(scatter.getX());
    extents[dim] = build.number(1);
    const Value src = build.reshape(scatter.getSrc(), extents);
    rewriter.replaceOp(scatter, build.make<op::SliceScatterOp>(scatter.getType(), scatter.getX(),
                                                               src, dim, index, endOf(index), 1));
    return success();
  }
};

/// group_norm(x [n, c, ..]) -> layer_norm over [n, g, c / g * ..], then weight and bias by channel.
struct DecomposeGroupNorm : OpRewritePattern<op::GroupNormOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::GroupNormOp norm,
                                      PatternRewriter& rewriter) const override {
    ValueBuilder build(rewriter, norm.getLoc());
    const Extents extents = build.extents(norm.getX());
    const int64_t groups = norm.getGroups();
    AffineExpr row = build.number(*symbolic::constantValue(extents[1]) / groups);
    for (AffineExpr extent : llvm::drop_begin(extents, 2)) {
      row = extent * row;
    }
    const Value grouped = build.reshape(norm.getX(), {extents[0], build.number(groups), row});
    const Value normed = build.make<op::LayerNormOp>(grouped.getType(), grouped, Value(), Value(),
                                                     /*normalized_rank=*/1, norm.getEps());
    Value result = build.reshape(normed, extents);
    if (norm.getWeight()) {
      result = build.make<op::MulOp>(result, build.broadcast(norm.getWeight(), 1, extents));
    }
    if (norm.getBias()) {
      result = build.make<op::AddOp>(result, build.broadcast(norm.getBias(), 1, extents));
    }
    rewriter.replaceOp(norm, result);
    return success();
  }
};

/// adaptive_avg_pool2d -> mean (one output) or avg_pool2d (outputs divide the extents).
struct DecomposeAdaptivePool : OpRewritePattern<op::AdaptiveAvgPool2dOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::AdaptiveAvgPool2dOp pool,
                                      PatternRewriter& rewriter) const override {
    const RankedTensorType type = pool.getX().getType();
    const int64_t rank = type.getRank();
    llvm::ArrayRef<int64_t> outputs = pool.getOutputSize();
    if (outputs[0] == 1 && outputs[1] == 1) {
      const llvm::SmallVector<int64_t> dims = {rank - 2, rank - 1};
      rewriter.replaceOpWithNewOp<op::MeanOp>(pool, pool.getType(), pool.getX(), dims,
                                              /*keepdim=*/true);
      return success();
    }
    llvm::SmallVector<int64_t> window;
    for (int64_t place = 0; place < 2; ++place) {
      const int64_t size = type.getDimSize(rank - 2 + place);
      if (mlir::ShapedType::isDynamic(size) || size % outputs[place] != 0) {
        return rewriter.notifyMatchFailure(pool, "the output does not divide the extent");
      }
      window.push_back(size / outputs[place]);
    }
    const llvm::SmallVector<int64_t> none = {0, 0};
    rewriter.replaceOpWithNewOp<op::AvgPool2dOp>(
        pool, pool.getType(), pool.getX(), window, window, none,
        /*ceil_mode=*/false, /*count_include_pad=*/true, mlir::IntegerAttr());
    return success();
  }
};

/// attention -> matmul(q, k^T) * scale, mask, softmax (0 where a mask keeps nothing), matmul(..,
/// v).
struct DecomposeAttention : OpRewritePattern<op::ScaledDotProductAttentionOp> {
  DecomposeAttention(mlir::MLIRContext* context,
                     std::function<bool(op::ScaledDotProductAttentionOp)> staysWhole)
      : OpRewritePattern(context), staysWhole(std::move(staysWhole)) {}

  llvm::LogicalResult matchAndRewrite(op::ScaledDotProductAttentionOp attention,
                                      PatternRewriter& rewriter) const override {
    if (staysWhole(attention)) {
      return rewriter.notifyMatchFailure(attention, "has a kernel of its own");
    }
    ValueBuilder build(rewriter, attention.getLoc());
    const Extents q = build.extents(attention.getQ());
    const std::optional<int64_t> features = symbolic::constantValue(q.back());
    if (!attention.getScale() && !features) {
      return rewriter.notifyMatchFailure(attention, "the scale depends on a named extent");
    }
    const double scale =
        attention.getScale() ? attention.getScale()->convertToDouble() : 1.0 / std::sqrt(*features);
    const int64_t rank = q.size();
    const Value k = grouped(build, attention.getK(), q), v = grouped(build, attention.getV(), q);
    llvm::SmallVector<int64_t> transposed = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    std::swap(transposed[rank - 1], transposed[rank - 2]);
    Value scores = build.matmul(attention.getQ(), build.permute(k, transposed));
    scores = build.make<op::MulOp>(scores, build.fullLike(scores, scale));
    if (const std::optional<int64_t> period = attention.getMaskPeriod()) {
      scores = maskedByTurns(build, scores, attention.getMask(), *period);
    } else if (attention.getMask()) {
      scores = masked(build, scores, attention.getMask());
    }
    if (attention.getIsCausal()) {
      scores = causal(build, scores);
    }
    const Value weights = attention.getMask() && !attention.getEmptyIsNan()
                              ? softmaxOrZero(build, scores)
                              : build.make<op::SoftmaxOp>(scores.getType(), scores, rank - 1);
    rewriter.replaceOp(attention, build.matmul(weights, v));
    return success();
  }

  std::function<bool(op::ScaledDotProductAttentionOp)> staysWhole;

 private:
  /// Heads of k or v repeated for groups of queries: [b, g, s, e] -> [b, g, h / g, s, e] -> [b, h,
  /// s, e].
  static Value grouped(ValueBuilder& build, Value value, llvm::ArrayRef<AffineExpr> q) {
    const Extents from = build.extents(value);
    const size_t head = from.size() < 3 ? 0 : from.size() - 3;
    if (from.size() < 3 || build.space().equal(from[head], q[head])) {
      return value;
    }
    const int64_t repeats =
        *symbolic::constantValue(q[head]) / *symbolic::constantValue(from[head]);
    Extents split = from, repeated = from, joined = from;
    split.insert(split.begin() + head + 1, build.number(1));
    repeated.insert(repeated.begin() + head + 1, build.number(repeats));
    joined[head] = q[head];
    return build.reshape(build.expand(build.reshape(value, split), repeated), joined);
  }

  /// Softmax of scores that gives weights of 0, as torch does, to a query for which the mask keeps
  /// no key (op.softmax would give NaN). Such a query's maximum is -infinity; the softmax is
  /// written as its steps, so that the maximum is computed once.
  static Value softmaxOrZero(ValueBuilder& build, Value scores) {
    const Extents all = build.extents(scores);
    Extents rows = all;
    rows.back() = build.number(1);
    const RankedTensorType row = build.type(ValueBuilder::elementOf(scores), rows);
    const llvm::SmallVector<int64_t> last = {static_cast<int64_t>(all.size()) - 1};
    const Value most = build.make<op::AmaxOp>(row, scores, last, /*keepdim=*/true);
    const Value powers = build.make<op::ExpOp>(
        scores.getType(), build.make<op::SubOp>(scores, build.expand(most, all)));
    const Value sum = build.make<op::SumOp>(row, powers, last, /*keepdim=*/true);
    const Value some =
        build.make<op::NeOp>(build.type(build.builder().getI1Type(), rows), most,
                             build.full(row, -std::numeric_limits<double>::infinity()));
    return build.make<op::WhereOp>(build.expand(some, all),
                                   build.make<op::DivOp>(powers, build.expand(sum, all)),
                                   build.fullLike(scores, 0));
  }

  static Value masked(ValueBuilder& build, Value scores, Value mask) {
    const Value wide = build.expand(mask, build.extents(scores));
    if (!op::hasBoolElements(mask.getType())) {
      return build.make<op::AddOp>(scores, wide);
    }
    return build.make<op::WhereOp>(
        wide, scores, build.fullLike(scores, -std::numeric_limits<double>::infinity()));
  }

  /// A mask of `period` images over any multiple of them: [b, ..] seen as [b / period, period, ..].
  static Value maskedByTurns(ValueBuilder& build, Value scores, Value mask, int64_t period) {
    const Extents all = build.extents(scores);
    Extents split = all;
    split[0] = build.number(period);
    split.insert(split.begin(), all[0].floorDiv(period));
    return build.reshape(masked(build, build.reshape(scores, split), mask), all);
  }

  /// Query i sees keys 0 .. i.
  static Value causal(ValueBuilder& build, Value scores) {
    const Extents extents = build.extents(scores);
    const mlir::Type index = build.builder().getI64Type();
    auto places = [&](AffineExpr extent) {
      return build.make<op::IotaOp>(build.type(index, extent), build.builder().getI64IntegerAttr(0),
                                    build.builder().getI64IntegerAttr(1));
    };
    const Extents plane = {extents[extents.size() - 2], extents.back()};
    const Value query = build.broadcast(places(plane[0]), 0, plane),
                key = build.expand(places(plane[1]), plane);
    const RankedTensorType type = build.type(build.builder().getI1Type(), plane);
    return masked(build, scores, build.make<op::LeOp>(type, key, query));
  }
};

/// Dims in an order that puts the reduced ones last; empty when they are there already.
llvm::SmallVector<int64_t> trailingOrder(op::ReductionOpInterface reduction) {
  const int64_t rank = llvm::cast<RankedTensorType>(reduction->getOperand(0).getType()).getRank();
  const llvm::SmallVector<int64_t> dims = reduction.getReducedDims();
  llvm::SmallVector<int64_t> order;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (!llvm::is_contained(dims, dim)) {
      order.push_back(dim);
    }
  }
  llvm::append_range(order, dims);
  return rank == 0 || llvm::is_sorted(order) ? llvm::SmallVector<int64_t>() : order;
}

/// sum(x, dims = [0]) -> sum(permute(x), dims = [last]): rows become the last dims of a view.
struct TrailingReduction : mlir::OpInterfaceRewritePattern<op::ReductionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ReductionOpInterface reduction,
                                      PatternRewriter& rewriter) const override {
    const llvm::SmallVector<int64_t> order = trailingOrder(reduction);
    if (order.empty()) {
      return rewriter.notifyMatchFailure(reduction, "the reduced dims are the trailing ones");
    }
    ValueBuilder build(rewriter, reduction->getLoc());
    const Value x = build.permute(reduction->getOperand(0), order);
    const int64_t rank = order.size(), count = reduction.getReducedDims().size();
    mlir::Operation* moved = rewriter.clone(*reduction.getOperation());
    moved->setOperand(0, x);
    if (moved->hasAttr("dims")) {
      moved->setAttr("dims",
                     rewriter.getDenseI64ArrayAttr(llvm::to_vector(llvm::seq(rank - count, rank))));
    } else {
      moved->setAttr("dim", rewriter.getI64IntegerAttr(rank - 1));
    }
    const Extents result = build.extents(reduction->getResult(0));
    if (reduction.keepsShape()) {
      moved->getResult(0).setType(x.getType());
      rewriter.replaceOp(reduction, build.permute(moved->getResult(0), inverse(order)));
      return success();
    }
    if (reduction.keepsReducedDims()) {
      Extents extents = build.extents(x);
      std::fill(extents.end() - count, extents.end(), build.number(1));
      moved->getResult(0).setType(
          build.type(ValueBuilder::elementOf(moved->getResult(0)), extents));
    }
    rewriter.replaceOp(reduction, build.reshape(moved->getResult(0), result));
    return success();
  }

 private:
  static llvm::SmallVector<int64_t> inverse(llvm::ArrayRef<int64_t> order) {
    llvm::SmallVector<int64_t> result(order.size());
    for (auto [place, dim] : llvm::enumerate(order)) {
      result[dim] = place;
    }
    return result;
  }
};

/// No kernel of a library takes sizes of zero. A product that has no elements, or that sums none,
/// is a constant: zeros (attention to no key as well, as in torch), or the bias. An image without
/// elements has windows of its zero border alone.
struct FoldEmptyProduct : mlir::RewritePattern {
  explicit FoldEmptyProduct(mlir::MLIRContext* context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  llvm::LogicalResult matchAndRewrite(mlir::Operation* product,
                                      PatternRewriter& rewriter) const override {
    auto attention = llvm::dyn_cast<op::ScaledDotProductAttentionOp>(product);
    if (!attention && !product->hasTrait<op::Contraction>()) {
      return mlir::failure();
    }
    const auto type = llvm::cast<RankedTensorType>(product->getResult(0).getType());
    if (!llvm::is_contained(type.getShape(), 0) &&
        !(attention ? seesNothing(attention) : sumsNothing(product))) {
      return rewriter.notifyMatchFailure(product, "there is something to do");
    }
    ValueBuilder build(rewriter, product->getLoc());
    auto linear = llvm::dyn_cast<op::LinearOp>(product);
    auto convolution = llvm::dyn_cast<op::ConvolutionOp>(product);
    const Value bias = linear ? linear.getBias() : convolution ? convolution.getBias() : Value();
    rewriter.replaceOp(product, bias ? build.broadcast(bias, linear ? type.getRank() - 1 : 1,
                                                       build.extents(product->getResult(0)))
                                     : build.full(type, 0));
    return success();
  }

 private:
  static bool seesNothing(op::ScaledDotProductAttentionOp attention) {
    const RankedTensorType keys = attention.getK().getType();
    return keys.getDimSize(keys.getRank() - 2) == 0;
  }
  static bool sumsNothing(mlir::Operation* product) {
    if (auto convolution = llvm::dyn_cast<op::ConvolutionOp>(product)) {
      return llvm::is_contained(convolution.getX().getType().getShape(), 0) ||
             llvm::is_contained(convolution.getWeight().getType().getShape(), 0);
    }
    return llvm::isa<op::LinearOp, op::MatmulOp>(product) &&
           llvm::cast<RankedTensorType>(product->getOperand(0).getType()).getShape().back() == 0;
  }
};

struct DecomposeOpsPass : impl::DecomposeOpsBase<DecomposeOpsPass> {
  using DecomposeOpsBase::DecomposeOpsBase;

  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<DecomposeSelect, DecomposeSelectScatter, DecomposeGroupNorm, DecomposeAdaptivePool,
                 TrailingReduction, FoldEmptyProduct>(&getContext());
    addAveragePatterns(patterns);
    // null, and not the default target, where the module names none: its dialect may not be loaded
    const auto target = llvm::dyn_cast_if_present<kernel::TargetAttr>(
        op::targetOf(getOperation()->getParentOfType<mlir::ModuleOp>()));
    addRecurrentPatterns(
        patterns,
        [target](const RecurrentProblem& problem) {
          return targetNamedBy(target).hasKernelFor(problem, target);
        },
        factsOf(target).hasSlowSubnormals);
    addTransposedConvolutionPatterns(patterns);
    addPatchConvolutionPatterns(patterns, largestPatchChannels);
    addWidenHalfPatterns(patterns, [this](mlir::Operation* operation) {
      auto attention = llvm::dyn_cast<op::ScaledDotProductAttentionOp>(operation);
      return keepHalfProducts &&
             (attention ? staysWhole(attention)
                        : llvm::isa<op::LinearOp, op::MatmulOp, op::ConvolutionOp, op::MaxPool2dOp,
                                    op::AvgPool2dOp>(operation));
    });
    patterns.add<DecomposeAttention>(
        &getContext(),
        [this](op::ScaledDotProductAttentionOp attention) { return staysWhole(attention); });
    RefusalKeeper keeper;
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns),
                                           mlir::GreedyRewriteConfig().setListener(&keeper)))) {
      getOperation().emitError() << "decompose-ops: the rewriting does not come to an end";
      return signalPassFailure();
    }
    bool refused = false;
    getOperation().walk([&](mlir::Operation* operation) { refused |= isRefused(operation); });
    if (refused) {
      signalPassFailure();
    }
  }

 private:
  /// Whether attention is left to a kernel of its own. With a limit (a device): where there are few
  /// queries, or not much work; 16-bit floats always, for products would round the scores.
  bool staysWhole(op::ScaledDotProductAttentionOp attention) {
    constexpr int64_t kFewRows = 16;
    constexpr int64_t kLargestHead = 256;
    const mlir::RankedTensorType q = attention.getQ().getType(), k = attention.getK().getType();
    const mlir::Type element = q.getElementType();
    const int64_t rank = q.getRank();
    const bool isOneSize =
        attention.getV().getType().getDimSize(rank - 1) == q.getDimSize(rank - 1);
    if (element.isF64() || (attention.getScale() && attention.getScale()->isZero())) {
      return false;  // the kernels sum in f32, and take a scale of 0 for the default
    }
    if (!keepAttention || largestAttention < 0) {
      return keepAttention;
    }
    if (rank > 4 || rank < 2 || q.isDynamicDim(rank - 1) || q.getDimSize(rank - 1) > kLargestHead ||
        !isOneSize) {
      return false;
    }
    if (!element.isF32() || q.getDimSize(rank - 1) <= largestTf32Head) {
      return true;
    }
    if (!q.isDynamicDim(rank - 2) && rank > 2 && !q.isDynamicDim(rank - 3) &&
        !k.isDynamicDim(rank - 3) &&
        q.getDimSize(rank - 2) * q.getDimSize(rank - 3) <= kFewRows * k.getDimSize(rank - 3)) {
      return true;
    }
    return q.hasStaticShape() && k.hasStaticShape() &&
           q.getNumElements() * k.getDimSize(rank - 2) <= largestAttention;
  }

  /// Reports an op that no pattern took.
  bool isRefused(mlir::Operation* operation) {
    if (auto pool = llvm::dyn_cast<op::AdaptiveAvgPool2dOp>(operation)) {
      emitUnsupported(pool) << "adaptive_avg_pool2d of " << pool.getX().getType() << " to ["
                            << pool.getOutputSize()
                            << "]; an output that divides static extents, or 1 x 1, is supported";
      return true;
    }
    if (llvm::isa<op::LstmOp, op::GruOp, op::RnnOp>(operation)) {
      emitUnsupported(operation) << operation->getName().stripDialect() << " with the hidden state "
                                 << operation->getOperand(1).getType()
                                 << "; a static hidden size is supported";
      return true;
    }
    auto attention = llvm::dyn_cast<op::ScaledDotProductAttentionOp>(operation);
    if (attention && !keepAttention) {
      emitUnsupported(attention) << "scaled_dot_product_attention without scale over "
                                 << attention.getQ().getType()
                                 << "; a static number of features is supported";
      return true;
    }
    return false;
  }
};

}  // namespace

}  // namespace straightline::passes
