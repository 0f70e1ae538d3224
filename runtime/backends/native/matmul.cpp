// SPDX-License-Identifier: Apache-2.0
// native.matmul: batched product of two tensors of the run, any strides.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, true, reason, bytes)) {
    return 0;
  }
  for (int32_t i = 0; i < 2; ++i) {
    const int32_t least = 2 - (i == 0);  // a linear of a vector
    if (operandOf(p, i).rank < least || operandOf(p, i).rank > 5) {
      return refuse(reason, bytes, "operand %d has rank %d, needs %d to 5", i, operandOf(p, i).rank,
                    least);
    }
  }
  return 1;
}

constexpr int64_t kTypicalColumns = 64;

int64_t columnsOf(const sl_problem* p) {
  const int64_t n = attribute(p, "n", kUnknown);
  return n == kUnknown ? kTypicalColumns : n;
}

bool isOfUnknownLength(const sl_problem* p) { return attribute(p, "k", kUnknown) == kUnknown; }

/// Terms of a sum. Where they are not known the blocks of a sum are kTypicalTerms at most, which
/// the workspace has room for.
int64_t termsOf(const sl_problem* p) {
  return isOfUnknownLength(p) ? kTypicalTerms : attribute(p, "k", 0);
}

GemmChoice choice(const sl_problem* p) {
  GemmChoice c = gemmVariant(p->variant, attribute(p, "m", kUnknown), columnsOf(p), termsOf(p),
                             operandOf(p, 0).dtype.bits / 8, machineOf(p));
  c.kc = isOfUnknownLength(p) && c.kc == 0 ? kTypicalTerms : c.kc;
  return c;
}

double cost(const sl_problem* p) {
  const int64_t n = columnsOf(p), k = termsOf(p);
  const int64_t batch = attribute(p, "batch", 1);
  const int64_t elementBytes = operandOf(p, 0).dtype.bits / 8;
  const Machine machine = machineOf(p);
  const double packing = double(n * k * elementBytes) * 2 / machine.bandwidth(machine.l2Bytes);
  // panels are whole vectors
  const int64_t computed = roundUpTo(n, machine.vectorBytes / elementBytes);
  return double(batch == kUnknown ? kTypicalRows : batch) *
         (gemmMicroseconds(attribute(p, "m", kUnknown), computed, k, elementBytes, elementBytes,
                           machine) +
          packing / double(machine.threads));
}

int64_t workspace(const sl_problem* p) {
  const int64_t elementBytes = operandOf(p, 0).dtype.bits / 8;
  // an empty sum has the kernel's signature too
  const int64_t k = isOfUnknownLength(p) ? choice(p).kc : termsOf(p) > 0 ? termsOf(p) : 1;
  return machineOf(p).threads * roundUpTo(k * choice(p).nr * elementBytes, 128);
}

void tune(const sl_problem* p, int64_t* values) {
  putBlocks(choice(p), values);
  values[4] = isOfUnknownLength(p) ? 1 : 0;
}

constexpr sl_tunable kTunables[] = {{"mr", 6, 1, 14},
                                    {"nr", 16, 4, 96},
                                    {"kc", 0, 0, 4096},
                                    {"mc", 96, 1, 480},
                                    {"blocks", 0, 0, 1}};

constexpr sl_operand_facts kOperands[] = {
    {"a", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"b", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, 0, 0},
    {"c", SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc matmulKernel = EmittedKernel{
    .name = "native.matmul",
    .backend = "native",
    .op = "matmul",
    .family = "matmul",
    .summary = "batched product, panels of B packed per thread, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    .variants = [](const sl_problem*) { return kGemmVariants; },
    .operands = kOperands,
    .epilogues = kElementwise,
};

}  // namespace sl::native
