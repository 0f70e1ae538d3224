// SPDX-License-Identifier: Apache-2.0
// The register-blocked inner loop that GEMM, implicit-GEMM convolution, Winograd and attention
// share: MR rows times NV vectors of N columns. Per step of k: NV vector loads of B, MR broadcasts
// of A, MR * NV multiply-adds.
//
// 6 x 2 vectors (12 accumulators) is the best AVX2 shape (95-100% of peak from L1/L2); AVX-512 has
// 32 registers, so up to 14 x 1, 14 x 2 or 8 x 3 fit; where two multiply-adds are begun in a cycle,
// 14 x 1 is bound by its loads. Remainders are balanced: 16 rows with mr = 6 run as 6 + 5 + 5,
// never 6 + 6 + 4.
#ifndef STRAIGHTLINE_KERNELS_MICRO_KERNEL_H
#define STRAIGHTLINE_KERNELS_MICRO_KERNEL_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

#define SL_INLINE_LAMBDA __attribute__((always_inline))

namespace sl {

/// Lanes to use for a panel of `nr` columns: the widest vector that divides it.
template <class T>
constexpr int panelLanes(int nr) {
  int lanes = kNativeLanes<T>;
  while (nr % lanes != 0) {
    lanes /= 2;
  }
  return lanes;
}

/// Two neighbours along k, as one step of a reduction takes them (AVX512_BF16). At any even
/// address.
struct __attribute__((may_alias)) BfloatPair {
  uint16_t low, high;
};

/// Four neighbours along k, as one step of a reduction of 8-bit integers takes them: signed in A,
/// in B unsigned, each 128 more than what it stands for. At any address.
struct __attribute__((may_alias)) ByteQuad {
  uint8_t bytes[4];
};

/// What products of elements of A and of B are summed in.
template <class B>
struct SumOf {
  using type = float;
};
template <>
struct SumOf<double> {
  using type = double;
};
template <>
struct SumOf<ByteQuad> {
  using type = int32_t;
};

/// Whether a step takes several elements of B at once, unconverted, in 32 bits.
template <class B>
inline constexpr bool kSeveral = kSame<B, BfloatPair> || kSame<B, ByteQuad>;

/// N elements of B as a step takes them: widened, or as they are.
template <class T, int N, class B>
SL_INLINE auto loadFactor(const B* p) {
  if constexpr (kSeveral<B>) {
    vec<uint32_t, N> several;
    __builtin_memcpy(&several, p, sizeof(several));
    return several;
  } else if constexpr (kSame<B, T>) {
    return load<N>(p);
  } else {
    return cast<T>(load<N>(p));
  }
}
/// An element of A in all lanes.
template <class T, int N, class A>
SL_INLINE auto splatFactor(const A& a) {
  if constexpr (kSeveral<A>) {
    uint32_t several;
    __builtin_memcpy(&several, &a, sizeof(several));
    return splat<vec<uint32_t, N>>(several);
  } else {
    return splat<vec<T, N>>(a);
  }
}

/// sum + a.high * b.high + a.low * b.low, rounded to float after each of the two; the instruction
/// takes denormal numbers for 0.
template <int N>
SL_INLINE vec<float, N> multiplyPairs(vec<uint32_t, N> a, vec<uint32_t, N> b, vec<float, N> sum) {
#if defined(__AVX512BF16__)
  if constexpr (N == 16) {
    using Operand = __bf16 __attribute__((vector_size(64)));
    return __builtin_ia32_dpbf16ps_512(sum, __builtin_bit_cast(Operand, a),
                                       __builtin_bit_cast(Operand, b));
  }
#endif
  using V = vec<float, N>;
  const vec<uint32_t, N> high = splat<vec<uint32_t, N>>(0xffff0000u);
  sum = fma(__builtin_bit_cast(V, a & high), __builtin_bit_cast(V, b & high), sum);
  return fma(__builtin_bit_cast(V, a << 16), __builtin_bit_cast(V, b << 16), sum);
}

/// sum + the four products of signed bytes of `a` and unsigned ones of `b`, modulo 2^32: nothing
/// saturates on the way, for 255 * -128 is a number of 16 bits and two of them are one of 32.
template <int N>
SL_INLINE vec<int32_t, N> multiplyQuads(vec<uint32_t, N> a, vec<uint32_t, N> b,
                                        vec<int32_t, N> sum) {
  using Halves = vec<int16_t, 2 * N>;
#if defined(__AVX512VNNI__)
  if constexpr (N == 16) {
#if defined(__clang__) && __clang_major__ >= 22
    using Unsigned = unsigned char __attribute__((vector_size(64)));
    using Signed = char __attribute__((vector_size(64)));
    return __builtin_ia32_vpdpbusd512(sum, bitcast<Unsigned>(b), bitcast<Signed>(a));
#elif defined(__clang__)
    return __builtin_ia32_vpdpbusd512(sum, bitcast<vec<int32_t, N>>(b),
                                      bitcast<vec<int32_t, N>>(a));
#else
    return __builtin_ia32_vpdpbusd_v16si(sum, bitcast<vec<int32_t, N>>(b),
                                         bitcast<vec<int32_t, N>>(a));
#endif
  }
#endif
  // Even and odd bytes as numbers of 16 bits: products of two pairs, each summed in 32 bits.
  const Halves both = bitcast<Halves>(a);
  const Halves even = (both << 8) >> 8, odd = both >> 8;
  const auto bytes = bitcast<vec<uint16_t, 2 * N>>(b);
  const Halves lower = bitcast<Halves>(bytes & uint16_t(0xff)), upper = bitcast<Halves>(bytes >> 8);
#if defined(__AVX512BW__) && defined(__clang__)
  if constexpr (N == 16) {
    return sum + __builtin_ia32_pmaddwd512(even, lower) + __builtin_ia32_pmaddwd512(odd, upper);
  }
#endif
#if defined(__AVX2__)
  if constexpr (N == 8) {
    return sum + __builtin_ia32_pmaddwd256(even, lower) + __builtin_ia32_pmaddwd256(odd, upper);
  }
#endif
#if defined(__SSE2__)
  if constexpr (N == 4) {
    return sum + __builtin_ia32_pmaddwd128(even, lower) + __builtin_ia32_pmaddwd128(odd, upper);
  }
#endif
  const auto products = [](Halves x, Halves y) SL_INLINE_LAMBDA {
    const auto wideX = bitcast<vec<int32_t, N>>(x), wideY = bitcast<vec<int32_t, N>>(y);
    return ((wideX << 16) >> 16) * ((wideY << 16) >> 16) + (wideX >> 16) * (wideY >> 16);
  };
  return sum + products(even, lower) + products(odd, upper);
}

/// Calls f(Index<count>{}), Min <= count <= Max. Folds away when `count` is a literal; what is
/// compiled for each count is clang's time, so that bounds are worth knowing.
template <int Max, int Min = 1, class F>
SL_INLINE void withCount(int64_t count, const F& f) {
  if constexpr (Max == Min) {
    f(Index<Max>{});
  } else {
    if (count == Max) {
      f(Index<Max>{});
    } else {
      withCount<Max - 1, Min>(count, f);
    }
  }
}

/// Accumulators of MR x (NV * N) results.
template <class T, int N, int MR, int NV>
struct Tile {
  vec<T, N> v[MR][NV];

  SL_INLINE_MEMBER void clear() {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      SL_UNROLL
      for (int j = 0; j < NV; ++j) {
        v[i][j] = vec<T, N>{};
      }
    }
  }
  SL_INLINE_MEMBER void add(const Tile& other) {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      SL_UNROLL
      for (int j = 0; j < NV; ++j) {
        v[i][j] = v[i][j] + other.v[i][j];
      }
    }
  }
  SL_INLINE_MEMBER void loadFrom(const T* p, int64_t rowStride) {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      SL_UNROLL
      for (int j = 0; j < NV; ++j) {
        v[i][j] = load<N>(p + i * rowStride + j * N);
      }
    }
  }
  SL_INLINE_MEMBER void addFrom(const T* p, int64_t rowStride) {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      SL_UNROLL
      for (int j = 0; j < NV; ++j) {
        v[i][j] += load<N>(p + i * rowStride + j * N);
      }
    }
  }
  SL_INLINE_MEMBER void storeTo(T* p, int64_t rowStride) const {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      SL_UNROLL
      for (int j = 0; j < NV; ++j) {
        store(p + i * rowStride + j * N, v[i][j]);
      }
    }
  }
};

/// The rows of A of one tile.
template <class T, int MR>
struct Rows {
  const T* p[MR];

  /// Hides where the pointers come from. Rows of a convolution overlap (stride < kernel), and LLVM
  /// would merge their broadcasts across rows and spill.
  SL_INLINE_MEMBER void makeOpaque() {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      asm("" : "+r"(p[i]));
    }
  }
  SL_INLINE_MEMBER void advance(int64_t elements) {
    SL_UNROLL
    for (int i = 0; i < MR; ++i) {
      p[i] += elements;
    }
  }
};

template <class T, int N, int MR, int NV, class A, class B>
SL_INLINE void multiplyStep(Tile<T, N, MR, NV>& tile, const Rows<A, MR>& a, int64_t k, const B* b) {
  decltype(loadFactor<T, N>(b)) bv[NV];
  SL_UNROLL
  for (int j = 0; j < NV; ++j) {
    bv[j] = loadFactor<T, N>(b + j * N);
  }
  SL_UNROLL
  for (int i = 0; i < MR; ++i) {
    const auto x = splatFactor<T, N>(a.p[i][k]);
    SL_UNROLL
    for (int j = 0; j < NV; ++j) {
      if constexpr (kSame<B, BfloatPair>) {
        tile.v[i][j] = multiplyPairs<N>(x, bv[j], tile.v[i][j]);
      } else if constexpr (kSame<B, ByteQuad>) {
        tile.v[i][j] = multiplyQuads<N>(x, bv[j], tile.v[i][j]);
      } else {
        tile.v[i][j] = fma(x, bv[j], tile.v[i][j]);
      }
    }
  }
}

/// Steps of a reduction for which a panel one vector wide fits into registers beside the sums.
inline constexpr int kShortRun = 16;

/// Partial sums of each result of a small tile, each over every kChains-th step of k, so that 4 to
/// 8 multiply-adds are in flight: one waits 4 cycles for the one before it in its sum.
template <int MR, int NV>
inline constexpr int kChains = MR * NV <= 2   ? 4
                               : MR * NV <= 4 ? 2
                                              : 1;

/// tile += A[MR, run] * B[run, N], row by row: `run` is 4, 8, 12 or 16 and known, so that B stays
/// in registers. What follows can begin with the first row while the last is still being summed (a
/// chain of 100 linears of 16 x 16: 2.5 -> 2.3 us).
template <class T, int N, int MR>
SL_INLINE void multiplyRowByRow(Tile<T, N, MR, 1>& tile, Rows<T, MR> a, int64_t aStep, const T* b,
                                int64_t bStride, int64_t run) {
  SL_UNROLL
  for (int i = 0; i < MR; ++i) {
    vec<T, N> chain[4] = {tile.v[i][0]};
    SL_UNROLL
    for (int64_t k = 0; k < kShortRun; ++k) {
      if (k < run) {
        chain[k % 4] =
            fma(splat<vec<T, N>>(a.p[i][k * aStep]), load<N>(b + k * bStride), chain[k % 4]);
      }
    }
    tile.v[i][0] = (chain[0] + chain[1]) + (chain[2] + chain[3]);
    if (i + 1 < MR) {
      // The compiler would begin all rows at once.
      asm("" : "+r"(a.p[i + 1]) : "v"(tile.v[i][0]));
    }
  }
}

/// Where lines are prefetched: at `at`, and for each further stream `streamBytes` after the one
/// before. The misses that a core can have outstanding do not cover the latency of memory (16
/// lines: 11 GB/s). The hardware prefetcher of L2 follows one stream for each page that is read, so
/// prefetching at several places makes it follow several streams (Granite Rapids, 100 MB of
/// weights, 16 rows: 11.5 GB/s in order, 16.2 in four streams).
struct Ahead {
  const char* at = nullptr;
  int64_t streamBytes = 0;
  int64_t lines = 0;  ///< with kByBlocks: of how many streams
};

/// As `Prefetch`: of as many lines as the next panel has, divided by the row blocks of a call. For
/// kernels of sizes that a call knows, where the best number is not known when they are compiled.
inline constexpr int kByBlocks = -1;

/// Lines of a panel of `nr` columns in 4 steps of the reduction.
template <class B>
constexpr int panelLines(int nr) {
  return (4 * nr * int(sizeof(B)) + 63) / 64;
}

/// Where row block `block` of a panel prefetches: its share of the next panel, which is
/// `panelBytes` further; 2 KiB ahead if it is the only block and there is one stream. The addresses
/// may lie beyond the weight: they are prefetched, not read. `steps`: of the reduction. `lines`:
/// with kByBlocks.
template <int Prefetch, int Streams>
SL_INLINE Ahead aheadOf(const void* panel, int64_t panelBytes, int64_t steps, int64_t block,
                        bool isOnly, int64_t lines = 0) {
  if constexpr (Prefetch == 0) {
    return {};
  } else if constexpr (Prefetch == kByBlocks) {
    const int64_t streamBytes = steps / 4 * 64;
    const int64_t distance = panelBytes + block * streamBytes * lines;
    return {reinterpret_cast<const char*>(reinterpret_cast<uint64_t>(panel) + uint64_t(distance)),
            streamBytes, lines};
  } else {
    static_assert(Prefetch % Streams == 0);
    const int64_t streamBytes = steps / 4 * (64 * (Prefetch / Streams));
    const int64_t distance =
        isOnly && Streams == 1 ? 2048 : panelBytes + block * streamBytes * Streams;
    return {reinterpret_cast<const char*>(reinterpret_cast<uint64_t>(panel) + uint64_t(distance)),
            streamBytes, 0};
  }
}

/// tile += A[MR, run] * B[run, NV * N]; element k of a row is p[k * aStep], row k of B is b[k *
/// bStride]. Moves `b` (and `ahead`) past what was used. Every 4 steps prefetch `Prefetch` lines at
/// `ahead` into L2, the next of each of `Streams` in turn; with kByBlocks the next of each of
/// `ahead.lines`.
template <int Prefetch, int Streams, class T, int N, int MR, int NV, class A, class B>
SL_INLINE void multiply(Tile<T, N, MR, NV>& tile, const Rows<A, MR>& a, int64_t aStep, const B*& b,
                        int64_t bStride, int64_t run, Ahead& ahead) {
  if constexpr (kSame<A, T> && kSame<B, T> && NV == 1 && MR > 1 && Prefetch == 0 &&
                kVectorRegisters >= kShortRun + 8) {
    if (__builtin_constant_p(run) && run <= kShortRun && run % 4 == 0) {
      multiplyRowByRow(tile, a, aStep, b, bStride, run);
      b += run * bStride;
      return;
    }
  }
  const int64_t rest = run & 3;
  const int64_t whole = run - rest;
  constexpr int C = kChains<MR, NV>;
  Tile<T, N, MR, NV> more[C > 1 ? C - 1 : 1];
  SL_UNROLL
  for (int c = 0; c < C - 1; ++c) {
    more[c].clear();
  }
  for (int64_t k = 0; k < whole; k += 4) {
    SL_UNROLL
    for (int u = 0; u < 4; ++u) {
      multiplyStep(u % C == 0 ? tile : more[u % C - 1], a, (k + u) * aStep, b + u * bStride);
    }
    b += 4 * bStride;
    if constexpr (Prefetch > 0) {
      SL_UNROLL
      for (int q = 0; q < Prefetch; ++q) {
        __builtin_prefetch(ahead.at + q % Streams * ahead.streamBytes + q / Streams * 64, 0, 2);
      }
      ahead.at += 64 * (Prefetch / Streams);
    } else if constexpr (Prefetch == kByBlocks) {
      const char* line = ahead.at;
      SL_NO_UNROLL
      for (int64_t q = 0; q < ahead.lines; ++q) {
        __builtin_prefetch(line, 0, 2);
        line += ahead.streamBytes;
      }
      ahead.at += 64;
    }
  }
  SL_UNROLL
  for (int c = 0; c < C - 1; ++c) {
    tile.add(more[c]);
  }
  SL_NO_UNROLL
  for (int64_t k = 0; k < rest; ++k) {
    multiplyStep(tile, a, (whole + k) * aStep, b);
    b += bStride;
  }
}

/// `count` rows cut into balanced blocks of at most `most` rows: the first `big` blocks have `high`
/// rows, the others high - 1. Both sizes fold to literals when `count` is one.
struct RowBlocks {
  int64_t blocks, high, big;

  SL_INLINE_MEMBER constexpr RowBlocks(int64_t count, int64_t most)
      : blocks((count + most - 1) / most),
        high(blocks == 0 ? 0 : (count + blocks - 1) / blocks),
        big(count - blocks * (high - 1)) {}
  SL_INLINE_MEMBER int64_t begin(int64_t block) const {
    return block * (high - 1) + (block < big ? block : big);
  }
  SL_INLINE_MEMBER int64_t size(int64_t block) const { return block < big ? high : high - 1; }
};

/// The tiles that a kernel is compiled for: those of `least` to `most` rows; wholeColumns: each has
/// all columns of its panel. `known`: the shape is a constant.
struct TileSizes {
  int least = 1;
  int most = 1;
  bool wholeColumns = false;
  bool known = false;
};

/// Of a shape that is known at run time: a tile for each count of rows up to `mr`, and columns at a
/// ragged edge.
template <class Shape>
constexpr TileSizes tileSizes(const Shape&, int mr, int) {
  return {.most = mr};
}

/// Of a shape that is a constant: the one or two counts that its blocks have. A fraction of the
/// tiles, and of the time in clang.
template <auto SHAPE>
constexpr TileSizes tileSizes(Fixed<SHAPE>, int mr, int nr) {
  const RowBlocks rows(SHAPE.rows(), mr);
  const bool whole = SHAPE.columns() % nr == 0;
  if (rows.blocks == 0) {
    return {.wholeColumns = whole, .known = true};
  }
  const int high = int(rows.high);
  return {.least = rows.big == rows.blocks ? high : high - 1,
          .most = high,
          .wholeColumns = whole,
          .known = true};
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_MICRO_KERNEL_H
