// SPDX-License-Identifier: Apache-2.0
// native.grouped_matmul: products of the rows of several groups, each with a matrix of its own, and
// of several groups of terms.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

constexpr int64_t kSumBytes = 4;
constexpr int64_t kFewRows = 8;  // as in codegen/kernels/grouped_matmul.h

bool isNarrow(const sl_problem* p) { return operandOf(p, 0).dtype.bits == 16; }

/// Terms of all groups, if groups are of terms.
int64_t termsOf(const sl_problem* p) { return extent(operandOf(p, 0), 1); }

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!needsOperands(p, 3, reason, bytes)) {
    return 0;
  }
  const sl_dtype first = operandOf(p, 0).dtype;
  for (int32_t i = 0; i < 2; ++i) {
    const sl_dtype t = operandOf(p, i).dtype;
    const bool isBfloat = t.code == 4 && t.bits == 16;
    if (!isBfloat && !isFloat(t, 16) && !isFloat(t, 32)) {
      return refuse(reason, bytes, "operand %d is %s%d, needs float16, bfloat16 or float32", i,
                    dtypeName(t), t.bits);
    }
    if (t.bits != first.bits || t.code != first.code) {
      return refuse(reason, bytes, "operand %d is %s%d but operand 0 is %s%d", i, dtypeName(t),
                    t.bits, dtypeName(first), first.bits);
    }
  }
  if (termsOf(p) == kUnknown) {
    return refuse(reason, bytes, "k is dynamic, needs a static size for the workspace");
  }
  return 1;
}

int64_t columnsOf(const sl_problem* p) {
  const int64_t n = attribute(p, "n", kUnknown);
  return n == kUnknown ? 64 : n;
}

/// Groups have any number of rows, so tiles are those for an unknown one.
GemmChoice choice(const sl_problem* p) {
  const int64_t k = std::max<int64_t>(termsOf(p), 1);
  const Machine machine = machineOf(p);
  GemmChoice c = chooseGemm(kUnknown, columnsOf(p), k, kSumBytes, machine);
  if (isNarrow(p)) {  // widened rows stay in half of L2
    const int64_t rows = machine.l2Bytes / 2 / (k * kSumBytes);
    c.mc = std::clamp<int64_t>(rows / c.mr * c.mr, c.mr, std::max(c.mc, c.mr));
  }
  return c;
}

double cost(const sl_problem* p) {
  const int64_t m = attribute(p, "m", kUnknown), groups = attribute(p, "batch", 1);
  const int64_t rows = m == kUnknown ? kTypicalRows : m;
  const int64_t stored = operandOf(p, 1).dtype.bits / 8;
  const Machine machine = machineOf(p);
  return double(groups) *
         gemmMicroseconds(rows, columnsOf(p), attribute(p, "k", 0), kSumBytes, stored, machine);
}

int64_t workspace(const sl_problem* p) {
  const GemmChoice c = choice(p);
  // an empty sum has the kernel's signature too
  const int64_t k = std::max<int64_t>(termsOf(p), 1);
  const int64_t chunk = std::max<int64_t>(c.mc / c.mr, 1) * c.mr;
  const int64_t rows = isNarrow(p) ? std::max(chunk, kFewRows) : 0;
  return machineOf(p).threads * roundUpTo(k * (c.nr + rows) * kSumBytes, 128);
}

void tune(const sl_problem* p, int64_t* values) { putBlocks(choice(p), values); }

constexpr sl_tunable kTunables[] = {
    {"mr", 6, 1, 14}, {"nr", 16, 4, 96}, {"kc", 0, 0, 4096}, {"mc", 96, 1, 480}};

constexpr uint32_t kTypes = SL_TYPE_F32 | SL_TYPE_BF16 | SL_TYPE_F16;
constexpr sl_operand_facts kOperands[] = {{"a", kTypes, 0, 0, 0, 0, 0},
                                          {"b", kTypes, 0, 0, 0, 0, 0},
                                          {"ends", SL_TYPE_I32 | SL_TYPE_I64, 0, 0, 0, 0, 0},
                                          {"c", kTypes, 0, 0, 0, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc groupedMatmulKernel = EmittedKernel{
    .name = "native.grouped_matmul",
    .backend = "native",
    .op = "grouped_matmul",
    .family = "grouped_matmul",
    .summary =
        "rows of each group times its matrix, or sums of its terms; panels packed per thread",
    .accepts = accepts,
    .cost = cost,
    .workspace = workspace,
    .tunables = kTunables,
    .tune = tune,
    .operands = kOperands,
};

}  // namespace sl::native
