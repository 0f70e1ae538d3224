// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_LOWERING_PROGRAM_H
#define STRAIGHTLINE_PASSES_LOWERING_PROGRAM_H

#include "dialect/kernel/kernel_dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/lowering/rules.h"

namespace straightline::lowering {

/// Replaces the function by a kernel.program of its name, with the kernels that it launches beside
/// it, and erases the symbols of the module. Each op is lowered by its rule.
mlir::LogicalResult lowerProgram(mlir::ModuleOp module, mlir::func::FuncOp function,
                                 kernel::TargetAttr target, const RuleSet& rules);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_PROGRAM_H
