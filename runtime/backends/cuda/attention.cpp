// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention with an online softmax: cuda.attention for few queries or little
// work, cuda.attention_warps by tensor cores.
#include <algorithm>

#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;
using sl::native::extent;
using sl::native::refuse;

/// Heads of keys times images, and queries that share one; kUnknown where a size is.
int64_t headsOf(const sl_problem* p) {
  const int64_t images = extent(operandOf(p, 1), 0);
  return images == kUnknown ? kUnknown : images * extent(operandOf(p, 1), 1);
}
int64_t rowsOf(const sl_problem* p) {
  const int64_t queries = extent(operandOf(p, 0), 2);
  return queries == kUnknown ? kUnknown
                             : queries * (extent(operandOf(p, 0), 1) / extent(operandOf(p, 1), 1));
}

AttentionChoice choice(const sl_problem* p) {
  return attentionChoice(headsOf(p), rowsOf(p), extent(operandOf(p, 1), 2),
                         extent(operandOf(p, 0), 3), operandOf(p, 0).dtype.bits / 8, targetOf(p));
}

/// What both kernels need.
int32_t acceptsOperands(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 3, reason, bytes) || !acceptsFloats(p, 3, reason, bytes)) {
    return 0;
  }
  for (int32_t i = 0; i < 3; ++i) {
    const sl_operand& o = operandOf(p, i);
    if (o.rank != 4) {
      return refuse(reason, bytes, "operand %d has rank %d, needs 4 (b, h, s, d)", i, o.rank);
    }
    if (o.extents[1] == SL_DYNAMIC || o.extents[3] == SL_DYNAMIC) {
      return refuse(reason, bytes,
                    "operand %d has a dynamic number of heads or head size, needs static ones", i);
    }
    if (o.extents[3] != operandOf(p, 0).extents[3]) {
      return refuse(reason, bytes, "head size of operand %d is %lld, needs that of q, %lld", i,
                    static_cast<long long>(o.extents[3]),
                    static_cast<long long>(operandOf(p, 0).extents[3]));
    }
  }
  const int64_t heads = operandOf(p, 0).extents[1], shared = operandOf(p, 1).extents[1];
  if (shared < 1 || heads % shared != 0) {
    return refuse(reason, bytes, "%lld query heads and %lld key heads, needs a multiple",
                  static_cast<long long>(heads), static_cast<long long>(shared));
  }
  return 1;
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!acceptsOperands(p, reason, bytes)) {
    return 0;
  }
  if (choice(p).rows < 1) {
    return refuse(reason, bytes, "head size %lld does not fit into shared memory",
                  static_cast<long long>(operandOf(p, 0).extents[3]));
  }
  return 1;
}

/// Fits what was measured on an H200 (bench/results/h200_77c44f9.json), most of it within a
/// third.
double cost(const sl_problem* p) {
  constexpr double kStartUs = 2.0, kBytesPerUs = 2.5e6, kUsPerKeyAndFeature = 0.0008;
  const AttentionChoice c = choice(p);
  const int64_t d = extent(operandOf(p, 0), 3), keys = known(extent(operandOf(p, 1), 2), 1024),
                rows = known(rowsOf(p), 16);
  const double heads = double(known(headsOf(p), 16));
  if (c.held > 0) {
    const double movedBytes = 2 * heads * double(keys * d) * operandOf(p, 0).dtype.bits / 8;
    return kLaunchUs + kStartUs + movedBytes / kBytesPerUs * std::max(1.0, double(rows) / 3);
  }
  const double pairsPerUs = 47e3 * (d <= 32 ? 2.0 : d <= 128 ? 1.0 : 128.0 / double(d));
  const double pairs = heads * double(rows) * double(keys) *
                       (attribute(p, "is_causal", 0) != 0 && keys > 512 ? 0.6 : 1.0);
  const double stepsUs =
      kUsPerKeyAndFeature * double(keys * d) / double(std::max<int64_t>(c.splits, 1));
  return kLaunchUs + kStartUs + std::max(stepsUs, pairs / (pairsPerUs * targetOf(p).ofH200()));
}

void tune(const sl_problem* p, int64_t* values) {
  const AttentionChoice c = choice(p);
  values[0] = c.rows;
  values[1] = c.keys;
  values[2] = p->inputs > 3 ? 1 : 0;
  values[3] = attribute(p, "is_causal", 0);
  values[4] = c.depth;
  values[5] = c.threads;
  values[6] = c.held;
  values[7] = 0;
  values[8] = c.splits;
}

constexpr sl_tunable kTunables[] = {
    {"rows", 16, 1, 16}, {"keys", 64, 16, 64},  {"mask", 0, 0, 1},
    {"causal", 0, 0, 1}, {"depth", 64, 2, 512}, {"threads", 128, 128, 256},
    {"held", 0, 0, 8},   {"early", 0, 0, 1},    {"splits", 1, 1, kMostSplits}};

//===- by tensor cores -----------------------------------------------------===//

constexpr int64_t kRowsOfWarp = 16, kDeepest = 128, kDeepestF32 = 64;

struct WarpsChoice {
  int64_t rows, keys, depth, warps;
};

/// Sixteen rows whose keys four warps share where there would be fewer blocks than processors,
/// otherwise 64 rows, a warp for each 16. Keys fit with their values
/// into 48 KB, and so do the sums of all warps.
WarpsChoice warpsChoice(const sl_problem* p) {
  constexpr int64_t kWarps = 4;
  WarpsChoice c{kWarps * kRowsOfWarp, 64, ceilDivide(extent(operandOf(p, 0), 3), 16) * 16, 1};
  const int64_t rows = known(rowsOf(p), 1024), heads = known(headsOf(p), 16);
  if (heads * ceilDivide(rows, c.rows) < targetOf(p).processors) {
    c.warps = kWarps;
    c.rows = kRowsOfWarp;
  }
  if (c.depth > 64 || (c.warps == 1 && operandOf(p, 0).dtype.bits == 16)) {
    c.keys = 32;  // the registers of a thread hold no more scores beside the sums
  }
  if (c.keys < kRowsOfWarp * c.warps) {
    c.warps = c.keys / kRowsOfWarp;
  }
  return c;
}

int32_t acceptsWarps(const sl_problem* p, char* reason, size_t bytes) {
  if (!acceptsOperands(p, reason, bytes)) {
    return 0;
  }
  constexpr int64_t kFirst = 80;  // with mma of bfloat16 and TF32, and cp.async
  if (targetOf(p).sm < kFirst) {
    return refuse(reason, bytes, "the program is for sm_%lld, needs sm_80 or later",
                  static_cast<long long>(targetOf(p).sm));
  }
  const int bits = operandOf(p, 0).dtype.bits;
  if (bits == 64 || (bits == 32 && attribute(p, "tf32", 0) == 0)) {
    return refuse(reason, bytes,
                  "operands are float%d, needs 16 bits, or float32 with TF32 allowed", bits);
  }
  const int64_t head = extent(operandOf(p, 0), 3), deepest = bits == 32 ? kDeepestF32 : kDeepest;
  if (head > deepest) {
    return refuse(reason, bytes, "head size %lld, needs at most %lld", static_cast<long long>(head),
                  static_cast<long long>(deepest));
  }
  return 1;
}

/// Decides as was measured on an H100 (docs/performance/cuda.md, "Kernels by themselves"): beside a
/// library, whose estimates are above what its kernels take, a tile of 16-bit floats costs twice of
/// what it takes.
double costOfWarps(const sl_problem* p) {
  const bool isF32 = operandOf(p, 0).dtype.bits == 32;
  const double usPerTile = isF32 ? 2.0 : 2.5;
  constexpr double kStartUs = 3.0, kMostFlopsPerUs = 125e6;
  const WarpsChoice c = warpsChoice(p);
  const int64_t keys = known(extent(operandOf(p, 1), 2), 1024), rows = known(rowsOf(p), 1024);
  const double blocks = double(known(headsOf(p), 16)) * double(ceilDivide(rows, c.rows));
  const double causal = attribute(p, "is_causal", 0) != 0 && rows > 64 ? 0.6 : 1.0;
  // A block alone on a processor waits for each of its tiles; from some blocks on the tensor cores
  // are what is waited for.
  const double tilesUs =
      usPerTile * double(ceilDivide(keys, c.keys)) * double(c.keys * c.depth) / (64 * 64);
  const double flops =
      (isF32 ? 12.0 : 4.0) * blocks * double(c.rows) * double(keys) * double(c.depth);
  return kLaunchUs + kStartUs +
         std::max(tilesUs, causal * flops / (kMostFlopsPerUs * targetOf(p).ofH200()));
}

void tuneWarps(const sl_problem* p, int64_t* values) {
  const WarpsChoice c = warpsChoice(p);
  values[0] = c.rows;
  values[1] = c.keys;
  values[2] = p->inputs > 3 ? 1 : 0;
  values[3] = attribute(p, "is_causal", 0);
  values[4] = c.depth;
  values[5] = c.rows / kRowsOfWarp * c.warps * 32;
  values[6] = c.warps;
}

constexpr sl_tunable kWarpsTunables[] = {
    {"rows", 64, 16, 64},   {"keys", 64, 16, 64},      {"mask", 0, 0, 1}, {"causal", 0, 0, 1},
    {"depth", 64, 16, 128}, {"threads", 128, 32, 512}, {"warps", 4, 1, 4}};

constexpr sl_operand_facts kOperands[] = {
    {"q", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"k", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"v", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"mask", 0, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc attentionKernel = sl::EmittedKernel{
    .name = "cuda.attention",
    .backend = "cuda",
    .op = "attention",
    .family = "attention",
    .summary = "softmax taken online over tiles of keys, which blocks of a cluster share",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
    .operands = kOperands,
};

extern constinit const sl_kernel_desc attentionWarpsKernel = sl::EmittedKernel{
    .name = "cuda.attention_warps",
    .backend = "cuda",
    .op = "attention",
    .family = "attention",
    .summary = "tensor cores; scores and weights stay in the registers of a warp",
    .accepts = acceptsWarps,
    .cost = costOfWarps,
    .tunables = kWarpsTunables,
    .tune = tuneWarps,
    .whole_team = false,
    .operands = kOperands,
};

}  // namespace straightline::cuda
