// SPDX-License-Identifier: Apache-2.0
// native.pack_convolution: packs a convolution weight into panels, at prepare time.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 1, reason, bytes) && acceptsFloats(p, 1, false, reason, bytes) ? 1 : 0;
}

double cost(const sl_problem* p) { return moveMicroseconds(p); }

// The pass sets them from the problem: they describe it and are no choice.
constexpr sl_tunable kTunables[] = {
    {"nr", 16, 8, 64},
};

}  // namespace

extern const sl_kernel_desc packConvolutionKernel = {
    .size = sizeof(sl_kernel_desc),
    .name = "native.pack_convolution",
    .backend = "native",
    .op = "pack_convolution",
    .family = "pack_convolution",
    .summary = "OIHW weight into panels of nr output channels",
    .accepts = accepts,
    .cost = cost,
    .workspace = nullptr,
    .tunables = kTunables,
    .tunable_count = 1,
    .tune = nullptr,
    .can_fail = 0,
    .whole_team = 1,
    .plan_symbol = nullptr,
    .plan = nullptr,
    .run_symbol = nullptr,
    .run = nullptr,
    .destroy = nullptr,
    .note = nullptr,
    .variants = nullptr,
    .any_device = 0,
};

}  // namespace sl::native
