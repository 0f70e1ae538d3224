// SPDX-License-Identifier: Apache-2.0
// How a device orders rows (codegen/kernels/cuda_topk.h): in one launch where a block holds a row,
// else in two.
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_PLAN_TOPK_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_PLAN_TOPK_H

#include <string>

#include "passes/targets/cuda/architecture.h"
#include "passes/targets/target.h"

namespace straightline::passes::cuda {

/// The nearest problem that two launches solve; "": they solve this one.
std::string nearestTopk(const TopkProblem& problem, const CudaArchitecture& device);

/// Precondition: nearestTopk says "".
TopkPlan planTopk(const TopkProblem& problem, const CudaArchitecture& device);

}  // namespace straightline::passes::cuda

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_PLAN_TOPK_H
