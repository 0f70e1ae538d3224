// SPDX-License-Identifier: Apache-2.0
// native.zero_border: zeros around the extents of a buffer.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
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
    .accepts = acceptsAnyTypes<0>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
