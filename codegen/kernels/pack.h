// SPDX-License-Identifier: Apache-2.0
// Weight packing, run once in `prepare`. Layouts, with nr the panel width of the kernel that reads
// them; columns beyond the last output are zero:
//   pack_gemm         [ceil(N / nr)][K / pairs][nr][pairs]
//   pack_convolution  [ceil(O / nr)][KH][KW][I][nr]
//   pack_winograd     [O / kb][(m + 2)^2][kb / nr][I][nr] (pack_winograd.h)
//
//   sl::pack_gemm<PackGemmTune{.nr}>(ctx, team, shape, weight, packed)
//   sl::pack_gemm<PackGemmTune{.nr}>(ctx, team, shape, f, weight, operands..., packed)
//   f(x, s..., auto& y) makes the element y that is packed from the stored element x and, of each
//   operand, the element of its output (`prologueStride` elements from one output to the next). It
//   is called with scalars and with vectors.
//
// A float or double that is packed is zero where it is subnormal: Intel's cores take about 150
// cycles for a product with such a number, and published models have some. It changes a product by
// less than 1.2e-38 times the other factor.
//
// Cost: one pass over the weight, paid once. Torch's weights have the outputs outermost, so that a
// panel gathers nr distant rows: blocks of as many rows as a register has lanes are turned in
// registers where the elements of a row are adjacent. Else elements are moved one by one,
// kPackBlock of a row at a time.
#ifndef STRAIGHTLINE_KERNELS_PACK_H
#define STRAIGHTLINE_KERNELS_PACK_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/transpose.h"

namespace sl {

/// Elements of one row that are packed before the next row is begun: a cache line of floats.
inline constexpr int64_t kPackBlock = 16;
inline constexpr int kMaxPrologueOperands = 4;

/// The weight as it is stored: what a packing without a prologue packs.
struct AsStored {
  template <class V>
  SL_INLINE_MEMBER void operator()(V x, V& y) const {
    y = x;
  }
};

/// x, and zero of the same sign where it is subnormal.
template <class V>
SL_INLINE V withoutSubnormals(V x) {
  using T = Element<V>;
  if constexpr (kSame<T, float> || kSame<T, double>) {
    using I = IntegerLike<V>;
    using B = Element<I>;
    constexpr B kSign = B(B(1) << (sizeof(B) * 8 - 1));
    constexpr B kExponent = sizeof(B) == 4 ? B(0x7f800000) : B(int64_t(0x7ff0) << 48);
    const I bits = bitcast<I>(x);
    const auto isTiny = (bits & splat<I>(kExponent)) == splat<I>(B(0));  // of vectors 0 or -1
    I zeroed;
    if constexpr (Vector<V>) {
      zeroed = isTiny;
    } else {
      zeroed = isTiny ? -1 : 0;
    }
    return bitcast<V>(I(bits & ~(zeroed & splat<I>(B(~kSign)))));
  } else {
    return x;
  }
}

/// The elements that a packing packs, as T: f of a stored one and of what belongs to its output.
template <class T, class F, class W, class... S>
struct PackSource {
  F f;
  const W* weight;
  const int64_t* strides;  ///< of the operands, from one output to the next
  Tuple<const S*...> operands;

  /// N adjacent ones of `output`, from element `at` of the weight on.
  template <int N>
  SL_INLINE_MEMBER Wide<T, N> lanes(int64_t at, int64_t output) const {
    return lanesWith<N>(at, output, IntsUpTo<int(sizeof...(S))>{});
  }

 private:
  template <int N, int... I>
  SL_INLINE_MEMBER Wide<T, N> lanesWith(int64_t at, int64_t output, Ints<I...>) const {
    Wide<T, N> y;
    f(load<N>(weight + at), loadSplat<N>(get<I>(operands) + output * strides[I])..., y);
    return withoutSubnormals(y);
  }
};

template <class T>
SL_INLINE PackSource<T, AsStored, T> packSource(const T* weight) {
  return {{}, weight, nullptr, {}};
}

template <class Body, class F, class W, class All, int... I>
SL_INLINE void packThrough(const Body& body, F f, const W* weight, const int64_t* strides,
                           const All& all, Ints<I...>) {
  auto* packed = get<int(sizeof...(I))>(all);
  using T = Pointee<decltype(packed)>;
  body(
      PackSource<T, F, W, Pointee<decltype(leafType<I>(all))>...>{
          f, weight, strides, {{get<I>(all)}...}},
      packed);
}
/// Calls body(source, packed) for a prologue; the last of `pointers` is `packed`.
template <class Body, class F, class W, class... P>
SL_INLINE void withPrologue(const Body& body, F f, const W* weight,
                            const int64_t (&strides)[kMaxPrologueOperands], P... pointers) {
  static_assert(sizeof...(P) <= kMaxPrologueOperands + 1, "too many prologue operands");
  packThrough(body, f, weight, strides, tupleOf(pointers...), IntsUpTo<int(sizeof...(P)) - 1>{});
}

/// Rows that are turned at once into a panel of `nr`, in units of U.
template <int64_t NR, class U>
inline constexpr int kTurnedRows = int(minOf(kNativeLanes<U>, NR & -NR));

/// lanes[e][r] = element e of output `output` + r, for N rows of N adjacent units of `PAIRS`
/// elements; the first one's are at `at`, a row's `stride` elements behind those of the row before.
template <int N, int PAIRS, class U, class Source>
SL_INLINE void turnRows(const Source& source, int64_t at, int64_t stride, int64_t output,
                        vec<U, N> (&lanes)[N]) {
  SL_UNROLL
  for (int r = 0; r < N; ++r) {
    lanes[r] = bitcast<vec<U, N> >(source.template lanes<N * PAIRS>(at + r * stride, output + r));
  }
  turnLanes<N, U>(lanes);
}

struct PackGemmTune {
  int nr = 0;
  int pairs = 1;  ///< neighbours of k that stand together; k is a multiple
};
/// Weight element (row n of N, column k of K) is at n * strideN + k * strideK, so both [N,K] and
/// [K,N] can be read.
struct PackGemmShape {
  int64_t n = 0, k = 0;
  int64_t strideN = 0, strideK = 0;
  int64_t prologueStride[kMaxPrologueOperands] = {};
};

template <PackGemmTune Tune, class T, class Source>
SL_INLINE void packGemm(sl_team team, const PackGemmShape& s, const Source& source, T* packed) {
  constexpr int64_t nr = Tune.nr;
  constexpr int64_t pairs = Tune.pairs;
  using U = typename UnsignedOfSize<int(sizeof(T)) * Tune.pairs>::type;
  constexpr int N = kTurnedRows<nr, U>;
  const int64_t units = s.k / pairs;
  const bool turns = N > 1 && s.strideK == 1 && units >= N;
  const Range panels = split(ceilDiv(s.n, nr), team, 1);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const int64_t from = p * nr * s.strideN;
    T* to = packed + p * nr * s.k;
    const int64_t count = minOf(nr, s.n - p * nr);
    const int64_t turned = turns ? count / N * N : 0;
    for (int64_t begin = 0; begin < units; begin += kPackBlock) {
      const int64_t end = minOf(begin + kPackBlock, units);
      if constexpr (N > 1) {
        for (int64_t j = 0; j < turned; j += N) {
          for (int64_t e = begin; e < end; e += N) {
            // The last block of a row is a whole one: some units are written twice.
            const int64_t first = minOf(e, units - N);
            vec<U, N> lanes[N];
            turnRows<N, Tune.pairs, U>(source, from + j * s.strideN + first * pairs, s.strideN,
                                       p * nr + j, lanes);
            SL_UNROLL
            for (int r = 0; r < N; ++r) {
              __builtin_memcpy(to + ((first + r) * nr + j) * pairs, &lanes[r], sizeof(lanes[r]));
            }
          }
        }
      }
      for (int64_t j = turned; j < nr; ++j) {
        SL_NO_UNROLL
        for (int64_t k = begin * pairs; k < end * pairs; ++k) {
          to[(k / pairs * nr + j) * pairs + k % pairs] =
              j < count ? source.template lanes<1>(from + j * s.strideN + k * s.strideK, p * nr + j)
                        : T{};
        }
      }
    }
  }
}

template <PackGemmTune Tune, class T>
SL_INLINE void pack_gemm(sl_ctx*, sl_team team, PackGemmShape s, const T* weight, T* packed) {
  packGemm<Tune>(team, s, packSource(weight), packed);
}
template <PackGemmTune Tune, class F, class W, class... P>
  requires(__is_class(F))
SL_INLINE void pack_gemm(sl_ctx*, sl_team team, PackGemmShape s, F f, const W* weight,
                         P... pointers) {
  withPrologue([&](const auto& source, auto* packed)
                   SL_LAMBDA { packGemm<Tune>(team, s, source, packed); },
               f, weight, s.prologueStride, pointers...);
}

struct PackConvolutionTune {
  int nr = 0;
};
/// o outputs, i inputs per group (groups = 1); strides of the weight's dims O, I, H, W in elements.
struct PackConvolutionShape {
  int64_t o = 0, i = 0, kh = 0, kw = 0;
  int64_t strideO = 0, strideI = 0, strideH = 0, strideW = 0;
  int64_t prologueStride[kMaxPrologueOperands] = {};
};

/// Whether an output's elements [I][H][W] are adjacent.
SL_INLINE bool isDenseRow(int64_t i, int64_t kh, int64_t kw, int64_t strideI, int64_t strideH,
                          int64_t strideW) {
  return (kw == 1 || strideW == 1) && (kh == 1 || strideH == kw) && (i == 1 || strideI == kh * kw);
}

template <PackConvolutionTune Tune, class T, class Source>
SL_INLINE void packConvolution(sl_team team, const PackConvolutionShape& s, const Source& source,
                               T* packed) {
  constexpr int64_t nr = Tune.nr;
  using U = typename UnsignedOfSize<int(sizeof(T))>::type;
  constexpr int N = kTurnedRows<nr, U>;
  const int64_t taps = s.kh * s.kw;
  const int64_t length = s.i * taps;
  const bool turns =
      N > 1 && length >= N && isDenseRow(s.i, s.kh, s.kw, s.strideI, s.strideH, s.strideW);
  const Range panels = split(ceilDiv(s.o, nr), team, 1);
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const int64_t count = minOf(nr, s.o - p * nr);
    const int64_t panel = p * nr * s.strideO;
    T* to = packed + p * length * nr;
    const int64_t turned = turns ? count / N * N : 0;
    for (int64_t begin = 0; begin < s.i; begin += kPackBlock) {
      const int64_t end = minOf(begin + kPackBlock, s.i);
      if constexpr (N > 1) {
        for (int64_t j = 0; j < turned; j += N) {
          for (int64_t e = begin * taps; e < end * taps; e += N) {
            // The last block of a row is a whole one: some elements are written twice.
            const int64_t first = minOf(e, length - N);
            vec<U, N> lanes[N];
            turnRows<N, 1, U>(source, panel + j * s.strideO + first, s.strideO, p * nr + j, lanes);
            int64_t input = first / taps;
            int64_t tap = first - input * taps;
            SL_UNROLL
            for (int r = 0; r < N; ++r) {
              __builtin_memcpy(to + (tap * s.i + input) * nr + j, &lanes[r], sizeof(lanes[r]));
              const bool isLast = ++tap == taps;
              tap = isLast ? 0 : tap;
              input += isLast;
            }
          }
        }
      }
      for (int64_t j = turned; j < nr; ++j) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t from = panel + j * s.strideO + i * s.strideI;
          for (int64_t h = 0; h < s.kh; ++h) {
            SL_NO_UNROLL
            for (int64_t w = 0; w < s.kw; ++w) {
              to[((h * s.kw + w) * s.i + i) * nr + j] =
                  j < count
                      ? source.template lanes<1>(from + h * s.strideH + w * s.strideW, p * nr + j)
                      : T{};
            }
          }
        }
      }
    }
  }
}

template <PackConvolutionTune Tune, class T>
SL_INLINE void pack_convolution(sl_ctx*, sl_team team, PackConvolutionShape s, const T* weight,
                                T* packed) {
  packConvolution<Tune>(team, s, packSource(weight), packed);
}
template <PackConvolutionTune Tune, class F, class W, class... P>
  requires(__is_class(F))
SL_INLINE void pack_convolution(sl_ctx*, sl_team team, PackConvolutionShape s, F f, const W* weight,
                                P... pointers) {
  withPrologue([&](const auto& source, auto* packed)
                   SL_LAMBDA { packConvolution<Tune>(team, s, source, packed); },
               f, weight, s.prologueStride, pointers...);
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_PACK_H
