// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes::cuda {

namespace {

void scheduleAttention(kernel::FuncOp function, const CudaArchitecture& device) {
  const int64_t splits = clusterFor(function, device);
  const int64_t served = *shapeOf(function, "h").known() / *shapeOf(function, "hk").known();
  const Size rows = shapeOf(function, "s").times(served);
  const Size blocks =
      product(function.getContext(), {shapeOf(function, "b"), shapeOf(function, "hk"),
                                      rows.dividedUp(tuneOf(function, "rows"))})
          .times(splits);
  setGrid(function, {{"splits", splits}}, blocks, tuneOf(function, "threads"));
}

constexpr llvm::StringLiteral kNeeds[] = {"rows", "keys", "depth", "threads"};

}  // namespace

llvm::ArrayRef<FamilySchedule> attentionSchedules() {
  static constexpr FamilySchedule kSchedules[] = {{"attention", scheduleAttention, kNeeds, true}};
  return kSchedules;
}

}  // namespace straightline::passes::cuda
