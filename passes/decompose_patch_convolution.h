// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_PATCH_CONVOLUTION_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_PATCH_CONVOLUTION_H

#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// A convolution of patches that do not overlap, of at most `largestChannels` channels -> one of
/// single elements whose channels are those of a whole patch.
void addPatchConvolutionPatterns(mlir::RewritePatternSet& patterns, int64_t largestChannels);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_PATCH_CONVOLUTION_H
