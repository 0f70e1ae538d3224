// SPDX-License-Identifier: Apache-2.0
// Family `gather_elements` (torch.gather): out[i0, .., id, ..] = in[i0, .., index[i0, .., id, ..],
// ..].
//
//   sl::gather_elements<GatherElementsTune{.rank}>(ctx, team, shape, in, index, out)
//
// Any strides. Indices as in gather_rows: outside [0, dimExtent) is an error, and nothing outside
// is read. In CUDA C++ a thread takes an element.
#ifndef STRAIGHTLINE_KERNELS_GATHER_ELEMENTS_H
#define STRAIGHTLINE_KERNELS_GATHER_ELEMENTS_H

#include "straightline/kernels/gather_rows.h"
#include "straightline/kernels/operands.h"

namespace sl {

struct GatherElementsTune {
  int rank = 1;
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
  int64_t number = threadNumber();
  int64_t at[3] = {};
  SL_UNROLL
  for (int d = T.rank - 1; d >= 0; --d) {
    const int64_t i = number % s.extent[d];
    number /= s.extent[d];
    SL_UNROLL
    for (int o = 0; o < 3; ++o) {
      at[o] += i * s.stride[o][d];
    }
  }
  if (number == 0) {
    out[at[2]] = in[at[0] + checkedIndex(int64_t(index[at[1]]), s.dimExtent) * s.dimStride];
  }
}

#else

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
  Cursor<T.rank, 3> at;
  at.seek(nest, nest.rank, part.begin);
  for (int64_t i = part.begin; i < part.end; ++i) {
    int64_t place = checkedIndex(ctx, int64_t(index[at.offset[1]]), s.dimExtent);
    out[at.offset[2]] = s.dimExtent == 0 ? E{} : in[at.offset[0] + place * s.dimStride];
    at.advance(nest, nest.rank);
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GATHER_ELEMENTS_H
