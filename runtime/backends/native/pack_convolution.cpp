// SPDX-License-Identifier: Apache-2.0
// native.pack_convolution: packs a convolution weight into panels, at prepare time.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 1, reason, bytes) && acceptsFloats(p, 1, false, reason, bytes) ? 1 : 0;
}

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"nr", 16, 8, 64},
};

}  // namespace

extern constinit const sl_kernel_desc packConvolutionKernel = EmittedKernel{
    .name = "native.pack_convolution",
    .backend = "native",
    .op = "pack_convolution",
    .family = "pack_convolution",
    .summary = "OIHW weight into panels of nr output channels",
    .accepts = accepts,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .properties = SL_KERNEL_PROLOGUE,
};

}  // namespace sl::native
