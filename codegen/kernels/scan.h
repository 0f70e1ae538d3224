// SPDX-License-Identifier: Apache-2.0
// Family `scan`: cumulative sum along one dim, out[.., i, ..] = in[.., 0, ..] + .. + in[.., i, ..].
//
//   sl::scan<ScanTune{.rank}>(ctx, team, shape, in, out)       rank counts the other dims
//
// Sums run in double for float and double, in float for 16-bit floats (as ATen on the CPU), in
// int64 for integers and bool. in and out may be one buffer. The team splits the other dims; lanes
// run along them where they are contiguous.
#ifndef STRAIGHTLINE_KERNELS_SCAN_H
#define STRAIGHTLINE_KERNELS_SCAN_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct ScanTune {
  int rank = 0;
};

struct ScanShape {
  int64_t outer[SL_MAX_RANK] = {};
  int64_t outerStride[2][SL_MAX_RANK] = {};  ///< elements: in, out
  int64_t count = 0;                         ///< elements along the scanned dim
  int64_t stride[2] = {};                    ///< along it: in, out
};

namespace scan_detail {

template <int N, class In, class Out>
SL_INLINE void scanLanes(const ScanShape& s, const In* in, Out* out, int64_t inLane,
                         int64_t outLane, int count) {
  using A = typename Conditional<kFloating<In>, double,
                                 typename Conditional<kPacked16<In>, float, int64_t>::type>::type;
  Wide<A, N> sum{};
  for (int64_t i = 0; i < s.count; ++i) {
    sum = add(sum, cast<A>(loadLanes<N>(in + i * s.stride[0], inLane, count)));
    storeLanes(out + i * s.stride[1], outLane, count, cast<Out>(sum));
  }
}

}  // namespace scan_detail

template <ScanTune T, class In, class Out>
SL_INLINE void scan(sl_ctx*, sl_team team, ScanShape s, const In* in, Out* out) {
  Nest<T.rank, 2> nest;
  for (int d = 0; d < T.rank; ++d) {
    int64_t strides[2] = {s.outerStride[0][d], s.outerStride[1][d]};
    nest.append(s.outer[d], strides);
  }
  constexpr int N = lanesFor<float>();
  bool lanes = nest.rank > 0 && nest.innerStride(0) == 1 && nest.innerStride(1) == 1;
  int64_t run = nest.innerExtent();
  int64_t groups = lanes ? ceilDiv(run, N) : run;
  int64_t total = nest.count();
  if (total == 0) {
    return;
  }
  Range part = split(total / run * groups, team, ceilDiv(1024, maxOf(s.count, 1)));
  Cursor<T.rank, 2> at;
  for (int64_t i = part.begin; i < part.end; ++i) {
    at.seek(nest, nest.rank - 1, i / groups);
    int64_t first = i % groups * (lanes ? N : 1);
    const In* from = in + at.offset[0] + first * nest.innerStride(0);
    Out* to = out + at.offset[1] + first * nest.innerStride(1);
    if (lanes) {
      scan_detail::scanLanes<N>(s, from, to, 1, 1, int(minOf(N, run - first)));
    } else {
      scan_detail::scanLanes<1>(s, from, to, 0, 1, 1);
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_SCAN_H
