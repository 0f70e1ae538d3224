// SPDX-License-Identifier: Apache-2.0
// cuda.attention: scaled dot-product attention with an online softmax, for few queries or little
// work.
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

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
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

}  // namespace straightline::cuda
