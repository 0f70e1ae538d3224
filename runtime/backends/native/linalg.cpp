// SPDX-License-Identifier: Apache-2.0
// native.linalg: factors of matrices, triangular systems, eigenvalues and singular values.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"matrixStep", 0, 0, 6},
    {"upper", 0, 0, 1},
    {"transpose", 0, 0, 1},
    {"unit", 0, 0, 1},
};

}  // namespace

extern constinit const sl_kernel_desc linalgKernel = EmittedKernel{
    .name = "native.linalg",
    .backend = "native",
    .op = "linalg",
    .family = "linalg",
    .summary = "factors, systems, eigenvalues and singular values of small matrices, row by row",
    .accepts = acceptsAnyTypes<1>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
