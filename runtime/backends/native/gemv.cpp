// SPDX-License-Identifier: Apache-2.0
// native.gemv: linear for 1 to 4 rows with the weight in the framework's own layout.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, true, reason, bytes)) {
    return 0;
  }
  const int64_t m = attribute(p, "m", kUnknown);
  const int64_t k = attribute(p, "k", 0);
  if (m == kUnknown) {
    return refuse(reason, bytes, "m is dynamic, needs 1 to 4");
  }
  if (m < 1 || m > 4) {
    return refuse(reason, bytes, "m=%lld, needs 1 to 4", static_cast<long long>(m));
  }
  for (int32_t i = 0; i < 2; ++i) {
    const sl_operand& o = operandOf(p, i);
    if (k > 1 && o.rank > 0 && o.strides[o.rank - 1] != 1) {
      return refuse(reason, bytes, "innermost stride of operand %d is %lld, needs 1", i,
                    static_cast<long long>(o.strides[o.rank - 1]));
    }
  }
  return 1;
}

double cost(const sl_problem* p) {
  const int64_t bits = operandOf(p, 0).dtype.bits;
  return gemvMicroseconds(attribute(p, "m", 1), attribute(p, "n", 1), attribute(p, "k", 1),
                          bits / 8, attribute(p, "stored_bits", bits) / 8, machineOf(p));
}

void tune(const sl_problem* p, int64_t* values) {
  const GemvChoice c =
      gemvVariant(p->variant, attribute(p, "m", 1), operandOf(p, 0).dtype.bits / 8, machineOf(p));
  values[0] = c.rows;
  values[1] = c.mr;
}

constexpr sl_tunable kTunables[] = {{"rows", 4, 1, 8}, {"mr", 4, 1, 4}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"weight", SL_TYPE_F32 | SL_TYPE_F64, SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_I8, 0, 0, 0, 0},
    {"bias", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OPTIONAL, 0},
    {"y", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc gemvKernel = EmittedKernel{
    .name = "native.gemv",
    .backend = "native",
    .op = "linear",
    .family = "gemv",
    .summary =
        "dot products over the framework's own weight, eight rows at a time, no packing; "
        "a weight of 16-bit floats stays as it is",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return kGemvVariants; },
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
