// SPDX-License-Identifier: Apache-2.0
// native.row_reduction: reductions with what surrounds them (softmax, norms, mean).
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"outerRank", 0, 0, 8},  {"innerRank", 0, 0, 8},   {"inputs", 1, 0, 15},
    {"rowInputs", 0, 0, 15}, {"rowOutputs", 0, 0, 15}, {"elementOutputs", 0, 0, 15},
    {"kept", 0, 0, 1},       {"keptStage", 0, 0, 3},   {"stages", 1, 1, 4},
    {"columns", 0, 0, 1},    {"combine", 0, 0, 7},     {"value", 0, 0, 4},
};

}  // namespace

extern constinit const sl_kernel_desc rowReductionKernel = EmittedKernel{
    .name = "native.row_reduction",
    .backend = "native",
    .op = "row_reduction",
    .family = "row_reduction",
    .summary = "stages over each row, results fused with elementwise work",
    .accepts = acceptsAnyTypes<1>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
