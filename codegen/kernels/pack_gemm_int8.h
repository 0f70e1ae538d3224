// SPDX-License-Identifier: Apache-2.0
// Family `pack_gemm_int8`: a weight of 8-bit integers as gemm_int8 reads it, [ceil(n / nr)][ceil(k
// / 4)][nr][4] unsigned bytes that are 128 more than the weight's; beyond k they are 0 (which adds
// nothing whatever A is there), as beyond n.
//
// Cost: where k or n is contiguous a block is transposed in registers, some 0.2 ns for each 4
// bytes: a weight that is computed while running is packed on each call.
#ifndef STRAIGHTLINE_KERNELS_PACK_GEMM_INT8_H
#define STRAIGHTLINE_KERNELS_PACK_GEMM_INT8_H

#include "straightline/kernels/micro_kernel.h"
#include "straightline/kernels/transpose.h"

namespace sl {

struct PackGemmInt8Tune {
  int nr = 0;
};
/// Weight element (row n of N, column k of K) is at n * strideN + k * strideK.
struct PackGemmInt8Shape {
  int64_t n = 0, k = 0;
  int64_t strideN = 0, strideK = 0;
};

/// Exclusive or with this turns four signed bytes into unsigned ones that are 128 more.
inline constexpr uint32_t kOffsetBytes = 0x80808080u;

/// N columns of which k is contiguous, `strideN` apart: transposes N x N quads at once; returns how
/// many quads are done.
template <int N>
SL_INLINE int64_t packContiguousK(const int8_t* from, int64_t strideN, int64_t quads, uint32_t* to,
                                  int64_t nr) {
  int64_t done = 0;
  for (; done + N <= quads; done += N) {
    vec<uint32_t, N> rows[N];
    SL_UNROLL
    for (int j = 0; j < N; ++j) {
      __builtin_memcpy(&rows[j], from + j * strideN + 4 * done, sizeof(rows[j]));
      rows[j] = rows[j] ^ kOffsetBytes;
    }
    turnLanes<N, uint32_t>(rows);
    SL_UNROLL
    for (int q = 0; q < N; ++q) {
      store(to + (done + q) * nr, rows[q]);
    }
  }
  return done;
}

/// N contiguous columns, rows of k `strideK` apart.
template <int N>
SL_INLINE int64_t packContiguousN(const int8_t* from, int64_t strideK, int64_t quads, uint32_t* to,
                                  int64_t nr) {
  for (int64_t q = 0; q < quads; ++q) {
    vec<uint32_t, N> columns{};
    SL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto bytes = load<N>(reinterpret_cast<const uint8_t*>(from + (4 * q + i) * strideK));
      columns = columns | convert<uint32_t>(bytes) << (8 * i);
    }
    store(to + q * nr, columns ^ kOffsetBytes);
  }
  return quads;
}

template <PackGemmInt8Tune Tune>
SL_INLINE void pack_gemm_int8(sl_ctx*, sl_team team, PackGemmInt8Shape s, const int8_t* weight,
                              int8_t* packed) {
  constexpr int64_t nr = Tune.nr;
  constexpr int N = panelLanes<int32_t>(Tune.nr);
  const int64_t quads = ceilDiv(s.k, 4);
  const Range panels = split(ceilDiv(s.n, nr), team, 1);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    for (int64_t column = 0; column < nr; column += N) {
      const int64_t n = p * nr + column;
      const int8_t* from = weight + n * s.strideN;
      int8_t* to = packed + (p * quads * nr + column) * 4;
      int64_t done = 0;
      if (n + N <= s.n && s.strideK == 1) {
        done = packContiguousK<N>(from, s.strideN, s.k / 4, reinterpret_cast<uint32_t*>(to), nr);
      } else if (n + N <= s.n && s.strideN == 1) {
        done = packContiguousN<N>(from, s.strideK, s.k / 4, reinterpret_cast<uint32_t*>(to), nr);
      }
      for (int64_t q = done; q < quads; ++q) {
        for (int64_t j = 0; j < N; ++j) {
          SL_NO_UNROLL
          for (int64_t i = 0; i < 4; ++i) {
            const int64_t k = 4 * q + i;
            const bool exists = n + j < s.n && k < s.k;
            to[(q * nr + j) * 4 + i] =
                exists ? int8_t(from[j * s.strideN + k * s.strideK] ^ int8_t(-128)) : int8_t(0);
          }
        }
      }
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PACK_GEMM_INT8_H
