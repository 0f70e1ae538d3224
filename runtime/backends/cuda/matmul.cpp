// SPDX-License-Identifier: Apache-2.0
// cuda.linear and cuda.matmul: products of any size and strides by tiles in shared memory.
#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return sl::native::needsOperands(p, 2, reason, bytes) && acceptsFloats(p, 2, reason, bytes) ? 1
                                                                                              : 0;
}

int64_t tileBytesOf(const sl_problem* p) {
  return tileBytes(operandOf(p, 0).dtype, hasTf32(p), targetOf(p));
}

double cost(const sl_problem* p) {
  const int64_t batch = attribute(p, "batch", 1), m = attribute(p, "m", kUnknown),
                n = attribute(p, "n", kUnknown);
  const int64_t k = attribute(p, "k", kUnknown), bytes = tileBytesOf(p);
  if (bytes == 2 && known(m, 64) > 16) {
    return warpTileMicroseconds(batch, m, n, k, hasTf32(p) ? 4 : 2, targetOf(p));
  }
  const double us = tileMicroseconds(batch, m, n, k, bytes, targetOf(p));
  if (!hasTf32(p) || known(m, 64) > 16) {
    return us;
  }
  // Few rows wait for the other operand, which has twice the bytes that tensor cores make of it.
  constexpr double kLoadUs = 0.01;
  return us + kLoadUs * double(known(k, 1024)) /
                  double(tileChoice(batch, m, n, k, bytes, targetOf(p)).splits);
}

void tune(const sl_problem* p, int64_t* values) {
  const TileChoice c =
      tileChoice(attribute(p, "batch", 1), attribute(p, "m", kUnknown), attribute(p, "n", kUnknown),
                 attribute(p, "k", kUnknown), tileBytesOf(p), targetOf(p));
  values[0] = c.mr;
  values[1] = c.nr;
  values[2] = c.rows;
  values[3] = c.columns;
  values[4] = c.threads;
  values[5] = c.splits;
  values[6] = hasTf32(p) ? 1 : 0;
}

constexpr sl_tunable kTunables[] = {{"mr", 4, 1, 64},           {"nr", 4, 1, 64},
                                    {"rows", 32, 16, 128},      {"columns", 64, 16, 128},
                                    {"threads", 128, 32, 1024}, {"splits", 1, 1, kMostSplits},
                                    {"tf32", 0, 0, 1}};

// ---- several groups ("batch" of them), each of about "m" rows or "k" terms

/// As many tiles as the groups have of themselves, each summed by one block: nobody knows before
/// the launch which tiles there are.
TileChoice groupedChoice(const sl_problem* p) {
  Target alone = targetOf(p);
  alone.mostSplits = 1;
  return tileChoice(attribute(p, "batch", 1), attribute(p, "m", kUnknown),
                    attribute(p, "n", kUnknown), attribute(p, "k", kUnknown), tileBytesOf(p),
                    alone);
}

int32_t acceptsGroups(const sl_problem* p, char* reason, size_t bytes) {
  return sl::native::needsOperands(p, 3, reason, bytes) && acceptsFloats(p, 2, reason, bytes) ? 1
                                                                                              : 0;
}

void tuneGroups(const sl_problem* p, int64_t* values) {
  const TileChoice c = groupedChoice(p);
  values[0] = c.mr;
  values[1] = c.nr;
  values[2] = c.rows;
  values[3] = c.columns;
  values[4] = c.threads;
  values[5] = hasTf32(p) ? 1 : 0;
}

constexpr sl_tunable kGroupedTunables[] = {{"mr", 4, 1, 64},           {"nr", 4, 1, 64},
                                           {"rows", 32, 16, 128},      {"columns", 64, 16, 128},
                                           {"threads", 128, 32, 1024}, {"tf32", 0, 0, 1}};

}  // namespace

extern constinit const sl_kernel_desc groupedMatmulKernel = sl::EmittedKernel{
    .name = "cuda.grouped_matmul",
    .backend = "cuda",
    .op = "grouped_matmul",
    .family = "grouped_matmul",
    .summary =
        "rows of each group times its matrix, or sums of its terms; groups found on the device",
    .accepts = acceptsGroups,
    .cost = cost,
    .tunables = kGroupedTunables,
    .tune = tuneGroups,
    .whole_team = false,
    .note = noteTf32,
};
extern constinit const sl_kernel_desc linearKernel = sl::EmittedKernel{
    .name = "cuda.linear",
    .backend = "cuda",
    .op = "linear",
    .family = "matmul",
    .summary = "tiles in shared memory over the framework's own weight, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
    .note = noteTf32,
};
extern constinit const sl_kernel_desc matmulKernel = sl::EmittedKernel{
    .name = "cuda.matmul",
    .backend = "cuda",
    .op = "matmul",
    .family = "matmul",
    .summary = "batched product by tiles in shared memory, any strides, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
    .note = noteTf32,
};

}  // namespace straightline::cuda
