// SPDX-License-Identifier: Apache-2.0
// Family `iota`: out[i] = f(i), for ranges, positions and tables of angles.
//
//   sl::iota<IotaTune{}>(ctx, team, shape, f, out)       f(i, auto& y): i is an int64 value (lanes
//   i, i + 1, ...)
#ifndef STRAIGHTLINE_KERNELS_IOTA_H
#define STRAIGHTLINE_KERNELS_IOTA_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct IotaTune {
  int unused = 0;      ///< no choice to make yet
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct IotaShape {
  int64_t count = 0;
  int64_t stride = 1;  ///< elements
};

#if defined(__CUDACC__)

/// A thread an element.
template <IotaTune T, class F, class E>
SL_INLINE void iota(IotaShape s, F f, E* out) {
  const int64_t i = threadNumber<T.firstBlock>();
  if (i < s.count) {
    E y{};
    f(i, y);
    out[i * s.stride] = y;
  }
}

#else

template <IotaTune T, class F, class E>
SL_INLINE void iota(sl_ctx*, sl_team team, IotaShape s, F f, E* out) {
  constexpr int N = lanesFor<int64_t>();
  Wide<int64_t, N> index{};
  if constexpr (N > 1) {
    for (int i = 0; i < N; ++i) {
      index[i] = i;
    }
  }
  Range part = split(s.count, team, 1024);
  for (int64_t i = part.begin; i < part.end; i += N) {
    Wide<E, N> y{};
    f(Wide<int64_t, N>(index + i), y);
    storeLanes(out + i * s.stride, s.stride, int(minOf(N, part.end - i)), y);
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_IOTA_H
