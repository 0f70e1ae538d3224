// SPDX-License-Identifier: Apache-2.0
// native.gather_elements: gather along one dim.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
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
    .accepts = acceptsAnyTypes<2>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
