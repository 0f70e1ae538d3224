// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_PLAN_RECURRENT_SEQUENCE_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_PLAN_RECURRENT_SEQUENCE_H

#include <optional>

#include "passes/targets/cuda/architecture.h"
#include "passes/targets/target.h"

namespace straightline::passes::cuda {

/// How the kernel for all steps of one direction (codegen/kernels/cuda_recurrent_sequence.h, whose
/// words these are) divides its work.
struct RecurrentSequencePlan {
  int64_t lanes = 8, blocks = 1, rows = 1, threads = 32;
  double stepUs = 0;  ///< estimated
};

/// The plan that is estimated to be fastest; nullopt where the weight does not fit into the
/// registers of a cluster, or the batch into the clusters of a device.
std::optional<RecurrentSequencePlan> planRecurrentSequence(const RecurrentProblem& problem,
                                                           const CudaArchitecture& device);

}  // namespace straightline::passes::cuda

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_PLAN_RECURRENT_SEQUENCE_H
