// SPDX-License-Identifier: Apache-2.0
// Block sizes and cost estimates of the native kernel families, as plain functions of the problem.
// Measured on Zen 3 and Zen 4 (one thread reaches 95% of peak with these), `twoWide` on Granite
// Rapids; a family's header under codegen/kernels says why. Dynamic extents come in as kUnknown.
#ifndef STRAIGHTLINE_BACKENDS_NATIVE_TUNING_H
#define STRAIGHTLINE_BACKENDS_NATIVE_TUNING_H

#include <algorithm>
#include <cstdint>

namespace sl::native {

/// An extent that is not known before the call.
inline constexpr int64_t kUnknown = -1;
/// What cost estimates assume for it.
inline constexpr int64_t kTypicalRows = 16;
/// Terms of a sum, where they are not known.
inline constexpr int64_t kTypicalTerms = 256;

/// The target CPU as tuning sees it.
struct Machine {
  int64_t vectorBytes, l1Bytes, l2Bytes, threads;
  int64_t fmaBytes = 64;  ///< of operands of multiply-adds begun in a cycle
  /// weights that a call of the program reads, all together; 0: not known
  int64_t residentBytes = 0;

  /// Floating-point operations per microsecond and thread at 3.2 GHz.
  double peak(int64_t elementBytes) const {
    return 3200.0 * 2 * (double(fmaBytes) / double(elementBytes));
  }
  /// Two multiply-adds of whole 64-byte vectors a cycle: as many loads a cycle as that, so a value
  /// that is loaded must serve several.
  bool isTwoWide() const { return vectorBytes >= 64 && fmaBytes >= 128; }
  /// Bytes per microsecond and thread when `bytes` are streamed again and again.
  double bandwidth(int64_t bytes) const {
    return bytes <= l1Bytes ? 140e3 : bytes <= l2Bytes ? 72e3 : bytes <= 16 * l2Bytes ? 50e3 : 22e3;
  }
};

inline int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t roundUpTo(int64_t a, int64_t b) { return ceilDivide(a, b) * b; }

/// Rows per tile so that `rows` are cut into equal blocks of at most `most`.
inline int64_t balancedRows(int64_t rows, int64_t most) {
  return rows <= 0 ? most : ceilDivide(rows, ceilDivide(rows, most));
}

/// Rows per register tile of `vectors` vectors, at most about `most`, for `rows` rows: a number
/// that divides them if one is near, so that one height of tile is compiled (a gemm of 64 rows by
/// tiles of 11 and 10: 98 ms of clang; by tiles of 8: 71; calls take the same). A lower tile reads
/// the weights more often, so it may be a third lower only where it is one vector wide, or where
/// the CPU begins one multiply-add a cycle; else a sixth.
inline int64_t tileRows(int64_t rows, int64_t most, int64_t vectors, const Machine& machine) {
  const bool hasRoom = machine.vectorBytes >= 64 && (most + 1) * vectors <= 22;
  const bool mayBeLow = vectors == 1 || (vectors >= 4 && !machine.isTwoWide());
  const int64_t least = mayBeLow ? 2 * most / 3 : 5 * most / 6;
  for (int64_t count = hasRoom ? most + 1 : most; count >= least && rows > 0; --count) {
    if (rows % count == 0) {
      return count;
    }
  }
  return balancedRows(rows, most);
}

/// Cache lines of the next weight panel to fetch per 4 steps of the reduction, from so many places
/// in turn.
struct Prefetch {
  int64_t lines = 0, streams = 1;
};

/// For weights that do not stay in L2.
inline Prefetch choosePrefetch(int64_t rows, int64_t mr, int64_t nr, int64_t elementBytes,
                               int64_t weightBytes, const Machine& machine) {
  const int64_t blocks = ceilDivide(std::max<int64_t>(rows, 1), mr);
  // What other layers read meanwhile pushes these weights out.
  weightBytes = std::max(weightBytes, machine.residentBytes / machine.threads);
  const int64_t lines = std::max<int64_t>(ceilDivide(4 * nr * elementBytes / 64, blocks), 1);
  if (machine.isTwoWide()) {
    // Granite Rapids, 256 x 256 from 100 MB of weights, us (without): 2 rows 12.0 (17.4), 8 rows
    // 14.1 (23.3), 16 rows 16.1 (28.7). One row has nothing to gain, few rows lose where a smaller
    // cache serves them.
    const int64_t least = rows <= 1 ? INT64_MAX : (rows <= 4 ? 16 : 1) * machine.l2Bytes;
    const int64_t streams = std::min<int64_t>(lines, 16);
    return weightBytes > least ? Prefetch{streams, streams} : Prefetch{};
  }
  // One pass over all panels is one stream, which the processor fetches ahead itself from L3.
  if (weightBytes <= (blocks == 1 ? 16 : 1) * machine.l2Bytes) {
    return {};
  }
  return {std::min<int64_t>(lines, 8), 1};
}

struct GemmChoice {
  int64_t mr, nr, kc, mc;
  Prefetch prefetch;
};

/// Writes the first tunables of the families on gemm's micro-kernel: mr, nr, kc, mc.
inline void putBlocks(const GemmChoice& c, int64_t* values) {
  values[0] = c.mr;
  values[1] = c.nr;
  values[2] = c.kc;
  values[3] = c.mc;
}

/// Blocks for the tile that `c` has.
inline GemmChoice withGemmBlocks(GemmChoice c, int64_t m, int64_t n, int64_t k,
                                 int64_t elementBytes, const Machine& machine) {
  if (m != kUnknown) {
    c.mr = tileRows(m, c.mr, c.nr * elementBytes / machine.vectorBytes, machine);
  }
  const int64_t rows = m == kUnknown ? kTypicalRows : m;
  const bool reused = m == kUnknown || rows > c.mr;
  if (reused && k * c.nr * elementBytes > machine.l1Bytes) {
    c.kc = std::max<int64_t>(128, machine.l1Bytes / (c.nr * elementBytes) / 4 * 4);
  } else if (constexpr int64_t kLongest = 8192; k > kLongest) {
    c.kc = kLongest / 2;  // longer sums are sums of sums
  }
  c.mc = std::max<int64_t>(96 / c.mr, 1) * c.mr;
  c.prefetch =
      choosePrefetch(std::min(rows, c.mc), c.mr, c.nr, elementBytes, n * k * elementBytes, machine);
  return c;
}

/// The tile for more than 4 rows of at least two vectors where the CPU begins two multiply-adds of
/// 64 bytes a cycle. Granite Rapids, GFlop/s of one thread (12 x 1 vectors beside it, whose loads
/// are as many as its multiply-adds): 16 rows of 1024 x 1024 from L2 206 (175), 4 of these from L3
/// 150 (112); 64 rows 210 (178) and 190 (145).
inline GemmChoice twoWideGemm(int64_t m, int64_t n, int64_t k, int64_t elementBytes,
                              const Machine& machine) {
  const int64_t lanes = machine.vectorBytes / elementBytes;
  constexpr int64_t kManyRows = 24;
  const bool fillsFour = roundUpTo(n, 4 * lanes) <= n + n / 8;
  if (fillsFour && (m == kUnknown || m >= kManyRows || m <= 6)) {
    GemmChoice c = withGemmBlocks({6, 4 * lanes, 0, 0, {}}, m, n, k, elementBytes, machine);
    c.kc = c.kc == 0 ? 0 : 256;
    return c;
  }
  const bool isOneBlock = m != kUnknown && m <= 14;
  return withGemmBlocks({isOneBlock ? m : 10, 2 * lanes, 0, 0, {}}, m, n, k, elementBytes, machine);
}

/// m may be kUnknown. elementBytes 4 or 8.
inline GemmChoice chooseGemm(int64_t m, int64_t n, int64_t k, int64_t elementBytes,
                             const Machine& machine) {
  const int64_t lanes = machine.vectorBytes / elementBytes;
  // 32 registers: 12 x 1 vectors beat 6 x 2 a little
  const bool wide = machine.vectorBytes >= 64;
  GemmChoice c{};
  // 4 to 12 independent sums hide the latency of the multiply-add
  if (m != kUnknown && m <= 4) {
    constexpr int64_t kWide[] = {0, 4, 4, 3, 2};
    constexpr int64_t kNarrow[] = {0, 6, 4, 3, 2};
    c.nr = std::min(roundUpTo(n, lanes), (wide ? kWide : kNarrow)[m] * lanes);
    c.mr = m;
  } else if (machine.isTwoWide() && n > lanes) {
    return twoWideGemm(m, n, k, elementBytes, machine);
  } else if (wide && m > 12 && n >= 4 * lanes && 4 * m * k * elementBytes >= machine.l2Bytes) {
    // A comes from beyond L2, or crowds the panels there, once for each panel: wide ones ask for it
    // less often (64 x 4096 x 4096: 108 GFlop/s against 95 of one vector, 64 x 1024 x 1024: 116
    // against 110; below that one vector is better).
    c.nr = 4 * lanes;
    c.mr = 6;
    c = withGemmBlocks(c, m, n, k, elementBytes, machine);
    c.kc = c.kc == 0 ? 0 : 256;
    return c;
  } else if (n <= lanes || (wide && m != kUnknown)) {
    c.nr = lanes;
    c.mr = 12;
  } else {
    // Also for an unknown m: every block size up to mr is compiled then.
    c.nr = 2 * lanes;
    c.mr = 6;
  }
  return withGemmBlocks(c, m, n, k, elementBytes, machine);
}

inline double gemmMicroseconds(int64_t m, int64_t n, int64_t k, int64_t elementBytes,
                               int64_t storedBytes, const Machine& machine) {
  const int64_t rows = m == kUnknown ? kTypicalRows : m;
  const int64_t weightBytes = n * k * storedBytes;
  const double compute =
      2.0 * double(rows) * double(n) * double(k) / (machine.peak(elementBytes) * 0.93);
  const double memory = double(weightBytes) / machine.bandwidth(weightBytes);
  return 0.03 + std::max(compute, memory) / double(machine.threads);
}

struct GemmInt8Choice {
  int64_t mr, nr, mc;
  Prefetch prefetch;
};

/// m may be kUnknown. Sums are 32 bits wide. Zen 4, one thread: any tile of 16 sums or more reaches
/// the instruction's one a cycle (467 Gop/s) while A and panels stay in L2; from beyond it wide
/// ones read A less often (64 x 4096 x 4096: 445, 12 x 2 vectors
/// 401). Without VNNI 4 x 4 vectors of AVX2: 155, 6 x 2: 149, 6 x 1: 111.
inline GemmInt8Choice chooseGemmInt8(int64_t m, int64_t n, int64_t k, const Machine& machine) {
  const int64_t lanes = machine.vectorBytes / 4;
  GemmInt8Choice c{};
  c.nr = std::min(roundUpTo(n, lanes), 4 * lanes);
  const bool wide = machine.vectorBytes >= 64;
  const int64_t most = c.nr <= lanes       ? (wide ? 12 : 6)
                       : c.nr <= 2 * lanes ? (wide ? 12 : 6)
                       : wide              ? 6
                                           : 4;
  c.mr = m == kUnknown ? most : tileRows(m, most, c.nr / lanes, machine);
  c.mc = std::max<int64_t>(96 / c.mr, 1) * c.mr;
  if (machine.isTwoWide()) {
    const int64_t rows = std::min(m == kUnknown ? kTypicalRows : m, c.mc);
    c.prefetch = choosePrefetch(rows, c.mr, c.nr, 4, n * k, machine);
  }
  return c;
}

inline constexpr int32_t kGemmInt8Variants = 4;
inline GemmInt8Choice gemmInt8Variant(int32_t variant, int64_t m, int64_t n, int64_t k,
                                      const Machine& machine) {
  GemmInt8Choice c = chooseGemmInt8(m, n, k, machine);
  const int64_t lanes = machine.vectorBytes / 4;
  if (variant == 1 || variant == 2) {
    const int64_t most = machine.vectorBytes < 64 ? (variant == 1 ? 6 : 4) : variant == 1 ? 12 : 14;
    c.nr = std::min(c.nr, (variant == 1 ? 2 : 1) * lanes);
    c.mr = m == kUnknown ? most : balancedRows(m, most);
    c.mc = std::max<int64_t>(96 / c.mr, 1) * c.mr;
  } else if (variant == 3) {
    c.prefetch = {c.prefetch.lines != 0 ? 0 : 2, 1};
  }
  return c;
}

/// The packing of a weight that is computed while running is part of it.
inline double gemmInt8Microseconds(int64_t m, int64_t n, int64_t k, bool packsEachTime,
                                   bool hasVnni, const Machine& machine) {
  const int64_t rows = m == kUnknown ? kTypicalRows : m;
  const int64_t bytes = n * k;
  // Against float32: four products a lane, half as many instructions a cycle; without VNNI two
  // instructions and their widening.
  const double operations = machine.peak(4) * (hasVnni ? 4.0 : 1.6);
  const double compute = 2.0 * double(rows) * double(n) * double(k) / operations;
  const double memory = double(bytes) / machine.bandwidth(bytes);
  const double packing = packsEachTime ? double(bytes) * 0.05e-3 + 2.0 * memory : 0.0;
  return 0.03 + (std::max(compute, memory) + packing) / double(machine.threads);
}

struct GemvChoice {
  int64_t rows, mr;
};

inline GemvChoice chooseGemv(int64_t m, int64_t elementBytes, const Machine& machine) {
  // One row: eight streams, for a page of a framework's memory is often one row and the processor's
  // own prefetching ends with it (15,360 x 1024 from memory: 21-26 GB/s, four streams 16-18). More:
  // as many sums as the registers hold.
  const bool few = machine.vectorBytes < 64 && m > 2;  // 16 registers
  const int64_t rows = std::min<int64_t>(m == 1 ? 8
                                         : few  ? 2
                                                : 4,
                                         machine.vectorBytes / elementBytes);
  return {rows, balancedRows(m, 4)};
}

/// storedBytes: of an element of the weight, less than elementBytes where it is widened on the way.
inline double gemvMicroseconds(int64_t m, int64_t n, int64_t k, int64_t elementBytes,
                               int64_t storedBytes, const Machine& machine) {
  const int64_t weightBytes = n * k * storedBytes;
  // A packed copy is one stream over large pages; a framework's memory is rows on small ones, one
  // stream each. One row of 2048 x 2048 (from L3) 281 us, packed 206; 4096 x 4096 (from memory)
  // 2337 and 1594-1858.
  const double pages = weightBytes > 16 * machine.l2Bytes ? 0.7
                       : weightBytes > machine.l2Bytes    ? 0.85
                                                          : 1.0;
  const double memory = double(weightBytes) / (pages * machine.bandwidth(weightBytes));
  // Widening takes two instructions beside each vector's multiply-adds.
  const double widening =
      storedBytes < elementBytes ? 1.0 + 2.0 / double(std::min<int64_t>(m, 4)) : 1.0;
  const double compute =
      widening * 2.0 * double(m) * double(n) * double(k) / (machine.peak(elementBytes) * 0.93);
  // Each result is a sum across a vector; where k is no whole number of vectors the last one is
  // masked, or where there is but that a copy.
  const bool tail = k * elementBytes % machine.vectorBytes != 0;
  const double sums = double(m) * double(n) *
                      (!tail                                    ? 0.0008
                       : k * elementBytes < machine.vectorBytes ? 0.004
                                                                : 0.0015);
  return 0.04 +
         (double(ceilDivide(m, 4)) * std::max(memory, compute) + sums) / double(machine.threads);
}

struct ConvolutionChoice {
  int64_t mr, nr, mc;
  Prefetch prefetch;
};

/// pixels = n * ho * wo, kUnknown when one of them is dynamic; k output channels; depth = c * kh *
/// kw.
inline ConvolutionChoice chooseConvolution(int64_t pixels, int64_t k, int64_t depth,
                                           const Machine& machine) {
  const int64_t lanes = machine.vectorBytes / 4;
  ConvolutionChoice c{};
  c.nr = k <= lanes ? lanes : 2 * lanes;
  c.mr = c.nr == lanes ? 12 : machine.isTwoWide() ? 10 : 6;
  if (pixels != kUnknown) {
    c.mr = tileRows(pixels, c.mr, c.nr / lanes, machine);
  }
  c.mc = std::max<int64_t>(96 / c.mr, 1) * c.mr;
  const int64_t rows = pixels == kUnknown ? 2 * c.mr : std::min(pixels, c.mc);
  c.prefetch = choosePrefetch(rows, c.mr, c.nr, 4, k * depth * 4, machine);
  return c;
}

inline double convolutionMicroseconds(int64_t pixels, int64_t k, int64_t depth,
                                      const Machine& machine) {
  const int64_t count = pixels == kUnknown ? 1024 : pixels;
  const double flops = 2.0 * double(count) * double(k) * double(depth);
  const double efficiency = depth < 64 ? 0.7 : 0.88;
  const int64_t weightBytes = 4 * k * depth;
  const double memory =
      double(weightBytes) * double(ceilDivide(count, 96)) / machine.bandwidth(weightBytes);
  return 0.2 + std::max(flops / (machine.peak(4) * efficiency), memory) / double(machine.threads);
}

/// Of an image of unknown size: with 1024 pixels, as the costs of the other kernels assume.
inline constexpr int64_t kTypicalSide = 32;
/// The side that images of so many channels have in nets that halve the one where they double the
/// other: 56 of 64 channels, 7 of 512.
inline int64_t sideOfChannels(int64_t c) {
  return std::clamp<int64_t>(3584 / std::max<int64_t>(c, 1), 7, 56);
}

struct WinogradChoice {
  int64_t m, tiles, kb, mr, nr, mode;
  Prefetch prefetch;
  double microseconds;
};

/// The best F(m x m, 3 x 3) for one m. n, h and w may be kUnknown. c and k are multiples of 16.
/// `otherMode`: threads share the tiles where the outputs would be shared, and the other way round.
/// `unknownSide`: of h and w that are unknown.
inline WinogradChoice chooseWinogradFor(int64_t m, int64_t n, int64_t h, int64_t w, int64_t c,
                                        int64_t k, const Machine& machine, bool otherMode = false,
                                        int64_t unknownSide = kTypicalSide) {
  const int64_t points = (m + 2) * (m + 2);
  const int64_t images = n == kUnknown ? 1 : n;
  const bool isOpen = h == kUnknown || w == kUnknown;
  const auto across = [&](int64_t size) {
    return ceilDivide(size == kUnknown ? unknownSide : size, m);
  };
  const int64_t tiles = images * across(h) * across(w);
  const int64_t weightBytes = points * c * k * 4;
  WinogradChoice x{};
  x.m = m;
  x.nr = machine.vectorBytes >= 64 && k % 32 == 0 ? 32 : 16;
  x.mr = machine.vectorBytes >= 64 && x.nr == 16 ? 12 : machine.isTwoWide() ? 12 : 6;
  // Few tiles and weights far beyond L2: every thread reads its own part of the weights.
  const bool byOutputs = (weightBytes > 2 * machine.l2Bytes && tiles <= 64 && !isOpen) != otherMode;
  x.mode = byOutputs ? 1 : 0;
  // Chunks of equal size: one tile left over is a pass over all weights (128 channels at 28 x 28,
  // 49 tiles: 395 us, as 48 + 1 544).
  const int64_t own = byOutputs ? tiles : ceilDivide(tiles, machine.threads);
  x.tiles = (n == kUnknown || isOpen) && !byOutputs
                ? 24
                : balancedRows(
                      own, byOutputs || (2 * weightBytes > machine.l2Bytes && own <= 64) ? 64 : 24);
  // Largest block of outputs whose M stays in half of L2 and that leaves work for every thread.
  x.kb = x.nr;
  for (int64_t kb = x.nr; kb <= k; kb += x.nr) {
    const bool shared = !byOutputs || k / kb >= machine.threads;
    if (k % kb == 0 && shared && points * x.tiles * kb * 4 <= machine.l2Bytes / 2) {
      x.kb = kb;
    }
  }
  x.prefetch = choosePrefetch(x.tiles, x.mr, x.nr, 4, weightBytes, machine);
  if (x.prefetch.lines == 0 && weightBytes > machine.l2Bytes / 4) {
    x.prefetch.lines = 1;  // V and M push the weights out
  }
  const double multiply =
      2.0 * double(points) * double(tiles) * double(c) * double(k) / (machine.peak(4) * 0.9);
  const double passes = double(ceilDivide(tiles, x.tiles));
  const double stream = passes * double(weightBytes) / machine.bandwidth(weightBytes);
  const double transforms =
      double(points) * double(tiles) * double(c + k) * 4 * 2 / machine.bandwidth(machine.l2Bytes);
  x.microseconds = 0.5 + (std::max(multiply, stream) + transforms) / double(machine.threads);
  return x;
}

inline WinogradChoice chooseWinograd(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k,
                                     const Machine& machine) {
  // m = 4 reads 2.25 times the weights of m = 2, which decides where images are small: so sizes
  // that are unknown are those of such channels here, and in the cost those of all kernels.
  const int64_t side = sideOfChannels(c);
  const WinogradChoice two = chooseWinogradFor(2, n, h, w, c, k, machine, false, side);
  const WinogradChoice four = chooseWinogradFor(4, n, h, w, c, k, machine, false, side);
  const int64_t m = two.microseconds < four.microseconds ? 2 : 4;
  return chooseWinogradFor(m, n, h, w, c, k, machine);
}

/// Bytes; as winogradWorkspace in codegen/kernels/winograd.h.
inline int64_t winogradWorkspaceBytes(int64_t c, const WinogradChoice& x, int64_t threads) {
  const int64_t points = (x.m + 2) * (x.m + 2);
  const int64_t rows = x.tiles + x.mr;
  const int64_t v = points * (rows * c + 16);
  const int64_t own = points * (rows * x.kb + 16) + points * c + (x.mode == 0 ? v : 0);
  return ((x.mode == 1 ? v : 0) + threads * roundUpTo(own, 32)) * 4;
}

// ---- what is worth a measurement beside the estimates' choice, which is number 0 everywhere

inline constexpr int32_t kGemmVariants = 6;
inline GemmChoice gemmVariant(int32_t variant, int64_t m, int64_t n, int64_t k,
                              int64_t elementBytes, const Machine& machine) {
  GemmChoice c = chooseGemm(m, n, k, elementBytes, machine);
  const int64_t lanes = machine.vectorBytes / elementBytes;
  const auto tile = [&](int64_t mr, int64_t vectors) {
    return withGemmBlocks({mr, std::min(roundUpTo(n, lanes), vectors * lanes), 0, 0, {}}, m, n, k,
                          elementBytes, machine);
  };
  const bool few = m != kUnknown && m <= 4;
  switch (variant) {
    case 1:
      return few ? tile(m, 2) : tile(6, 2);
    case 2:
      return few ? tile(m, 4) : tile(12, 1);
    case 3:
      return few ? tile(m, 6) : tile(4, 3);
    case 4:  // the whole sum at once, or half a block of it
      c.kc = c.kc != 0 ? 0 : k >= 256 ? std::min<int64_t>(roundUpTo(k / 2, 4), 4096) : 0;
      return c;
    case 5:
      c.prefetch = {c.prefetch.lines != 0 ? 0 : 2, 1};
      return c;
    default:
      return c;
  }
}

inline constexpr int32_t kGemvVariants = 3;
inline GemvChoice gemvVariant(int32_t variant, int64_t m, int64_t elementBytes,
                              const Machine& machine) {
  GemvChoice c = chooseGemv(m, elementBytes, machine);
  const int64_t lanes = machine.vectorBytes / elementBytes;
  if (variant == 1) {
    c.rows = c.rows == 4 ? 2 : std::min<int64_t>(4, lanes);
  } else if (variant == 2) {
    c.mr = balancedRows(m, 2);
  }
  return c;
}

inline constexpr int32_t kConvolutionVariants = 4;
inline ConvolutionChoice convolutionVariant(int32_t variant, int64_t pixels, int64_t k,
                                            int64_t depth, const Machine& machine) {
  ConvolutionChoice c = chooseConvolution(pixels, k, depth, machine);
  const int64_t lanes = machine.vectorBytes / 4;
  if (variant == 1) {
    const bool narrow = c.nr == lanes;
    c.nr = narrow ? 2 * lanes : lanes;
    c.mr = narrow ? 6 : 12;
    c.mr = pixels == kUnknown ? c.mr : tileRows(pixels, c.mr, c.nr / lanes, machine);
    c.mc = std::max<int64_t>(96 / c.mr, 1) * c.mr;
  } else if (variant == 2) {
    c.mc *= 2;
  } else if (variant == 3) {
    c.prefetch = {c.prefetch.lines != 0 ? 0 : 2, 1};
  }
  return c;
}

inline constexpr int32_t kWinogradVariants = 5;
inline WinogradChoice winogradVariant(int32_t variant, int64_t n, int64_t h, int64_t w, int64_t c,
                                      int64_t k, const Machine& machine) {
  switch (variant) {
    case 1:
      return chooseWinogradFor(2, n, h, w, c, k, machine);
    case 2:
      return chooseWinogradFor(4, n, h, w, c, k, machine);
    case 3:
      return chooseWinogradFor(2, n, h, w, c, k, machine, true);
    case 4:
      return chooseWinogradFor(4, n, h, w, c, k, machine, true);
    default:
      return chooseWinograd(n, h, w, c, k, machine);
  }
}

struct AttentionChoice {
  int64_t mr, nr, rows, keys, few;
};

struct AttentionSizes {
  int64_t heads;    ///< of all images; kUnknown where a call decides
  int64_t s, t, d;  ///< queries and keys, which may be kUnknown, and elements of a head
  bool isCausal;
};

/// Keys of a block: each block ends with sums and maxima that nothing else goes on beside, and
/// scales the result of those before, so there are few blocks, of equal size. Its scores, and the
/// keys that it turns, stay in a quarter of L2.
inline int64_t keysOfBlock(int64_t t, int64_t columns, int64_t bytesOfKey, const Machine& machine) {
  const int64_t room = machine.l2Bytes / 4 / bytesOfKey / columns * columns;
  const int64_t most = std::clamp<int64_t>(room, 64, 256);
  return t == kUnknown ? most : roundUpTo(balancedRows(t, most), columns);
}

inline AttentionChoice chooseAttention(const AttentionSizes& sizes, const Machine& machine) {
  const auto [heads, s, t, d, isCausal] = sizes;
  const int64_t lanes = machine.vectorBytes / 4;
  AttentionChoice c{};
  // Turning the keys takes as long as the products of several queries. Granite Rapids, 8 heads of
  // 256 keys of 64 elements, us (turned): 1 query 12.6 (20.0), 3 20.1 (25.7), 4 33 (33), 8 62 (48).
  c.few = d >= lanes ? 4 : 0;
  if (s != kUnknown && s <= c.few) {
    const int64_t columns = std::max<int64_t>(lanes, 16);
    return {1, columns, s, keysOfBlock(t, columns, 4 * s, machine), s};
  }
  c.few = s == kUnknown ? c.few : 0;
  // Two multiply-adds of 64 bytes a cycle want more of them for each loaded value, unless half of
  // the tile would have no key.
  const bool isWide =
      machine.isTwoWide() && d % 32 == 0 && (s == kUnknown || s > 4) && (t == kUnknown || t > 16);
  c.nr = isWide ? 32 : 16;
  c.mr = isWide ? 10 : machine.vectorBytes >= 64 ? 8 : 6;
  if (s != kUnknown) {
    c.mr = std::min(c.mr, balancedRows(s, c.mr));
  }
  // Each unit turns all keys anew, so it has many queries where that leaves a unit for each thread
  // and skips no keys that are masked for its first queries.
  const bool isShared = machine.threads > 1 && (heads == kUnknown || heads < 2 * machine.threads);
  const int64_t most = isCausal || isShared || s == kUnknown ? 48 : 240;
  c.rows = c.mr * std::max<int64_t>(most / c.mr, 1);
  if (s != kUnknown) {
    c.rows = std::min(c.rows, roundUpTo(balancedRows(s, c.rows), c.mr));
  }
  // Granite Rapids, 12 heads of 197 queries and keys, us: blocks of 64 keys 1,310, of 224 1,096.
  c.keys = keysOfBlock(t, c.nr, 4 * (c.rows + d), machine);
  return c;
}

/// Bytes; as attentionWorkspace in codegen/kernels/attention.h.
inline int64_t attentionWorkspaceBytes(int64_t d, const AttentionChoice& c, int64_t threads) {
  const int64_t depth = roundUpTo(d, c.nr);
  const int64_t turned = c.rows <= c.few ? 0 : c.keys * (d % c.nr == 0 ? d : d + depth);
  const int64_t total = turned + c.rows * c.keys + c.rows * depth + roundUpTo(2 * c.rows, 32);
  return threads * roundUpTo(total, 32) * 4;
}

}  // namespace sl::native

#endif  // STRAIGHTLINE_BACKENDS_NATIVE_TUNING_H
