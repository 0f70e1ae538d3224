// SPDX-License-Identifier: Apache-2.0
// cuda.linear_warpgroups and cuda.matmul_warpgroups: products of many rows by Hopper's instructions
// for warpgroups, whose tiles the tensor memory accelerator brings.
#include <cstring>
#include <utility>

#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;

constexpr int64_t kFewestRows = 64;
/// Workspace of a block: the maps of two operands, which begin at a multiple of one's size
/// (codegen/kernels/cuda_matmul_warpgroups.h).
constexpr int64_t kMapBytes = 128, kMaps = 2;

WarpgroupProblem sizesOf(const sl_problem* p) {
  return {attribute(p, "batch", 1),       attribute(p, "m", kUnknown),
          attribute(p, "n", kUnknown),    attribute(p, "k", kUnknown),
          operandOf(p, 0).dtype.bits / 8, attribute(p, "computes_behind", 0) != 0};
}

WarpgroupChoice choiceFor(const sl_problem* p) {
  return warpgroupChoice(sizesOf(p), targetOf(p), p->variant);
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  if (attribute(p, "warpgroups", 0) == 0) {
    return sl::native::refuse(reason, bytes, "needs machine code for sm_90");
  }
  const WarpgroupProblem s = sizesOf(p);
  const bool isTf32 = hasTf32(p);
  const bool isLinear = std::strcmp(p->op, "linear") == 0;
  if (s.bytes != 2 && !isTf32) {
    return sl::native::refuse(
        reason, bytes, "operand 0 is %s%d, needs 16 bits, or float32 that may be rounded",
        sl::native::dtypeName(operandOf(p, 0).dtype), operandOf(p, 0).dtype.bits);
  }
  if (isTf32 && !isLinear) {
    return sl::native::refuse(reason, bytes, "TF32 needs a weight whose rows lie along k");
  }
  for (const auto& [name, value] : {std::pair("batch", s.batch), std::pair("m", s.m),
                                    std::pair("n", s.n), std::pair("k", s.k)}) {
    if (value == kUnknown) {
      return sl::native::refuse(reason, bytes, "%s is dynamic, needs known sizes", name);
    }
  }
  if (s.batch < 1 || s.m < kFewestRows || s.n < 1 || s.k < 1) {
    return sl::native::refuse(reason, bytes, "m=%lld, needs %lld or more and no extent of 0",
                              static_cast<long long>(s.m), static_cast<long long>(kFewestRows));
  }
  const int64_t piece = 16 / s.bytes;
  if (s.k % piece != 0) {
    return sl::native::refuse(reason, bytes, "k=%lld, needs a multiple of %lld",
                              static_cast<long long>(s.k), static_cast<long long>(piece));
  }
  if (!isLinear && s.n % piece != 0) {
    return sl::native::refuse(reason, bytes, "n=%lld, needs a multiple of %lld",
                              static_cast<long long>(s.n), static_cast<long long>(piece));
  }
  return 1;
}

double cost(const sl_problem* p) {
  return warpgroupMicroseconds(choiceFor(p), sizesOf(p), targetOf(p));
}

int64_t workspace(const sl_problem* p) {
  const WarpgroupProblem s = sizesOf(p);
  return kMapBytes * (kMaps * warpgroupTiles(choiceFor(p), s.batch, s.m, s.n) + 1);
}

void tune(const sl_problem* p, int64_t* values) {
  const WarpgroupChoice c = choiceFor(p);
  values[0] = 64;
  values[1] = c.columns;
  values[2] = c.rows;
  values[3] = c.columns;
  values[4] = c.rows / 64 * 128 + 32;
  values[5] = c.splits;
  values[6] = operandOf(p, 0).dtype.bits == 32 ? 1 : 0;
  values[7] = c.stages;
}

int32_t variants(const sl_problem*) { return kWarpgroupVariants; }

constexpr sl_tunable kTunables[] = {
    {"mr", 64, 64, 64},        {"nr", 128, 64, 256},       {"rows", 128, 64, 128},
    {"columns", 128, 64, 256}, {"threads", 288, 160, 288}, {"splits", 1, 1, kMostSplits},
    {"tf32", 0, 0, 1},         {"stages", 4, 3, 14},       {"early", 0, 0, 2}};

/// The description for linear or matmul, which differ in their weights alone.
constexpr sl::EmittedKernel describe(const char* name, const char* op, const char* summary) {
  return {
      .name = name,
      .backend = "cuda",
      .op = op,
      .family = "matmul",
      .summary = summary,
      .accepts = accepts,
      .cost = cost,
      .workspace = workspace,
      .tunables = kTunables,
      .tune = tune,
      .whole_team = false,
      .note = noteTf32,
      .variants = variants,
  };
}

}  // namespace

extern constinit const sl_kernel_desc linearWarpgroupsKernel =
    describe("cuda.linear_warpgroups", "linear",
             "large tiles by warpgroups and TMA over the framework's own weight, epilogue fused");
extern constinit const sl_kernel_desc matmulWarpgroupsKernel = describe(
    "cuda.matmul_warpgroups", "matmul", "batched product by warpgroups and TMA, epilogue fused");

}  // namespace straightline::cuda
