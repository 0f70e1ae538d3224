// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/schedule_own.h"

#include "dialect/kernel/own.h"

namespace straightline::passes::cuda {

namespace {

void scheduleOwn(kernel::FuncOp function, const CudaArchitecture&) {
  if (kernel::ownSourceOf(function).contains("waits")) {
    kernel::setEarlyStart(function, kernel::EarlyStart::inTemplate);
  }
  auto threads = kernel::ownSourceOf(function).getAs<mlir::IntegerAttr>("threads");
  setGrid(function, {}, shapeOf(function, "blocks"), threads.getInt());
}

}  // namespace

llvm::ArrayRef<FamilySchedule> ownSchedules() {
  static constexpr FamilySchedule kSchedules[] = {{"own", scheduleOwn, {}}};
  return kSchedules;
}

}  // namespace straightline::passes::cuda
