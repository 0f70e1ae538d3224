// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_TRANSPOSED_CONVOLUTION_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_TRANSPOSED_CONVOLUTION_H

#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// A transposed convolution -> an ordinary one that computes all phases of the stride as channels,
/// interleaved afterwards.
void addTransposedConvolutionPatterns(mlir::RewritePatternSet& patterns);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_TRANSPOSED_CONVOLUTION_H
