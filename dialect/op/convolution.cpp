// SPDX-License-Identifier: Apache-2.0
// Verifiers of the family "convolution".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::failure;
using mlir::success;
using mlir::Value;
using Extents = ExtentSpace::Extents;

namespace {

/// Every list has `count` numbers of at least `least`.
struct NamedList {
  llvm::StringRef name;
  llvm::ArrayRef<int64_t> values;
  int64_t least;
};

llvm::LogicalResult verifyLists(mlir::Operation* operation, llvm::ArrayRef<NamedList> lists,
                                size_t count, llvm::StringRef constraint) {
  for (const NamedList& list : lists) {
    if (list.values.size() != count) {
      return opError(operation) << list.name << " has " << list.values.size() << " numbers but "
                                << count << " are needed (" << constraint << ")";
    }
    for (int64_t value : list.values) {
      if (value < list.least) {
        return opError(operation) << list.name << " holds " << value << " but at least "
                                  << list.least << " is needed (" << constraint << ")";
      }
    }
  }
  return success();
}

/// Windows of a dim: (extent + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
AffineExpr windowCount(AffineExpr extent, AffineExpr kernel, int64_t stride, int64_t padding,
                       int64_t dilation) {
  return (extent + 2 * padding - (kernel - 1) * dilation - 1).floorDiv(stride) + 1;
}

/// With `ceil_mode` a last window that starts inside the padded extent counts. Null: not known
/// (named extent).
AffineExpr pooledExtent(AffineExpr extent, int64_t kernel, int64_t stride, int64_t padding,
                        int64_t dilation, bool ceilMode) {
  mlir::MLIRContext* context = extent.getContext();
  if (!ceilMode) {
    return windowCount(extent, mlir::getAffineConstantExpr(kernel, context), stride, padding,
                       dilation);
  }
  const std::optional<int64_t> size = symbolic::constantValue(extent);
  if (!size) {
    return {};
  }
  const int64_t span = *size + 2 * padding - dilation * (kernel - 1) - 1;
  int64_t count = (span + stride - 1) / stride + 1;
  count -= (count - 1) * stride >= *size + padding ? 1 : 0;
  return mlir::getAffineConstantExpr(count, context);
}

}  // namespace

llvm::LogicalResult ConvolutionOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), weight = space.of(getWeight());
  if (x.size() < 3 || x.size() != weight.size()) {
    return opError(*this) << "x has rank " << x.size() << " and weight rank " << weight.size()
                          << " but equal ranks of at least 3 are needed (convolution_c2)";
  }
  const size_t spatial = x.size() - 2;
  if (failed(verifyLists(*this,
                         {{"stride", getStride(), 1},
                          {"padding", getPadding(), 0},
                          {"dilation", getDilation(), 1},
                          {"output_padding", getOutputPadding(), 0}},
                         spatial, "convolution_c3"))) {
    return failure();
  }
  const int64_t groups = getGroups();
  const AffineExpr channels = getTransposed() ? weight[0] : weight[1] * groups;
  if (groups < 1 || !space.equal(x[1], channels)) {
    return opError(*this) << "x has " << space.print(x[1]) << " channels but weight has "
                          << space.print(channels) << " in " << groups
                          << " groups (convolution_c1)";
  }
  const AffineExpr divided = weight[0];
  if (std::optional<int64_t> count = symbolic::constantValue(divided);
      count && *count % groups != 0) {
    return opError(*this) << groups << " groups do not divide weight's " << *count
                          << " channels (convolution_c4)";
  }
  const AffineExpr outputs = getTransposed() ? weight[1] * groups : weight[0];
  const mlir::Type element = getX().getType().getElementType();
  const bool ofBytes = element.isSignlessInteger(8);
  if (!ofBytes && !llvm::isa<mlir::FloatType>(element)) {
    return opError(*this) << "x has elements " << element
                          << " but floats or 'i8' are needed (convolution_c7)";
  }
  if (ofBytes && getBias()) {
    return opError(*this) << "there is a bias, but x and weight of i8 have none (convolution_c7)";
  }
  const mlir::Type sums = ofBytes ? mlir::IntegerType::get(getContext(), 32) : element;
  for (auto [value, name, elements] :
       {std::tuple<Value, llvm::StringRef, mlir::Type>(getWeight(), "weight", element),
        {getBias(), "bias", element},
        {getResult(), "the result", sums}}) {
    if (failed(verifyElements(*this, value, name, elements, "convolution_c7"))) {
      return failure();
    }
  }
  if (getBias() &&
      failed(verifyExtents(*this, space, "bias", space.of(getBias()), outputs, "convolution_c5"))) {
    return failure();
  }
  Extents expected = {x[0], outputs};
  for (size_t dim = 0; dim < spatial; ++dim) {
    const AffineExpr extent = x[dim + 2], kernel = weight[dim + 2];
    const int64_t stride = getStride()[dim], padding = getPadding()[dim],
                  dilation = getDilation()[dim];
    expected.push_back(getTransposed() ? (extent - 1) * stride - 2 * padding +
                                             (kernel - 1) * dilation + getOutputPadding()[dim] + 1
                                       : windowCount(extent, kernel, stride, padding, dilation));
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected,
                       "convolution_c6");
}

namespace {

struct Window {
  llvm::ArrayRef<int64_t> kernel, stride, padding, dilation;
  bool ceilMode;
};

llvm::LogicalResult verifyPoolRank(mlir::Operation* operation, size_t rank) {
  if (rank == 3 || rank == 4) {
    return success();
  }
  return opError(operation) << "x has rank " << rank << " but 3 or 4 is needed (pool_c1)";
}

llvm::LogicalResult verifyPool(mlir::Operation* operation, const Window& window) {
  ExtentSpace space;
  const Value x = operation->getOperand(0), result = operation->getResult(0);
  Extents expected = space.of(x);
  if (failed(verifyPoolRank(operation, expected.size())) ||
      failed(verifyLists(operation,
                         {{"kernel_size", window.kernel, 1},
                          {"stride", window.stride, 1},
                          {"padding", window.padding, 0},
                          {"dilation", window.dilation, 1}},
                         2, "pool_c2")) ||
      failed(verifyElements(operation, result, "the result",
                            llvm::cast<mlir::RankedTensorType>(x.getType()).getElementType(),
                            "pool_c3"))) {
    return failure();
  }
  const Extents actual = space.of(result);
  for (size_t dim = 0; dim < 2; ++dim) {
    if (2 * window.padding[dim] > window.kernel[dim]) {
      return opError(operation) << "padding " << window.padding[dim]
                                << " is more than half of kernel " << window.kernel[dim]
                                << " (pool_c4)";
    }
    AffineExpr& extent = expected[expected.size() - 2 + dim];
    const AffineExpr pooled =
        pooledExtent(extent, window.kernel[dim], window.stride[dim], window.padding[dim],
                     window.dilation[dim], window.ceilMode);
    const bool unknown = !pooled && actual.size() == expected.size();
    extent = unknown ? actual[expected.size() - 2 + dim] : pooled ? pooled : extent;
  }
  return verifyExtents(operation, space, "the result", actual, expected, "pool_c3");
}

}  // namespace

llvm::LogicalResult MaxPool2dOp::verify() {
  return verifyPool(*this,
                    {getKernelSize(), getStride(), getPadding(), getDilation(), getCeilMode()});
}

llvm::LogicalResult AvgPool2dOp::verify() {
  return verifyPool(*this, {getKernelSize(), getStride(), getPadding(), {1, 1}, getCeilMode()});
}

llvm::LogicalResult AdaptiveAvgPool2dOp::verify() {
  ExtentSpace space;
  Extents expected = space.of(getX());
  if (failed(verifyPoolRank(*this, expected.size())) ||
      failed(verifyLists(*this, {{"output_size", getOutputSize(), 1}}, 2, "pool_c2")) ||
      failed(verifyElements(*this, getResult(), "the result", getX().getType().getElementType(),
                            "pool_c3"))) {
    return failure();
  }
  for (size_t dim = 0; dim < 2; ++dim) {
    expected[expected.size() - 2 + dim] =
        mlir::getAffineConstantExpr(getOutputSize()[dim], getContext());
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected, "pool_c3");
}

llvm::LogicalResult GridSampler2dOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), grid = space.of(getGrid());
  if (x.size() != 4 || grid.size() != 4 || symbolic::constantValue(grid[3]) != 2) {
    return opError(*this) << "x has extents " << space.print(x) << " and grid " << space.print(grid)
                          << " but [n, c, h, w] and [n, h', w', 2] are needed "
                             "(grid_sampler_2d_c1)";
  }
  if (!space.equal(x[0], grid[0])) {
    return opError(*this) << "x has " << space.print(x[0]) << " images but grid "
                          << space.print(grid[0]) << " (grid_sampler_2d_c2)";
  }
  static constexpr llvm::StringLiteral kInterpolations[] = {"bilinear", "nearest", "bicubic"};
  static constexpr llvm::StringLiteral kPaddings[] = {"zeros", "border", "reflection"};
  if (!llvm::is_contained(kInterpolations, getInterpolationMode())) {
    return opError(*this) << "interpolation_mode is \"" << getInterpolationMode()
                          << "\" but \"bilinear\", \"nearest\" or \"bicubic\" is needed "
                             "(grid_sampler_2d_c3)";
  }
  if (!llvm::is_contained(kPaddings, getPaddingMode())) {
    return opError(*this) << "padding_mode is \"" << getPaddingMode()
                          << "\" but \"zeros\", \"border\" or \"reflection\" is needed "
                             "(grid_sampler_2d_c3)";
  }
  const mlir::Type element = getX().getType().getElementType();
  if (failed(verifyElements(*this, getGrid(), "grid", element, "grid_sampler_2d_c5")) ||
      failed(verifyElements(*this, getResult(), "the result", element, "grid_sampler_2d_c5"))) {
    return failure();
  }
  for (const AffineExpr extent : {x[2], x[3]}) {
    if (symbolic::constantValue(extent) == 0) {
      return opError(*this) << "x has extents " << space.print(x)
                            << " but images with elements are needed (grid_sampler_2d_c6)";
    }
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()),
                       {x[0], x[1], grid[1], grid[2]}, "grid_sampler_2d_c4");
}

}  // namespace straightline::op
