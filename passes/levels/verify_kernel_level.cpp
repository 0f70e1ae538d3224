// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/recorded.h"
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
        dialect == "math") {
      return mlir::WalkResult::advance();
    }
    op->emitOpError()
        << "is left at kernel level, expected ops of kernel, arith and math (kernel_level_c2)";
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

std::optional<int64_t> blocksOf(kernel::FuncOp function) {
  auto blocks = function->getAttrOfType<kernel::ExtentAttr>(kernel::kBlocksAttr);
  return blocks ? blocks.getConstant() : std::nullopt;
}

/// A kernel of several parts (kernel.parts) has their operands, their blocks and their threads.
LogicalResult verifyParts(kernel::FuncOp function) {
  const llvm::SmallVector<kernel::FuncOp> parts = kernel::partsOf(function);
  if (parts.empty()) {
    return mlir::success();
  }
  const auto refuse = [&](const llvm::Twine& what) {
    return function.emitOpError() << what << " (kernel_level_c8)";
  };
  int64_t blocks = 0;
  for (kernel::FuncOp part : parts) {
    if (!part || !kernel::partsOf(part).empty()) {
      return refuse("has a part that is no kernel.func of this module, or that has parts itself");
    }
    const std::string name = "has the part @" + part.getSymName().str();
    if (part.getSchedule().getFamily() != function.getSchedule().getFamily()) {
      return refuse(name + " of family '" + part.getSchedule().getFamily().getValue() +
                    "', expected '" + function.getSchedule().getFamily().getValue() + "'");
    }
    const std::optional<int64_t> own = blocksOf(part);
    if (!own || !part.getScalarNames().empty() || part->hasAttr(kernel::kClusterAttr) ||
        part->getAttr(kernel::kThreadsAttr) != function->getAttr(kernel::kThreadsAttr) ||
        kernel::earlyStartOf(part) != kernel::EarlyStart::atEntry) {
      return refuse(name + ", expected one of a known number of blocks, without clusters, of as " +
                    "many threads, which waits at its entry");
    }
    blocks += *own;
  }
  if (blocksOf(function) != blocks ||
      kernel::earlyStartOf(function) != kernel::EarlyStart::atEntry) {
    return refuse("has " + llvm::Twine(blocksOf(function).value_or(0)) + " blocks and parts of " +
                  llvm::Twine(blocks) + ", expected as many, and a wait at its entry");
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
    if (failed(verifyParts(function))) {
      return mlir::failure();
    }
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
