// SPDX-License-Identifier: Apache-2.0
// Family `matvec`: y[b0,b1,b2,rows] = epilogue(M * x) per batch item, where M is a tensor of the
// run: nothing is packed, each element of M is read once. M lies along its rows (a product with a
// column) or along its columns (a row times a matrix). A matrix of 16-bit floats is widened in
// registers, sums are those of float.
//
// Cost: what memory gives to `rows` streams. Along rows: dot products of that many rows at once
// (gemv's). Along columns: that many columns at once are added to sums which stay in the first
// cache, so that lines are read whole and pages one after the other (a vector of columns summed
// over all of k would touch a page for each step).
#ifndef STRAIGHTLINE_KERNELS_MATVEC_H
#define STRAIGHTLINE_KERNELS_MATVEC_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/gemv.h"

namespace sl {

/// rows: rows (columns) of the matrix read at once.
struct MatvecTune {
  int rows = 8;
};

/// Strides in elements. One of mRow and mCol is 1; x is contiguous. An epilogue operand is indexed
/// [b0][b1][b2][row].
struct MatvecShape {
  int64_t batch[3] = {};
  int64_t rows = 0, k = 0;
  int64_t mBatch[3] = {}, mRow = 0, mCol = 0;
  int64_t xBatch[3] = {};
  int64_t outBatch[3] = {}, outStep = 0;
  int64_t epilogueStride[kMaxEpilogueOperands][4] = {};
};

/// Where one batch item lies.
template <class M, class T>
struct MatvecItem {
  const M* matrix;
  const T* x;
  RowOffsets at;

  SL_INLINE_MEMBER MatvecItem(const MatvecShape& s, const M* m, const T* vector, int64_t item)
      : matrix(m), x(vector), at{} {
    const int64_t index[3] = {item / s.batch[2] / s.batch[1], item / s.batch[2] % s.batch[1],
                              item % s.batch[2]};
    SL_UNROLL
    for (int d = 0; d < 3; ++d) {
      matrix += index[d] * s.mBatch[d];
      x += index[d] * s.xBatch[d];
      at.output += index[d] * s.outBatch[d];
      SL_UNROLL
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        at.operand[j] += index[d] * s.epilogueStride[j][d];
      }
    }
  }
};

/// sums[0..count) += the C columns at `column`, each times its element of x.
template <int C, int N, class T, class M>
SL_INLINE void addColumns(const M* column, int64_t mCol, const T* x, int64_t count, T* sums) {
  vec<T, N> factor[C];
  SL_UNROLL
  for (int c = 0; c < C; ++c) {
    factor[c] = splat<vec<T, N>>(x[c]);
  }
  int64_t i = 0;
  SL_NO_UNROLL
  for (; i + N <= count; i += N) {
    vec<T, N> sum = load<N>(sums + i);
    SL_UNROLL
    for (int c = 0; c < C; ++c) {
      sum = fma(cast<T>(load<N>(column + c * mCol + i)), factor[c], sum);
    }
    store(sums + i, sum);
  }
  if (i < count) {
    vec<T, N> sum = load<N>(sums + i);
    SL_UNROLL
    for (int c = 0; c < C; ++c) {
      sum = fma(cast<T>(loadLanes<N>(column + c * mCol + i, 1, int(count - i))), factor[c], sum);
    }
    store(sums + i, sum);
  }
}

/// pointers: epilogue operands, then outputs.
template <MatvecTune Tune, class Epilogue, class M, class T, class... P>
SL_INLINE void matvec(sl_ctx*, sl_team team, MatvecShape s, Epilogue epilogue, const M* matrix,
                      const T* x, P... pointers) {
  constexpr int N = kNativeLanes<T>;
  constexpr int R = Tune.rows;
  static_assert(N % R == 0);
  // rows whose sums are kept: a quarter of the first cache or less
  constexpr int64_t kBlock = 8192 / sizeof(T);
  const auto ops = epilogueOperands(pointers...);
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][3], s.epilogueStride[1][3],
                                               s.epilogueStride[2][3], s.epilogueStride[3][3]};
  const int64_t strips = ceilDiv(s.rows, N);
  const Range mine = split(s.batch[0] * s.batch[1] * s.batch[2] * strips, team, 1);
  SL_NO_UNROLL
  for (int64_t unit = mine.begin; unit < mine.end;) {
    const int64_t strip = unit % strips;
    const int64_t many = minOf(minOf(strips - strip, mine.end - unit), kBlock / N);
    const int64_t first = strip * N;
    const int64_t count = minOf(s.rows - first, many * N);
    const MatvecItem<M, T> item(s, matrix, x, unit / strips);
    const M* from = item.matrix + first * s.mRow;
    alignas(64) T sums[kBlock];
    if (s.mCol == 1) {
      SL_NO_UNROLL
      for (int64_t r = 0; r < count; r += R) {
        dotRows<R, 1, N>(item.x, 0, from + r * s.mRow, s.mRow, s.k, minOf(R, count - r), sums + r);
      }
    } else {
      SL_NO_UNROLL
      for (int64_t i = 0; i < count; i += N) {
        store(sums + i, vec<T, N>{});
      }
      int64_t k = 0;
      SL_NO_UNROLL
      for (; k + R <= s.k; k += R) {
        addColumns<R, N>(from + k * s.mCol, s.mCol, item.x + k, count, sums);
      }
      SL_NO_UNROLL
      for (; k < s.k; ++k) {
        addColumns<1, N>(from + k * s.mCol, s.mCol, item.x + k, count, sums);
      }
    }
    SL_NO_UNROLL
    for (int64_t i = 0; i < count; i += N) {
      const int64_t lanes = minOf(N, count - i);
      finish<N>(epilogue, ops, loadLanes<N>(sums + i, 1, int(lanes)), item.at, steps, first + i,
                s.outStep, lanes);
    }
    unit += many;
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_MATVEC_H
