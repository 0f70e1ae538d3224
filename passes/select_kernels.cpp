// SPDX-License-Identifier: Apache-2.0
// Chooses a kernel for every contraction by asking the registry, and records it (op.kernel) with the reasons for it and
// against its rivals (op.why). A fusion that no kernel takes is an error; all are reported before the pass fails.
#include "dialect/op/op_dialect.h"
#include "passes/contraction_problem.h"
#include "passes/kernel_passes.h"

namespace straightline {

kernel::TargetAttr targetOf(mlir::ModuleOp module) {
  if (auto target = module->getAttrOfType<kernel::TargetAttr>("op.target")) {
    return target;
  }
  return kernel::TargetAttr::get(module.getContext(), "cpu", "x86-64-v3", 1, 32, 32768, 1048576);
}

namespace {

struct SelectKernels : mlir::PassWrapper<SelectKernels, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SelectKernels)
  void getDependentDialects(mlir::DialectRegistry& registry) const override { registry.insert<kernel::KernelDialect>(); }
  llvm::StringRef getArgument() const override { return "select-kernels"; }
  llvm::StringRef getDescription() const override { return "choose a kernel for every contraction"; }

  void runOnOperation() override {
    const kernel::TargetAttr target = targetOf(getOperation());
    bool failedHere = false;
    getOperation().walk([&](op::FusionOp fusion) {
      mlir::Operation* root = contractionRoot(fusion);
      if (!root) {
        return;
      }
      const KernelChoice choice = chooseKernel(contractionProblem(fusion, target));
      if (!choice.kernel) {
        root->emitOpError("has no kernel; unsupported: " ) << choice.why;
        failedHere = true;
        return;
      }
      fusion->setAttr("op.kernel", mlir::StringAttr::get(&getContext(), choice.kernel->name));
      fusion->setAttr("op.why", mlir::StringAttr::get(&getContext(), choice.why));
    });
    if (failedHere) {
      signalPassFailure();
    }
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> createSelectKernelsPass() { return std::make_unique<SelectKernels>(); }

}  // namespace straightline
