// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/schedule.h"

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes {

namespace {

using cuda::FamilySchedule;

/// The family's row of the table; null for one without a CUDA form.
const FamilySchedule* scheduleOf(kernel::FuncOp function) {
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  for (llvm::ArrayRef<FamilySchedule> group :
       {cuda::elementSchedules(), cuda::rowSchedules(), cuda::productSchedules(),
        cuda::attentionSchedules(), cuda::movingSchedules()}) {
    for (const FamilySchedule& schedule : group) {
      if (schedule.family == family) {
        return &schedule;
      }
    }
  }
  return nullptr;
}

}  // namespace

std::string whyNotOnCuda(kernel::FuncOp function) {
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  const FamilySchedule* schedule = scheduleOf(function);
  if (schedule == nullptr) {
    return "kernels of family '" + family.str() + "' have no CUDA form";
  }
  for (const llvm::StringRef key : schedule->needs) {
    if (cuda::tuneOf(function, key) < 1) {
      return "the " + family.str() + " kernel lacks the tunable '" + key.str() +
             "' of its CUDA form";
    }
  }
  if (!function.getWorkspace().empty()) {
    return "kernels with workspace have no CUDA form";
  }
  return "";
}

void scheduleForCuda(kernel::FuncOp function, llvm::StringRef arch) {
  const FamilySchedule* schedule = scheduleOf(function);
  kernel::setEarlyStart(function, schedule->earlyStart);
  schedule->schedule(function, cudaArchitecture(arch));
}

std::optional<PartGrid> partGridOf(kernel::FuncOp function) {
  const FamilySchedule* schedule = scheduleOf(function);
  auto blocks = function->getAttrOfType<kernel::ExtentAttr>(kernel::kBlocksAttr);
  auto threads = function->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr);
  const bool isPlain = kernel::earlyStartOf(function) == kernel::EarlyStart::atEntry &&
                       !function->hasAttr(kernel::kClusterAttr) &&
                       !function->hasAttr(kernel::kResidentAttr) &&
                       kernel::partsOf(function).empty() && function.getScalarNames().empty();
  if (schedule == nullptr || schedule->takesAnyThreads == nullptr || !isPlain || !blocks ||
      !threads || blocks.getConstant().value_or(0) < 1) {
    return std::nullopt;
  }
  return PartGrid{*blocks.getConstant(), threads.getInt(), !schedule->takesAnyThreads(function)};
}

double estimateOnCuda(mlir::Operation* statement) {
  constexpr double kBytesPerUs = 4.2e6;
  if (const std::optional<double> cost = kernel::costUsOf(statement)) {
    return *cost;
  }
  double bytes = 0;
  for (mlir::Value operand : statement->getOperands()) {
    auto type = llvm::dyn_cast<kernel::BufferType>(operand.getType());
    bytes += type ? static_cast<double>(symbolic::constantValue(type.bytes()).value_or(0)) : 0;
  }
  return kKernelUs + bytes / kBytesPerUs;
}

}  // namespace straightline::passes
