// SPDX-License-Identifier: Apache-2.0
// native.scatter_rows: index_copy and index_add.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"add", 0, 0, 1},
};

}  // namespace

extern constinit const sl_kernel_desc scatterRowsKernel = EmittedKernel{
    .name = "native.scatter_rows",
    .backend = "native",
    .op = "scatter_rows",
    .family = "scatter_rows",
    .summary = "whole rows written or added at places, index checked",
    .accepts = acceptsAnyTypes<2>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
