// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/schedule_family.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"

namespace straightline::passes::cuda {

using kernel::BufferType;
using kernel::ExtentAttr;
using mlir::AffineExpr;
using mlir::ArrayAttr;
using mlir::Attribute;
using mlir::StringAttr;

namespace {

ExtentAttr extentOf(Attribute value) {
  auto integer = llvm::dyn_cast<mlir::IntegerAttr>(value);
  return integer ? ExtentAttr::get(value.getContext(), integer.getInt())
                 : llvm::cast<ExtentAttr>(value);
}

}  // namespace

Size::Size(mlir::MLIRContext* context, int64_t value) : attr_(ExtentAttr::get(context, value)) {}

Size::Size(Attribute value) : attr_(extentOf(value)) {}

Size Size::times(const Size& other) const {
  llvm::SmallVector<StringAttr> names(attr_.getNames());
  llvm::SmallVector<AffineExpr> places;
  for (StringAttr name : other.attr_.getNames()) {
    auto* found = llvm::find(names, name);
    places.push_back(mlir::getAffineSymbolExpr(found - names.begin(), attr_.getContext()));
    if (found == names.end()) {
      names.push_back(name);
    }
  }
  return Size(names, attr_.getExpr() * other.attr_.getExpr().replaceSymbols(places));
}

Size Size::dividedUp(int64_t divisor) const {
  return Size(attr_.getNames(), (attr_.getExpr() + (divisor - 1)).floorDiv(divisor));
}

int64_t tuneOf(kernel::FuncOp function, llvm::StringRef key) {
  auto value =
      llvm::dyn_cast_if_present<mlir::IntegerAttr>(function.getSchedule().getTuneValue(key));
  return value ? value.getInt() : 0;
}

Size shapeOf(kernel::FuncOp function, llvm::StringRef key) {
  return Size(function.getSchedule().getShapeValue(key));
}

llvm::SmallVector<Size> sizesOf(kernel::FuncOp function, llvm::StringRef key) {
  return llvm::map_to_vector(rowsOf(function, key), [](Attribute item) { return Size(item); });
}

Size productOf(kernel::FuncOp function, llvm::StringRef key) {
  return product(function.getContext(), sizesOf(function, key));
}

Size product(mlir::MLIRContext* context, llvm::ArrayRef<Size> factors) {
  Size result(context, 1);
  for (const Size& factor : factors) {
    result = result.times(factor);
  }
  return result;
}

ArrayAttr rowsOf(kernel::FuncOp function, llvm::StringRef key) {
  return llvm::cast<ArrayAttr>(function.getSchedule().getShapeValue(key));
}

int64_t elementBytes(Attribute type) {
  return llvm::cast<BufferType>(llvm::cast<mlir::TypeAttr>(type).getValue()).elementBytes();
}

int64_t vectorFor(int64_t widestBytes, const Size& inner, bool onlyLoop, bool dense) {
  constexpr int64_t kMostVector = 8;
  int64_t vector = std::min(kMostVector, kMostBytes / std::min(widestBytes, kMostBytes));
  while (vector > 1 && (!dense || !(onlyLoop || inner.isMultipleOf(vector)))) {
    vector /= 2;  // otherwise the next row would begin inside of a vector
  }
  return vector;
}

void setGrid(kernel::FuncOp function, const Tune& chosen, const Size& blocks, int64_t threads) {
  mlir::Builder builder(function.getContext());
  kernel::ScheduleAttr schedule = function.getSchedule();
  llvm::SmallVector<mlir::NamedAttribute> tune(schedule.getTune());
  for (auto [key, value] : chosen) {
    const mlir::NamedAttribute entry = builder.getNamedAttr(key, builder.getI64IntegerAttr(value));
    auto* found = llvm::find_if(
        tune, [&](mlir::NamedAttribute known) { return known.getName() == entry.getName(); });
    if (found == tune.end()) {
      tune.push_back(entry);
    } else {
      *found = entry;
    }
  }
  function.setScheduleAttr(kernel::ScheduleAttr::get(function.getContext(), schedule.getFamily(),
                                                     schedule.getShape(), tune));
  function->setAttr(kernel::kBlocksAttr, blocks.attr());
  function->setAttr(kernel::kThreadsAttr, builder.getI64IntegerAttr(threads));
}

void setGridOfElements(kernel::FuncOp function, const Size& elements) {
  setGrid(function, {}, elements.dividedUp(kThreads), kThreads);
}

void setCluster(kernel::FuncOp function, int64_t blocks) {
  if (blocks > 1) {
    function->setAttr(kernel::kClusterAttr,
                      mlir::Builder(function.getContext()).getI64IntegerAttr(blocks));
  }
}

void setSharedBytes(kernel::FuncOp function, int64_t bytes) {
  // 227 KiB of a processor of sm_90 (CUDA Programming Guide, "Compute Capabilities"); what a block
  // declares beside, and 1 KiB of the system
  constexpr int64_t kOfProcessor = 227 << 10, kBeside = 2 << 10;
  mlir::Builder builder(function.getContext());
  function->setAttr(kernel::kSharedAttr, builder.getI64IntegerAttr(bytes));
  if (2 * (bytes + kBeside) <= kOfProcessor && !function->hasAttr(kernel::kClusterAttr)) {
    function->setAttr(kernel::kResidentAttr, builder.getI64IntegerAttr(2));
  }
}

int64_t clusterFor(kernel::FuncOp function, const CudaArchitecture& device) {
  const int64_t splits = std::clamp<int64_t>(tuneOf(function, "splits"), 1, device.largestCluster);
  setCluster(function, splits);
  return splits;
}

}  // namespace straightline::passes::cuda
