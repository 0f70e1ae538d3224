// SPDX-License-Identifier: Apache-2.0
// Family `gemv_group`: up to kMaxParts results C_p[M,N_p] = epilogue_p(A * W_p^T) of few rows in
// one launch, where all parts read the same A (queries, keys and values; or one product alone). A
// part may have two weights, whose products are combined by its epilogue (SwiGLU: silu(A * W_0^T) *
// (A * W_1^T)). A may be an expression of rows in memory, preceded by sums or maxima over each row
// (a norm). Nothing is copied or concatenated: each part has its own weights, sizes, epilogue
// operands and result. For CUDA devices (cuda_gemv_group.h).
//
//   sl::gemv_group<GemvGroupTune{...}>(shape, lambdas..., rowInputs..., weights...,
//   epilogueOperands..., outputs...)
//
// Lambdas, in this order:
//   stage i      (elements of all row inputs..., r0 .. r(i-1), auto& value)     as in row_reduction
//   element      (elements of all row inputs..., r0 .. , auto& a)               one element of A,
//                of the weights' type
//   epilogue p   (acc of the first weight, .., operands of part p..., auto& y)
// Weights, operands and outputs: those of part 0, then of part 1, ...
#ifndef STRAIGHTLINE_KERNELS_GEMV_GROUP_H
#define STRAIGHTLINE_KERNELS_GEMV_GROUP_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/row_reduction.h"

namespace sl {

inline constexpr int kMaxParts = 4;
inline constexpr int kMaxPartWeights = 2;
inline constexpr int kMaxRowInputs = 6;

struct GemvGroupTune {
  /// results of a part that `lanes` threads compute together, for all rows of A
  int rows = 1;
  int lanes = 32;     ///< threads that share a reduction: a power of two, at most 32
  int threads = 256;  ///< of a block
  /// pieces of 16 bytes of each row of a weight that a thread requests at once
  int unroll = 1;
  int mr = 1;     ///< M
  int depth = 1;  ///< K
  int parts = 1;
  int weights = 1;               ///< of a part
  int operands[kMaxParts] = {};  ///< of the epilogue of each part
  /// 1: the run writes no weight, so weights may be read before the previous kernel has ended
  int early = 0;
  int inputs = 1;                       ///< of the rows of A
  int earlyInputs[kMaxRowInputs] = {};  ///< 1: the same for a row input
  int stages = 0;
  Combine combine[4] = {};
  Value value[4] = {};
  int rowThreads = 32;  ///< that share a row of A while it is made: a warp, or all of the block
  int vector = 1;       ///< neighbours that a thread computes at once
};

/// Elements. stride: of each row input, along rows and along K. Weights [n][ldw], results [m][ldc].
struct GemvGroupShape {
  int64_t m = 0, k = 0;
  int64_t stride[kMaxRowInputs][2] = {};
  int64_t n[kMaxParts] = {};
  int64_t ldw[kMaxParts][kMaxPartWeights] = {};
  int64_t ldc[kMaxParts] = {};
  int64_t epilogueStride[kMaxParts][kMaxEpilogueOperands][2] = {};
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_gemv_group.h"
#endif

#endif  // STRAIGHTLINE_KERNELS_GEMV_GROUP_H
