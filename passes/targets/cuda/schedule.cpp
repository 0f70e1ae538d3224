// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/schedule.h"

#include <algorithm>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/targets/cuda/schedule_family.h"
#include "passes/targets/cuda/schedule_own.h"

namespace straightline::passes {

namespace {

using cuda::FamilySchedule;

/// The family's row of the table; null for one without a CUDA form.
const FamilySchedule* scheduleOf(kernel::FuncOp function) {
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  for (llvm::ArrayRef<FamilySchedule> group :
       {cuda::elementSchedules(), cuda::rowSchedules(), cuda::productSchedules(),
        cuda::attentionSchedules(), cuda::movingSchedules(), cuda::ownSchedules()}) {
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
  if (!function.getWorkspace().empty() && !schedule->takesWorkspace) {
    return "kernels of family '" + family.str() + "' with workspace have no CUDA form";
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
  const kernel::ExtentAttr blocks = kernel::blocksOf(function);
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

namespace {

double bytesOf(mlir::Value operand) {
  auto type = llvm::dyn_cast<kernel::BufferType>(operand.getType());
  return type ? static_cast<double>(symbolic::constantValue(type.bytes()).value_or(0)) : 0;
}

/// Bytes that a launch touches: of what is read or written at indices as much as comes of it or
/// goes into it, of a buffer in which it writes one row that row.
double bytesTouched(kernel::LaunchOp launch, kernel::FuncOp function) {
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  double read = 0, written = 0;
  for (mlir::Value input : launch.getInputs()) {
    read += bytesOf(input);
  }
  llvm::SmallVector<double> outputs = llvm::map_to_vector(launch.getOutputs(), bytesOf);
  for (kernel::RowAttr row : kernel::writtenRowsOf(function)) {
    outputs[row.getOutput()] /= static_cast<double>(std::max<int64_t>(1, row.getExtent()));
  }
  for (double bytes : outputs) {
    written += bytes;
  }
  if (family.starts_with("gather_")) {
    const double indexed = bytesOf(launch.getInputs().front());
    read -= indexed - std::min(indexed, written);
  } else if (family.starts_with("scatter_")) {
    written = std::min(written, bytesOf(launch.getInputs().back()));
  }
  return read + written;
}

}  // namespace

double estimateOnCuda(mlir::Operation* statement) {
  constexpr double kBytesPerUs = 4.2e6;
  if (const std::optional<double> cost = kernel::costUsOf(statement)) {
    return *cost;
  }
  auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement);
  auto function =
      launch ? llvm::dyn_cast_if_present<kernel::FuncOp>(launch.getEntryOp()) : kernel::FuncOp();
  double bytes = 0;
  if (function) {
    bytes = bytesTouched(launch, function);
  } else {
    for (mlir::Value operand : statement->getOperands()) {
      bytes += bytesOf(operand);
    }
  }
  return kKernelUs + bytes / kBytesPerUs;
}

}  // namespace straightline::passes
