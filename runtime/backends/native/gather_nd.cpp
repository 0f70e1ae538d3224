// SPDX-License-Identifier: Apache-2.0
// native.gather_nd: reads at places that several index tensors have.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"rank", 1, 0, 8},
    {"indices", 1, 1, 8},
};

}  // namespace

extern constinit const sl_kernel_desc gatherNdKernel = EmittedKernel{
    .name = "native.gather_nd",
    .backend = "native",
    .op = "gather_nd",
    .family = "gather_nd",
    .summary = "one element per place that several index tensors have, indices checked",
    .accepts = acceptsAnyTypes<2>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
