// SPDX-License-Identifier: Apache-2.0
// native.gather_elements: gather along one dim.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 2, reason, bytes) && acceptsRanks(p, reason, bytes) ? 1 : 0;
}

double cost(const sl_problem* p) { return moveMicroseconds(p); }

// The pass sets them from the problem: they describe it and are no choice.
constexpr sl_tunable kTunables[] = {
    {"rank", 1, 1, 8},
};

}  // namespace

extern constinit const sl_kernel_desc gatherElementsKernel = EmittedKernel{
    .name = "native.gather_elements",
    .backend = "native",
    .op = "gather_elements",
    .family = "gather_elements",
    .summary = "one element per index, index checked",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
