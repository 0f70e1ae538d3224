// SPDX-License-Identifier: Apache-2.0
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FOLDPAD
#include "passes/passes.h.inc"

namespace {

bool isZero(mlir::Attribute value) {
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    return real.getValue().isZero();
  }
  return llvm::cast<mlir::IntegerAttr>(value).getValue().isZero();
}

/// convolution(constant_pad_nd(x, pad, 0), w) {padding = p} -> convolution(x, w) {padding = p +
/// pad}
struct FoldPadIntoConvolution : mlir::OpRewritePattern<op::ConvolutionOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(op::ConvolutionOp convolution,
                                      mlir::PatternRewriter& rewriter) const override {
    auto pad = convolution.getX().getDefiningOp<op::ConstantPadNdOp>();
    if (!pad || !isZero(pad.getValue())) {
      return rewriter.notifyMatchFailure(convolution, "x is not padded with zeros");
    }
    if (convolution.getTransposed()) {
      return rewriter.notifyMatchFailure(convolution,
                                         "padding of a transposed convolution crops its result");
    }
    const llvm::ArrayRef<int64_t> widths = pad.getPad();
    llvm::SmallVector<int64_t> padding(convolution.getPadding());
    for (size_t pair = 0; 2 * pair < widths.size(); ++pair) {
      const int64_t before = widths[2 * pair];
      const int64_t after = widths[2 * pair + 1];
      if (pair >= padding.size() && (before != 0 || after != 0)) {
        return rewriter.notifyMatchFailure(convolution, "a batch or channel dim is padded");
      }
      if (before != after || before < 0) {
        return rewriter.notifyMatchFailure(convolution,
                                           "the two sides of a dim differ, or are cropped");
      }
      if (pair < padding.size()) {
        padding[padding.size() - 1 - pair] += before;
      }
    }
    rewriter.modifyOpInPlace(convolution, [&] {
      convolution.setPadding(padding);
      convolution.getXMutable().assign(pad.getX());
      convolution->setLoc(rewriter.getFusedLoc({pad.getLoc(), convolution.getLoc()}));
    });
    return mlir::success();
  }
};

struct FoldPadPass : impl::FoldPadBase<FoldPadPass> {
  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    patterns.add<FoldPadIntoConvolution>(&getContext());
    if (failed(mlir::applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError() << "fold-pad: the rewriting does not come to an end";
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
