// SPDX-License-Identifier: Apache-2.0
// cuda.gemv_group: products of the same few rows in one launch, with what makes those rows. Its
// problem, asked by group-products: operand 0 is A as the products read it, operand 1 a weight; n
// counts the results of all parts.
#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;
using sl::native::refuse;

constexpr int64_t kMostRows = 16;
constexpr int64_t kMostParts = 4;    // kMaxParts of gemv_group.h
constexpr int64_t kMostWeights = 2;  // kMaxPartWeights
constexpr int64_t kMostInputs = 6;   // kMaxRowInputs
constexpr int64_t kMostStages = 4;
constexpr int64_t kMostBytes = 32 << 10;  // of A in shared memory, beside what the stages share

int64_t bytesOf(const sl_problem* p) { return operandOf(p, 0).dtype.bits / 8; }

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  if (!holds({{"m", 1, kMostRows},
              {"k", 1, INT64_MAX - 1},
              {"n", 1, INT64_MAX - 1},
              {"parts", 1, kMostParts},
              {"weights", 1, kMostWeights},
              {"row_inputs", 1, kMostInputs},
              {"stages", 0, kMostStages}},
             p, reason, bytes)) {
    return 0;
  }
  const int64_t m = attribute(p, "m", 1), k = attribute(p, "k", 1);
  const int64_t bytesOfA = m * k * bytesOf(p);
  if (bytesOfA > kMostBytes) {
    return refuse(reason, bytes, "%lld bytes of A, needs at most %lld",
                  static_cast<long long>(bytesOfA), static_cast<long long>(kMostBytes));
  }
  const int64_t inputs = attribute(p, "row_inputs", 1), stages = attribute(p, "stages", 0);
  if (stages > 0 || inputs > 1) {
    const double us = rowsMicroseconds(m, k, inputs, stages) - rowsMicroseconds(m, k, 1, 0);
    if (us > kLaunchUs) {
      return refuse(reason, bytes,
                    "each block would take %.1f us for rows that one launch makes in %.1f us", us,
                    kLaunchUs);
    }
  }
  return 1;
}

double cost(const sl_problem* p) {
  const int64_t m = attribute(p, "m", 1), k = attribute(p, "k", 1);
  return groupMicroseconds(m, attribute(p, "n", 1), k, bytesOf(p), attribute(p, "weights", 1),
                           attribute(p, "early", 0) != 0) +
         rowsMicroseconds(m, k, attribute(p, "row_inputs", 1), attribute(p, "stages", 0));
}

void tune(const sl_problem* p, int64_t* values) {
  const GroupChoice c = groupChoice(attribute(p, "m", 1), attribute(p, "n", 1),
                                    attribute(p, "k", 1), bytesOf(p), attribute(p, "weights", 1),
                                    attribute(p, "row_inputs", 1), targetOf(p).processors);
  values[0] = c.rows;
  values[1] = c.lanes;
  values[2] = c.threads;
  values[3] = c.unroll;
  values[4] = c.rowThreads;
  values[5] = c.vector;
}

constexpr sl_tunable kTunables[] = {
    {"rows", 1, 1, 8},    {"lanes", 32, 1, 32},         {"threads", 256, 32, 1024},
    {"unroll", 1, 1, 24}, {"rowThreads", 32, 32, 1024}, {"vector", 1, 1, 8}};

}  // namespace

extern constinit const sl_kernel_desc gemvGroupKernel = sl::EmittedKernel{
    .name = "cuda.gemv_group",
    .backend = "cuda",
    .op = "linear_group",
    .family = "gemv_group",
    .summary = "products of the same rows in one kernel, which makes those rows in each block",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
};

}  // namespace straightline::cuda
