// SPDX-License-Identifier: Apache-2.0
// Family `transpose`: a batch of matrices with rows and columns exchanged, in square blocks that
// are turned in registers. In CUDA C++ a block turns a square of 32 x 32 in shared memory.
//
//   sl::transpose<TransposeTune{.block}>(ctx, team, shape, in, out)
//   out[b][c][r] = in[b][r][c], contiguous along c in `in` and along r in `out`; they do not
//   overlap
#ifndef STRAIGHTLINE_KERNELS_TRANSPOSE_H
#define STRAIGHTLINE_KERNELS_TRANSPOSE_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/turn.h"

namespace sl {

struct TransposeTune {
  /// rows and columns of a block, a power of two; at most the lanes of a register
  int block = 16;
};

struct TransposeShape {
  int64_t batch = 1, rows = 0, cols = 0;
  int64_t inBatch = 0, inRow = 0;    ///< strides, elements
  int64_t outBatch = 0, outCol = 0;  ///< strides, elements
  /// Where the batch is one of batches: matrices of each, which have the strides above, and the
  /// strides from one to the next; 0: it is none.
  int64_t inner = 0, inOuter = 0, outOuter = 0;
};

/// Where a matrix of the batch begins in memory with these strides.
SL_INLINE int64_t placeOfMatrix(int64_t matrix, int64_t inner, int64_t stride, int64_t outer) {
  return inner > 0 ? matrix % inner * stride + matrix / inner * outer : matrix * stride;
}

#if defined(__CUDACC__)

/// The grid has a block of 256 threads for each square, those of one row of squares side by side.
template <TransposeTune T, class E>
SL_INLINE void transpose(TransposeShape s, const E* in, E* out) {
  constexpr int kSide = 32;
  constexpr int kLines = 8;  // of a square that are moved at once
  __shared__ E square[kSide][kSide + 1];
  const int64_t across = ceilDiv(s.cols, kSide);
  const int64_t down = ceilDiv(s.rows, kSide);
  const int64_t number = blockIdx.x;
  const int64_t column = number % across * kSide;
  const int64_t row = number / across % down * kSide;
  const int64_t b = number / across / down;
  const int lane = int(threadIdx.x) % kSide;
  const int line = int(threadIdx.x) / kSide;
  SL_UNROLL
  for (int i = line; i < kSide; i += kLines) {
    if (row + i < s.rows && column + lane < s.cols) {
      square[i][lane] =
          in[placeOfMatrix(b, s.inner, s.inBatch, s.inOuter) + (row + i) * s.inRow + column + lane];
    }
  }
  __syncthreads();
  SL_UNROLL
  for (int i = line; i < kSide; i += kLines) {
    if (column + i < s.cols && row + lane < s.rows) {
      out[placeOfMatrix(b, s.inner, s.outBatch, s.outOuter) + (column + i) * s.outCol + row +
          lane] = square[lane][i];
    }
  }
}

#else

template <TransposeTune T, class E>
SL_INLINE void transpose(sl_ctx*, sl_team team, TransposeShape s, const E* in, E* out) {
  constexpr int kMost = kVectorBytes / int(sizeof(E));
  constexpr int N = T.block < kMost ? T.block : kMost;
  // of nothing there may be no address
  const int64_t strips = s.rows > 0 ? ceilDiv(s.cols, N) : 0;
  Range part = split(s.batch * strips, team, 1);
  for (int64_t i = part.begin; i < part.end; ++i) {
    const int64_t b = i / strips, c = i % strips * N;
    const E* source = in + placeOfMatrix(b, s.inner, s.inBatch, s.inOuter) + c;
    E* target = out + placeOfMatrix(b, s.inner, s.outBatch, s.outOuter) + c * s.outCol;
    const int64_t cols = minOf(int64_t{N}, s.cols - c);
    turnSquare<N>(source, s.inRow, target, s.outCol, s.rows, cols);
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_TRANSPOSE_H
