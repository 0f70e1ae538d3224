// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/recorded.h"
#include "dialect/op/special.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Support/DebugStringHelper.h"
#include "passes/levels/levels.h"
#include "passes/targets/target.h"

namespace straightline {

using mlir::LogicalResult;
using mlir::Operation;
using mlir::StringAttr;
using mlir::Value;

namespace {

/// Only this level's ops are left, and one program.
LogicalResult verifyOps(mlir::ModuleOp module) {
  const auto programs = module.getOps<kernel::ProgramOp>();
  const int64_t count = std::distance(programs.begin(), programs.end());
  if (count != 1) {
    return module.emitError() << "has " << count << " kernel.program, expected 1 (kernel_level_c1)";
  }
  mlir::WalkResult result = module.walk([&](Operation* op) {
    llvm::StringRef dialect = op->getName().getDialectNamespace();
    if (op == module.getOperation() || dialect == "kernel" || dialect == "arith" ||
        dialect == "math" || llvm::isa<op::ScalarSpecialOp>(op)) {
      return mlir::WalkResult::advance();
    }
    op->emitOpError() << "is left at kernel level, expected ops of kernel, arith and math, and "
                      << op::ScalarSpecialOp::getOperationName() << " (kernel_level_c2)";
    return mlir::WalkResult::interrupt();
  });
  if (result.wasInterrupted()) {
    return mlir::failure();
  }
  kernel::ProgramOp program = *programs.begin();
  return verifyTarget(program, program.getTarget());
}

LogicalResult verifyExtents(kernel::ProgramOp program) {
  const symbolic::BoundsMap known = program.getExtentBounds();
  auto verifyType = [&](Operation* op, mlir::Type type) -> LogicalResult {
    auto buffer = llvm::dyn_cast<kernel::BufferType>(type);
    for (StringAttr name : buffer ? buffer.getNames() : llvm::ArrayRef<StringAttr>()) {
      if (!known.contains(name)) {
        return op->emitOpError() << "has a buffer " << type << " with the extent " << name
                                 << ", which the program does not declare (kernel_level_c3)";
      }
    }
    return mlir::success();
  };
  mlir::WalkResult result = program.walk([&](Operation* op) {
    for (mlir::Type type : op->getResultTypes()) {
      if (failed(verifyType(op, type))) {
        return mlir::WalkResult::interrupt();
      }
    }
    for (mlir::Region& region : op->getRegions()) {
      for (mlir::Type type : region.getArgumentTypes()) {
        if (failed(verifyType(op, type))) {
          return mlir::WalkResult::interrupt();
        }
      }
    }
    return mlir::WalkResult::advance();
  });
  return mlir::failure(result.wasInterrupted());
}

/// Exactly one `plan` makes each handle, with the declaration that its calls use.
LogicalResult verifyHandles(kernel::ProgramOp program) {
  for (auto handle : program.getBodyBlock()->getOps<kernel::HandleOp>()) {
    kernel::PlanOp maker;
    for (Operation* user : handle->getUsers()) {
      auto plan = llvm::dyn_cast<kernel::PlanOp>(user);
      if (plan && maker) {
        return plan.emitOpError() << "makes the handle " << handle.getNameAttr()
                                  << ", which another plan makes as well (kernel_level_c4)";
      }
      maker = plan ? plan : maker;
    }
    for (Operation* user : handle->getUsers()) {
      auto call = llvm::dyn_cast<kernel::CallOp>(user);
      if (call && !maker) {
        return call.emitOpError() << "uses the handle " << handle.getNameAttr()
                                  << ", which no plan makes (kernel_level_c4)";
      }
      if (call && call.getCalleeAttr() != maker.getCalleeAttr()) {
        return call.emitOpError() << "is of " << call.getCalleeAttr() << " but its handle "
                                  << handle.getNameAttr() << " was planned for "
                                  << maker.getCalleeAttr() << " (kernel_level_c5)";
      }
    }
  }
  return mlir::success();
}

/// The types of the operands of all parts, of which `of` gives a part's.
llvm::SmallVector<mlir::Attribute> joined(llvm::ArrayRef<kernel::FuncOp> parts,
                                          llvm::function_ref<mlir::ArrayAttr(kernel::FuncOp)> of) {
  llvm::SmallVector<mlir::Attribute> all;
  for (kernel::FuncOp part : parts) {
    llvm::append_range(all, of(part));
  }
  return all;
}

std::optional<int64_t> numberOfBlocks(kernel::FuncOp function) {
  const kernel::ExtentAttr blocks = kernel::blocksOf(function);
  return blocks ? blocks.getConstant() : std::nullopt;
}

/// A kernel of several parts (kernel.parts) has their operands, their blocks and their threads.
LogicalResult verifyParts(kernel::FuncOp function) {
  const llvm::SmallVector<kernel::FuncOp> parts = kernel::partsOf(function);
  if (parts.empty()) {
    return mlir::success();
  }
  kernel::FuncOp first = parts.front();
  const auto refuse = [&](const llvm::Twine& what) {
    return function.emitOpError() << what << " (kernel_level_c8)";
  };
  int64_t blocks = 0;
  for (kernel::FuncOp part : parts) {
    if (!part || !kernel::partsOf(part).empty()) {
      return refuse("has a part that is no kernel.func of this module, or that has parts itself");
    }
    const std::string name = "has the part @" + part.getSymName().str();
    const std::optional<int64_t> own = numberOfBlocks(part);
    if (!own || !part.getScalarNames().empty() || part->hasAttr(kernel::kClusterAttr) ||
        part->getAttr(kernel::kThreadsAttr) != function->getAttr(kernel::kThreadsAttr) ||
        kernel::earlyStartOf(part) != kernel::EarlyStart::atEntry) {
      return refuse(name + ", expected one of a known number of blocks, without clusters, of as " +
                    "many threads, which waits at its entry");
    }
    blocks += *own;
  }
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  if (first.getSchedule().getFamily() != function.getSchedule().getFamily()) {
    return refuse("is of family '" + family + "', expected that of its first part, '" +
                  first.getSchedule().getFamily().getValue() + "'");
  }
  if (!kernel::writtenRowsOf(function).empty()) {
    return refuse("has kernel.rows, expected them on its parts");
  }
  if (numberOfBlocks(function) != blocks ||
      kernel::earlyStartOf(function) != kernel::EarlyStart::atEntry) {
    return refuse("has " + llvm::Twine(numberOfBlocks(function).value_or(0)) +
                  " blocks and parts of " + llvm::Twine(blocks) +
                  ", expected as many, and a wait at its entry");
  }
  const bool isJoined =
      llvm::equal(function.getInputs(),
                  joined(parts, [](kernel::FuncOp part) { return part.getInputs(); })) &&
      llvm::equal(function.getOutputs(),
                  joined(parts, [](kernel::FuncOp part) { return part.getOutputs(); })) &&
      llvm::equal(function.getOutputRoles(),
                  joined(parts, [](kernel::FuncOp part) { return part.getOutputRoles(); }));
  return isJoined ? mlir::success()
                  : LogicalResult(refuse("has other operands than its parts one after the other"));
}

/// Rows that a kernel finds when it runs (kernel.rows): it runs on a device, waits before it reads
/// their numbers, takes these last, and keeps what else is in its outputs.
LogicalResult verifyRows(kernel::FuncOp function, kernel::TargetAttr target) {
  const llvm::SmallVector<kernel::RowAttr> rows = kernel::writtenRowsOf(function);
  const auto refuse = [&](const llvm::Twine& what) {
    return function.emitOpError() << what << " (kernel_level_c9)";
  };
  if (rows.empty()) {
    return mlir::success();
  }
  if (target.isHost() || kernel::earlyStartOf(function) == kernel::EarlyStart::inTemplate) {
    return refuse("has kernel.rows, expected on a kernel of a device that waits before it begins");
  }
  const auto inputs = static_cast<int64_t>(function.getInputs().size());
  const auto outputs = static_cast<int64_t>(function.getOutputs().size());
  const auto taken = static_cast<int64_t>(kernel::takenInputsOf(function).size());
  llvm::SmallDenseSet<int64_t> written;
  for (kernel::RowAttr row : rows) {
    if (row.getOutput() < 0 || row.getOutput() >= outputs || row.getIndex() < 0 ||
        row.getIndex() >= inputs) {
      return refuse("has the row of output " + llvm::Twine(row.getOutput()) + " at input " +
                    llvm::Twine(row.getIndex()) + ", expected below " + llvm::Twine(outputs) +
                    " and " + llvm::Twine(inputs));
    }
    if (!written.insert(row.getOutput()).second) {
      return refuse("has two rows of output " + llvm::Twine(row.getOutput()));
    }
    if (row.getIndex() < taken) {
      return refuse("has the number of a row as input " + llvm::Twine(row.getIndex()) +
                    ", expected behind the " + llvm::Twine(taken) + " that its family takes");
    }
    auto number = llvm::cast<kernel::BufferType>(
        llvm::cast<mlir::TypeAttr>(function.getInputs()[row.getIndex()]).getValue());
    if (!number.getElementType().isSignlessInteger(32) &&
        !number.getElementType().isSignlessInteger(64)) {
      return refuse("has a number of a row of type " + mlir::debugString(number.getElementType()) +
                    ", expected i32 or i64");
    }
    if (row.getExtent() < 1 || row.getWrap() < 0 || row.getWrap() > 1) {
      return refuse("has one of " + llvm::Twine(row.getExtent()) + " rows with wrap = " +
                    llvm::Twine(row.getWrap()) + ", expected of one or more, 0 or 1");
    }
    if (!kernel::isOutputRead(function, static_cast<unsigned>(row.getOutput()))) {
      return refuse("writes a row of output " + llvm::Twine(row.getOutput()) +
                    ", expected the role \"readwrite\": its other rows stay");
    }
  }
  for (kernel::Tie tie : kernel::getTies(function)) {
    if (written.contains(tie.output)) {
      return refuse("has a tie of output " + llvm::Twine(tie.output) +
                    ", of which it writes a row");
    }
  }
  return mlir::success();
}

/// A launch hands over buffers with as many rows, so far apart, as its kernel counts on.
LogicalResult verifyRowsOf(kernel::LaunchOp launch) {
  auto function = llvm::dyn_cast_if_present<kernel::FuncOp>(launch.getEntryOp());
  for (kernel::RowAttr row : kernel::writtenRowsOf(function)) {
    auto type = llvm::cast<kernel::BufferType>(launch.getOutputs()[row.getOutput()].getType());
    const auto isDim = [&](auto dim) {
      return symbolic::constantValue(std::get<0>(dim)) == row.getExtent() &&
             symbolic::constantValue(std::get<1>(dim)) == row.getStride();
    };
    if (llvm::none_of(llvm::zip(type.getExtents(), type.getStrides()), isDim)) {
      return launch.emitOpError() << "has the output " << type << ", expected a dim of "
                                  << row.getExtent() << " rows, " << row.getStride()
                                  << " elements apart (kernel_level_c9)";
    }
  }
  return mlir::success();
}

/// Prepare is never launched at once.
LogicalResult verifyNoSteps(kernel::PrepareOp prepare) {
  const mlir::WalkResult result = prepare.walk([](Operation* op) {
    if (!op->hasAttr(kernel::kStepAttr) && !op->hasAttr(kernel::kAfterAttr)) {
      return mlir::WalkResult::advance();
    }
    op->emitOpError() << "begins a step in prepare, expected that in run (kernel_level_c7)";
    return mlir::WalkResult::interrupt();
  });
  return mlir::failure(result.wasInterrupted());
}

class VerifyKernelLevelPass
    : public mlir::PassWrapper<VerifyKernelLevelPass, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyKernelLevelPass)
  llvm::StringRef getArgument() const final { return "verify-kernel-level"; }
  llvm::StringRef getDescription() const final {
    return "checks what holds between lowering and planning";
  }
  void runOnOperation() final {
    if (failed(verifyKernelLevel(getOperation()))) {
      signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

}  // namespace

LogicalResult verifyKernelLevel(mlir::ModuleOp module) {
  if (failed(verifyOps(module))) {
    return mlir::failure();
  }
  kernel::ProgramOp program = *module.getOps<kernel::ProgramOp>().begin();
  if (failed(verifyExtents(program)) || failed(verifyHandles(program))) {
    return mlir::failure();
  }
  for (auto function : module.getOps<kernel::FuncOp>()) {
    if (failed(verifyParts(function)) || failed(verifyRows(function, program.getTarget()))) {
      return mlir::failure();
    }
  }
  const mlir::WalkResult launched = program.walk([](kernel::LaunchOp launch) {
    return failed(verifyRowsOf(launch)) ? mlir::WalkResult::interrupt()
                                        : mlir::WalkResult::advance();
  });
  if (launched.wasInterrupted()) {
    return mlir::failure();
  }
  const MayShare same = [](Value a, Value b) { return a == b; };
  kernel::PrepareOp prepare = program.getPrepareOp();
  if (prepare && failed(verifyQueueOrder(prepare.getBody(), same, "kernel_level_c6"))) {
    return mlir::failure();
  }
  mlir::Region& run = program.getRunOp().getBody();
  const bool isOrdered = succeeded(verifyQueueOrder(run, same, "kernel_level_c6")) &&
                         succeeded(verifyStepOrder(run, same, "kernel_level_c7"));
  return mlir::success(isOrdered && (!prepare || succeeded(verifyNoSteps(prepare))));
}

std::unique_ptr<mlir::Pass> createVerifyKernelLevelPass() {
  return std::make_unique<VerifyKernelLevelPass>();
}

void registerLevelPasses() {
  mlir::registerPass([] { return createVerifyKernelLevelPass(); });
  mlir::registerPass([] { return createVerifyPlannedLevelPass(); });
}

}  // namespace straightline
