// SPDX-License-Identifier: Apache-2.0
// native.pool: max and average pooling.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 1, reason, bytes) && acceptsRanks(p, reason, bytes) ? 1 : 0;
}

double cost(const sl_problem* p) { return moveMicroseconds(p); }

// The pass sets them from the problem: they describe it and are no choice.
constexpr sl_tunable kTunables[] = {
    {"kind", 0, 0, 1},
    {"channelsLast", 0, 0, 1},
};

}  // namespace

extern constinit const sl_kernel_desc poolKernel = EmittedKernel{
    .name = "native.pool",
    .backend = "native",
    .op = "pool",
    .family = "pool",
    .summary = "windows vectorised over channels or columns",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
};

}  // namespace sl::native
