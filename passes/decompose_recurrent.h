// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_RECURRENT_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_RECURRENT_H

#include <functional>

#include "mlir/IR/PatternMatch.h"
#include "passes/targets/target.h"

namespace straightline::passes {

/// Whether one kernel of the target runs all steps (Target::hasKernelFor).
using HasSequence = std::function<bool(const RecurrentProblem&)>;

/// lstm, gru, rnn -> for each layer and direction a linear over all steps, then lstm_sequence,
/// gru_sequence or rnn_sequence where `hasSequence`, otherwise an op.for (few steps of gru and rnn:
/// each step by itself). `avoidsSubnormals`: what such a step hands on is zero where it is
/// subnormal.
void addRecurrentPatterns(mlir::RewritePatternSet& patterns, const HasSequence& hasSequence,
                          bool avoidsSubnormals);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_RECURRENT_H
