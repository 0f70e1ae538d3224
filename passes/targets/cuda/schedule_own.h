// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_OWN_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_OWN_H

#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes::cuda {

/// Kernels of users, whose grid is their own.
llvm::ArrayRef<FamilySchedule> ownSchedules();

}  // namespace straightline::passes::cuda

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_OWN_H
