// SPDX-License-Identifier: Apache-2.0
// From values to buffers and statements: see passes/lowering/lowering.h. The module's one public function becomes a
// kernel.program of the same name, with the kernels that it launches beside it.
#include "passes/kernel_passes.h"
#include "passes/lowering/lowering.h"

namespace straightline {

namespace {

struct LowerToKernel : mlir::PassWrapper<LowerToKernel, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerToKernel)
  llvm::StringRef getArgument() const override { return "lower-to-kernel"; }
  llvm::StringRef getDescription() const override { return "values become buffers, fusions become launches"; }
  void getDependentDialects(mlir::DialectRegistry& registry) const override { registry.insert<kernel::KernelDialect>(); }

  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    llvm::SmallVector<mlir::func::FuncOp> functions(module.getOps<mlir::func::FuncOp>());
    if (functions.size() != 1) {
      module.emitError() << "has " << functions.size() << " functions; a program is made of exactly one";
      signalPassFailure();
      return;
    }
    if (functions[0].isDeclaration()) {
      functions[0].emitError() << "has no body";
      signalPassFailure();
      return;
    }
    lowering::Lowering lowering(module, functions[0], targetOf(module));
    if (failed(lowering.run())) {
      signalPassFailure();
      return;
    }
    module->removeAttr("op.target");
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> createLowerToKernelPass() { return std::make_unique<LowerToKernel>(); }

}  // namespace straightline
