// SPDX-License-Identifier: Apache-2.0
// What schedules and estimates ask of an NVIDIA architecture. A program is compiled for an
// architecture, not for the device that may be here, so that the same target always gives the same
// text: where devices of one architecture differ, the one that is named stands for all. A wrong
// number costs time, never an answer.
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_ARCHITECTURE_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_ARCHITECTURE_H

#include <cstdint>

#include "llvm/ADT/StringRef.h"

namespace straightline {

struct CudaArchitecture {
  int number;          ///< 90 for "sm_90"
  int64_t processors;  ///< of the device that stands for all
  int64_t threads;     ///< that one processor holds at once
  /// Blocks that can read each other's shared memory on every device of the architecture; 1 before
  /// clusters. (16, which an H200 can be asked for, took longer than 8 for rows of 150,000: seven
  /// such clusters run at once.)
  int64_t largestCluster;
  /// Words of a row that each of 1,024 threads, which have 64 registers, keeps without spilling
  /// others (NVRTC 13.5, row_reduction).
  int64_t keptByMany = 32;

  /// Threads that the device holds at once.
  int64_t allThreads() const { return processors * threads; }
};

/// Threads of a processor and clusters: CUDA Programming Guide, "Compute Capabilities". Processors:
/// NVIDIA's data sheets.
inline constexpr CudaArchitecture kCudaArchitectures[] = {
    {75, 40, 1024, 1},        // T4
    {80, 108, 2048, 1},       // A100
    {86, 82, 1536, 1},        // RTX 3090 (A10: 72)
    {87, 16, 1536, 1},        // AGX Orin
    {89, 128, 1536, 1},       // RTX 4090 (L4: 58, L40: 142)
    {90, 132, 2048, 8},       // H100 and H200 (SXM): the only one that anything was measured on
    {100, 148, 2048, 8, 16},  // B200
    // Thor; no more than some of its 20 processors are near each other
    {110, 20, 1536, 4, 16},
    {120, 170, 1536, 8, 16},  // RTX 5090
    {121, 48, 1536, 8, 16},   // GB10
};

/// The number in "sm_75" or "sm_90a"; 90 for any other text.
inline int cudaNumber(llvm::StringRef arch) {
  int number = 90;
  if (arch.consume_front("sm_")) {
    arch.consumeInteger(10, number);
  }
  return number;
}

/// The row of "sm_90"; for an architecture that is not listed, the last row before it.
inline const CudaArchitecture& cudaArchitecture(llvm::StringRef arch) {
  const int number = cudaNumber(arch);
  const CudaArchitecture* found = &kCudaArchitectures[0];
  for (const CudaArchitecture& each : kCudaArchitectures) {
    found = each.number <= number ? &each : found;
  }
  return *found;
}

/// The first with instructions of tensor cores for bfloat16 and TF32 (PTX ISA, mma).
inline constexpr int kFirstWithTf32 = 80;

/// Whether programs for `arch` have instructions for warpgroups (wgmma) and TMA's maps made on the
/// device: machine code of Hopper, not text for later devices.
inline bool hasWarpgroups(llvm::StringRef arch) {
  return arch.starts_with("sm_") && cudaNumber(arch) == 90;
}

/// The first with a form for it alone ("sm_90a"), and the first with one for its family
/// ("sm_100f"): CUDA Programming Guide, "Compute Capabilities". NVRTC knows no other suffix.
/// python/straightline/_targets.py has the same.
inline constexpr int kFirstWithOwnFeatures = 90;
inline constexpr int kFirstWithFamilies = 100;

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_ARCHITECTURE_H
