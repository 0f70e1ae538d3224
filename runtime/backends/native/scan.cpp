// SPDX-License-Identifier: Apache-2.0
// native.scan: cumulative sums, products and the like.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"rank", 0, 0, 8},
    {"combine", 0, 0, 6},
};

}  // namespace

extern constinit const sl_kernel_desc scanKernel = EmittedKernel{
    .name = "native.scan",
    .backend = "native",
    .op = "scan",
    .family = "scan",
    .summary = "running sum, product, logsumexp, maximum or minimum along one dim",
    .accepts = acceptsAnyTypes<1>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
