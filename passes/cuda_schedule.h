// SPDX-License-Identifier: Apache-2.0
// How a kernel of the families with a CUDA form is cut into blocks and threads.
#ifndef STRAIGHTLINE_PASSES_CUDA_SCHEDULE_H
#define STRAIGHTLINE_PASSES_CUDA_SCHEDULE_H

#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::passes {

/// Why a kernel has no CUDA form; "" when it has one.
std::string whyNotOnCuda(kernel::FuncOp function);

/// Whether blocks of an architecture ("sm_90") can read each other's shared memory.
bool hasClusters(llvm::StringRef arch);

/// Adds the tunables of the CUDA form to the schedule and sets the grid (kernel.blocks, kernel.threads, kernel.cluster) for
/// an architecture ("sm_90"). Precondition: it has one.
void scheduleForCuda(kernel::FuncOp function, llvm::StringRef arch);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_CUDA_SCHEDULE_H
