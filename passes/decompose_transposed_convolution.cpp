// SPDX-License-Identifier: Apache-2.0
// Place o of a transposed convolution with stride s and padding p gets x[i] * w[k] for all i * s +
// k = o + p. With o + p = s * a + r and k = s * j + r that is the sum over j of x[a - j] * w[s * j
// + r]: for each phase r an ordinary convolution over x with ceil(kernel / s) taps in reverse
// order. All phases are channels of one convolution, whose result is interleaved and cropped (the
// sub-pixel convolution of Shi et al., 2016, read backwards). It runs on the same kernels as any
// convolution, and where one dim is upsampled alone the interleaved result is a view of
// channels-last memory.
#include "passes/decompose_transposed_convolution.h"

#include "llvm/Support/MathExtras.h"
#include "passes/phase.h"
#include "passes/value_builder.h"

namespace straightline::passes {

using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

/// One spatial dim. Where its size is only known at a call, `size` is 1 and `result` that of one
/// element: `skipped` then fits every size, since both sides of fits() grow by the stride.
struct Axis {
  int64_t stride, padding, kernel, size, result;
  bool isOpen = false;
  /// of the taps() - 1 zeros on both sides of x, those that the result does not need
  int64_t skipped = 0;

  int64_t taps() const { return llvm::divideCeil(kernel, stride); }
  int64_t border() const { return taps() - 1 - skipped; }
  /// That the convolution of a phase has.
  int64_t places() const { return size + 2 * border() - (taps() - 1); }
  /// Where the result begins among the interleaved places.
  int64_t first() const { return padding - skipped * stride; }
  bool fits() const { return places() > 0 && first() + result <= places() * stride; }
};

/// Null where the size of the kernel is only known per call.
std::optional<llvm::SmallVector<Axis>> axesOf(op::ConvolutionOp convolution) {
  const mlir::RankedTensorType x = convolution.getX().getType(),
                               weight = convolution.getWeight().getType();
  auto result = llvm::cast<mlir::RankedTensorType>(convolution.getType());
  llvm::SmallVector<Axis> axes;
  for (int64_t dim = 2; dim < x.getRank(); ++dim) {
    Axis axis{convolution.getStride()[dim - 2], convolution.getPadding()[dim - 2],
              weight.getDimSize(dim), x.getDimSize(dim), result.getDimSize(dim)};
    if (mlir::ShapedType::isDynamic(axis.kernel)) {
      return std::nullopt;
    }
    if (mlir::ShapedType::isDynamic(axis.size)) {
      axis.isOpen = true;
      axis.size = 1;
      axis.result = axis.kernel - 2 * axis.padding + convolution.getOutputPadding()[dim - 2];
    }
    for (axis.skipped = std::min(axis.padding / axis.stride, axis.taps() - 1);
         axis.skipped > 0 && !axis.fits();) {
      --axis.skipped;
    }
    axes.push_back(axis);
  }
  return axes;
}

/// weight [c, o, k..] -> [s.. * o, c, taps..]: phase by phase, taps in reverse order, zero where a
/// phase has one less.
Value phaseWeights(ValueBuilder& build, Value weight, llvm::ArrayRef<Axis> axes) {
  const Extents extents = build.extents(weight);
  Extents padded = extents, split = {extents[0], extents[1]}, joined = {extents[1], extents[0]};
  llvm::SmallVector<int64_t> widths, reversed, order;
  int64_t phases = 1;
  bool wider = false;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    padded[i + 2] = build.number(axis.taps() * axis.stride);
    wider |= axis.taps() * axis.stride != axis.kernel;
    split.append({build.number(axis.taps()), build.number(axis.stride)});
    joined.push_back(build.number(axis.taps()));
    phases *= axis.stride;
    order.push_back(static_cast<int64_t>(3 + 2 * i));
    if (axis.taps() > 1) {
      reversed.push_back(static_cast<int64_t>(2 + 2 * i));
    }
  }
  for (const Axis& axis : llvm::reverse(axes)) {  // the last dim first, as ATen has it
    widths.append({0, axis.taps() * axis.stride - axis.kernel});
  }
  const mlir::Type element = ValueBuilder::elementOf(weight);
  if (wider) {
    weight = build.make<op::ConstantPadNdOp>(build.type(element, padded), weight, widths,
                                             build.builder().getF64FloatAttr(0));
  }
  weight = build.reshape(weight, split);
  if (!reversed.empty()) {
    weight = build.make<op::FlipOp>(weight.getType(), weight, reversed);
  }
  order.append({1, 0});
  for (size_t i = 0; i < axes.size(); ++i) {
    order.push_back(static_cast<int64_t>(2 + 2 * i));
  }
  joined[0] = joined[0] * phases;
  return build.reshape(build.permute(weight, order), joined);
}

/// [o] repeated for each phase.
Value phaseBias(ValueBuilder& build, Value bias, int64_t phases) {
  const Extents extents = build.extents(bias);
  return build.reshape(build.broadcast(bias, 1, {build.number(phases), extents[0]}),
                       {extents[0] * phases});
}

struct DecomposeTransposedConvolution : mlir::OpRewritePattern<op::ConvolutionOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ConvolutionOp convolution,
                                      mlir::PatternRewriter& rewriter) const override {
    if (!convolution.getTransposed() || convolution.getGroups() != 1 ||
        llvm::any_of(convolution.getDilation(), [](int64_t dilation) { return dilation != 1; })) {
      return rewriter.notifyMatchFailure(convolution,
                                         "it is not transposed, or has groups or a dilation");
    }
    PhaseAnalysis phases;
    const std::optional<llvm::SmallVector<Axis>> axes = axesOf(convolution);
    if (!axes || !llvm::all_of(*axes, [](const Axis& axis) { return axis.fits(); }) ||
        !phases.isPrepared(convolution.getWeight())) {
      return rewriter.notifyMatchFailure(
          convolution, "the weight depends on the call, or the result ends beyond the last phase");
    }
    ValueBuilder build(rewriter, convolution.getLoc());
    rewriter.replaceOp(convolution, interleaved(build, phaseByPhase(build, convolution, *axes),
                                                *axes, build.extents(convolution.getResult())));
    return mlir::success();
  }

 private:
  static Value phaseByPhase(ValueBuilder& build, op::ConvolutionOp convolution,
                            llvm::ArrayRef<Axis> axes) {
    const Value weight = phaseWeights(build, convolution.getWeight(), axes);
    int64_t count = 1;
    const Extents image = build.extents(convolution.getX());
    Extents extents = {image[0], build.extents(weight)[0]};
    llvm::SmallVector<int64_t> padding;
    for (auto [i, axis] : llvm::enumerate(axes)) {
      count *= axis.stride;
      extents.push_back(image[i + 2] + (axis.places() - axis.size));
      padding.push_back(axis.border());
    }
    const Value bias =
        convolution.getBias() ? phaseBias(build, convolution.getBias(), count) : Value();
    const llvm::SmallVector<int64_t> ones(axes.size(), 1), zeros(axes.size(), 0);
    return build.make<op::ConvolutionOp>(
        build.type(ValueBuilder::elementOf(convolution.getX()), extents), convolution.getX(),
        weight, bias, ones, padding, ones, /*transposed=*/false, zeros, /*groups=*/1);
  }

  /// `length` elements of a dim from `first` on.
  static Value part(ValueBuilder& build, Value value, int64_t dim, int64_t first,
                    mlir::AffineExpr length) {
    Extents extents = build.extents(value);
    extents[dim] = length;
    return build.make<op::SliceOp>(build.type(ValueBuilder::elementOf(value), extents), value, dim,
                                   first, op::kSliceEndByType, 1);
  }

  /// [n, s.. * o, places..] -> [n, o, result..]. Channels stand last in between, as they lie in
  /// memory. `wanted`: the extents of the transposed convolution.
  static Value interleaved(ValueBuilder& build, Value value, llvm::ArrayRef<Axis> axes,
                           const Extents& wanted) {
    const Extents extents = build.extents(value);
    const auto count = static_cast<int64_t>(axes.size());
    int64_t phases = 1;
    llvm::SmallVector<int64_t> order = {0}, channelsSecond = {0, 1 + count};
    Extents split = {extents[0]}, joined = {extents[0]};
    for (auto [i, axis] : llvm::enumerate(axes)) {
      const auto dim = static_cast<int64_t>(i);
      phases *= axis.stride;
      channelsSecond.push_back(1 + dim);
      order.append({1 + dim, 1 + count + dim});
      split.push_back(extents[i + 2]);
      joined.push_back(extents[i + 2] * axis.stride);
    }
    for (const Axis& axis : axes) {
      split.push_back(build.number(axis.stride));
    }
    order.push_back(1 + 2 * count);
    split.push_back(build.number(*symbolic::constantValue(extents[1]) / phases));
    joined.push_back(split.back());
    value = build.reshape(build.permute(value, channelsLast(2 + count)), split);
    if (count > 1) {
      value = build.permute(value, order);
    }
    value = build.reshape(value, joined);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      if (axis.result != axis.places() * axis.stride) {
        const auto dim = static_cast<int64_t>(i) + 1;
        value = axis.isOpen ? part(build, value, dim, axis.first(), wanted[i + 2])
                            : build.slice(value, dim, axis.first(), axis.first() + axis.result);
      }
    }
    return build.permute(value, channelsSecond);
  }
};

}  // namespace

void addTransposedConvolutionPatterns(mlir::RewritePatternSet& patterns) {
  patterns.add<DecomposeTransposedConvolution>(patterns.getContext());
}

}  // namespace straightline::passes
