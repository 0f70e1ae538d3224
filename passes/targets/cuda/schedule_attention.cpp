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
  // Attention of one query over a cache is small: fewer blocks than the device has processors.
  if (tuneOf(function, "held") > 0) {
    kernel::setEarlyStart(function, kernel::EarlyStart::inTemplate);
  } else if (shapeOf(function, "s").is(1)) {
    kernel::setEarlyStart(function, kernel::EarlyStart::atEntry);
  }
}

constexpr llvm::StringLiteral kNeeds[] = {"rows", "keys", "depth", "threads"};

}  // namespace

llvm::ArrayRef<FamilySchedule> attentionSchedules() {
  static constexpr FamilySchedule kSchedules[] = {{"attention", scheduleAttention, kNeeds}};
  return kSchedules;
}

}  // namespace straightline::passes::cuda
