// SPDX-License-Identifier: Apache-2.0
// native.attention: scaled dot-product attention with an online softmax.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 3, reason, bytes) || !acceptsFloats(p, 3, false, reason, bytes)) {
    return 0;
  }
  for (int32_t i = 0; i < 3; ++i) {
    const sl_operand& o = operandOf(p, i);
    if (o.rank != 4) {
      return refuse(reason, bytes, "operand %d has rank %d, needs 4 (b, h, s, d)", i, o.rank);
    }
    if (o.extents[3] == SL_DYNAMIC || o.extents[3] != operandOf(p, 0).extents[3]) {
      return refuse(reason, bytes, "head size of operand %d is %lld, needs that of q, %lld", i,
                    static_cast<long long>(o.extents[3]),
                    static_cast<long long>(operandOf(p, 0).extents[3]));
    }
    if (o.strides[3] != 1 && o.extents[3] > 1) {
      return refuse(reason, bytes, "innermost stride of operand %d is %lld, needs 1", i,
                    static_cast<long long>(o.strides[3]));
    }
  }
  const int64_t heads = operandOf(p, 0).extents[1], shared = operandOf(p, 1).extents[1];
  if (shared < 1 || heads % shared != 0) {
    return refuse(reason, bytes, "%lld query heads and %lld key heads, needs a multiple",
                  static_cast<long long>(heads), static_cast<long long>(shared));
  }
  if (p->inputs > 3) {
    const sl_dtype t = operandOf(p, 3).dtype;
    if (t.code != 6 && !isFloat(t, 32)) {
      return refuse(reason, bytes, "mask is %s%d, needs bool or float32", dtypeName(t), t.bits);
    }
  }
  return 1;
}

AttentionChoice choice(const sl_problem* p) {
  const sl_operand& q = operandOf(p, 0);
  const int64_t images = extent(q, 0), heads = extent(q, 1);
  return chooseAttention(
      {images == kUnknown || heads == kUnknown ? kUnknown : images * heads, extent(q, 2),
       extent(operandOf(p, 1), 2), extent(q, 3), attribute(p, "is_causal", 0) != 0},
      machineOf(p));
}

double cost(const sl_problem* p) {
  const sl_operand& q = operandOf(p, 0);
  double flops = 4.0 * double(q.extents[3]);
  for (int32_t d = 0; d < 3; ++d) {
    flops *= double(extent(q, d) == kUnknown ? kTypicalRows : extent(q, d));
  }
  const int64_t keys = extent(operandOf(p, 1), 2);
  flops *= double(keys == kUnknown ? kTypicalRows : keys);
  const Machine machine = machineOf(p);
  return 0.5 + flops / (machine.peak(4) * 0.6) / double(machine.threads);
}

int64_t workspace(const sl_problem* p) {
  return attentionWorkspaceBytes(operandOf(p, 0).extents[3], choice(p), machineOf(p).threads);
}

void tune(const sl_problem* p, int64_t* values) {
  const AttentionChoice c = choice(p);
  values[0] = c.mr;
  values[1] = c.nr;
  values[2] = c.rows;
  values[3] = c.keys;
  values[4] = c.few;
  values[5] = p->inputs > 3 ? 1 : 0;
  values[6] = attribute(p, "is_causal", 0);
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 12},      {"nr", 16, 16, 32}, {"rows", 48, 1, 240},
                                    {"keys", 64, 16, 256}, {"few", 0, 0, 16},  {"mask", 0, 0, 1},
                                    {"causal", 0, 0, 1}};

constexpr sl_operand_facts kOperands[] = {
    {"q", SL_TYPE_F32, 0, 0, 0, 0, 0},
    {"k", SL_TYPE_F32, 0, 0, 0, 0, 0},
    {"v", SL_TYPE_F32, 0, 0, 0, 0, 0},
    {"mask", SL_TYPE_F32 | SL_TYPE_BOOL, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc attentionKernel = EmittedKernel{
    .name = "native.attention",
    .backend = "native",
    .op = "attention",
    .family = "attention",
    .summary = "softmax taken online over blocks of keys, scores never stored",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    .operands = kOperands,
};

}  // namespace sl::native
