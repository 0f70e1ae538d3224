// SPDX-License-Identifier: Apache-2.0
// native.pack_gemm_int8: packs a linear weight of 8-bit integers into panels of quads.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 1, reason, bytes)) {
    return 0;
  }
  const sl_dtype t = operandOf(p, 0).dtype;
  return t.code == 0 && t.bits == 8
             ? 1
             : refuse(reason, bytes, "operand 0 is %s%d, needs int8", dtypeName(t), t.bits);
}

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {{"nr", 16, 4, 96}};

}  // namespace

extern constinit const sl_kernel_desc packGemmInt8Kernel = EmittedKernel{
    .name = "native.pack_gemm_int8",
    .backend = "native",
    .op = "pack_gemm_int8",
    .family = "pack_gemm_int8",
    .summary = "linear weight of int8 into panels of nr columns, four of k side by side",
    .accepts = accepts,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
