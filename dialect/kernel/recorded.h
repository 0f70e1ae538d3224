// SPDX-License-Identifier: Apache-2.0
// What passes record on statements and declarations for each other and for the printers: attributes
// kernel.*, each with a function that reads it and one that writes it. kernel_dialect.h has those
// of grids and of steps. The dialect verifies all of them by one table (recorded.cpp): name, op,
// type.
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

/// kernel.rule: the rule of `routes` that decides about the ops of a statement, in words; empty:
/// none does.
llvm::StringRef ruleOf(mlir::Operation* statement);
void setRule(mlir::Operation* statement, llvm::StringRef rule);

/// kernel.alternatives: what kernels said that did not get the work of a statement, a dictionary
/// each: `kernel`, `said`, and `us` of one that would have taken it; null: there were none.
mlir::ArrayAttr alternativesOf(mlir::Operation* statement);
void setAlternatives(mlir::Operation* statement, mlir::ArrayAttr alternatives);

/// kernel.on_host, of a launch or a call in a program for a device: a rule gives its op to the host
/// where the device has no kernel for it. It stays on the team, and what it reads and writes is
/// copied.
bool isOnHost(mlir::Operation* statement);
void setOnHost(mlir::Operation* statement);

/// kernel.outside_graph, of a declaration with kernel.runs_on: the work of its calls is never part
/// of a graph. A run launches what it has gathered before such a call, and gathers what comes
/// behind the call as its next part.
bool isOutsideGraph(mlir::Operation* declaration);
void setOutsideGraph(DeclOp declaration);

/// kernel.exclusive_handle, of a declaration with a plan: a run writes into its handle, so that the
/// program holds a set of handles (sl_exclusive_plan).
bool hasExclusiveHandle(DeclOp declaration);
void setExclusiveHandle(DeclOp declaration);

/// When a kernel of a device waits, by itself, for the kernel ahead of it, so that it may be
/// launched before that one has ended.
enum class EarlyStart {
  none,        ///< it does not: it is launched when the kernel ahead has ended
  atEntry,     ///< before everything else; the wait is printed as its first statement
  inTemplate,  ///< the family's template waits, behind loads of what the run does not write, and
               ///< stores to its workspace (isWrittenEarly)
};
/// kernel.early_start of a kernel.func: "at_entry" or "in_template"; absent: none.
EarlyStart earlyStartOf(FuncOp function);
void setEarlyStart(FuncOp function, EarlyStart start);
/// Whether `root` is the workspace of a launch whose kernel waits in its template: the kernel may
/// write it while the kernels ahead still run, so that it shares memory with nothing of the run.
bool isWrittenEarly(mlir::Operation* launch, mlir::Value root);

/// kernel.blocks, of a kernel.func: how many there are; null where it runs on the host.
ExtentAttr blocksOf(mlir::Operation* function);

/// kernel.parts, of a kernel.func that runs on a device: the functions, in the order of their
/// blocks, each of which its first blocks that are left compute; the operands are those of one
/// after the other. Its own schedule names the first one's family alone. Empty: the function is one
/// kernel by itself.
llvm::SmallVector<FuncOp> partsOf(FuncOp function);
void setParts(FuncOp function, llvm::ArrayRef<FuncOp> parts);

/// kernel.rows, of a kernel.func that runs on a device: the outputs of which it writes one row, and
/// where it reads the number of that row. Empty: it writes all outputs where they are.
llvm::SmallVector<RowAttr> writtenRowsOf(FuncOp function);
void setWrittenRows(FuncOp function, llvm::ArrayRef<RowAttr> rows);
/// The inputs that the family's template takes: all but the numbers of rows, which stand last.
llvm::ArrayRef<mlir::Attribute> takenInputsOf(FuncOp function);

/// kernel.every_branch, of a module: place-branches makes every independent chain a branch,
/// whatever the estimates say.
bool placesEveryBranch(mlir::ModuleOp module);
void setPlacesEveryBranch(mlir::ModuleOp module);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_RECORDED_H
