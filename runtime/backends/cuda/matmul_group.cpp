// SPDX-License-Identifier: Apache-2.0
// cuda.linear_group_warpgroups: products of the same many rows in one launch, by Hopper's
// instructions for warpgroups. Its problem, asked by group-products: operand 0 is A as the products
// read it, operand 1 a weight; n counts the results of all parts.
#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;
using sl::native::refuse;

constexpr int64_t kFewestRows = 64;
constexpr int64_t kMostParts = 4;    // kMaxParts of gemv_group.h
constexpr int64_t kMostWeights = 2;  // kMaxPartWeights
constexpr int64_t kMapBytes = 128;   // codegen/kernels/cuda_matmul_warpgroups.h

GroupProblem sizesOf(const sl_problem* p) {
  return {attribute(p, "m", 1),           attribute(p, "n", 1),
          attribute(p, "k", 1),           attribute(p, "weights", 1),
          operandOf(p, 0).dtype.bits / 8, attribute(p, "computes_behind", 0) != 0};
}

WarpgroupChoice tileFor(const sl_problem* p) { return groupTile(sizesOf(p), targetOf(p)); }

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  if (attribute(p, "warpgroups", 0) == 0) {
    return refuse(reason, bytes, "needs machine code for sm_90");
  }
  if (operandOf(p, 0).dtype.bits != 16 && !hasTf32(p)) {
    return refuse(reason, bytes, "operand 0 is %s%d, needs 16 bits, or float32 that may be rounded",
                  sl::native::dtypeName(operandOf(p, 0).dtype), operandOf(p, 0).dtype.bits);
  }
  if (!holds({{"m", kFewestRows, INT64_MAX - 1},
              {"k", 1, INT64_MAX - 1},
              {"n", 1, INT64_MAX - 1},
              {"parts", 1, kMostParts},
              {"weights", 1, kMostWeights},
              {"makes_rows", 0, 0}},
             p, reason, bytes)) {
    return 0;
  }
  const int64_t k = attribute(p, "k", 1), piece = 128 / operandOf(p, 0).dtype.bits;
  if (k % piece != 0) {
    return refuse(reason, bytes, "k=%lld, needs a multiple of %lld", static_cast<long long>(k),
                  static_cast<long long>(piece));
  }
  return 1;
}

double cost(const sl_problem* p) {
  return groupTileMicroseconds(tileFor(p), sizesOf(p), targetOf(p));
}

/// A part has at most one tile of columns more than its share.
int64_t workspace(const sl_problem* p) {
  const WarpgroupChoice c = tileFor(p);
  const GroupProblem s = sizesOf(p);
  const int64_t across = s.n * s.weights / c.columns + attribute(p, "parts", 1);
  return kMapBytes * ((1 + s.weights) * ceilDivide(s.m, c.rows) * across + 1);
}

void tune(const sl_problem* p, int64_t* values) {
  const WarpgroupChoice c = tileFor(p);
  values[0] = c.rows;
  values[1] = c.columns / attribute(p, "weights", 1);
  values[2] = c.rows / 64 * 128 + 32;
  values[3] = c.stages;
  values[4] = hasTf32(p) ? 1 : 0;
}

constexpr sl_tunable kTunables[] = {{"rows", 128, 64, 128},
                                    {"columns", 64, 64, 256},
                                    {"threads", 288, 160, 288},
                                    {"stages", 4, 3, 14},
                                    {"tf32", 0, 0, 1}};

}  // namespace

extern constinit const sl_kernel_desc linearGroupWarpgroupsKernel = sl::EmittedKernel{
    .name = "cuda.linear_group_warpgroups",
    .backend = "cuda",
    .op = "linear_group",
    .family = "matmul_group",
    .summary = "products of the same many rows in one kernel, by warpgroups and TMA",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
    .note = noteTf32,
};

}  // namespace straightline::cuda
