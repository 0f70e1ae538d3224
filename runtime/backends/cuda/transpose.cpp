// SPDX-License-Identifier: Apache-2.0
// cuda.transpose: matrices turned in squares of shared memory.
#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;

/// Below this many rows or columns most of a square would be edge.
constexpr int64_t kFewest = 8;

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 1, reason, bytes)) {
    return 0;
  }
  for (const char* name : {"rows", "cols"}) {
    const int64_t extent = attribute(p, name, 0);
    if (extent != kUnknown && extent < kFewest) {
      return sl::native::refuse(reason, bytes, "%s is %lld, needs at least %lld", name,
                                static_cast<long long>(extent), static_cast<long long>(kFewest));
    }
  }
  return 1;
}

double cost(const sl_problem* p) {
  double elements = 1;
  for (int32_t i = 0; i < operandOf(p, 0).rank; ++i) {
    elements *= double(known(operandOf(p, 0).extents[i], 64));
  }
  return kLaunchUs + 2 * elements * operandOf(p, 0).dtype.bits / 8 / kBytesPerUs;
}

constexpr sl_tunable kTunables[] = {{"block", 32, 32, 32}};

void tune(const sl_problem*, int64_t* values) { values[0] = 32; }

}  // namespace

extern constinit const sl_kernel_desc transposeKernel = sl::EmittedKernel{
    .name = "cuda.transpose",
    .backend = "cuda",
    .op = "transpose",
    .family = "transpose",
    .summary = "squares turned in shared memory",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
};

}  // namespace straightline::cuda
