// SPDX-License-Identifier: Apache-2.0
// native.topk: the first elements of each row in order, or all of them.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"rank", 0, 0, 8},
    {"largest", 1, 0, 1},
};

}  // namespace

extern constinit const sl_kernel_desc topkKernel = EmittedKernel{
    .name = "native.topk",
    .backend = "native",
    .op = "topk",
    .family = "topk",
    .summary = "the largest or smallest elements along one dim, or a stable sort",
    .accepts = acceptsAnyTypes<1>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
