// SPDX-License-Identifier: Apache-2.0
// Families whose threads each make elements of the result.
#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes::cuda {

namespace {

int64_t bytesOfWidest(kernel::FuncOp function) {
  int64_t widest = 1;
  for (const mlir::Attribute type : llvm::concat<const mlir::Attribute>(
           kernel::takenInputsOf(function), function.getOutputs().getValue())) {
    widest = std::max(widest, elementBytes(type));
  }
  return widest;
}

void schedulePointwise(kernel::FuncOp function, const CudaArchitecture& device) {
  mlir::MLIRContext* context = function.getContext();
  const llvm::SmallVector<Size> extents = sizesOf(function, "extent");
  const Size inner = extents.empty() ? Size(context, 1) : extents.back();
  const Size outer = product(context, llvm::ArrayRef(extents).drop_back(extents.empty() ? 0 : 1));
  const size_t inputs = kernel::takenInputsOf(function).size();
  bool dense = !extents.empty();
  for (auto [operand, row] : llvm::enumerate(rowsOf(function, "stride"))) {
    if (dense) {
      const Size stride(llvm::cast<mlir::ArrayAttr>(row)[extents.size() - 1]);
      dense = stride.is(1) || (stride.is(0) && operand < inputs);
    }
  }
  int64_t vector = vectorFor(bytesOfWidest(function), inner, extents.size() == 1, dense);
  const std::optional<int64_t> all = outer.times(inner).known();
  while (vector > 1 && all && *all / vector < device.allThreads() / 8) {
    vector /= 2;  // latency counts more than instructions
  }
  const Size runs = outer.times(inner.dividedUp(vector));
  const int64_t threads =
      runs.known()
          ? std::clamp(static_cast<int64_t>(llvm::alignTo(*runs.known(), kWarp)), kWarp, kThreads)
          : kThreads;
  setGrid(function, {{"vector", vector}}, runs.dividedUp(threads), threads);
}

void scheduleFill(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, productOf(function, "extent"));
}

void scheduleIota(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, shapeOf(function, "count"));
}

void schedulePool(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, product(function.getContext(),
                                      {shapeOf(function, "batch"), shapeOf(function, "channels"),
                                       shapeOf(function, "outH"), shapeOf(function, "outW")}));
}

/// A thread takes several channels of a place, which it finds once, as long as there are threads
/// for the whole device.
void scheduleGridSample(kernel::FuncOp function, const CudaArchitecture& device) {
  constexpr int64_t kMostChannels = 8;
  const Size channels = shapeOf(function, "channels");
  const Size places =
      product(function.getContext(),
              {shapeOf(function, "batch"), shapeOf(function, "outH"), shapeOf(function, "outW")});
  const std::optional<int64_t> count = channels.known(), all = places.times(channels).known();
  int64_t each = 1;
  while (each < kMostChannels && (!count || 2 * each <= *count) &&
         (!all || *all / (2 * each) >= device.allThreads())) {
    each *= 2;
  }
  setGrid(function, {{"each", each}}, places.times(channels.dividedUp(each)).dividedUp(kThreads),
          kThreads);
}

}  // namespace

llvm::ArrayRef<FamilySchedule> elementSchedules() {
  static constexpr FamilySchedule kSchedules[] = {
      {"pointwise", schedulePointwise, {}, kernel::EarlyStart::atEntry, takesAnyThreads},
      {"fill", scheduleFill, {}, kernel::EarlyStart::atEntry},
      {"iota", scheduleIota, {}, kernel::EarlyStart::atEntry, takesAnyThreads},
      {"pool", schedulePool, {}, kernel::EarlyStart::atEntry},
      {"grid_sample", scheduleGridSample, {}, kernel::EarlyStart::atEntry},
  };
  return kSchedules;
}

}  // namespace straightline::passes::cuda
