// SPDX-License-Identifier: Apache-2.0
// native.zero_border: zeros around the extents of a buffer.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 0, reason, bytes) && acceptsRanks(p, reason, bytes) ? 1 : 0;
}

double cost(const sl_problem* p) { return moveMicroseconds(p); }

// The pass sets them from the problem: they describe it and are no choice.
constexpr sl_tunable kTunables[] = {
    {"rank", 1, 1, 8},
};

}  // namespace

extern constinit const sl_kernel_desc zeroBorderKernel = EmittedKernel{
    .name = "native.zero_border",
    .backend = "native",
    .op = "zero_border",
    .family = "zero_border",
    .summary = "clears what lies between the extents and the storage",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
};

}  // namespace sl::native
