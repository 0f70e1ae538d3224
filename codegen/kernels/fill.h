// SPDX-License-Identifier: Apache-2.0
// Family `fill`: every element of a strided view gets the same value.
//
//   sl::fill<FillTune{.rank}>(ctx, team, shape, f, out)        f(auto& y): y = sl::constant(y,
//   value)
#ifndef STRAIGHTLINE_KERNELS_FILL_H
#define STRAIGHTLINE_KERNELS_FILL_H

#include "straightline/kernels/pointwise.h"

namespace sl {

struct FillTune {
  int rank = 0;
};

struct FillShape {
  int64_t extent[SL_MAX_RANK] = {};
  int64_t stride[SL_MAX_RANK] = {};  ///< elements
};

/// The same as a pointwise kernel without inputs.
SL_INLINE constexpr PointwiseShape pointwiseShapeOf(const FillShape& s) {
  PointwiseShape shape;
  for (int d = 0; d < SL_MAX_RANK; ++d) {
    shape.extent[d] = s.extent[d];
    shape.stride[0][d] = s.stride[d];
  }
  return shape;
}

#if defined(__CUDACC__)

/// A thread an element.
template <FillTune T, class F, class E>
SL_INLINE void fill(FillShape s, F f, E* out) {
  pointwise<PointwiseTune{.rank = T.rank, .inputs = 0}>(pointwiseShapeOf(s), f, out);
}

#else

template <FillTune T, class F, class E>
SL_INLINE void fill(sl_ctx* ctx, sl_team team, FillShape s, F f, E* out) {
  pointwise<PointwiseTune{.rank = T.rank, .inputs = 0}>(ctx, team, pointwiseShapeOf(s), f, out);
}
template <FillTune T, FillShape S, class F, class E>
SL_INLINE void fill(sl_ctx* ctx, sl_team team, Fixed<S>, F f, E* out) {
  pointwise<PointwiseTune{.rank = T.rank, .inputs = 0}>(ctx, team, Fixed<pointwiseShapeOf(S)>{}, f,
                                                        out);
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_FILL_H
