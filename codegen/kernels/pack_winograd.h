// SPDX-License-Identifier: Apache-2.0
// Family `pack_winograd`: 3x3 weights transformed, U = G g G^T, and packed once for `winograd` of
// the same m, kb and nr, as [O / kb][(m + 2)^2][kb / nr][I][nr]: kb output channels are finished
// before the next are begun, so weights stream linearly in the order of use. A prologue as in
// pack.h.
//
// Cost: the packed weights are 16/9 or 4 times as many as the weights, and their (m + 2)^2 places
// for an output and input are a power of two apart, so that they share few sets of a cache. Where
// they are not read soon (`stream`) each is written past the caches, as whole cache lines: 5.2 ms
// for the 50 MB of three convolutions of 512 channels, which takes 7.7 through them; 2 of these are
// for new pages (one core of an AMD Zen 5).
#ifndef STRAIGHTLINE_KERNELS_PACK_WINOGRAD_H
#define STRAIGHTLINE_KERNELS_PACK_WINOGRAD_H

#include "straightline/kernels/pack.h"
#include "straightline/kernels/winograd_points.h"

namespace sl {

/// The same kb and nr as the `winograd` that reads it; m = 2 or 4. o is a multiple of kb, kb of nr,
/// nr of a cache line; `packed` begins at one.
struct PackWinogradTune {
  int m = 0;
  int nr = 0;
  int kb = 0;
  int stream = 0;  ///< 1: what is written is not read soon
};
struct PackWinogradShape {
  int64_t o = 0, i = 0;
  int64_t strideO = 0, strideI = 0, strideH = 0, strideW = 0;
  int64_t prologueStride[kMaxPrologueOperands] = {};
};

/// out = G x for one column x. A term with the factor 0 is left out.
template <class Points, int n, class V>
SL_INLINE void transformColumn(const V (&x)[3], V (&out)[n]) {
  SL_UNROLL
  for (int a = 0; a < n; ++a) {
    const auto& g = Points::kG[a];
    if (g[1] == 0) {  // the first or the last row
      const int only = g[0] == 0 ? 2 : 0;
      out[a] = g[only] == 1 ? x[only] : g[only] * x[only];
    } else {
      out[a] = g[0] * x[0] + g[1] * x[1];
      out[a] = out[a] + g[2] * x[2];
    }
  }
}

/// U = G g G^T in double, rounded once. `g`: the 3x3 weights of some outputs, one in each lane;
/// `made`: where the lanes' first outputs go, `stride` elements from one point to the next.
template <class Points, int n, class V, class T>
SL_INLINE void transformWeights(const V (&g)[3][3], T* made, int64_t stride) {
  V half[3][n];  // [column][row]
  SL_UNROLL
  for (int w = 0; w < 3; ++w) {
    transformColumn<Points, n>({g[0][w], g[1][w], g[2][w]}, half[w]);
  }
  SL_UNROLL
  for (int a = 0; a < n; ++a) {
    V u[n];
    transformColumn<Points, n>({half[0][a], half[1][a], half[2][a]}, u);
    SL_UNROLL
    for (int b = 0; b < n; ++b) {
      store(made + (a * n + b) * stride, withoutSubnormals(convert<T>(u[b])));
    }
  }
}

/// rows[input * 9 + place][output] of the panel that begins at `output`, for `count` inputs, of
/// which the first output's begin at element `at`.
template <int64_t NR, class T, class Source>
SL_INLINE void gatherWeights(const PackWinogradShape& s, const Source& source, int64_t at,
                             int64_t output, int64_t count, T (*rows)[NR]) {
  using U = typename UnsignedOfSize<int(sizeof(T))>::type;
  constexpr int N = kTurnedRows<NR, U>;
  const int64_t length = count * 9;
  if (length >= N && isDenseRow(s.i, 3, 3, s.strideI, s.strideH, s.strideW)) {
    for (int64_t j = 0; j < NR; j += N) {
      for (int64_t e = 0; e < length; e += N) {
        // The last block of a row is a whole one: some elements are written twice.
        const int64_t first = minOf(e, length - N);
        vec<U, N> lanes[N];
        turnRows<N, 1, U>(source, at + j * s.strideO + first, s.strideO, output + j, lanes);
        SL_UNROLL
        for (int r = 0; r < N; ++r) {
          __builtin_memcpy(&rows[first + r][j], &lanes[r], sizeof(lanes[r]));
        }
      }
    }
    return;
  }
  for (int64_t j = 0; j < NR; ++j) {
    for (int64_t i = 0; i < count; ++i) {
      SL_NO_UNROLL
      for (int64_t place = 0; place < 9; ++place) {
        rows[i * 9 + place][j] = source.template lanes<1>(
            at + j * s.strideO + i * s.strideI + place / 3 * s.strideH + place % 3 * s.strideW,
            output + j);
      }
    }
  }
}

template <PackWinogradTune Tune, class T, class Source>
SL_INLINE void packWinograd(sl_team team, const PackWinogradShape& s, const Source& source,
                            T* packed) {
  using Points = WinogradPoints<Tune.m>;
  constexpr int n = Tune.m + 2;
  constexpr int64_t nr = Tune.nr;
  constexpr int64_t kb = Tune.kb;
  constexpr int kLine = 64 / int(sizeof(T));
  constexpr int kWide = kNativeLanes<double>;
  constexpr int N = kNativeLanes<T>;
  static_assert(nr % kLine == 0 && kb % nr == 0);
  using V = vec<double, kWide>;
  const Range outputs = split(s.o, team, nr);
  for (int64_t o = outputs.begin; o < outputs.end; o += nr) {
    T* panel = packed + o / kb * (n * n * kb * s.i) + o % kb / nr * (s.i * nr);
    for (int64_t begin = 0; begin < s.i; begin += kPackBlock) {
      const int64_t count = minOf(kPackBlock, s.i - begin);
      alignas(64) T rows[kPackBlock * 9][nr];
      gatherWeights<nr>(s, source, o * s.strideO + begin * s.strideI, o, count, rows);
      for (int64_t c = 0; c < count; ++c) {
        SL_NO_UNROLL
        for (int64_t j = 0; j < nr; j += kLine) {
          alignas(64) T made[n * n][kLine];  // a cache line for each point
          SL_NO_UNROLL
          for (int lane = 0; lane < kLine; lane += kWide) {
            V g[3][3];
            SL_UNROLL
            for (int at = 0; at < 9; ++at) {
              g[at / 3][at % 3] = convert<double>(load<kWide>(&rows[c * 9 + at][j + lane]));
            }
            transformWeights<Points, n>(g, &made[0][lane], kLine);
          }
          T* to = panel + (begin + c) * nr + j;
          SL_NO_UNROLL
          for (int point = 0; point < n * n; ++point) {
            SL_UNROLL
            for (int at = 0; at < kLine; at += N) {
              if constexpr (Tune.stream != 0) {
                storePastCaches(to + at, load<N>(&made[point][at]));
              } else {
                store(to + at, load<N>(&made[point][at]));
              }
            }
            to += kb * s.i;
          }
        }
      }
    }
  }
  if constexpr (Tune.stream != 0) {
    finishStoresPastCaches();
  }
}

template <PackWinogradTune Tune, class T>
SL_INLINE void pack_winograd(sl_ctx*, sl_team team, PackWinogradShape s, const T* weight,
                             T* packed) {
  packWinograd<Tune>(team, s, packSource(weight), packed);
}
template <PackWinogradTune Tune, class F, class W, class... P>
  requires(__is_class(F))
SL_INLINE void pack_winograd(sl_ctx*, sl_team team, PackWinogradShape s, F f, const W* weight,
                             P... pointers) {
  withPrologue([&](const auto& source, auto* packed)
                   SL_LAMBDA { packWinograd<Tune>(team, s, source, packed); },
               f, weight, s.prologueStride, pointers...);
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PACK_WINOGRAD_H
