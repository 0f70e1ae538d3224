// SPDX-License-Identifier: Apache-2.0
// native.fill: one value everywhere.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"rank", 0, 0, 8},
};

}  // namespace

extern constinit const sl_kernel_desc fillKernel = EmittedKernel{
    .name = "native.fill",
    .backend = "native",
    .op = "fill",
    .family = "fill",
    .summary = "stores of one value",
    .accepts = acceptsAnyTypes<0>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
