// SPDX-License-Identifier: Apache-2.0
// Family `gather_elements` (torch.gather): out[i0, .., id, ..] = in[i0, .., index[i0, .., id, ..],
// ..].
//
//   sl::gather_elements<GatherElementsTune{.rank}>(ctx, team, shape, in, index, out)
//
// Any strides. Indices as in gather_rows: outside [0, dimExtent) is an error, and nothing outside
// is read. Contiguous indices are checked some at a time, with one branch; where one index stands
// for a contiguous run (it was expanded), the run is copied. In CUDA C++ a thread takes an element.
#ifndef STRAIGHTLINE_KERNELS_GATHER_ELEMENTS_H
#define STRAIGHTLINE_KERNELS_GATHER_ELEMENTS_H

#include "straightline/kernels/gather_rows.h"
#include "straightline/kernels/operands.h"

namespace sl {

struct GatherElementsTune {
  int rank = 1;
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct GatherElementsShape {
  int64_t extent[SL_MAX_RANK] = {};     ///< of index and out
  int64_t stride[3][SL_MAX_RANK] = {};  ///< elements: in (0 along the gathered dim), index, out
  int64_t dimExtent = 0;                ///< of `in` along the gathered dim
  int64_t dimStride = 0;                ///< of `in` along the gathered dim
};

#if defined(__CUDACC__)

template <GatherElementsTune T, class E, class I>
SL_INLINE void gather_elements(GatherElementsShape s, const E* in, const I* index, E* out) {
  int64_t at[3] = {};
  if (findElement<T.rank, T.firstBlock>(s.extent, s.stride, at)) {
    out[at[2]] = in[at[0] + checkedIndex(int64_t(index[at[1]]), s.dimExtent) * s.dimStride];
  }
}

#else

namespace gather_detail {

inline constexpr int kBlock = 16;  ///< elements whose indices are checked at once

/// Whether one of kBlock indices lies outside of [0, extent). An index is inside when the sign bits
/// of the index and of (extent - 1 - index) are both 0.
template <class I>
SL_INLINE bool anyOutside(const I* index, int64_t extent) {
  constexpr int N = kNativeLanes<int64_t>;
  using U = vec<uint64_t, N>;
  const uint64_t last = uint64_t(extent - 1);
  U seen{};
  SL_UNROLL
  for (int i = 0; i < kBlock; i += N) {
    const U place = bitcast<U>(__builtin_convertvector(load<N>(index + i), vec<int64_t, N>));
    seen |= place | (last - place);
  }
  return anyLane(Mask<int64_t, N>(bitcast<vec<int64_t, N> >(seen) < 0));
}

/// `count` neighbours along the innermost loop, whose indices and results are contiguous: kBlock at
/// a time up to a block with a wrong index, then one by one. IN: stride of `in` along them.
template <int64_t IN, class E, class I>
SL_INLINE void gatherBlocks(sl_ctx* ctx, const GatherElementsShape& s, int64_t count, const E* in,
                            const I* index, E* out) {
  int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    if (SL_UNLIKELY(anyOutside(index + i, s.dimExtent))) {
      break;
    }
    SL_UNROLL
    for (int64_t k = i; k < i + kBlock; ++k) {
      out[k] = in[k * IN + int64_t(index[k]) * s.dimStride];
    }
  }
  SL_NO_UNROLL
  for (; i < count; ++i) {
    const int64_t place = checkedIndex(ctx, int64_t(index[i]), s.dimExtent);
    out[i] = s.dimExtent == 0 ? E{} : in[i * IN + place * s.dimStride];
  }
}

/// One index for all neighbours, which are contiguous.
template <class E, class I>
SL_INLINE void gatherRow(sl_ctx* ctx, const GatherElementsShape& s, int64_t count, const E* in,
                         const I* index, E* out) {
  const int64_t place = checkedIndex(ctx, int64_t(*index), s.dimExtent);
  if (SL_UNLIKELY(s.dimExtent == 0)) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = E{};
    }
    return;
  }
  constexpr int N = kNativeLanes<E>;
  const E* from = in + place * s.dimStride;
  int64_t i = 0;
  for (; i + N <= count; i += N) {
    store(out + i, load<N>(from + i));
  }
  SL_NO_UNROLL
  for (; i < count; ++i) {
    out[i] = from[i];
  }
}

}  // namespace gather_detail

template <GatherElementsTune T, class E, class I>
SL_INLINE void gather_elements(sl_ctx* ctx, sl_team team, GatherElementsShape s, const E* in,
                               const I* index, E* out) {
  Nest<T.rank, 3> nest;
  for (int d = 0; d < T.rank; ++d) {
    int64_t strides[3] = {s.stride[0][d], s.stride[1][d], s.stride[2][d]};
    nest.append(s.extent[d], strides);
  }
  Range part = split(nest.count(), team, 1024);
  if (part.begin >= part.end) {
    return;
  }
  const int64_t inStep = nest.innerStride(0);
  const int64_t indexStep = nest.innerStride(1);
  const bool contiguous = nest.innerStride(2) == 1 && (inStep == 0 || inStep == 1) &&
                          (indexStep == 1 || (indexStep == 0 && inStep == 1));
  Cursor<T.rank, 3> at;
  if (!contiguous) {
    at.seek(nest, nest.rank, part.begin);
    for (int64_t i = part.begin; i < part.end; ++i) {
      int64_t place = checkedIndex(ctx, int64_t(index[at.offset[1]]), s.dimExtent);
      out[at.offset[2]] = s.dimExtent == 0 ? E{} : in[at.offset[0] + place * s.dimStride];
      at.advance(nest, nest.rank);
    }
    return;
  }
  const int64_t run = nest.innerExtent();
  const int dims = nest.rank - 1;
  at.seek(nest, dims, part.begin / run);
  int64_t first = part.begin % run;
  int64_t count = 0;
  for (int64_t i = part.begin; i < part.end; i += count) {
    count = minOf(run - first, part.end - i);
    const E* from = in + at.offset[0] + first * inStep;
    const I* places = index + at.offset[1] + first * indexStep;
    E* to = out + at.offset[2] + first;
    if (indexStep == 0) {
      gather_detail::gatherRow(ctx, s, count, from, places, to);
    } else if (inStep == 0) {
      gather_detail::gatherBlocks<0>(ctx, s, count, from, places, to);
    } else {
      gather_detail::gatherBlocks<1>(ctx, s, count, from, places, to);
    }
    first = 0;
    at.advance(nest, dims);
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GATHER_ELEMENTS_H
