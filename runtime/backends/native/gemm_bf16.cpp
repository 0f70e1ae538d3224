// SPDX-License-Identifier: Apache-2.0
// native.gemm_bf16: linear of bfloat16, with the instruction that sums products of pairs
// (AVX512_BF16): twice the multiply-adds of float32 in an instruction. The weight is packed once by
// native.pack_gemm with pairs = 2.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {

extern const sl_kernel_desc gemmKernel;

namespace {

constexpr int64_t kStepBytes = 4;

struct Sizes {
  int64_t m, n, steps;
};

/// Two neighbours of k are one step, of the bytes of a float.
Sizes sizesOf(const sl_problem* p) {
  return {attribute(p, "m", kUnknown), attribute(p, "n", 0), attribute(p, "k", 0) / 2};
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (attribute(p, "bfloat16", 0) == 0) {
    refuse(reason, bytes, "x and weight are not both bfloat16");
    return -1;
  }
  if (p->dot_bf16 == 0) {
    return refuse(reason, bytes, "the CPU has no products of bfloat16 (AVX512_BF16)");
  }
  const int64_t k = attribute(p, "k", 0);
  if (k % 2 != 0) {
    return refuse(reason, bytes, "k=%lld, needs an even number", static_cast<long long>(k));
  }
  return gemmKernel.accepts(p, reason, bytes);
}

double cost(const sl_problem* p) {
  const Sizes s = sizesOf(p);
  return gemmMicroseconds(s.m, s.n, s.steps, kStepBytes, kStepBytes, machineOf(p));
}

void tune(const sl_problem* p, int64_t* values) {
  const Sizes s = sizesOf(p);
  // Two vectors of results, number 1 of the variants for float32, come first for more than 4 rows:
  // 235 against 172 GFlop/s of one vector.
  const bool few = s.m != kUnknown && s.m <= 4;
  const int32_t variant = !few && p->variant < 2 ? 1 - p->variant : p->variant;
  const GemmChoice c = gemmVariant(variant, s.m, s.n, s.steps, kStepBytes, machineOf(p));
  putBlocks(c, values);
  values[4] = c.prefetch.lines;
  values[5] = c.prefetch.streams;
  values[6] = 2;
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 14},       {"nr", 16, 4, 96},
                                    {"kc", 0, 0, 4096},     {"mc", 96, 1, 480},
                                    {"prefetch", 0, 0, 16}, {"prefetchStreams", 1, 1, 16},
                                    {"pairs", 1, 1, 2}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32, SL_TYPE_BF16, 0, 0, 0, 0},
    {"weight", SL_TYPE_F32, SL_TYPE_BF16, 0, 0, SL_OPERAND_PACKED, 0},
    {"bias", SL_TYPE_F32, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc gemmBf16Kernel = EmittedKernel{
    .name = "native.gemm_bf16",
    .backend = "native",
    .op = "linear",
    .family = "gemm",
    .summary = "packed weight panels of bfloat16, products of pairs summed in float32",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return kGemmVariants; },
    .properties = SL_KERNEL_NARROW_INPUTS,
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
