// SPDX-License-Identifier: Apache-2.0
// Family `gather_rows` (embedding, index_select): out[o, m, :] = in[o, index[m], :].
//
//   sl::gather_rows<GatherRowsTune{}>(ctx, team, shape, in, index, out)
//
// The innermost run is contiguous in both. Index type int32 or int64. An index outside [0, extent)
// (negative ones too, as in torch) is reported as SL_INDEX_ERROR (index, 0, extent - 1) and nothing
// outside is read: the run is taken from a clamped place (zeroes when extent is 0). Copies bits:
// element types of in and out are equal. The team splits (o, m) pairs. In CUDA C++ a thread takes
// 16 bytes of a row, and an index outside ends the kernel as a failed assertion does.
#ifndef STRAIGHTLINE_KERNELS_GATHER_ROWS_H
#define STRAIGHTLINE_KERNELS_GATHER_ROWS_H

#include "straightline/kernels/operands.h"

namespace sl {

struct GatherRowsTune {
  int unused = 0;      ///< no choice to make yet
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct GatherRowsShape {
  int64_t outer = 1;    ///< o
  int64_t count = 0;    ///< m
  int64_t run = 1;      ///< elements of one row
  int64_t extent = 0;   ///< rows of `in`
  int64_t inOuter = 0;  ///< strides in elements
  int64_t inRow = 0;
  int64_t indexStride = 1;
  int64_t outOuter = 0;
  int64_t outRow = 0;
};

#if defined(__CUDACC__)

/// `index`, which lies in [0, extent) or ends the kernel.
SL_INLINE int64_t checkedIndex(int64_t index, int64_t extent) {
  failUnless(uint64_t(index) < uint64_t(extent), "an index lies outside of what is indexed");
  return index;
}

template <GatherRowsTune T, class E, class I>
SL_INLINE void gather_rows(GatherRowsShape s, const E* in, const I* index, E* out) {
  constexpr int N = 16 / int(sizeof(E));
  const int64_t pieces = ceilDiv(s.run, N);
  const int64_t number = threadNumber<T.firstBlock>();
  if (number >= s.outer * s.count * pieces) {
    return;
  }
  const int64_t k = number % pieces * N;
  const int64_t m = number / pieces % s.count;
  const int64_t o = number / pieces / s.count;
  const int count = int(minOf(N, s.run - k));
  const int64_t row = checkedIndex(int64_t(index[m * s.indexStride]), s.extent);
  E values[N];
  loadRun<N>(values, in + o * s.inOuter + row * s.inRow + k, 1, count);
  storeRun<N>(out + o * s.outOuter + m * s.outRow + k, 1, count, values);
}

#else

/// `index` when it lies in [0, extent), else reports it and gives a place that does (0 when there
/// is none).
SL_INLINE int64_t checkedIndex(sl_ctx* ctx, int64_t index, int64_t extent) {
  if (SL_UNLIKELY(uint64_t(index) >= uint64_t(extent))) {
    sl_fail_at(ctx, SL_INDEX_ERROR, index, 0, extent - 1);
    return index < 0 || extent == 0 ? 0 : extent - 1;
  }
  return index;
}

template <GatherRowsTune T, class E, class I>
SL_INLINE void gather_rows(sl_ctx* ctx, sl_team team, GatherRowsShape s, const E* in,
                           const I* index, E* out) {
  constexpr int N = kNativeLanes<E>;
  int64_t grain = ceilDiv(4096, maxOf(s.run * int64_t(sizeof(E)), 1));
  Range part = split(s.outer * s.count, team, grain);
  for (int64_t i = part.begin; i < part.end; ++i) {
    int64_t o = i / s.count;
    int64_t m = i % s.count;
    int64_t row = checkedIndex(ctx, int64_t(index[m * s.indexStride]), s.extent);
    E* to = out + o * s.outOuter + m * s.outRow;
    const E* from = in + o * s.inOuter + row * s.inRow;
    if (SL_UNLIKELY(s.extent == 0)) {
      for (int64_t k = 0; k < s.run; ++k) {
        to[k] = E{};
      }
      continue;
    }
    int64_t k = 0;
    for (; k + N <= s.run; k += N) {
      store(to + k, load<N>(from + k));
    }
    for (; k < s.run; ++k) {
      to[k] = from[k];
    }
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GATHER_ROWS_H
