// SPDX-License-Identifier: Apache-2.0
// Where the stride is the kernel and there is no padding, each element of x belongs to one patch,
// and the convolution is a product of patches and filters. Kernels for images load several channels
// of an element at once; three channels leave them little to load. So the elements of a patch
// become channels, and the convolution one of 1 x 1. The first layers of vision transformers and of
// ConvNeXt are such convolutions.
#include "passes/decompose_patch_convolution.h"

#include "passes/value_builder.h"

namespace straightline::passes {

using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

bool isOfPatches(op::ConvolutionOp convolution) {
  const mlir::RankedTensorType x = convolution.getX().getType(),
                               weight = convolution.getWeight().getType();
  if (convolution.getTransposed() || convolution.getGroups() != 1 || !weight.hasStaticShape()) {
    return false;
  }
  int64_t elements = 1;
  for (int64_t dim = 2; dim < x.getRank(); ++dim) {
    const int64_t kernel = weight.getDimSize(dim);
    if (convolution.getStride()[dim - 2] != kernel || convolution.getPadding()[dim - 2] != 0 ||
        convolution.getDilation()[dim - 2] != 1 || x.isDynamicDim(dim) ||
        x.getDimSize(dim) < kernel) {
      return false;
    }
    elements *= kernel;
  }
  return elements > 1;
}

struct DecomposePatchConvolution : mlir::OpRewritePattern<op::ConvolutionOp> {
  DecomposePatchConvolution(mlir::MLIRContext* context, int64_t largestChannels)
      : OpRewritePattern(context), largestChannels_(largestChannels) {}

  llvm::LogicalResult matchAndRewrite(op::ConvolutionOp convolution,
                                      mlir::PatternRewriter& rewriter) const override {
    if (!isOfPatches(convolution) ||
        convolution.getWeight().getType().getDimSize(1) > largestChannels_) {
      return rewriter.notifyMatchFailure(convolution, "its patches overlap, or have many channels");
    }
    ValueBuilder build(rewriter, convolution.getLoc());
    const Value x = patches(build, convolution);
    const Extents filters = build.extents(convolution.getWeight());
    Extents ofElement(filters.size(), build.number(1));
    ofElement[0] = filters[0];
    ofElement[1] = build.extents(x)[1];
    const llvm::SmallVector<int64_t> ones(filters.size() - 2, 1), zeros(filters.size() - 2, 0);
    rewriter.replaceOpWithNewOp<op::ConvolutionOp>(
        convolution, convolution.getType(), x, build.reshape(convolution.getWeight(), ofElement),
        convolution.getBias(), ones, zeros, ones, /*transposed=*/false, zeros, /*groups=*/1);
    return mlir::success();
  }

 private:
  /// [n, c, places * kernel..] -> [n, c * kernel.., places..], whose channels lie side by side.
  /// What is left over behind the last patch is cut off.
  static Value patches(ValueBuilder& build, op::ConvolutionOp convolution) {
    const mlir::RankedTensorType weight = convolution.getWeight().getType();
    const int64_t rank = weight.getRank(), count = rank - 2;
    Value x = convolution.getX();
    Extents split = llvm::to_vector(llvm::ArrayRef(build.extents(x)).take_front(2));
    Extents joined = {split[0]};
    llvm::SmallVector<int64_t> order = {0}, ofPatch = {1};
    int64_t channels = weight.getDimSize(1);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t kernel = weight.getDimSize(i + 2);
      const int64_t size = convolution.getX().getType().getDimSize(i + 2);
      const int64_t places = size / kernel;
      if (places * kernel != size) {
        x = build.slice(x, i + 2, 0, places * kernel);
      }
      split.append({build.number(places), build.number(kernel)});
      joined.push_back(build.number(places));
      order.push_back(2 + 2 * i);
      ofPatch.push_back(3 + 2 * i);
      channels *= kernel;
    }
    order.append(ofPatch);
    joined.push_back(build.number(channels));
    llvm::SmallVector<int64_t> channelsSecond = {0, rank - 1};
    for (int64_t dim = 1; dim <= count; ++dim) {
      channelsSecond.push_back(dim);
    }
    return build.permute(build.reshape(build.permute(build.reshape(x, split), order), joined),
                         channelsSecond);
  }

  int64_t largestChannels_;
};

}  // namespace

void addPatchConvolutionPatterns(mlir::RewritePatternSet& patterns, int64_t largestChannels) {
  if (largestChannels > 0) {
    patterns.add<DecomposePatchConvolution>(patterns.getContext(), largestChannels);
  }
}

}  // namespace straightline::passes
