// SPDX-License-Identifier: Apache-2.0
// Chooses a kernel for every contraction by asking the registry, and records it (op.kernel) with the reasons for it and
// against its rivals (op.why). A route of the module (op.routes) leaves only the kernels that it allows; `prefer=BACKEND`
// takes that backend's kernel wherever it has one that accepts, whatever its cost; `avoid=KERNEL` never takes that kernel. A fusion that no kernel takes is an error; all are reported before the pass fails.
#include "dialect/op/op_dialect.h"
#include "passes/contraction_problem.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SELECTKERNELS
#include "passes/passes.h.inc"

namespace {

struct SelectKernelsPass : impl::SelectKernelsBase<SelectKernelsPass> {
  using SelectKernelsBase::SelectKernelsBase;

  void runOnOperation() override {
    const kernel::TargetAttr target = targetOf(getOperation());
    bool failedHere = false;
    getOperation().walk([&](op::FusionOp fusion) {
      mlir::Operation* root = contractionRoot(fusion);
      if (!root) {
        return;
      }
      const KernelWishes wishes{prefer, routeOf(getOperation(), root->getName().stripDialect()), avoid, allow};
      const KernelChoice choice = chooseKernel(contractionProblem(fusion, target), wishes);
      if (!choice.kernel) {
        emitNoKernel(root, choice, wishes);
        failedHere = true;
        return;
      }
      fusion->setAttr("op.kernel", mlir::StringAttr::get(&getContext(), choice.kernel->name));
      fusion->setAttr("op.why", mlir::StringAttr::get(&getContext(), choice.why));
      if (llvm::StringRef(choice.kernel->family) == "gemv") {
        readStoredWeight(fusion, llvm::cast<op::LinearOp>(root));
      }
    });
    if (failedHere) {
      signalPassFailure();
    }
  }

  /// gemv widens a weight of 16-bit floats by itself: no widened copy is kept for it.
  static void readStoredWeight(op::FusionOp fusion, op::LinearOp linear) {
    const unsigned input = fusionInputIndex(fusion, linear.getWeight());
    const mlir::Value widened = fusion->getOperand(input);
    const mlir::Value stored = storedWeight(widened);
    if (!stored || !linear.getWeight().hasOneUse()) {
      return;
    }
    linear.getWeight().setType(llvm::cast<mlir::RankedTensorType>(stored.getType()));
    fusion->setOperand(input, stored);
    if (widened.use_empty()) {
      widened.getDefiningOp()->erase();
    }
  }

};

}  // namespace

}  // namespace straightline::passes
