// SPDX-License-Identifier: Apache-2.0
// Family `scan`: cumulative sum along one dim, out[.., i, ..] = in[.., 0, ..] + .. + in[.., i, ..],
// or another combination than the sum.
//
//   sl::scan<ScanTune{.rank}>(ctx, team, shape, in, out)       rank counts the other dims
//
// Sums, products and logsumexp run in double for float and double, in float for 16-bit floats (as
// ATen on the CPU), in int64 for integers and bool. in and out may be one buffer, but for places.
// The team splits the other dims; lanes run along them where they are contiguous, else a few rows
// are summed at a time. In CUDA C++ `threads` share a row: one, a warp, or a block; what is no sum
// has one.
#ifndef STRAIGHTLINE_KERNELS_SCAN_H
#define STRAIGHTLINE_KERNELS_SCAN_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

/// What is combined; the numbers are those of op::scanCombine (dialect/op/scan.h).
enum ScanCombine : int {
  kScanSum = 0,
  kScanProduct = 1,
  kScanLogSumExp = 2,
  kScanMaximum = 3,
  kScanMinimum = 4,
  kScanMaximumPlace = 5,  ///< where the maximum stands along the dim
  kScanMinimumPlace = 6,
};

struct ScanTune {
  int rank = 0;
  int combine = kScanSum;
  int threads = 1;  ///< CUDA only: that share a row; 1, 32 (a warp) or those of a block
};

struct ScanShape {
  int64_t outer[SL_MAX_RANK] = {};
  int64_t outerStride[2][SL_MAX_RANK] = {};  ///< elements: in, out
  int64_t count = 0;                         ///< elements along the scanned dim
  int64_t stride[2] = {};                    ///< along it: in, out
};

namespace scan_detail {

/// What is summed in.
template <class In>
using Sum = typename Conditional<kFloating<In>, double,
                                 typename Conditional<kPacked16<In>, float, int64_t>::type>::type;

/// What a combination keeps of the elements so far: 16-bit floats as float.
template <int COMBINE, class In>
using Kept = typename Conditional<COMBINE <= kScanLogSumExp, Sum<In>,
                                  typename Conditional<kPacked16<In>, float, In>::type>::type;

/// log(exp(a) + exp(b)); of two equal infinities that one, NaN of NaN.
template <class V>
SL_INLINE V logAddExp(V a, V b) {
  const V high = maximum(a, b);
  const V low = minimum(a, b);
  const V sum = high + log1p(exp(low - high));
  return select(both(eq(a, b), isinf(a)), a, sum);
}

template <class V>
SL_INLINE V lowestOf(V like) {
  using T = Element<V>;
  if constexpr (kFloating<T>) {
    return constant(like, -elementary::Format<T>::kInfinity);
  } else if constexpr (kSame<T, bool>) {
    return constant(like, false);
  } else if constexpr (kUnsignedInteger<T>) {
    return constant(like, T(0));
  } else {
    return constant(like, T(T(1) << (sizeof(T) * 8 - 1)));
  }
}

/// The running combination before any element.
template <int COMBINE, class V>
SL_INLINE V neutral(V like) {
  using T = Element<V>;
  if constexpr (COMBINE == kScanProduct) {
    return constant(like, T(1));
  } else if constexpr (COMBINE == kScanLogSumExp) {
    return constant(like, -elementary::Format<T>::kInfinity);
  } else if constexpr (COMBINE == kScanMaximum || COMBINE == kScanMaximumPlace) {
    return lowestOf(like);
  } else if constexpr (kFloating<T>) {
    return -lowestOf(like);
  } else if constexpr (kSame<T, bool>) {
    return constant(like, true);
  } else {
    return bitwise_not(lowestOf(like));
  }
}

/// Whether the element takes the place of the extremum so far, as ATen: of equal ones the last, and
/// NaN for good.
template <int COMBINE, class V>
SL_INLINE auto replaces(V x, V extremum) {
  auto wins =
      COMBINE == kScanMaximum || COMBINE == kScanMaximumPlace ? ge(x, extremum) : le(x, extremum);
  if constexpr (kFloating<Element<V>>) {
    return either(isnan(x), both(wins, logical_not(isnan(extremum))));
  } else {
    return wins;
  }
}

template <int COMBINE, class V>
SL_INLINE V combined(V sofar, V x) {
  if constexpr (COMBINE == kScanProduct) {
    return multiply(sofar, x);
  } else if constexpr (COMBINE == kScanLogSumExp) {
    return logAddExp(sofar, x);
  } else {
    return select(replaces<COMBINE>(x, sofar), x, sofar);
  }
}

/// One row of a combination that is no sum, from its begin to its end.
template <int COMBINE, class In, class Out>
SL_INLINE void combineRow(const ScanShape& s, const In* in, Out* out) {
  using A = Kept<COMBINE, In>;
  A sofar = neutral<COMBINE>(A{});
  int64_t place = 0;
  for (int64_t i = 0; i < s.count; ++i) {
    const A x = cast<A>(in[i * s.stride[0]]);
    if constexpr (COMBINE == kScanMaximumPlace || COMBINE == kScanMinimumPlace) {
      const bool isNew = replaces<COMBINE>(x, sofar);
      sofar = isNew ? x : sofar;
      place = isNew ? i : place;
      out[i * s.stride[1]] = cast<Out>(place);
    } else {
      sofar = combined<COMBINE>(sofar, x);
      out[i * s.stride[1]] = cast<Out>(sofar);
    }
  }
}

#if defined(__CUDACC__)

/// The value of the lane `distance` before this one.
template <class A>
SL_INLINE A fromBefore(A value, int distance) {
  constexpr unsigned kAll = 0xffffffffu;
  if constexpr (sizeof(A) == 8) {
    return bitcast<A>(__shfl_up_sync(kAll, bitcast<long long>(value), distance));
  } else {
    return bitcast<A>(__shfl_up_sync(kAll, bitcast<int>(value), distance));
  }
}
template <class A>
SL_INLINE A fromLast(A value) {
  constexpr unsigned kAll = 0xffffffffu;
  if constexpr (sizeof(A) == 8) {
    return bitcast<A>(__shfl_sync(kAll, bitcast<long long>(value), 31));
  } else {
    return bitcast<A>(__shfl_sync(kAll, bitcast<int>(value), 31));
  }
}

/// One row by a block, a run of EACH neighbours a thread at a time: runs, warps and the block are
/// summed in this order.
template <int THREADS, class In, class Out>
SL_INLINE void scanRowByBlock(const ScanShape& s, const In* in, Out* out) {
  using A = Sum<In>;
  constexpr int kEach = 4, kWarps = THREADS / 32;
  __shared__ alignas(16) char memory[kWarps * sizeof(A)];
  A* warpSums = reinterpret_cast<A*>(memory);
  const int thread = int(threadIdx.x), lane = thread % 32;
  A before{};
  for (int64_t first = 0; first < s.count; first += THREADS * kEach) {
    const int64_t begin = first + thread * kEach;
    A sums[kEach];
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      sums[i] = begin + i < s.count ? cast<A>(in[(begin + i) * s.stride[0]]) : A{};
    }
    SL_UNROLL
    for (int i = 1; i < kEach; ++i) {
      sums[i] = add(sums[i - 1], sums[i]);
    }
    A upTo = sums[kEach - 1];  // of this lane and those before it
    SL_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
      const A other = fromBefore(upTo, distance);
      upTo = lane >= distance ? add(other, upTo) : upTo;
    }
    const A lanes = fromBefore(upTo, 1);
    if (lane == 31) {
      warpSums[thread / 32] = upTo;
    }
    __syncthreads();
    A mine = before;
    SL_UNROLL
    for (int warp = 0; warp < kWarps; ++warp) {
      mine = warp < thread / 32 ? add(mine, warpSums[warp]) : mine;
      before = add(before, warpSums[warp]);
    }
    mine = lane > 0 ? add(mine, lanes) : mine;
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (begin + i < s.count) {
        out[(begin + i) * s.stride[1]] = cast<Out>(add(mine, sums[i]));
      }
    }
    __syncthreads();  // before the sums of warps are written again
  }
}

/// One row by one thread, or by all lanes of a warp, 32 elements at a time.
template <int THREADS, class In, class Out>
SL_INLINE void scanRow(const ScanShape& s, const In* in, Out* out) {
  using A = Sum<In>;
  const int lane = THREADS == 1 ? 0 : int(threadIdx.x) % THREADS;
  A before{};
  for (int64_t first = 0; first < s.count; first += THREADS) {
    const int64_t i = first + lane;
    A sum = i < s.count ? cast<A>(in[i * s.stride[0]]) : A{};
    if constexpr (THREADS > 1) {
      SL_UNROLL
      for (int distance = 1; distance < THREADS; distance *= 2) {
        const A other = fromBefore(sum, distance);
        sum = lane >= distance ? add(other, sum) : sum;
      }
    }
    sum = add(before, sum);
    if (i < s.count) {
      out[i * s.stride[1]] = cast<Out>(sum);
    }
    before = THREADS > 1 ? fromLast(sum) : sum;
  }
}

}  // namespace scan_detail

template <ScanTune T, class In, class Out>
SL_INLINE void scan(ScanShape s, const In* in, Out* out) {
  static_assert(T.threads == 1 || T.threads % 32 == 0);
  int64_t number = threadNumber() / T.threads;
  SL_UNROLL
  for (int d = T.rank - 1; d >= 0; --d) {
    const int64_t i = number % s.outer[d];
    number /= s.outer[d];
    in += i * s.outerStride[0][d];
    out += i * s.outerStride[1][d];
  }
  if constexpr (T.combine != kScanSum) {
    static_assert(T.threads == 1);
    if (number == 0) {
      scan_detail::combineRow<T.combine>(s, in, out);
    }
  } else if constexpr (T.threads > 32) {
    scan_detail::scanRowByBlock<T.threads>(s, in, out);  // the grid has a block a row
  } else if (number == 0) {
    scan_detail::scanRow<T.threads>(s, in, out);
  }
}

#else

template <int N, class In, class Out>
SL_INLINE void scanLanes(const ScanShape& s, const In* in, Out* out, int64_t inLane,
                         int64_t outLane, int count) {
  using A = Sum<In>;
  Wide<A, N> sum{};
  for (int64_t i = 0; i < s.count; ++i) {
    sum = add(sum, cast<A>(loadLanes<N>(in + i * s.stride[0], inLane, count)));
    storeLanes(out + i * s.stride[1], outLane, count, cast<Out>(sum));
  }
}

/// As combineRow for N rows side by side; no places.
template <int COMBINE, int N, class In, class Out>
SL_INLINE void combineLanes(const ScanShape& s, const In* in, Out* out, int count) {
  using A = Kept<COMBINE, In>;
  Wide<A, N> sofar = neutral<COMBINE>(Wide<A, N>{});
  for (int64_t i = 0; i < s.count; ++i) {
    sofar = combined<COMBINE>(sofar, cast<A>(loadLanes<N>(in + i * s.stride[0], 1, count)));
    storeLanes(out + i * s.stride[1], 1, count, cast<Out>(sofar));
  }
}

inline constexpr int kRows = 4;  ///< summed side by side: enough to hide the latency of additions

/// kRows rows, each summed as it would be alone.
template <class In, class Out>
SL_INLINE void scanRows(const ScanShape& s, const In* const (&in)[kRows],
                        Out* const (&out)[kRows]) {
  using A = Sum<In>;
  A sum[kRows] = {};
  for (int64_t i = 0; i < s.count; ++i) {
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      sum[row] = add(sum[row], cast<A>(in[row][i * s.stride[0]]));
    }
    SL_UNROLL
    for (int row = 0; row < kRows; ++row) {
      out[row][i * s.stride[1]] = cast<Out>(sum[row]);
    }
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
  constexpr bool kIsSum = T.combine == kScanSum;
  bool lanes = T.combine < kScanMaximumPlace && nest.rank > 0 && nest.innerStride(0) == 1 &&
               nest.innerStride(1) == 1;
  int64_t run = nest.innerExtent();
  int64_t groups = lanes ? ceilDiv(run, N) : run;
  int64_t total = nest.count();
  if (total == 0) {
    return;
  }
  Range part = split(total / run * groups, team, ceilDiv(1024, maxOf(s.count, 1)));
  Cursor<T.rank, 2> at;
  const In* from = in;
  Out* to = out;
  auto seek = [&](int64_t i) SL_LAMBDA {
    at.seek(nest, nest.rank - 1, i / groups);
    int64_t first = i % groups * (lanes ? N : 1);
    from = in + at.offset[0] + first * nest.innerStride(0);
    to = out + at.offset[1] + first * nest.innerStride(1);
    return first;
  };
  int64_t i = part.begin;
  constexpr int kRows = scan_detail::kRows;
  for (; kIsSum && !lanes && i + kRows <= part.end; i += kRows) {
    const In* ins[kRows];
    Out* outs[kRows];
    for (int row = 0; row < kRows; ++row) {
      seek(i + row);
      ins[row] = from;
      outs[row] = to;
    }
    scan_detail::scanRows(s, ins, outs);
  }
  for (; i < part.end; ++i) {
    int64_t first = seek(i);
    if constexpr (!kIsSum) {
      if constexpr (T.combine < kScanMaximumPlace) {
        if (lanes) {
          scan_detail::combineLanes<T.combine, N>(s, from, to, int(minOf(N, run - first)));
          continue;
        }
      }
      scan_detail::combineRow<T.combine>(s, from, to);
    } else if (lanes) {
      scan_detail::scanLanes<N>(s, from, to, 1, 1, int(minOf(N, run - first)));
    } else {
      scan_detail::scanLanes<1>(s, from, to, 0, 1, 1);
    }
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_SCAN_H
