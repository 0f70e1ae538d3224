// SPDX-License-Identifier: Apache-2.0
// How a kernel of the families with a CUDA form is cut into blocks and threads.
#ifndef STRAIGHTLINE_PASSES_CUDA_SCHEDULE_H
#define STRAIGHTLINE_PASSES_CUDA_SCHEDULE_H

#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::passes {

/// Why a kernel has no CUDA form; "" when it has one.
std::string whyNotOnCuda(kernel::FuncOp function);

/// Blocks that can read each other's shared memory on every device of an architecture ("sm_90"); 1 before clusters. (16, which an
/// H200 can be asked for, took longer than 8 for rows of 150,000: seven such clusters run at once.)
int64_t largestCluster(llvm::StringRef arch);

/// Adds the tunables of the CUDA form to the schedule and sets the grid (kernel.blocks, kernel.threads, kernel.cluster) for
/// an architecture ("sm_90"). Precondition: it has one.
void scheduleForCuda(kernel::FuncOp function, llvm::StringRef arch);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_CUDA_SCHEDULE_H
