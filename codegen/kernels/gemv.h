// SPDX-License-Identifier: Apache-2.0
// Family `gemv`: C[M,N] = epilogue(A[M,K] * W[N,K]^T) for small M with the weight in the
// framework's own layout. A weight of bfloat16, half or int8 is read as it is stored and widened in
// registers, which halves (quarters) what comes from memory; sums are those of float.
//
// Cost: the weight is read once, at what memory gives to a few streams over the small pages of a
// framework's memory: 21-31 GB/s on one thread from DRAM for eight rows at a time, 16-26 for four.
// No packed copy, no prepare step. A packed copy (gemm) is one stream over large pages: 1.1 times
// as fast from L3, 1.3 to 2 times from memory. So this family is for weights that are not packed:
// 16-bit floats (half the bytes), parameters that change, and programs that must save memory.
#ifndef STRAIGHTLINE_KERNELS_GEMV_H
#define STRAIGHTLINE_KERNELS_GEMV_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/scalar.h"

namespace sl {

/// rows: rows of the weight read at once. mr: rows of A done in one pass over the weight.
struct GemvTune {
  int rows = 4;
  int mr = 4;
  int lanes = 32;    ///< CUDA only: threads that share a reduction, a power of two
  int threads = 32;  ///< CUDA only: of a block, a multiple of `lanes` and of 32
  /// CUDA only: pieces of each row of the weight that a thread loads at once
  int unroll = 1;
};

/// A is [m][lda], the weight [n][ldw], C and the epilogue operands [m][n]; k is contiguous in A and
/// the weight.
struct GemvShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldw = 0, ldc = 0;
  int64_t epilogueStride[kMaxEpilogueOperands][2] = {};
};

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_gemv.h"
#else
#include "straightline/kernels/micro_kernel.h"

namespace sl {

/// The first `count` elements, then zeros.
template <int N, class T>
SL_INLINE Wide<T, N> loadZeroFilled(const T* p, int64_t count) {
  T lanes[N] = {};
  SL_NO_UNROLL
  for (int64_t i = 0; i < count; ++i) {
    lanes[i] = p[i];
  }
  return load<N>(lanes);
}

/// The last elements [done, k) of a row, fewer than N; the other lanes are zero. Where the row has
/// N elements, its last N are loaded and the bits of lanes before `done` are cleared (a factor of 0
/// would not do: it makes NaN of an infinity).
template <class T, int N>
struct LastLanes {
  using Bits = vec<typename SignedOfSize<sizeof(T)>::type, N>;
  int64_t done, k;
  Bits wanted;

  SL_INLINE_MEMBER LastLanes(int64_t from, int64_t to) : done(from), k(to) {
    Bits lane;
    SL_UNROLL
    for (int l = 0; l < N; ++l) {
      lane[l] = l;
    }
    wanted = lane >= Element<Bits>(N - (k - done));
  }
  template <class W>
  SL_INLINE_MEMBER vec<T, N> of(const W* row) const {
    return k < N ? cast<T>(loadZeroFilled<N>(row + done, k - done))
                 : bitcast<vec<T, N> >(bitcast<Bits>(cast<T>(load<N>(row + k - N))) & wanted);
  }
};

/// sums[i * N + r] = a row i . weight row r, for MR rows of A and R rows of the weight (rows at or
/// beyond `valid` repeat the last valid one).
template <int R, int MR, int N, class T, class W>
SL_INLINE void dotRows(const T* a, int64_t lda, const W* w, int64_t ldw, int64_t k, int64_t valid,
                       T* sums) {
  // Longer rows are summed in blocks, whose sums are added: the error of a sum grows with its
  // length.
  constexpr int64_t kBlock = 8192;
  // Two sets of accumulators where they fit in registers: one does not cover the latency of the
  // multiply-add.
  constexpr int U = MR * R * 2 <= 12 ? 2 : 1;
  const W* row[R];
  SL_UNROLL
  for (int r = 0; r < R; ++r) {
    row[r] = w + minOf(r, valid - 1) * ldw;
  }
  int64_t i = 0;
  SL_NO_UNROLL
  do {
    const bool isFirst = i == 0;
    const int64_t end = minOf(k, i + kBlock);
    vec<T, N> acc[U][MR][R] = {};
    for (; i + U * N <= end; i += U * N) {
      SL_UNROLL
      for (int u = 0; u < U; ++u) {
        vec<T, N> x[MR];
        SL_UNROLL
        for (int m = 0; m < MR; ++m) {
          x[m] = load<N>(a + m * lda + i + u * N);
        }
        SL_UNROLL
        for (int r = 0; r < R; ++r) {
          const vec<T, N> q = cast<T>(load<N>(row[r] + i + u * N));
          SL_UNROLL
          for (int m = 0; m < MR; ++m) {
            acc[u][m][r] = fma(q, x[m], acc[u][m][r]);
          }
        }
      }
    }
    SL_NO_UNROLL
    for (; i + N <= end; i += N) {
      SL_UNROLL
      for (int r = 0; r < R; ++r) {
        const vec<T, N> q = cast<T>(load<N>(row[r] + i));
        SL_UNROLL
        for (int m = 0; m < MR; ++m) {
          acc[0][m][r] = fma(q, load<N>(a + m * lda + i), acc[0][m][r]);
        }
      }
    }
    if (i < end) {
      const LastLanes<T, N> last(i, end);
      SL_UNROLL
      for (int r = 0; r < R; ++r) {
        const vec<T, N> q = last.of(row[r]);
        SL_UNROLL
        for (int m = 0; m < MR; ++m) {
          acc[0][m][r] = fma(q, last.of(a + m * lda), acc[0][m][r]);
        }
      }
      i = end;
    }
    SL_UNROLL
    for (int m = 0; m < MR; ++m) {
      SL_UNROLL
      for (int r = 0; r < R; ++r) {
        const T sum = horizontalSum(U == 2 ? acc[0][m][r] + acc[U - 1][m][r] : acc[0][m][r]);
        sums[m * N + r] = isFirst ? sum : sums[m * N + r] + sum;
      }
    }
  } while (i < k);
}

/// C = epilogue(A * W^T). pointers: epilogue operands, then outputs.
template <GemvTune Tune, class Epilogue, class T, class W, class... P>
SL_INLINE void gemv(sl_ctx*, sl_team team, GemvShape s, Epilogue epilogue, const T* a,
                    const W* weight, P... pointers) {
  constexpr int N = kNativeLanes<T>;
  static_assert(N % Tune.rows == 0);
  const auto ops = epilogueOperands(pointers...);
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][1], s.epilogueStride[1][1],
                                               s.epilogueStride[2][1], s.epilogueStride[3][1]};
  const RowBlocks blocks(s.m, Tune.mr);
  const Range columns = split(s.n, team, N);
  for (int64_t n = columns.begin; n < columns.end; n += N) {
    const int64_t count = minOf(N, columns.end - n);
    for (int64_t block = 0; block < blocks.blocks; ++block) {
      withCount<Tune.mr>(blocks.size(block), [&](auto rows) SL_INLINE_LAMBDA {
        constexpr int MR = decltype(rows)::value;
        const int64_t m0 = blocks.begin(block);
        T sums[MR * N];
        SL_NO_UNROLL
        for (int64_t r = 0; r < count; r += Tune.rows) {
          dotRows<Tune.rows, MR, N>(a + m0 * s.lda, s.lda, weight + (n + r) * s.ldw, s.ldw, s.k,
                                    minOf(Tune.rows, count - r), sums + r);
        }
        SL_NO_UNROLL
        for (int m = 0; m < MR; ++m) {
          RowOffsets at;
          for (int j = 0; j < kMaxEpilogueOperands; ++j) {
            at.operand[j] = (m0 + m) * s.epilogueStride[j][0];
          }
          at.output = (m0 + m) * s.ldc;
          finish<N>(epilogue, ops, loadLanes<N>(sums + m * N, 1, int(count)), at, steps, n, 1,
                    count);
        }
      });
    }
  }
}

}  // namespace sl

#endif  // __CUDACC__

#endif  // STRAIGHTLINE_KERNELS_GEMV_H
