// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_RECURRENT_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_RECURRENT_H

#include <optional>

#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// How the kernel for all steps of one direction (family recurrent_sequence, whose words these are)
/// divides its work.
struct RecurrentSequencePlan {
  int64_t lanes = 8, blocks = 1, rows = 1, threads = 32;
  double stepUs = 0;  ///< estimated
};

/// The one that is estimated to be fastest, with at most `largestCluster` blocks; none where the
/// weight does not fit into the registers of a cluster, or the batch into the clusters of a device.
/// `gates`: rows of the weight a unit, 4 of lstm, 3 of gru, 1 of rnn.
std::optional<RecurrentSequencePlan> planRecurrentSequence(int64_t gates, int64_t hidden,
                                                           int64_t batch, mlir::Type element,
                                                           int64_t largestCluster);

/// lstm, gru, rnn -> for each layer and direction a linear over all steps, then an op.for (few
/// steps of gru and rnn: each step by itself), or lstm_sequence, gru_sequence or rnn_sequence where
/// there is a plan for it with `largestCluster` blocks (0: where there is no such kernel).
void addRecurrentPatterns(mlir::RewritePatternSet& patterns, int64_t largestCluster);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_RECURRENT_H
