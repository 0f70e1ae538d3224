// SPDX-License-Identifier: Apache-2.0
// Weight packing, run once in `prepare`. Layouts, with nr the panel width of the kernel that reads
// them; columns beyond the last output are zero:
//   pack_gemm         [ceil(N / nr)][K / pairs][nr][pairs]
//   pack_convolution  [ceil(O / nr)][KH][KW][I][nr]
//   pack_winograd     [O / kb][(m + 2)^2][kb / nr][I][nr]; kb output channels are finished before
//   the next are begun, so
//                     weights stream linearly in the order of use
// Cost: one pass over the weight, paid once. Torch's weights have the outputs outermost, so that a
// panel gathers nr distant rows: each is read kPackBlock elements at a time, which takes whole
// cache lines and writes a piece of the panel that stays in the first cache.
#ifndef STRAIGHTLINE_KERNELS_PACK_H
#define STRAIGHTLINE_KERNELS_PACK_H

#include "straightline/kernels/vector.h"
#include "straightline/kernels/winograd_points.h"

namespace sl {

/// Elements of one row that are packed before the next row is begun: a cache line of floats.
inline constexpr int64_t kPackBlock = 16;

struct PackGemmTune {
  int nr = 0;
  int pairs = 1;  ///< neighbours of k that stand together; k is a multiple
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
    for (int64_t begin = 0; begin < s.k; begin += kPackBlock) {
      const int64_t end = minOf(begin + kPackBlock, s.k);
      for (int64_t j = 0; j < nr; ++j) {
        SL_NO_UNROLL
        for (int64_t k = begin; k < end; ++k) {
          to[(k / Tune.pairs * nr + j) * Tune.pairs + k % Tune.pairs] =
              j < count ? from[j * s.strideN + k * s.strideK] : T{};
        }
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
    const T* panel = weight + p * nr * s.strideO;
    T* to = packed + p * s.kh * s.kw * s.i * nr;
    for (int64_t begin = 0; begin < s.i; begin += kPackBlock) {
      const int64_t end = minOf(begin + kPackBlock, s.i);
      for (int64_t j = 0; j < nr; ++j) {
        for (int64_t i = begin; i < end; ++i) {
          const T* from = panel + j * s.strideO + i * s.strideI;
          for (int64_t h = 0; h < s.kh; ++h) {
            SL_NO_UNROLL
            for (int64_t w = 0; w < s.kw; ++w) {
              to[((h * s.kw + w) * s.i + i) * nr + j] =
                  j < count ? from[h * s.strideH + w * s.strideW] : T(0);
            }
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

/// U = G g G^T in double, rounded once. `g`: the 3x3 weights of some outputs, one in each lane;
/// `panel`: where the lanes' first outputs go, `stride` elements from one point to the next.
template <class Points, int n, class V, class T>
SL_INLINE void transformWeights(const V (&g)[9], T* panel, int64_t stride) {
  V half[n][3];
  SL_UNROLL
  for (int a = 0; a < n; ++a) {
    SL_UNROLL
    for (int w = 0; w < 3; ++w) {
      half[a][w] = Points::kG[a][0] * g[w] + Points::kG[a][1] * g[3 + w];
      half[a][w] = half[a][w] + Points::kG[a][2] * g[6 + w];
    }
  }
  SL_UNROLL
  for (int a = 0; a < n; ++a) {
    SL_UNROLL
    for (int b = 0; b < n; ++b) {
      V u = half[a][0] * Points::kG[b][0] + half[a][1] * Points::kG[b][1];
      u = u + half[a][2] * Points::kG[b][2];
      store(panel + (a * n + b) * stride, convert<T>(u));
    }
  }
}

template <PackWinogradTune Tune, class T>
SL_INLINE void pack_winograd(sl_ctx*, sl_team team, PackWinogradShape s, const T* weight,
                             T* packed) {
  using Points = WinogradPoints<Tune.m>;
  constexpr int n = Tune.m + 2;
  constexpr int64_t nr = Tune.nr;
  constexpr int64_t kb = Tune.kb;
  constexpr int kWide = 8;
  // The places of one output and input in the panels are a power of two apart, so that they share
  // few sets of a cache: whole cache lines are written, some at once.
  constexpr int64_t kAtOnce = 4;
  using V = vec<double, kWide>;
  const Range outputs = split(s.o, team, nr);
  for (int64_t o = outputs.begin; o < outputs.end; o += nr) {
    T* panel = packed + o / kb * (n * n * kb * s.i) + o % kb / nr * (s.i * nr);
    for (int64_t begin = 0; begin < s.i; begin += kPackBlock) {
      const int64_t count = minOf(kPackBlock, s.i - begin);
      T rows[kPackBlock * 9][nr];  // [input and place][output]
      for (int64_t j = 0; j < nr; ++j) {
        const T* from = weight + (o + j) * s.strideO + begin * s.strideI;
        for (int64_t i = 0; i < count; ++i) {
          SL_UNROLL
          for (int at = 0; at < 9; ++at) {
            rows[i * 9 + at][j] = from[i * s.strideI + at / 3 * s.strideH + at % 3 * s.strideW];
          }
        }
      }
      for (int64_t i = 0; i < count; i += kAtOnce) {
        const int64_t inputs = minOf(kAtOnce, count - i);
        T made[n * n][kAtOnce * nr];
        for (int64_t c = 0; c < inputs; ++c) {
          SL_NO_UNROLL
          for (int64_t j = 0; j < nr; j += kWide) {
            V g[9];
            SL_UNROLL
            for (int at = 0; at < 9; ++at) {
              g[at] = convert<double>(load<kWide>(&rows[(i + c) * 9 + at][j]));
            }
            transformWeights<Points, n>(g, &made[0][c * nr + j], kAtOnce * nr);
          }
        }
        for (int64_t point = 0; point < n * n; ++point) {
          T* to = panel + point * kb * s.i + (begin + i) * nr;
          for (int64_t at = 0; at < inputs * nr; at += kWide) {
            store(to + at, load<kWide>(&made[point][at]));
          }
        }
      }
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PACK_H
