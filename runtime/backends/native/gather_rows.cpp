// SPDX-License-Identifier: Apache-2.0
// native.gather_rows: embedding and index_select.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"unused", 0, 0, 0},
};

}  // namespace

extern constinit const sl_kernel_desc gatherRowsKernel = EmittedKernel{
    .name = "native.gather_rows",
    .backend = "native",
    .op = "gather_rows",
    .family = "gather_rows",
    .summary = "copies of whole rows, index checked",
    .accepts = acceptsAnyTypes<2>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
