// SPDX-License-Identifier: Apache-2.0
// native.pack_winograd: transforms and packs a 3x3 weight, at prepare time.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return needsOperands(p, 1, reason, bytes) && acceptsFloats(p, 1, false, reason, bytes) ? 1 : 0;
}

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"m", 4, 2, 4},
    {"nr", 16, 16, 32},
    {"kb", 64, 16, 4096},
    {"stream", 0, 0, 1},
};

}  // namespace

extern constinit const sl_kernel_desc packWinogradKernel = EmittedKernel{
    .name = "native.pack_winograd",
    .backend = "native",
    .op = "pack_winograd",
    .family = "pack_winograd",
    .summary = "G g G^T in double, panels in the order of use",
    .accepts = accepts,
    .cost = moveMicroseconds,
    .tunables = kTunables,
    .properties = SL_KERNEL_PROLOGUE,
};

}  // namespace sl::native
