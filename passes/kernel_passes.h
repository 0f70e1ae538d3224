// SPDX-License-Identifier: Apache-2.0
// Passes from the choice of kernels on. Each is described at the top of its file.
#ifndef STRAIGHTLINE_PASSES_KERNEL_PASSES_H
#define STRAIGHTLINE_PASSES_KERNEL_PASSES_H

#include <memory>

#include "dialect/kernel/kernel_dialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace straightline {

std::unique_ptr<mlir::Pass> createDecomposeReductionsPass();
std::unique_ptr<mlir::Pass> createSelectKernelsPass();
std::unique_ptr<mlir::Pass> createAssignLayoutsPass();
std::unique_ptr<mlir::Pass> createLowerToKernelPass();
std::unique_ptr<mlir::Pass> createReuseInPlacePass();
std::unique_ptr<mlir::Pass> createPlanMemoryPass();
std::unique_ptr<mlir::Pass> createPoisonSlotsPass();
std::unique_ptr<mlir::Pass> createInsertBarriersPass();

/// The target that op-level passes plan for: module attribute `op.target`, else one thread of x86-64-v3.
kernel::TargetAttr targetOf(mlir::ModuleOp module);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_KERNEL_PASSES_H
