// SPDX-License-Identifier: Apache-2.0
// native.pool: max and average pooling.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
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
    .accepts = acceptsAnyTypes<1>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
