// SPDX-License-Identifier: Apache-2.0
// From values to buffers and statements: see passes/lowering/context.h. The module's one public
// function becomes a kernel.program of the same name, with the kernels that it launches beside it.
#include "dialect/op/recorded.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/program.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_LOWERTOKERNEL
#include "passes/passes.h.inc"

namespace {

struct LowerToKernelPass : impl::LowerToKernelBase<LowerToKernelPass> {
  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    llvm::SmallVector<mlir::func::FuncOp> functions(module.getOps<mlir::func::FuncOp>());
    if (functions.size() != 1) {
      module.emitError() << "has " << functions.size()
                         << " functions; a program is made of exactly one";
      signalPassFailure();
      return;
    }
    if (functions[0].isDeclaration()) {
      functions[0].emitError() << "has no body";
      signalPassFailure();
      return;
    }
    if (failed(
            lowering::lowerProgram(module, functions[0], targetOf(module), lowering::allRules()))) {
      signalPassFailure();
      return;
    }
    op::clearOpLevel(module);
  }
};

}  // namespace

}  // namespace straightline::passes
