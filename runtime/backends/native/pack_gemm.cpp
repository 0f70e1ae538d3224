// SPDX-License-Identifier: Apache-2.0
// native.pack_gemm: packs a linear weight into panels, at prepare time.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 1, reason, bytes) && acceptsFloats(p, 1, true, reason, bytes) ? 1 : 0;
}

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"nr", 16, 4, 96},
};

}  // namespace

extern constinit const sl_kernel_desc packGemmKernel = EmittedKernel{
    .name = "native.pack_gemm",
    .backend = "native",
    .op = "pack_gemm",
    .family = "pack_gemm",
    .summary = "linear weight into panels of nr columns",
    .accepts = accepts,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .properties = SL_KERNEL_PROLOGUE,
};

}  // namespace sl::native
