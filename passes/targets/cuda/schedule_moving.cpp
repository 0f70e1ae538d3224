// SPDX-License-Identifier: Apache-2.0
// Families that move elements and compute nothing.
#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes::cuda {

namespace {

/// A thread 16 bytes of a row.
void scheduleGatherRows(kernel::FuncOp function, const CudaArchitecture&) {
  const int64_t vector = kMostBytes / elementBytes(function.getOutputs()[0]);
  setGridOfElements(function, product(function.getContext(),
                                      {shapeOf(function, "outer"), shapeOf(function, "count"),
                                       shapeOf(function, "run").dividedUp(vector)}));
}

/// A thread an element.
void scheduleElements(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, productOf(function, "extent"));
}

/// A thread an element of every row: rows keep their order.
void scheduleScatterRows(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, shapeOf(function, "outer").times(shapeOf(function, "run")));
}

void scheduleTranspose(kernel::FuncOp function, const CudaArchitecture&) {
  constexpr int64_t kSide = 32;
  const Size blocks = product(function.getContext(), {shapeOf(function, "batch"),
                                                      shapeOf(function, "rows").dividedUp(kSide),
                                                      shapeOf(function, "cols").dividedUp(kSide)});
  setGrid(function, {}, blocks, kThreads);
}

}  // namespace

llvm::ArrayRef<FamilySchedule> movingSchedules() {
  constexpr kernel::EarlyStart kStart = kernel::EarlyStart::atEntry;
  static constexpr FamilySchedule kSchedules[] = {
      {"gather_rows", scheduleGatherRows, {}, kStart, takesAnyThreads},
      {"gather_elements", scheduleElements, {}, kStart, takesAnyThreads},
      {"gather_nd", scheduleElements, {}, kStart, takesAnyThreads},
      {"scatter_rows", scheduleScatterRows, {}, kStart, takesAnyThreads},
      {"scatter_nd", scheduleElements, {}, kStart, takesAnyThreads},
      {"transpose", scheduleTranspose, {}, kStart},
  };
  return kSchedules;
}

}  // namespace straightline::passes::cuda
