// SPDX-License-Identifier: Apache-2.0
// What passes record on statements and declarations for each other and for the printers: attributes
// kernel.*, each with a function that reads it and one that writes it. kernel_dialect.h has those
// of grids and of steps.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_RECORDED_H
#define STRAIGHTLINE_DIALECT_KERNEL_RECORDED_H

#include <optional>

#include "dialect/kernel/kernel_dialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace straightline::kernel {

/// kernel.cost_us: estimated microseconds of a statement; nullopt: there is no estimate.
std::optional<double> costUsOf(mlir::Operation* statement);
void setCostUs(mlir::Operation* statement, double us);

/// kernel.choice: the key by which a measured choice of the statement's kernel is looked up; empty:
/// it has none.
llvm::StringRef choiceKeyOf(mlir::Operation* statement);
void setChoiceKey(mlir::Operation* statement, llvm::StringRef key);

/// kernel.apart, of a declaration with kernel.runs_on: the work of its calls is never part of a
/// graph. What a run has gathered before such a call is launched first; what comes behind the call
/// is gathered as the next part of the run.
bool isApart(mlir::Operation* declaration);
void setApart(DeclOp declaration);

/// kernel.every_lane, of a module: place-lanes puts branches side by side whatever they win by it.
bool placesEveryLane(mlir::ModuleOp module);
void setPlacesEveryLane(mlir::ModuleOp module);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_RECORDED_H
