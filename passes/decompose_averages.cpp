// SPDX-License-Identifier: Apache-2.0
#include "passes/decompose_averages.h"

#include <limits>

#include "passes/value_builder.h"

namespace straightline::passes {

using mlir::AffineExpr;
using mlir::OpRewritePattern;
using mlir::PatternRewriter;
using mlir::RankedTensorType;
using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

bool isNamed(Value x, llvm::ArrayRef<int64_t> dims) {
  auto type = llvm::cast<RankedTensorType>(x.getType());
  // 16-bit floats are widened first.
  return type.getElementTypeBitWidth() > 16 &&
         llvm::any_of(dims, [&](int64_t dim) { return type.isDynamicDim(dim); });
}

/// Averages over some dims of one tensor, kept with extent 1.
class Averages {
 public:
  Averages(ValueBuilder& build, Value x, llvm::ArrayRef<int64_t> dims)
      : build_(build), x_(x), dims_(dims), row_(build.extents(x)), count_(numberOfElements()) {
    for (int64_t dim : dims) {
      row_[dim] = build.number(1);
    }
  }

  /// Elements of a row less `correction`, not below 0, as a tensor without dims.
  Value countLess(double correction) {
    if (correction == 0.0) {
      return count_;
    }
    const Value less =
        build_.make<op::SubOp>(count_.getType(), count_, build_.fullLike(count_, correction));
    return build_.make<op::MaximumOp>(less.getType(), less, build_.fullLike(less, 0.0));
  }
  Value over(Value sum, Value count) {
    return build_.make<op::DivOp>(sum.getType(), sum, build_.expand(count, build_.extents(sum)));
  }
  Value sum(Value x) {
    return build_.make<op::SumOp>(build_.type(build_.elementOf(x), row_), x, dims_,
                                  /*keepdim=*/true);
  }
  Value centred() {
    const Value mean = build_.expand(over(sum(x_), count_), build_.extents(x_));
    return build_.make<op::SubOp>(x_.getType(), x_, mean);
  }
  Value count() const { return count_; }

 private:
  Value numberOfElements() {
    Value product;
    int64_t known = 1;
    for (int64_t dim : dims_) {
      const AffineExpr extent = row_[dim];
      if (const std::optional<int64_t> size = symbolic::constantValue(extent)) {
        known *= *size;
        continue;
      }
      // The last of 0, 1, .., extent.
      const RankedTensorType type = build_.type(build_.builder().getI64Type(), {extent + 1});
      const Value numbers = build_.make<op::IotaOp>(type, build_.builder().getI64IntegerAttr(0),
                                                    build_.builder().getI64IntegerAttr(1));
      const Value size =
          build_.reshape(build_.slice(numbers, 0, -1, std::numeric_limits<int64_t>::max()), {});
      product = product ? build_.make<op::MulOp>(size.getType(), product, size) : size;
    }
    if (known != 1) {
      product = build_.make<op::MulOp>(product.getType(), product,
                                       build_.fullLike(product, static_cast<double>(known)));
    }
    return build_.toDtype(product, build_.elementOf(x_));
  }

  ValueBuilder& build_;
  Value x_;
  llvm::SmallVector<int64_t> dims_;
  Extents row_;
  Value count_;
};

struct DecomposeMean : OpRewritePattern<op::MeanOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::MeanOp mean, PatternRewriter& rewriter) const override {
    if (!isNamed(mean.getX(), mean.getDims())) {
      return rewriter.notifyMatchFailure(mean, "averages over static dims");
    }
    ValueBuilder build(rewriter, mean.getLoc());
    Averages rows(build, mean.getX(), mean.getDims());
    rewriter.replaceOp(
        mean, build.reshape(rows.over(rows.sum(mean.getX()), rows.count()), build.extents(mean)));
    return mlir::success();
  }
};

struct DecomposeVar : OpRewritePattern<op::VarOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::VarOp var, PatternRewriter& rewriter) const override {
    if (!isNamed(var.getX(), var.getDims())) {
      return rewriter.notifyMatchFailure(var, "averages over static dims");
    }
    ValueBuilder build(rewriter, var.getLoc());
    Averages rows(build, var.getX(), var.getDims());
    const Value centred = rows.centred();
    const Value squares = build.make<op::MulOp>(centred.getType(), centred, centred);
    const Value count = rows.countLess(var.getCorrection().convertToDouble());
    rewriter.replaceOp(var, build.reshape(rows.over(rows.sum(squares), count), build.extents(var)));
    return mlir::success();
  }
};

struct DecomposeLayerNorm : OpRewritePattern<op::LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::LayerNormOp norm,
                                      PatternRewriter& rewriter) const override {
    const Value x = norm.getX();
    const int64_t rank = norm.getX().getType().getRank();
    const auto dims = llvm::to_vector(
        llvm::seq<int64_t>(rank - static_cast<int64_t>(norm.getNormalizedRank()), rank));
    if (!isNamed(x, dims)) {
      return rewriter.notifyMatchFailure(norm, "averages over static dims");
    }
    ValueBuilder build(rewriter, norm.getLoc());
    Averages rows(build, x, dims);
    const Value centred = rows.centred();
    const Value squares = build.make<op::MulOp>(centred.getType(), centred, centred);
    const Value variance = rows.over(rows.sum(squares), rows.count());
    const Value shifted = build.make<op::AddOp>(
        variance.getType(), variance, build.fullLike(variance, norm.getEps().convertToDouble()));
    const Value scale = build.make<op::RsqrtOp>(shifted.getType(), shifted);
    Value result =
        build.make<op::MulOp>(x.getType(), centred, build.expand(scale, build.extents(x)));
    if (norm.getWeight()) {
      result = build.make<op::MulOp>(x.getType(), result,
                                     build.expand(norm.getWeight(), build.extents(x)));
    }
    if (norm.getBias()) {
      result = build.make<op::AddOp>(x.getType(), result,
                                     build.expand(norm.getBias(), build.extents(x)));
    }
    rewriter.replaceOp(norm, result);
    return mlir::success();
  }
};

}  // namespace

void addAveragePatterns(mlir::RewritePatternSet& patterns) {
  patterns.add<DecomposeMean, DecomposeVar, DecomposeLayerNorm>(patterns.getContext());
}

}  // namespace straightline::passes
