// SPDX-License-Identifier: Apache-2.0
// Family `zero_border`: zeroes the elements kept around the extents of a bordered buffer, and
// nothing else.
//
//   sl::zero_border<ZeroBorderTune{.rank}>(ctx, team, shape, out)      `out` points at element 0 of
//   the extents
//
// Along dim d the buffer holds low[d] elements before the extent and high[d] after it. The border
// is cut into boxes: for each dim its two sides, with the dims before it inside the extents and the
// dims after it in full.
#ifndef STRAIGHTLINE_KERNELS_ZERO_BORDER_H
#define STRAIGHTLINE_KERNELS_ZERO_BORDER_H

#include "straightline/kernels/fill.h"

namespace sl {

struct ZeroBorderTune {
  int rank = 1;
};

struct ZeroBorderShape {
  int64_t extent[SL_MAX_RANK] = {};
  int64_t stride[SL_MAX_RANK] = {};  ///< elements
  int64_t low[SL_MAX_RANK] = {};
  int64_t high[SL_MAX_RANK] = {};
};

template <ZeroBorderTune T, class E>
SL_INLINE void zero_border(sl_ctx* ctx, sl_team team, ZeroBorderShape s, E* out) {
  for (int box = 0; box < 2 * T.rank; ++box) {
    int dim = box / 2;
    bool after = box % 2 != 0;
    FillShape part;
    E* corner = out;
    for (int d = 0; d < T.rank; ++d) {
      part.stride[d] = s.stride[d];
      int64_t first = d < dim ? 0 : d > dim || !after ? -s.low[d] : s.extent[d];
      part.extent[d] = d < dim   ? s.extent[d]
                       : d > dim ? s.low[d] + s.extent[d] + s.high[d]
                       : after   ? s.high[d]
                                 : s.low[d];
      corner += first * s.stride[d];
    }
    if (part.extent[dim] > 0) {
      fill<FillTune{.rank = T.rank}>(
          ctx, team, part,
          [](auto& y) SL_LAMBDA { y = typename RemoveReference<decltype(y)>::type{}; }, corner);
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_ZERO_BORDER_H
