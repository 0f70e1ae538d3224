// SPDX-License-Identifier: Apache-2.0
// native.pointwise: elementwise work over up to 8 dims, any strides.
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
    {"rank", 0, 0, 8},
    {"inputs", 0, 0, 15},
};

}  // namespace

extern constinit const sl_kernel_desc pointwiseKernel = EmittedKernel{
    .name = "native.pointwise",
    .backend = "native",
    .op = "pointwise",
    .family = "pointwise",
    .summary = "loop nest with merged dims, vectorised over the innermost",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
