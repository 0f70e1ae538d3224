// SPDX-License-Identifier: Apache-2.0
// Arithmetic on 16-bit floats, as PyTorch does it: each op computes in f32 and rounds its result
// once.
#ifndef STRAIGHTLINE_PASSES_WIDEN_HALF_H
#define STRAIGHTLINE_PASSES_WIDEN_HALF_H

#include <functional>

#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// f(x: bf16) -> to_dtype(f(to_dtype(x))) for elementwise ops, reductions, contractions and pools.
/// Data movement keeps its type. So do ops that `keeps` names: their kernels read 16-bit floats,
/// sum in f32 and round once.
void addWidenHalfPatterns(mlir::RewritePatternSet& patterns,
                          std::function<bool(mlir::Operation*)> keeps);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_WIDEN_HALF_H
