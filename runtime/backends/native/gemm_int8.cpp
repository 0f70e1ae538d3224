// SPDX-License-Identifier: Apache-2.0
// native.gemm_int8: linear of 8-bit integers with sums of 32 bits, exact modulo 2^32 on every CPU.
// The weight is packed by native.pack_gemm_int8: once where it is known before the run, else on
// each call.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

struct Sizes {
  int64_t m, n, k;
};

Sizes sizesOf(const sl_problem* p) {
  return {attribute(p, "m", kUnknown), attribute(p, "n", kUnknown), attribute(p, "k", kUnknown)};
}

bool isByte(sl_dtype t) { return t.code == 0 && t.bits == 8 && t.lanes == 1; }

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 2, reason, bytes)) {
    return 0;
  }
  if (!isByte(operandOf(p, 0).dtype) || !isByte(operandOf(p, 1).dtype)) {
    refuse(reason, bytes, "x and weight are not both int8");
    return -1;
  }
  if (p->inputs > 2) {
    return refuse(reason, bytes, "%d inputs, needs x and weight alone", p->inputs);
  }
  const Sizes s = sizesOf(p);
  if (s.n < 1 || s.k < 1) {
    return refuse(reason, bytes, "n=%lld and k=%lld, needs static sizes of at least 1",
                  static_cast<long long>(s.n), static_cast<long long>(s.k));
  }
  return 1;
}

double cost(const sl_problem* p) {
  const Sizes s = sizesOf(p);
  // The ABI says of a CPU only whether it has products of bfloat16; whichever has those has VNNI as
  // well.
  return gemmInt8Microseconds(s.m, s.n, s.k, operandOf(p, 1).constant == 0, p->dot_bf16 != 0,
                              machineOf(p));
}

void tune(const sl_problem* p, int64_t* values) {
  const Sizes s = sizesOf(p);
  const GemmInt8Choice c = gemmInt8Variant(p->variant, s.m, s.n, s.k, machineOf(p));
  values[0] = c.mr;
  values[1] = c.nr;
  values[2] = c.mc;
  values[3] = c.prefetch.lines;
  values[4] = c.prefetch.streams;
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 14},
                                    {"nr", 16, 4, 96},
                                    {"mc", 96, 1, 480},
                                    {"prefetch", 0, 0, 16},
                                    {"prefetchStreams", 1, 1, 16}};

constexpr sl_operand_facts kOperands[] = {{"x", SL_TYPE_I8, 0, 0, 0, 0, 0},
                                          {"weight", SL_TYPE_I8, 0, 0, 0, SL_OPERAND_PACKED, 0},
                                          {"y", SL_TYPE_I32, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc gemmInt8Kernel = EmittedKernel{
    .name = "native.gemm_int8",
    .backend = "native",
    .op = "linear",
    .family = "gemm_int8",
    .summary = "packed weight panels of int8, four products a lane summed in int32, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return kGemmInt8Variants; },
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
