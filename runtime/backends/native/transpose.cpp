// SPDX-License-Identifier: Apache-2.0
// native.transpose: matrices turned in square blocks.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

/// Below this many rows or columns most of a block would be edge.
constexpr int64_t kFewest = 8;

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 1, reason, bytes)) {
    return 0;
  }
  for (const char* name : {"rows", "cols"}) {
    const int64_t extent = attribute(p, name, 0);
    if (extent != kUnknown && extent < kFewest) {
      return refuse(reason, bytes, "%s is %lld, needs at least %lld", name,
                    static_cast<long long>(extent), static_cast<long long>(kFewest));
    }
  }
  const int bits = operandOf(p, 0).dtype.bits;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
    return refuse(reason, bytes, "elements have %d bits, needs 8, 16, 32 or 64", bits);
  }
  return 1;
}

constexpr sl_tunable kTunables[] = {{"block", 16, 2, 64}};

}  // namespace

extern constinit const sl_kernel_desc transposeKernel = EmittedKernel{
    .name = "native.transpose",
    .backend = "native",
    .op = "transpose",
    .family = "transpose",
    .summary = "square blocks turned in registers, contiguous loads and stores",
    .accepts = accepts,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
