// SPDX-License-Identifier: Apache-2.0
// native.gemm: linear with a weight packed once by native.pack_gemm.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

struct Sizes {
  int64_t m, n, k, elementBytes;
};

Sizes sizesOf(const sl_problem* p) {
  return {attribute(p, "m", kUnknown), attribute(p, "n", 0), attribute(p, "k", 0),
          operandOf(p, 0).dtype.bits / 8};
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, true, reason, bytes)) {
    return 0;
  }
  const Sizes s = sizesOf(p);
  if (s.n < 1 || s.k < 1) {
    return refuse(reason, bytes, "n=%lld and k=%lld, needs static sizes of at least 1",
                  static_cast<long long>(s.n), static_cast<long long>(s.k));
  }
  if (operandOf(p, 1).constant == 0) {
    return refuse(reason, bytes, "weight is not constant, so it cannot be packed before the run");
  }
  const sl_operand& x = operandOf(p, 0);
  if (x.rank > 0 && x.strides[x.rank - 1] != 1 && s.k > 1) {
    return refuse(reason, bytes, "innermost stride of x is %lld, needs 1",
                  static_cast<long long>(x.strides[x.rank - 1]));
  }
  return 1;
}

double cost(const sl_problem* p) {
  const Sizes s = sizesOf(p);
  const int64_t stored = attribute(p, "stored_bits", 8 * s.elementBytes) / 8;
  return gemmMicroseconds(s.m, s.n, s.k, s.elementBytes, stored, machineOf(p));
}

void tune(const sl_problem* p, int64_t* values) {
  const Sizes s = sizesOf(p);
  const GemmChoice c = gemmVariant(p->variant, s.m, s.n, s.k, s.elementBytes, machineOf(p));
  putBlocks(c, values);
  values[4] = c.prefetch.lines;
  values[5] = c.prefetch.streams;
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 14},       {"nr", 16, 4, 96},
                                    {"kc", 0, 0, 4096},     {"mc", 96, 1, 480},
                                    {"prefetch", 0, 0, 16}, {"prefetchStreams", 1, 1, 16}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"weight", SL_TYPE_F32 | SL_TYPE_F64, SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_I8, 0, 0,
     SL_OPERAND_PACKED, 0},
    {"bias", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc gemmKernel = EmittedKernel{
    .name = "native.gemm",
    .backend = "native",
    .op = "linear",
    .family = "gemm",
    .summary = "packed weight panels, register tiles of mr x nr, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return kGemmVariants; },
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
