// SPDX-License-Identifier: Apache-2.0
// native.matvec: batched product with one row or one column of two tensors of the run, nothing
// packed.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {

extern const sl_kernel_desc matmulKernel;

namespace {

/// A product with one row is one with the rows of the other matrix turned.
struct Sizes {
  int64_t batch, rows, k;
};

Sizes sizesOf(const sl_problem* p) {
  const int64_t m = attribute(p, "m", kUnknown), n = attribute(p, "n", kUnknown),
                batch = attribute(p, "batch", 1), k = attribute(p, "k", 0);
  const int64_t rows = n == 1 ? m : n;
  return {batch == kUnknown ? kTypicalRows : batch, rows == kUnknown ? kTypicalRows : rows,
          k == kUnknown ? kTypicalTerms : k};
}

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  const int64_t m = attribute(p, "m", kUnknown), n = attribute(p, "n", kUnknown);
  if (m != 1 && n != 1) {
    refuse(reason, bytes, "m=%lld and n=%lld, needs one of them to be 1", static_cast<long long>(m),
           static_cast<long long>(n));
    return -1;
  }
  return matmulKernel.accepts(p, reason, bytes);
}

double cost(const sl_problem* p) {
  const Sizes s = sizesOf(p);
  const int64_t bits = operandOf(p, 0).dtype.bits;
  const Machine machine = machineOf(p);
  return gemvMicroseconds(1, s.batch * s.rows, s.k, bits / 8, attribute(p, "stored_bits", bits) / 8,
                          machine);
}

void tune(const sl_problem* p, int64_t* values) {
  values[0] = gemvVariant(p->variant, 1, operandOf(p, 0).dtype.bits / 8, machineOf(p)).rows;
}

constexpr sl_tunable kTunables[] = {{"rows", 8, 1, 8}};

constexpr sl_operand_facts kOperands[] = {
    {"a", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"b", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"c", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc matvecKernel = EmittedKernel{
    .name = "native.matvec",
    .backend = "native",
    .op = "matmul",
    .family = "matvec",
    .summary =
        "a row or a column times a matrix that is read once as it lies, several rows of it at a "
        "time",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return 2; },
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
