// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_LSTM_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_LSTM_H

#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// lstm -> linear over all steps and one op.for for each layer and direction.
void addLstmPatterns(mlir::RewritePatternSet& patterns);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_LSTM_H
