// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_AVERAGES_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_AVERAGES_H

#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// mean, var and layer_norm over named extents -> sums over a number that is made of the extents.
/// Over static ones they stay: decompose-reductions writes them with a literal.
void addAveragePatterns(mlir::RewritePatternSet& patterns);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_AVERAGES_H
