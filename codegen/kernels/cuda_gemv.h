// SPDX-License-Identifier: Apache-2.0
// The body of family `gemv` in CUDA C++; included by gemv.h, which says what it does.
//
//   sl::gemv<GemvTune{.rows, .mr, .lanes, .threads, .unroll}>(shape, epilogue, a, weight,
//   operands..., outputs...)
//
// `lanes` threads share the reduction of `rows` rows of the weight with `mr` rows of A, so that a
// block reads each element of A once for threads / lanes * rows results and nothing passes through
// shared memory but the sums of different warps. A thread asks for unroll * rows pieces of 16 bytes
// of the weight before it uses the first. A and the weight may have different types; sums are of
// float (of double for double). Rows that do not begin at multiples of 16 bytes are read element by
// element. The grid has a block for every threads / lanes * rows rows of the weight and every mr
// rows of A, the former fastest.
//
// Cost: the weight once at memory speed (see cuda_contraction_schedule.cpp for what decides the
// tunables).
#ifndef STRAIGHTLINE_KERNELS_CUDA_GEMV_H
#define STRAIGHTLINE_KERNELS_CUDA_GEMV_H

#include "straightline/kernels/cuda_epilogue.h"

namespace sl {
namespace gemv_detail {

/// sums[m * rows + r] += this lane's part of row m of A times row r of the weight. V elements are
/// read at once.
template <GemvTune T, int V, class Sum, class A, class W>
SL_INLINE void dotPart(const A* (&a)[T.mr], const W* (&w)[T.rows], int64_t depth, int lane,
                       Sum* sums) {
  constexpr int64_t kStep = T.lanes * V;
  SL_NO_UNROLL
  for (int64_t k0 = lane * V; k0 < depth; k0 += kStep * T.unroll) {
    Run<W, V> piece[T.unroll][T.rows];
    SL_UNROLL
    for (int u = 0; u < T.unroll; ++u) {
      SL_UNROLL
      for (int r = 0; r < T.rows; ++r) {
        if (k0 + u * kStep < depth) {
          loadPieces<V>(piece[u][r].at, w[r] + k0 + u * kStep);
        }
      }
    }
    SL_UNROLL
    for (int u = 0; u < T.unroll; ++u) {
      if (k0 + u * kStep < depth) {
        SL_UNROLL
        for (int m = 0; m < T.mr; ++m) {
          Run<A, V> x;
          loadPieces<V>(x.at, a[m] + k0 + u * kStep);
          SL_UNROLL
          for (int r = 0; r < T.rows; ++r) {
            SL_UNROLL
            for (int j = 0; j < V; ++j) {
              Sum& sum = sums[m * T.rows + r];
              sum = fma(cast<Sum>(x.at[j]), cast<Sum>(piece[u][r].at[j]), sum);
            }
          }
        }
      }
    }
  }
}

/// Result `number` of a group: its row of A, its row of the weight, and whether it exists.
template <GemvTune T>
struct Result {
  int64_t m, n;
  bool exists;

  SL_INLINE_MEMBER Result(const GemvShape& s, int64_t m0, int64_t n0, int number)
      : m(m0 + number / T.rows), n(n0 + number % T.rows), exists(m < s.m && n < s.n) {}
  template <class Ops>
  SL_INLINE_MEMBER void load(EpilogueRun<1, Ops>& run, const GemvShape& s, const Ops& ops) const {
    RowOffsets at;
    int64_t steps[kMaxEpilogueOperands];
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      at.operand[j] = m * s.epilogueStride[j][0];
      steps[j] = s.epilogueStride[j][1];
    }
    run.load(ops, at, steps, n, exists ? 1 : 0);
  }
};

/// The sums of the results that a thread finishes, where WARPS warps share a reduction. `first`:
/// the number of sums[0] among the results of the thread's group.
template <GemvTune T, int WARPS, int MINE, class Lanes, class Sum>
SL_INLINE void sumOverWarps(Sum (&sums)[T.mr * T.rows], int first) {
  constexpr int kWarp = 32, kGroups = T.threads / T.lanes, kResults = T.mr * T.rows;
  __shared__ Sum partial[kGroups * WARPS][kResults];
  if (Lanes::isFirst()) {
    SL_UNROLL
    for (int i = 0; i < Lanes::kLeft; ++i) {
      partial[threadIdx.x / kWarp][first + i] = sums[i];
    }
  }
  __syncthreads();
  SL_UNROLL
  for (int i = 0; i < MINE; ++i) {
    const int number = int(threadIdx.x) + i * T.threads;
    Sum sum = 0;
    if (number < kGroups * kResults) {
      SL_UNROLL
      for (int warp = 0; warp < WARPS; ++warp) {
        sum += partial[number / kResults * WARPS + warp][number % kResults];
      }
    }
    sums[i] = sum;
  }
}

}  // namespace gemv_detail

/// C = epilogue(A * W^T). pointers: epilogue operands, then outputs.
template <GemvTune Tune, class Epilogue, class A, class W, class... P>
SL_INLINE void gemv(GemvShape s, Epilogue epilogue, const A* a, const W* weight, P... pointers) {
  namespace detail = gemv_detail;
  using Sum = SumOf<A>;
  using Ops = EpilogueOperands<P...>;
  constexpr int kWarp = 32;
  constexpr int kGroups = Tune.threads / Tune.lanes;
  constexpr int kWarps = Tune.lanes > kWarp ? Tune.lanes / kWarp : 1;  // sharing a reduction
  constexpr int kResults = Tune.mr * Tune.rows;
  constexpr int V = kWholePiece<A> < kWholePiece<W> ? kWholePiece<A> : kWholePiece<W>;
  static_assert((Tune.lanes & (Tune.lanes - 1)) == 0 && Tune.threads % Tune.lanes == 0 &&
                Tune.threads % kWarp == 0);
  const Ops ops = epilogueOperands(pointers...);
  const int lane = int(threadIdx.x) % Tune.lanes;
  const int group = int(threadIdx.x) / Tune.lanes;
  const int64_t rowBlocks = ceilDiv(s.n, kGroups * Tune.rows);
  const int64_t n0 = (int64_t(blockIdx.x) % rowBlocks * kGroups + group) * Tune.rows;
  const int64_t m0 = int64_t(blockIdx.x) / rowBlocks * Tune.mr;

  const A* x[Tune.mr];
  const W* w[Tune.rows];
  SL_UNROLL
  for (int m = 0; m < Tune.mr; ++m) {
    x[m] = a + minOf(m0 + m, s.m - 1) * s.lda;
  }
  SL_UNROLL
  for (int r = 0; r < Tune.rows; ++r) {
    w[r] = weight + minOf(n0 + r, s.n - 1) * s.ldw;
  }
  // The results that this thread finishes, and what their epilogue reads.
  using Lanes = LaneSum < kResults, Tune.lanes<kWarp ? Tune.lanes : kWarp>;
  constexpr int kMine =
      kWarps == 1 ? Lanes::kLeft : (kGroups * kResults + Tune.threads - 1) / Tune.threads;
  const int first = Lanes::first();
  auto mine = [&](int i) {
    const int number = kWarps == 1 ? first + i : int(threadIdx.x) + i * Tune.threads;
    const int64_t from = kWarps == 1 ? n0 : n0 + (number / kResults - group) * Tune.rows;
    detail::Result<Tune> result(s, m0, from, kWarps == 1 ? number : number % kResults);
    result.exists = result.exists && (kWarps == 1 ? Lanes::isFirst() : number < kGroups * kResults);
    return result;
  };
  EpilogueRun<1, Ops> run[kMine];
  SL_UNROLL
  for (int i = 0; i < kMine; ++i) {
    mine(i).load(run[i], s, ops);
  }

  Sum sums[kResults] = {};
  if (s.k % V == 0 && s.lda % V == 0 && s.ldw % V == 0 && isAligned<kWholePiece<A>>(a) &&
      isAligned<kWholePiece<W>>(weight)) {
    detail::dotPart<Tune, V>(x, w, s.k, lane, sums);
  } else {
    detail::dotPart<Tune, 1>(x, w, s.k, lane, sums);
  }
  Lanes::sum(sums);
  if constexpr (kWarps > 1) {
    detail::sumOverWarps<Tune, kWarps, kMine, Lanes>(sums, first);
  }
  SL_UNROLL
  for (int i = 0; i < kMine; ++i) {
    const auto result = mine(i);
    if (result.exists) {
      run[i].finish(epilogue, ops, sums + i, result.m * s.ldc + result.n, 1);
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_GEMV_H
