// SPDX-License-Identifier: Apache-2.0
// native.scatter_nd: writes at places that several index tensors have; scatter and its reductions.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"rank", 1, 0, 8}, {"beside", 0, 0, 8},  {"indices", 1, 1, 8},
    {"wrap", 0, 0, 1}, {"combine", 0, 0, 4},
};

}  // namespace

extern constinit const sl_kernel_desc scatterNdKernel = EmittedKernel{
    .name = "native.scatter_nd",
    .backend = "native",
    .op = "scatter_nd",
    .family = "scatter_nd",
    .summary = "one element per place written or combined, indices checked",
    .accepts = acceptsAnyTypes<2>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
