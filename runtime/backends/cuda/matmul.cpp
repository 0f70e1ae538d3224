// SPDX-License-Identifier: Apache-2.0
// cuda.linear and cuda.matmul: products of any size and strides by tiles in shared memory.
#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  return sl::native::needsOperands(p, 2, reason, bytes) && acceptsFloats(p, 2, reason, bytes) ? 1 : 0;
}

double cost(const sl_problem* p) {
  return tileMicroseconds(attribute(p, "batch", 1), attribute(p, "m", kUnknown), attribute(p, "n", kUnknown),
                          attribute(p, "k", kUnknown), p->operands[0].dtype.bits / 8);
}

void tune(const sl_problem* p, int64_t* values) {
  const TileChoice c = tileChoice(attribute(p, "batch", 1), attribute(p, "m", kUnknown), attribute(p, "n", kUnknown),
                                  attribute(p, "k", kUnknown), p->operands[0].dtype.bits / 8);
  values[0] = c.mr;
  values[1] = c.nr;
  values[2] = c.rows;
  values[3] = c.columns;
  values[4] = c.threads;
  values[5] = c.splits;
}

constexpr sl_tunable kTunables[] = {
    {"mr", 4, 1, 64}, {"nr", 4, 1, 64}, {"rows", 32, 16, 128}, {"columns", 64, 16, 128}, {"threads", 128, 32, 1024},
    {"splits", 1, 1, kMostSplits}};

}  // namespace

extern const sl_kernel_desc linearKernel =
    describe("cuda.linear", "linear", "matmul", "tiles in shared memory over the framework's own weight, epilogue fused", kTunables,
             accepts, cost, tune);
extern const sl_kernel_desc matmulKernel =
    describe("cuda.matmul", "matmul", "matmul", "batched product by tiles in shared memory, any strides, epilogue fused", kTunables,
             accepts, cost, tune);

}  // namespace straightline::cuda
