// SPDX-License-Identifier: Apache-2.0
// How a kernel of the families with a CUDA form is cut into blocks and threads.
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_H

#include <optional>
#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::passes {

/// Why a kernel has no CUDA form; "" when it has one.
std::string whyNotOnCuda(kernel::FuncOp function);

/// Microseconds from the end of one kernel to the first result of the next, on an H200 as
/// runtime/backends/cuda/tuning.h has it.
inline constexpr double kKernelUs = 2.0;

/// Estimated microseconds of a launch, library call or copy on an H200: kernel.cost_us where it has
/// that (a kernel's own estimate, from the lowering), else kKernelUs and its bytes at the speed of
/// device memory; those of named extents count nothing.
double estimateOnCuda(mlir::Operation* statement);

/// Adds the tunables of the CUDA form to the schedule and sets the grid (kernel.blocks,
/// kernel.threads, kernel.cluster) and kernel.early_start for an architecture ("sm_90").
/// Precondition: the kernel has a CUDA form.
void scheduleForCuda(kernel::FuncOp function, llvm::StringRef arch);

/// A scheduled kernel as one of several in a launch: its blocks of so many threads.
struct PartGrid {
  int64_t blocks, threads;
  bool isFixed;  ///< the threads are, else another multiple of a warp will do

  int64_t blocksOf(int64_t otherThreads) const {
    return (blocks * threads + otherThreads - 1) / otherThreads;
  }
};
/// nullopt: it has to be a launch by itself.
std::optional<PartGrid> partGridOf(kernel::FuncOp function);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_H
