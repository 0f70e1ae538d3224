// SPDX-License-Identifier: Apache-2.0
// native.pointwise: elementwise work over up to 8 dims, any strides.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"rank", 0, 0, 8},
    {"inputs", 0, 0, 15},
};

}  // namespace

extern constinit const sl_kernel_desc pointwiseKernel = EmittedKernel{
    .name = "native.pointwise",
    .backend = "native",
    .op = "pointwise",
    .family = "pointwise",
    .summary = "loop nest with merged dims, vectorised over the innermost",
    .accepts = acceptsAnyTypes<0>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .can_fail = true,
};

}  // namespace sl::native
