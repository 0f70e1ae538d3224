// SPDX-License-Identifier: Apache-2.0
// Family `scatter_rows` (index_copy, index_add): out[o, index[m], :] = src[o, m, :], or += with
// `add`.
//
//   sl::scatter_rows<ScatterRowsTune{.add = 0}>(ctx, team, shape, index, src, out)
//
// `out` holds the old values already. The innermost run is contiguous in both. Index type int32 or
// int64. Rows are written in the order of the index, also by a team, which splits outer positions
// and pieces of the run: where two are equal the last one stays, and sums have one order. An index
// outside [0, extent) (negative ones too, as in torch) is reported as SL_INDEX_ERROR (index, 0,
// extent - 1) and its row is left out. Element types of src and out are equal. In CUDA C++ a thread
// takes one element of every row, so that the order is the same, and an index outside ends the
// kernel.
#ifndef STRAIGHTLINE_KERNELS_SCATTER_ROWS_H
#define STRAIGHTLINE_KERNELS_SCATTER_ROWS_H

#include "straightline/kernels/gather_rows.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct ScatterRowsTune {
  int add = 0;         ///< 1: adds to what is there
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct ScatterRowsShape {
  int64_t outer = 1;     ///< o
  int64_t count = 0;     ///< m
  int64_t run = 1;       ///< elements of one row
  int64_t extent = 0;    ///< rows of `out`
  int64_t srcOuter = 0;  ///< strides in elements
  int64_t srcRow = 0;
  int64_t outOuter = 0;
  int64_t outRow = 0;
};

#if defined(__CUDACC__)

template <ScatterRowsTune T, class I, class E>
SL_INLINE void scatter_rows(ScatterRowsShape s, const I* index, const E* src, E* out) {
  const int64_t number = threadNumber<T.firstBlock>();
  const int64_t k = number % s.run;
  const int64_t o = number / s.run;
  if (o >= s.outer) {
    return;
  }
  const E* from = src + o * s.srcOuter + k;
  E* const first = out + o * s.outOuter + k;
  for (int64_t m = 0; m < s.count; ++m) {
    E* const to = first + checkedIndex(int64_t(index[m]), s.extent) * s.outRow;
    if constexpr (T.add != 0) {
      if constexpr (kPacked16<E>) {
        *to = cast<E>(cast<float>(*to) + cast<float>(from[m * s.srcRow]));
      } else {
        *to = E(*to + from[m * s.srcRow]);
      }
    } else {
      *to = from[m * s.srcRow];
    }
  }
}

#else

template <ScatterRowsTune T, class I, class E>
SL_INLINE void scatter_rows(sl_ctx* ctx, sl_team team, ScatterRowsShape s, const I* index,
                            const E* src, E* out) {
  constexpr int64_t kPiece = 1024;  // elements of a row that one thread takes at least
  const int64_t pieces = ceilDiv(s.run, kPiece);
  const int64_t bytes = s.count * minOf(s.run, kPiece) * int64_t(sizeof(E));
  const Range part = split(s.outer * pieces, team, ceilDiv(4096, maxOf(bytes, 1)));
  for (int64_t i = part.begin; i < part.end; ++i) {
    const int64_t first = i % pieces * kPiece;
    const int64_t last = minOf(first + kPiece, s.run);
    for (int64_t m = 0; m < s.count; ++m) {
      const int64_t row = int64_t(index[m]);
      if (SL_UNLIKELY(uint64_t(row) >= uint64_t(s.extent))) {
        sl_fail_at(ctx, SL_INDEX_ERROR, row, 0, s.extent - 1);
        continue;
      }
      const E* from = src + i / pieces * s.srcOuter + m * s.srcRow;
      E* to = out + i / pieces * s.outOuter + row * s.outRow;
      for (int64_t k = first; k < last; ++k) {
        if constexpr (T.add != 0) {
          to[k] = E(to[k] + from[k]);
        } else {
          to[k] = from[k];
        }
      }
    }
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_SCATTER_ROWS_H
