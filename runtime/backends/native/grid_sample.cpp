// SPDX-License-Identifier: Apache-2.0
// native.grid_sample: images at places of a grid.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"interpolation", 1, 0, 2}, {"padding", 0, 0, 2}, {"alignCorners", 0, 0, 1},
    {"channelsLast", 0, 0, 1},  {"wide", 0, 0, 1},
};

}  // namespace

extern constinit const sl_kernel_desc gridSampleKernel = EmittedKernel{
    .name = "native.grid_sample",
    .backend = "native",
    .op = "grid_sample",
    .family = "grid_sample",
    .summary = "weighted elements around each place, vectorised over places or channels",
    .accepts = acceptsAnyTypes<2>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
