// SPDX-License-Identifier: Apache-2.0
// cuda.gemv: linear for 1 to 16 rows with the weight in the framework's own layout.
#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;

constexpr int64_t kMostRows = 16;

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  const int64_t m = attribute(p, "m", kUnknown);
  if (m == kUnknown) {
    return sl::native::refuse(reason, bytes, "m is dynamic, needs 1 to %lld",
                              static_cast<long long>(kMostRows));
  }
  if (m < 1 || m > kMostRows) {
    return sl::native::refuse(reason, bytes, "m=%lld, needs 1 to %lld", static_cast<long long>(m),
                              static_cast<long long>(kMostRows));
  }
  return 1;
}

int64_t storedBytes(const sl_problem* p) {
  return attribute(p, "stored_bits", operandOf(p, 0).dtype.bits) / 8;
}

double cost(const sl_problem* p) {
  return gemvMicroseconds(attribute(p, "m", 1), attribute(p, "n", 1), attribute(p, "k", 1),
                          storedBytes(p));
}

void tune(const sl_problem* p, int64_t* values) {
  // Pieces of 16 bytes are counted in the wider of both types.
  const int64_t bytes = std::max<int64_t>(storedBytes(p), operandOf(p, 0).dtype.bits / 8);
  const GemvChoice c =
      gemvChoice(attribute(p, "m", 1), attribute(p, "n", 1), attribute(p, "k", 1), bytes);
  values[0] = c.rows;
  values[1] = c.mr;
  values[2] = c.lanes;
  values[3] = c.threads;
  values[4] = c.unroll;
}

constexpr sl_tunable kTunables[] = {{"rows", 1, 1, 8},
                                    {"mr", 1, 1, kMostRows},
                                    {"lanes", 32, 1, 256},
                                    {"threads", 128, 32, 1024},
                                    {"unroll", 1, 1, 4}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"weight", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, SL_TYPE_F16 | SL_TYPE_BF16,
     0, 0, 0, 0},
    {"bias", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OPTIONAL,
     0},
    {"y", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc gemvKernel = sl::EmittedKernel{
    .name = "cuda.gemv",
    .backend = "cuda",
    .op = "linear",
    .family = "gemv",
    .summary = "dot products over the framework's own weight, which is read once",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
    .operands = kOperands,
    .epilogues = sl::kElementwise,
    .group_op = "linear_group",
};

}  // namespace straightline::cuda
