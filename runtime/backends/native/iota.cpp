// SPDX-License-Identifier: Apache-2.0
// native.iota: start + i * step.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"unused", 0, 0, 0},
};

}  // namespace

extern constinit const sl_kernel_desc iotaKernel = EmittedKernel{
    .name = "native.iota",
    .backend = "native",
    .op = "iota",
    .family = "iota",
    .summary = "arithmetic sequence",
    .accepts = acceptsAnyTypes<0>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
