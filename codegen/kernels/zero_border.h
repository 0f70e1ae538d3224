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

/// One of the 2 * rank boxes that make up the border, and where it begins (elements).
struct BorderBox {
  FillShape shape;
  int64_t first = 0;
};
SL_INLINE constexpr BorderBox borderBox(const ZeroBorderShape& s, int rank, int box) {
  int dim = box / 2;
  bool after = box % 2 != 0;
  BorderBox part;
  for (int d = 0; d < rank; ++d) {
    part.shape.stride[d] = s.stride[d];
    int64_t first = d < dim ? 0 : d > dim || !after ? -s.low[d] : s.extent[d];
    part.shape.extent[d] = d < dim   ? s.extent[d]
                           : d > dim ? s.low[d] + s.extent[d] + s.high[d]
                           : after   ? s.high[d]
                                     : s.low[d];
    part.first += first * s.stride[d];
  }
  return part;
}

template <ZeroBorderTune T, class E>
SL_INLINE void zero_border(sl_ctx* ctx, sl_team team, ZeroBorderShape s, E* out) {
  for (int box = 0; box < 2 * T.rank; ++box) {
    BorderBox part = borderBox(s, T.rank, box);
    if (part.shape.extent[box / 2] > 0) {
      fill<FillTune{.rank = T.rank}>(
          ctx, team, part.shape,
          [](auto& y) SL_LAMBDA { y = typename RemoveReference<decltype(y)>::type{}; },
          out + part.first);
    }
  }
}
template <ZeroBorderTune T, ZeroBorderShape S, class E>
SL_INLINE void zero_border(sl_ctx* ctx, sl_team team, Fixed<S>, E* out) {
  unrolled<2 * T.rank>([&](auto box) SL_LAMBDA {
    constexpr BorderBox kPart = borderBox(S, T.rank, box.value);
    if constexpr (kPart.shape.extent[box.value / 2] > 0) {
      fill<FillTune{.rank = T.rank}>(
          ctx, team, Fixed<kPart.shape>{},
          [](auto& y) SL_LAMBDA { y = typename RemoveReference<decltype(y)>::type{}; },
          out + kPart.first);
    }
  });
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_ZERO_BORDER_H
