// SPDX-License-Identifier: Apache-2.0
// native.matmul_bf16: batched product of two tensors of bfloat16, with the instruction that sums
// products of pairs (AVX512_BF16). Panels of B are packed on each call as native.gemm_bf16 has
// them.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {

extern const sl_kernel_desc matmulKernel;

namespace {

constexpr int64_t kStepBytes = 4;

struct Sizes {
  int64_t batch, m, n, steps;
};

/// Two neighbours of k are one step, of the bytes of a float.
Sizes sizesOf(const sl_problem* p) {
  const int64_t batch = attribute(p, "batch", 1), n = attribute(p, "n", kUnknown);
  return {batch == kUnknown ? kTypicalRows : batch, attribute(p, "m", kUnknown),
          n == kUnknown ? 64 : n, attribute(p, "k", 0) / 2};
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (attribute(p, "bfloat16", 0) == 0) {
    refuse(reason, bytes, "a and b are not both bfloat16");
    return -1;
  }
  const int64_t m = attribute(p, "m", kUnknown), n = attribute(p, "n", kUnknown);
  if (m == 1 || n == 1) {  // packing takes longer than the product
    refuse(reason, bytes, "m=%lld and n=%lld, needs several rows and columns",
           static_cast<long long>(m), static_cast<long long>(n));
    return -1;
  }
  if (p->dot_bf16 == 0) {
    return refuse(reason, bytes, "the CPU has no products of bfloat16 (AVX512_BF16)");
  }
  const int64_t k = attribute(p, "k", 0);
  if (k == kUnknown) {
    return refuse(reason, bytes, "k is dynamic, needs an even number above 0");
  }
  if (k % 2 != 0 || k == 0) {
    return refuse(reason, bytes, "k=%lld, needs an even number above 0", static_cast<long long>(k));
  }
  return matmulKernel.accepts(p, reason, bytes);
}

GemmChoice choice(const sl_problem* p) {
  const Sizes s = sizesOf(p);
  // As for native.gemm_bf16: two vectors of results come first for more than 4 rows.
  const bool few = s.m != kUnknown && s.m <= 4;
  const int32_t variant = !few && p->variant < 2 ? 1 - p->variant : p->variant;
  return gemmVariant(variant, s.m, s.n, s.steps, kStepBytes, machineOf(p));
}

double cost(const sl_problem* p) {
  const Sizes s = sizesOf(p);
  const Machine machine = machineOf(p);
  const double packing =
      double(s.n * s.steps * kStepBytes) * 2 / machine.bandwidth(machine.l2Bytes);
  const int64_t computed = roundUpTo(s.n, machine.vectorBytes / kStepBytes);
  return double(s.batch) *
         (gemmMicroseconds(s.m, computed, s.steps, kStepBytes, kStepBytes, machine) +
          packing / double(machine.threads));
}

int64_t workspace(const sl_problem* p) {
  return machineOf(p).threads * roundUpTo(sizesOf(p).steps * choice(p).nr * kStepBytes, 128);
}

void tune(const sl_problem* p, int64_t* values) {
  const GemmChoice c = choice(p);
  putBlocks(c, values);
  values[4] = 2;
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 14},
                                    {"nr", 16, 4, 96},
                                    {"kc", 0, 0, 4096},
                                    {"mc", 96, 1, 480},
                                    {"pairs", 1, 1, 2}};

constexpr sl_operand_facts kOperands[] = {{"a", SL_TYPE_F32, SL_TYPE_BF16, 0, 0, 0, 0},
                                          {"b", SL_TYPE_F32, SL_TYPE_BF16, 0, 0, 0, 0},
                                          {"c", SL_TYPE_F32, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc matmulBf16Kernel = EmittedKernel{
    .name = "native.matmul_bf16",
    .backend = "native",
    .op = "matmul",
    .family = "matmul",
    .summary =
        "batched product of bfloat16, pairs summed in float32, panels of B packed per thread",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    // the last one is about prefetching
    .variants = [](const sl_problem*) { return kGemmVariants - 1; },
    .properties = SL_KERNEL_NARROW_INPUTS,
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
