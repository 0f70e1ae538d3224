// SPDX-License-Identifier: Apache-2.0
// Family `matmul_group`: up to kMaxParts results C_p[M,N_p] = epilogue_p(A * W_p^T) of many rows in
// one launch, where all parts read the same A (queries, keys and values). A part may have two
// weights, whose products are combined by its epilogue (SwiGLU). Nothing is copied or concatenated.
// For Hopper (cuda_matmul_group.h).
//
//   sl::matmul_group<MatmulGroupTune{...}>(shape, epilogues..., a, weights...,
//   epilogueOperands..., outputs..., workspace)
//
// Epilogue p: (acc of the first weight, .., operands of part p..., auto& y). Weights, operands and
// outputs: those of part 0, then of part 1, ...; the workspace has 128 bytes for each operand's map
// of each block, and 128 more.
#ifndef STRAIGHTLINE_KERNELS_MATMUL_GROUP_H
#define STRAIGHTLINE_KERNELS_MATMUL_GROUP_H

#include "straightline/kernels/gemv_group.h"
#include "straightline/kernels/matmul.h"

namespace sl {

struct MatmulGroupTune {
  int rows = 128;    ///< rows x columns of the result that a block makes
  int columns = 64;  ///< of each weight
  int threads = 288;
  int stages = 4;  ///< tiles of A and of the weights that a block keeps
  int tf32 = 0;    ///< 1: factors are rounded to 10 bits
  int early = 0;   ///< as MatmulTune::early; 2 where no kernel of a run writes a weight
  int parts = 1;
  int weights = 1;               ///< of a part
  int operands[kMaxParts] = {};  ///< of the epilogue of each part
};

/// Elements. A [m][k] with strides, weights [n][ldw], results [m][ldc].
struct MatmulGroupShape {
  int64_t m = 0, k = 0;
  int64_t aRow = 0, aCol = 0;
  int64_t n[kMaxParts] = {};
  int64_t ldw[kMaxParts][kMaxPartWeights] = {};
  int64_t ldc[kMaxParts] = {};
  int64_t epilogueStride[kMaxParts][kMaxEpilogueOperands][2] = {};
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_matmul_group.h"
#endif

#endif  // STRAIGHTLINE_KERNELS_MATMUL_GROUP_H
