// SPDX-License-Identifier: Apache-2.0
// Shapes of blocks and cost estimates of the CUDA kernel families, as plain functions of the
// problem. Measured on an H200 with tests/device/driver_calls_test.py. Dynamic extents come in as
// sl::native::kUnknown.
#ifndef STRAIGHTLINE_BACKENDS_CUDA_TUNING_H
#define STRAIGHTLINE_BACKENDS_CUDA_TUNING_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <iterator>

#include "backends/native/problem.h"

namespace straightline::cuda {

using sl::native::kUnknown;
using sl::native::operandOf;

/// What a program is compiled for: sm_90 is {90, 132, 8}. Which blocks and splits are best depends
/// on the processors; what time they take is an H200's, and of another device as if each of its
/// processors were one of an H200.
struct Target {
  int64_t sm, processors;
  /// blocks that may share a reduction: those of a cluster, up to kMostSplits
  int64_t mostSplits;
  double ofH200() const { return double(processors) / 132; }
};
inline Target targetOf(const sl_problem* p) {
  return {sl::native::attribute(p, "sm", 90), sl::native::attribute(p, "processors", 132),
          sl::native::attribute(p, "cluster", 8)};
}

/// and with products of bfloat16 by tensor cores
inline constexpr int64_t kFirstWithTf32 = 80;

/// Whether factors of a product, which are float32, may be rounded.
inline bool hasTf32(const sl_problem* p) {
  return operandOf(p, 0).dtype.bits == 32 && sl::native::attribute(p, "tf32", 0) != 0;
}
/// The note of a product's kernel that rounds its factors.
inline void noteTf32(const sl_problem* p, char* text, size_t bytes) {
  if (hasTf32(p)) {
    std::snprintf(
        text, bytes,
        "TF32: factors are rounded to 10 bits, as torch.backends.cuda.matmul.allow_tf32 says");
  }
}

inline constexpr double kBytesPerUs = 4.2e6;  ///< that device memory gives
/// from the end of one kernel to the first result of the next
inline constexpr double kLaunchUs = 2.0;

inline int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t known(int64_t value, int64_t typical) { return value == kUnknown ? typical : value; }
inline int64_t floorToPowerOf2(int64_t value) {
  int64_t power = 1;
  while (power * 2 <= value) {
    power *= 2;
  }
  return power;
}

/// Tunables of family gemv (codegen/kernels/cuda_gemv.h).
struct GemvChoice {
  int64_t rows, mr, lanes, threads, unroll;
};

/// m <= 16. `bytes`: of an element of the weight.
inline GemvChoice gemvChoice(int64_t m, int64_t n, int64_t k, int64_t bytes) {
  const int64_t pieces = std::max<int64_t>(1, ceilDivide(known(k, 1024), 16 / bytes));
  GemvChoice c{};
  c.mr = std::clamp<int64_t>(m, 1, 16);
  // Two pieces a thread where rows are longer than a warp; several rows of A reuse what a thread
  // has read, and want it whole.
  const bool reuses = m >= (bytes >= 4 ? 3 : 4);
  const int64_t wanted = pieces <= 32 || reuses ? pieces : std::max<int64_t>(32, pieces / 2);
  c.lanes = std::clamp<int64_t>(floorToPowerOf2(wanted), 1, reuses ? 128 : 256);
  const int64_t work = known(n, 4096) * c.lanes;  // threads with one row of the weight each
  if (reuses) {
    c.rows = work >= 300000 ? 4 : work >= 32768 ? 2 : 1;
  } else {
    c.rows = bytes >= 4 || work <= 140000 ? 1 : work <= 600000 ? 2 : 4;
  }
  c.unroll = reuses || c.rows >= 4
                 ? 1
                 : std::clamp<int64_t>(ceilDivide(pieces, c.lanes), 1, c.rows == 2 ? 2 : 4);
  c.threads = std::max<int64_t>(c.lanes, 128);
  return c;
}

inline double gemvMicroseconds(int64_t m, int64_t n, int64_t k, int64_t bytes) {
  // loads of A between the multiply-adds, which wait for the weight as well
  constexpr double kFlopsPerUs = 36e6;
  const double elements = double(known(n, 4096)) * double(known(k, 1024));
  return kLaunchUs + elements * double(bytes) / kBytesPerUs +
         elements * 2 * double(m) / kFlopsPerUs;
}

/// Tunables of family gemv_group (codegen/kernels/cuda_gemv_group.h).
struct GroupChoice {
  int64_t rows, lanes, threads, unroll, rowThreads, vector;
};

/// m <= 16 rows of A; `n` results of all parts together; `weights` a part. There are two blocks a
/// processor where that is enough, or one for more than two rows, whose threads use each weight
/// that they load several times. A thread holds at most 16 pieces of 16 bytes, of at most 4 rows of
/// weights (more are spilled). One or two long rows of A are each computed by the whole block, with
/// runs of one length for all threads where possible.
inline GroupChoice groupChoice(int64_t m, int64_t n, int64_t k, int64_t bytes, int64_t weights,
                               int64_t inputs, int64_t processors) {
  constexpr int64_t kMostPieces = 16, kMostSums = 16, kMostAddresses = 4;
  const int64_t pieces = ceilDivide(k, 16 / bytes);
  GroupChoice c{};
  c.threads = 256;
  c.lanes = std::clamp<int64_t>(floorToPowerOf2(std::max<int64_t>(1, pieces)), 1, 32);
  const int64_t most =
      std::max<int64_t>(1, std::min<int64_t>(kMostAddresses / weights, kMostSums / (m * weights)));
  c.rows = std::clamp<int64_t>(ceilDivide(n, (m <= 2 ? 2 : 1) * processors * (c.threads / c.lanes)),
                               1, most);
  c.unroll = std::clamp<int64_t>(ceilDivide(pieces, c.lanes), 1, kMostPieces / (c.rows * weights));
  c.rowThreads = m <= 2 && k >= 256 ? c.threads : 32;
  c.vector = 1;
  while (c.vector < 16 / bytes && k % (c.vector * 2) == 0 && k / (c.vector * 2) >= c.rowThreads &&
         c.vector * 2 * inputs <= 32) {
    c.vector *= 2;
  }
  while (c.vector > 1 && k % (c.vector * c.rowThreads) != 0 && k % c.rowThreads == 0) {
    c.vector /= 2;
  }
  return c;
}

/// Microseconds that a block takes to compute m rows of k elements before its products: it waits
/// for the sums over a row, and one of its threads loads and computes each element.
inline double rowsMicroseconds(int64_t m, int64_t k, int64_t inputs, int64_t stages) {
  constexpr double kStageUs = 0.3;
  constexpr double kElementsPerUs = 24e3;
  const double rows = m <= 2 ? double(m) : double(ceilDivide(m, 8));
  return kStageUs * double(stages) * rows + double(m * k * inputs) / kElementsPerUs;
}

/// A is written to shared memory before it is used. With `early` weights are loaded while the
/// previous kernel still runs, which hides their time, but at most half of what a launch costs;
/// with more than two rows the sums take that gain.
inline double groupMicroseconds(int64_t m, int64_t n, int64_t k, int64_t bytes, int64_t weights,
                                bool early) {
  constexpr double kHiddenUs = 1.0, kStagedUs = 0.3;
  const double hidden =
      early && m <= 2 ? std::min(kHiddenUs, double(n * weights) * double(k * bytes) / kBytesPerUs)
                      : 0;
  return gemvMicroseconds(m, n * weights, k, bytes) + kStagedUs - hidden;
}

/// Tunables of family matmul (codegen/kernels/cuda_matmul.h).
struct TileChoice {
  int64_t mr, nr, rows, columns, threads, splits;
};

/// Bytes of an element as tileChoice counts them: tiles for tensor cores are those of 2 bytes.
/// Products that have no instruction there are summed by multiply-adds of float32.
inline int64_t tileBytes(sl_dtype dtype, bool isTf32, const Target& target) {
  const bool isBfloat = dtype.code == 4;
  return isTf32 ? 2 : isBfloat && target.sm < kFirstWithTf32 ? 4 : dtype.bits / 8;
}

inline constexpr int64_t kMostSplits = 8;  ///< the largest cluster of any device
/// steps of the reduction that are worth a block of their own
inline constexpr int64_t kShortestPart = 64;

/// The largest tile of which there are enough for all processors, where the blocks that share a
/// tile count too.
inline TileChoice tileChoice(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                             const Target& target) {
  constexpr int64_t kTiles = 4;
  static constexpr TileChoice kOfThreads[kTiles] = {{8, 8, 128, 128, 256, 1},
                                                    {8, 4, 64, 64, 128, 1},
                                                    {4, 4, 32, 64, 128, 1},
                                                    {4, 4, 32, 32, 64, 1}};
  static constexpr TileChoice kOfWarps[kTiles] = {{64, 32, 128, 128, 256, 1},
                                                  {32, 32, 64, 64, 128, 1},
                                                  {16, 16, 32, 32, 128, 1},
                                                  {16, 16, 32, 32, 128, 1}};
  const int64_t rows = known(m, 64);
  const int64_t depth = std::max<int64_t>(1, known(k, 1024));
  // a row of tiles: what matters is how many blocks read the other operand
  if (bytes == 2 && rows <= 16) {
    TileChoice c{16, 16, 16, 64, 128, 1};
    const int64_t tiles = known(batch, 8) * ceilDivide(known(n, 1024), c.columns);
    while (c.splits < target.mostSplits && depth / c.splits >= 2 * kShortestPart &&
           tiles * c.splits < target.processors * 4 / 3) {
      c.splits *= 2;
    }
    return c;
  }
  const int64_t wanted = target.processors * 15 / 16;
  for (int64_t i = bytes == 8 ? 1 : 0; i < kTiles; ++i) {
    TileChoice c = bytes == 2 ? kOfWarps[i] : kOfThreads[i];
    const int64_t tiles =
        known(batch, 8) * ceilDivide(rows, c.rows) * ceilDivide(known(n, 1024), c.columns);
    // Tensor cores finish a part before the blocks synchronize, so large tiles are not shared.
    const bool isShared = c.rows < 128 && (bytes != 2 || c.rows < 64);
    const int64_t most =
        isShared ? std::min(target.mostSplits,
                            floorToPowerOf2(std::max<int64_t>(1, depth / kShortestPart)))
                 : 1;
    const bool isLast = i + 1 == kTiles;
    const bool isHalfEmpty = c.rows >= 2 * std::max<int64_t>(rows, 32) ||
                             c.columns >= 2 * std::max<int64_t>(known(n, 1024), 32);
    if (!isLast && (tiles * most < wanted || isHalfEmpty)) {
      continue;
    }
    while (c.splits < most &&
           (tiles * c.splits < wanted ||
            (depth / c.splits >= 1024 && tiles * c.splits <= 4 * target.processors))) {
      c.splits *= 2;
    }
    return c;
  }
  return kOfThreads[kTiles - 1];
}

inline double tileMicroseconds(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                               const Target& target) {
  constexpr double kSyncUs = 1.0;
  const TileChoice c = tileChoice(batch, m, n, k, bytes, target);
  const double tiles = double(known(batch, 8) * ceilDivide(known(m, 64), c.rows) *
                              ceilDivide(known(n, 1024), c.columns));
  // Of one step of the reduction, for a tile on a processor of its own.
  const double area = double(c.rows * c.columns) / (64.0 * 64);
  const double stepUs =
      bytes == 2 ? 0.01 + 0.003 * area : (0.02 + 0.03 * area) * (bytes == 8 ? 2 : 1);
  const double rounds = std::max(1.0, tiles * double(c.splits) / double(2 * target.processors));
  return kLaunchUs + rounds * stepUs * double(known(k, 1024)) / double(c.splits) +
         (c.splits > 1 ? kSyncUs : 0);
}

/// Products of more than 16 rows by tensor cores. Fits what was measured on an H100 with a bias and
/// a residual (50 products of 49 to 50,176 rows in bfloat16 and TF32), nearly all within a quarter:
/// a step of the reduction takes a tile some time, however alone it is on its processor, and a
/// processor some time for each of its tiles.
inline double warpTileMicroseconds(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t bytes,
                                   const Target& target) {
  struct Step {
    double aloneUs, sharedUs;
  };
  constexpr Step kOfBfloat[] = {{0.0051, 0.0023}, {0.0115, 0.006}, {0.0215, 0.022}};
  constexpr Step kOfTf32[] = {{0.0117, 0.0051}, {0.0252, 0.0145}, {0.053, 0.047}};
  constexpr double kBeginUs = 0.5, kSyncUs = 2.0, kBytesPerUs = 3.0e6;
  const TileChoice c = tileChoice(batch, m, n, k, 2, target);
  const Step step = (bytes == 4 ? kOfTf32 : kOfBfloat)[c.rows >= 128 ? 2 : c.rows >= 64 ? 1 : 0];
  const double tiles = double(known(batch, 8) * ceilDivide(known(m, 64), c.rows) *
                              ceilDivide(known(n, 1024), c.columns));
  // Tiles of one round overlap with those of the next.
  const double share = tiles * double(c.splits) / double(target.processors);
  const double perProcessor = (share + std::ceil(share)) / 2;
  const double results = double(known(batch, 8) * known(m, 64)) * double(known(n, 1024));
  return kLaunchUs + kBeginUs +
         std::max(step.aloneUs, step.sharedUs * perProcessor) * double(known(k, 1024)) /
             double(c.splits) +
         results * double(bytes) / kBytesPerUs + (c.splits > 1 ? kSyncUs : 0);
}

/// Tunables of family matmul by warpgroups (codegen/kernels/cuda_matmul_warpgroups.h).
struct WarpgroupChoice {
  int64_t rows, columns, stages;
  int64_t resident;  ///< blocks that a processor has room for
  int64_t splits = 1;
};

inline int64_t warpgroupTiles(const WarpgroupChoice& c, int64_t batch, int64_t m, int64_t n) {
  return batch * ceilDivide(m, c.rows) * ceilDivide(n, c.columns) * c.splits;
}

/// A product for warpgroups. `computes`: more than a bias, a residual or a ReLU is fused behind it.
struct WarpgroupProblem {
  int64_t batch, m, n, k, bytes;
  bool computes;
};

/// Cycles of a step of the reduction, 128 bytes: what shared memory takes. A warpgroup reads its
/// rows and all columns, and all are written once.
inline double warpgroupStep(const WarpgroupChoice& c) {
  return double(c.rows / 64 * (64 + c.columns) + c.rows + c.columns);
}

/// Constants of tilesMicroseconds; cycles where they name no other unit.
struct TileCost {
  double beginUs, cyclesPerUs;
  double latency;         ///< until a requested tile has come
  double shared, step;    ///< of a step: times warpgroupStep(), and what else it takes
  double tile, result;    ///< of a tile's end, and of each of its sums
  double computed;        ///< of a result for which more is fused than a bias or a residual
  double hidden;          ///< how much of it two blocks of a processor hide from each other
  double last;            ///< how much of a round the last one takes that is not full, and
  double lastOfTwo;       ///< the same where a processor has room for two blocks
  double sync, gathered;  ///< where blocks share a tile: of the tile, and of each sum
  double inClusters;      ///< processors that such blocks can use, one each
  double resultBytesPerUs;
  double flopsPerUs;  ///< of large products, at the clock that their power leaves
};

/// Fits eight products on an H200, each by some 30 tiles in a chain, where a kernel gets ready
/// before the one ahead has ended: one of the best is taken, within a tenth for most.
inline constexpr TileCost kTf32Tiles{.beginUs = 1.1,
                                     .cyclesPerUs = 1750,
                                     .latency = 2400,
                                     .shared = 1.0,
                                     .step = 110,
                                     .tile = 870,
                                     .result = 0.03,
                                     .computed = 0.9,
                                     .hidden = 1.5,
                                     .last = 0.5,
                                     .lastOfTwo = 0.5,
                                     .sync = 4500,
                                     .gathered = 0.3,
                                     .inClusters = 1.0,
                                     .resultBytesPerUs = 2.5e6,
                                     .flopsPerUs = 290e6};
/// Fits 22 groups of products of 64 to 3,152 rows on an H200, each by twelve tiles, and 11 products
/// by some 20 tiles in chains, most within a tenth.
inline constexpr TileCost k16BitTiles{.beginUs = 1.5,
                                      .cyclesPerUs = 1700,
                                      .latency = 2200,
                                      .shared = 0.9,
                                      .step = 190,
                                      .tile = 830,
                                      .result = 0.05,
                                      .computed = 0.63,
                                      .hidden = 1.0,
                                      .last = 1.0,
                                      .lastOfTwo = 0.17,
                                      .sync = 4500,
                                      .gathered = 0.3,
                                      .inClusters = 0.875,
                                      .resultBytesPerUs = 5.0e6,
                                      .flopsPerUs = 580e6};

/// What is to be done by tiles of one size.
struct TileWork {
  double tiles;     ///< blocks that share one count as one
  double steps;     ///< of a tile's reduction, 128 bytes each
  double computed;  ///< results of a tile, as TileCost::computed
  double written;   ///< bytes of all results
  double flops;
  double read = 0;  ///< bytes that device memory gives, where they may be what it waits for
};

/// Blocks that share a tile wait for each other, and each finishes a part of it.
inline double tilesMicroseconds(const WarpgroupChoice& c, const TileWork& work,
                                const TileCost& cost, const Target& target) {
  constexpr double kReadBytesPerUs = 3.4e6;
  const double splits = double(c.splits), sums = double(c.rows * c.columns);
  const double step =
      std::max(cost.shared * warpgroupStep(c) + cost.step, cost.latency / double(c.stages));
  double tail = cost.tile + cost.result * sums + cost.computed * work.computed;
  if (c.splits > 1) {
    tail = cost.sync + tail / splits + cost.gathered * sums;
  }
  const double each =
      std::ceil(work.steps / splits) * step + tail / (c.resident > 1 ? cost.hidden : 1);
  const double used = c.splits > 1 && c.resident == 1 ? cost.inClusters : 1;
  const double share = work.tiles * splits / (used * double(target.processors));
  const double rounds =
      share + (std::ceil(share) - share) * (c.resident > 1 ? cost.lastOfTwo : cost.last);
  return cost.beginUs + std::max({std::max(1.0, rounds) * each / cost.cyclesPerUs +
                                      work.written / cost.resultBytesPerUs,
                                  work.flops / cost.flopsPerUs, work.read / kReadBytesPerUs});
}

/// The same as compared with libraries' estimates. Those of cuBLASLt's products of 16 bits are 2 us
/// too high. They are compared rightly where cuBLASLt needs a pass behind it, for which 1 us is
/// counted and which takes 2 to 3.
inline double comparedMicroseconds(const WarpgroupChoice& c, const TileWork& work, int64_t bytes,
                                   const Target& target) {
  return bytes == 4
             ? tilesMicroseconds(c, work, kTf32Tiles, target)
             : tilesMicroseconds(c, work, k16BitTiles, target) + (work.computed > 0 ? 0 : 2.0);
}

/// Whether tilesMicroseconds holds: in TF32 where what a block does before and behind its products
/// decides.
inline bool isOfTiles(const WarpgroupProblem& p, const Target& target) {
  constexpr int64_t kTile = 128 * 128;
  return p.bytes == 2 || p.batch * p.m * p.n <= target.processors * 3 / 2 * kTile;
}

/// Fits what was measured of products in TF32 on an H200 (up to 50,176 rows,
/// docs/performance/cuda.md), most within a fifth. Alone on a processor a block waits for its first
/// tiles, and for each step if it keeps few. Its own warps compute what is fused, few at a time.
inline double manyTilesMicroseconds(const WarpgroupChoice& c, const WarpgroupProblem& p,
                                    const Target& target) {
  constexpr double kLatency = 1400, kTile = 3000, kResult = 0.1, kComputed = 0.25;
  constexpr double kBeginUs = 1.0, kSyncUs = 1.5;
  constexpr double kCyclesPerUs = 1750, kResultBytesPerUs = 2.5e6;
  const double results = double(c.rows * c.columns), resident = double(c.resident);
  const double steps = double(ceilDivide(ceilDivide(p.k * p.bytes, 128), c.splits));
  const double step = std::max(warpgroupStep(c), kLatency / double(c.stages));
  const double end = kTile + (kResult + (p.computes ? kComputed : 0)) * results;
  const double share = double(warpgroupTiles(c, p.batch, p.m, p.n)) / double(target.processors);
  const double rounds = std::max(1.0, (share + std::ceil(share)) / 2);
  return kLaunchUs + kBeginUs + rounds * (steps * step + end / resident) / kCyclesPerUs +
         double(p.batch * p.m * p.n * p.bytes) / kResultBytesPerUs + (c.splits > 1 ? kSyncUs : 0);
}

inline double warpgroupMicroseconds(const WarpgroupChoice& c, const WarpgroupProblem& p,
                                    const Target& target) {
  if (!isOfTiles(p, target)) {
    return manyTilesMicroseconds(c, p, target);
  }
  const TileWork work{.tiles = double(warpgroupTiles(c, p.batch, p.m, p.n)) / double(c.splits),
                      .steps = double(ceilDivide(p.k * p.bytes, 128)),
                      .computed = p.computes ? double(c.rows * c.columns) : 0,
                      .written = double(p.batch * p.m * p.n * p.bytes),
                      .flops = 2 * double(p.batch * p.m) * double(p.n) * double(p.k)};
  return comparedMicroseconds(c, work, p.bytes, target);
}

/// Settings that tuning may measure.
inline constexpr int32_t kWarpgroupVariants = 3;

/// The choice that is estimated to take least, or, as number `variant` > 0, the next ones.
inline WarpgroupChoice warpgroupChoice(const WarpgroupProblem& p, const Target& target,
                                       int32_t variant) {
  static constexpr WarpgroupChoice kOfMany[] = {
      {128, 256, 4, 1}, {128, 192, 4, 1}, {128, 128, 3, 2}, {64, 192, 3, 2},
      {64, 128, 4, 2},  {128, 64, 4, 2},  {64, 64, 6, 2},   {128, 128, 5, 1}};
  static constexpr WarpgroupChoice kOfFew[] = {{128, 256, 4, 1}, {128, 192, 5, 1}, {128, 128, 6, 1},
                                               {128, 128, 3, 2}, {128, 64, 9, 1},  {128, 64, 4, 2},
                                               {64, 256, 5, 1},  {64, 192, 6, 1},  {64, 128, 9, 1},
                                               {64, 128, 4, 2},  {64, 64, 13, 1},  {64, 64, 6, 2}};
  const bool isFew = isOfTiles(p, target);
  const WarpgroupChoice* first = isFew ? std::begin(kOfFew) : std::begin(kOfMany);
  const WarpgroupChoice* last = isFew ? std::end(kOfFew) : std::end(kOfMany);
  struct Estimate {
    double us = HUGE_VAL;
    WarpgroupChoice choice = kOfMany[0];
  };
  Estimate best[kWarpgroupVariants];
  for (const WarpgroupChoice* one = first; one != last; ++one) {
    for (int64_t splits = 1; splits <= std::min<int64_t>(4, target.mostSplits); splits *= 2) {
      Estimate now{0, *one};
      now.choice.splits = splits;
      now.us = warpgroupMicroseconds(now.choice, p, target);
      const bool isShort = ceilDivide(p.k * p.bytes, 128) / splits < 4;
      for (Estimate& better : best) {
        if (now.us < better.us && (splits == 1 || !isShort)) {
          std::swap(now, better);
        }
      }
    }
  }
  return best[std::clamp<int32_t>(variant, 0, kWarpgroupVariants - 1)].choice;
}

/// Products of the same m rows: n results of all parts, each of `weights` products. `computes`: as
/// of WarpgroupProblem.
struct GroupProblem {
  int64_t m, n, k, weights, bytes;
  bool computes;
};

/// Of a tile that has the columns of all weights (codegen/kernels/cuda_matmul_group.h).
inline double groupTileMicroseconds(const WarpgroupChoice& c, const GroupProblem& p,
                                    const Target& target) {
  const int64_t products = p.n * p.weights;
  const TileWork work{.tiles = double(ceilDivide(p.m, c.rows) * ceilDivide(products, c.columns)),
                      .steps = double(ceilDivide(p.k * p.bytes, 128)),
                      .computed = p.computes ? double(c.rows * c.columns / p.weights) : 0,
                      .written = double(p.m * p.n * p.bytes),
                      .flops = 2 * double(p.m) * double(products) * double(p.k),
                      .read = double(products * p.k * p.bytes)};
  return comparedMicroseconds(c, work, p.bytes, target);
}

/// The tile that is estimated to take least, of 64 columns of each weight or more; the first, and
/// smaller one, where memory decides.
inline WarpgroupChoice groupTile(const GroupProblem& p, const Target& target) {
  static constexpr WarpgroupChoice kAll[] = {{64, 64, 13, 1},  {64, 64, 6, 2},   {128, 64, 9, 1},
                                             {128, 64, 4, 2},  {64, 128, 9, 1},  {64, 128, 4, 2},
                                             {128, 128, 6, 1}, {128, 128, 3, 2}, {64, 192, 6, 1},
                                             {128, 192, 5, 1}, {64, 256, 5, 1},  {128, 256, 4, 1}};
  const auto* first = std::find_if(std::begin(kAll), std::end(kAll), [&](const WarpgroupChoice& c) {
    return c.columns >= 64 * p.weights;
  });
  return *std::min_element(
      first, std::end(kAll), [&](const WarpgroupChoice& a, const WarpgroupChoice& b) {
        return groupTileMicroseconds(a, p, target) < groupTileMicroseconds(b, p, target);
      });
}

/// Tunables of family attention (codegen/kernels/cuda_attention.h).
struct AttentionChoice {
  int64_t rows, keys, depth, threads, splits, held;
};

/// Bytes of shared memory that the kernel declares: attention_detail::Memory, or HeldMemory where
/// that is larger.
inline int64_t attentionBytes(const AttentionChoice& c, int64_t bytes) {
  const int64_t sum = bytes == 8 ? 8 : 4;
  const int64_t tile = c.keys * (c.depth + 16 / bytes) * 2 * bytes;
  const int64_t parts = std::max<int64_t>(1, c.threads / (c.depth / 4)) * c.rows * c.depth * sum;
  const int64_t tiles =
      ceilDivide(std::max(tile, parts), 16) * 16 + (c.rows * (c.depth + c.keys) + 3 * c.rows) * sum;
  // A part for each group of lanes that has keys of its own, of at most 32 lanes and 16 bytes each.
  const int64_t groups = std::max<int64_t>(1, 32 / std::max<int64_t>(1, c.depth * bytes / 16));
  const int64_t held = (c.threads / 32 * groups + 2) * c.rows * (c.depth + 4) * sum;
  return c.held > 0 ? std::max(tiles, held) : tiles;
}

/// Keys that a group of lanes holds in registers at once: few rows of whole pieces of 16 bytes. 0:
/// tiles in shared memory.
inline int64_t heldKeys(int64_t rows, int64_t d, int64_t bytes) {
  constexpr int64_t kMostRows = 8, kMostBytes = 512;
  const bool fits = rows != kUnknown && rows <= kMostRows && bytes <= 4 && d * bytes % 16 == 0 &&
                    d * bytes <= kMostBytes;
  return !fits ? 0 : rows <= 4 ? 8 : 4;
}

/// `rows`: queries of the heads that share a head of keys. No rows in the answer: d is too large.
inline AttentionChoice attentionChoice(int64_t heads, int64_t rows, int64_t t, int64_t d,
                                       int64_t bytes, const Target& target) {
  constexpr int64_t kSharedBytes = 48 << 10;
  constexpr int64_t kMostRows = 16;
  AttentionChoice c{std::clamp<int64_t>(known(rows, kMostRows), 1, kMostRows),
                    0,
                    ceilDivide(std::max<int64_t>(d, 1), 16 / bytes) * (16 / bytes),
                    128,
                    1,
                    heldKeys(rows, d, bytes)};
  c.threads = c.held > 0 ? 256 : 128;
  const int64_t tiles =
      known(heads, 8) * ceilDivide(std::max<int64_t>(known(rows, kMostRows), 1), c.rows);
  for (; c.rows > 0; c.rows /= 2) {
    for (c.keys = 64; c.keys >= 16; c.keys /= 2) {
      if (c.depth / 4 > c.threads || attentionBytes(c, bytes) > kSharedBytes) {
        continue;
      }
      while (c.splits < target.mostSplits && tiles * c.splits * 2 <= target.processors &&
             c.keys * c.splits < known(t, 1024)) {
        c.splits *= 2;
      }
      return c;
    }
  }
  return c;
}

/// An attribute of a problem that must be known, and its limits.
struct Limit {
  const char* name;
  int64_t least, most;
};
/// Whether all hold; else 0, with the reason.
inline int32_t holds(std::initializer_list<Limit> limits, const sl_problem* p, char* reason,
                     size_t bytes) {
  for (const Limit& limit : limits) {
    const int64_t value = sl::native::attribute(p, limit.name, kUnknown);
    if (value == kUnknown) {
      return sl::native::refuse(reason, bytes, "%s is dynamic", limit.name);
    }
    if (value < limit.least || value > limit.most) {
      return sl::native::refuse(reason, bytes, "%s=%lld, needs %lld to %lld", limit.name,
                                static_cast<long long>(value), static_cast<long long>(limit.least),
                                static_cast<long long>(limit.most));
    }
  }
  return 1;
}

/// 1 when the first `count` operands are float32, float64, bfloat16 or float16, all alike.
inline int32_t acceptsFloats(const sl_problem* p, int32_t count, char* reason, size_t bytes) {
  for (int32_t i = 0; i < count; ++i) {
    const sl_dtype t = operandOf(p, i).dtype;
    const bool isFloat = (t.code == 2 && (t.bits == 16 || t.bits == 32 || t.bits == 64)) ||
                         (t.code == 4 && t.bits == 16);
    if (!isFloat || t.lanes != 1) {
      return sl::native::refuse(reason, bytes,
                                "operand %d is %s%d, needs float16, bfloat16, float32 or float64",
                                i, sl::native::dtypeName(t), t.bits);
    }
    if (t.bits != operandOf(p, 0).dtype.bits || t.code != operandOf(p, 0).dtype.code) {
      return sl::native::refuse(
          reason, bytes, "operand %d is %s%d but operand 0 is %s%d", i, sl::native::dtypeName(t),
          t.bits, sl::native::dtypeName(operandOf(p, 0).dtype), operandOf(p, 0).dtype.bits);
    }
  }
  return 1;
}

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_BACKENDS_CUDA_TUNING_H
