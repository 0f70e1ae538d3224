// SPDX-License-Identifier: Apache-2.0
// Weight packing, run once in `prepare`. Layouts, with nr the panel width of the kernel that reads
// them; columns beyond the last output are zero:
//   pack_gemm         [ceil(N / nr)][K][nr]
//   pack_convolution  [ceil(O / nr)][KH][KW][I][nr]
//   pack_winograd     [O / kb][(m + 2)^2][kb / nr][I][nr]; kb output channels are finished before
//   the next are begun, so
//                     weights stream linearly in the order of use
// Cost: one pass over the weight; the strided reads make it 2-4 ns per element in the worst case,
// paid once.
#ifndef STRAIGHTLINE_KERNELS_PACK_H
#define STRAIGHTLINE_KERNELS_PACK_H

#include "straightline/kernels/vector.h"
#include "straightline/kernels/winograd_points.h"

namespace sl {

struct PackGemmTune {
  int nr = 0;
};
/// Weight element (row n of N, column k of K) is at n * strideN + k * strideK, so both [N,K] and
/// [K,N] can be read.
struct PackGemmShape {
  int64_t n = 0, k = 0;
  int64_t strideN = 0, strideK = 0;
};

template <PackGemmTune Tune, class T>
SL_INLINE void pack_gemm(sl_ctx*, sl_team team, PackGemmShape s, const T* weight, T* packed) {
  constexpr int64_t nr = Tune.nr;
  const Range panels = split(ceilDiv(s.n, nr), team, 1);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const T* from = weight + p * nr * s.strideN;
    T* to = packed + p * nr * s.k;
    const int64_t count = minOf(nr, s.n - p * nr);
    for (int64_t k = 0; k < s.k; ++k) {
      SL_NO_UNROLL
      for (int64_t j = 0; j < nr; ++j) {
        to[k * nr + j] = j < count ? from[j * s.strideN + k * s.strideK] : T(0);
      }
    }
  }
}

struct PackConvolutionTune {
  int nr = 0;
};
/// o outputs, i inputs per group (groups = 1); strides of the weight's dims O, I, H, W in elements.
struct PackConvolutionShape {
  int64_t o = 0, i = 0, kh = 0, kw = 0;
  int64_t strideO = 0, strideI = 0, strideH = 0, strideW = 0;
};

template <PackConvolutionTune Tune, class T>
SL_INLINE void pack_convolution(sl_ctx*, sl_team team, PackConvolutionShape s, const T* weight,
                                T* packed) {
  constexpr int64_t nr = Tune.nr;
  const Range panels = split(ceilDiv(s.o, nr), team, 1);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const int64_t count = minOf(nr, s.o - p * nr);
    T* to = packed + p * s.kh * s.kw * s.i * nr;
    for (int64_t h = 0; h < s.kh; ++h) {
      for (int64_t w = 0; w < s.kw; ++w) {
        for (int64_t i = 0; i < s.i; ++i, to += nr) {
          const T* from =
              weight + p * nr * s.strideO + i * s.strideI + h * s.strideH + w * s.strideW;
          SL_NO_UNROLL
          for (int64_t j = 0; j < nr; ++j) {
            to[j] = j < count ? from[j * s.strideO] : T(0);
          }
        }
      }
    }
  }
}

/// The same kb and nr as the `winograd` that reads it; m = 2 or 4. o is a multiple of kb, kb of nr.
struct PackWinogradTune {
  int m = 0;
  int nr = 0;
  int kb = 0;
};
struct PackWinogradShape {
  int64_t o = 0, i = 0;
  int64_t strideO = 0, strideI = 0, strideH = 0, strideW = 0;
};

/// U = G g G^T in double, rounded once.
template <PackWinogradTune Tune, class T>
SL_INLINE void pack_winograd(sl_ctx*, sl_team team, PackWinogradShape s, const T* weight,
                             T* packed) {
  using Points = WinogradPoints<Tune.m>;
  constexpr int n = Tune.m + 2;
  constexpr int64_t nr = Tune.nr;
  constexpr int64_t kb = Tune.kb;
  const Range outputs = split(s.o, team, nr);
  for (int64_t o = outputs.begin; o < outputs.end; ++o) {
    T* panel = packed + o / kb * (n * n * kb * s.i) + o % kb / nr * (s.i * nr) + o % nr;
    for (int64_t i = 0; i < s.i; ++i) {
      const T* g = weight + o * s.strideO + i * s.strideI;
      double half[n][3];
      for (int a = 0; a < n; ++a) {
        for (int w = 0; w < 3; ++w) {
          half[a][w] = 0;
          for (int h = 0; h < 3; ++h) {
            half[a][w] += Points::kG[a][h] * double(g[h * s.strideH + w * s.strideW]);
          }
        }
      }
      for (int a = 0; a < n; ++a) {
        for (int b = 0; b < n; ++b) {
          double u = 0;
          for (int w = 0; w < 3; ++w) {
            u += half[a][w] * Points::kG[b][w];
          }
          panel[(a * n + b) * kb * s.i + i * nr] = T(u);
        }
      }
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PACK_H
