// SPDX-License-Identifier: Apache-2.0
// What holds at each boundary of the pipeline, checked independently of the passes that make it so.
#ifndef STRAIGHTLINE_PASSES_LEVELS_H
#define STRAIGHTLINE_PASSES_LEVELS_H

#include <functional>
#include <memory>

#include "dialect/kernel/kernel_dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace straightline {

/// Kernel level: one program and no op of an earlier level; extents are declared; handles are
/// planned before a call uses them; two queues touch one storage only in an order that record and
/// wait say; of two statements that may run concurrently, none writes bytes that the other touches.
mlir::LogicalResult verifyKernelLevel(mlir::ModuleOp module);

/// Planned level: kernel level, and every slot and prepared buffer has a place, aligned to 64
/// bytes; no two that are live at once, in the order of the text or of what may run at once,
/// overlap, their borders included, for any value of the named extents that is tried.
mlir::LogicalResult verifyPlannedLevel(mlir::ModuleOp module);

std::unique_ptr<mlir::Pass> createVerifyKernelLevelPass();
std::unique_ptr<mlir::Pass> createVerifyPlannedLevelPass();
/// --verify-kernel-level, --verify-planned-level.
void registerLevelPasses();

/// Whether two storage roots may share bytes.
using MayShare = std::function<bool(mlir::Value, mlir::Value)>;

/// Every pair of conflicting accesses on different queues is ordered by events. `constraint` ends
/// the message.
mlir::LogicalResult verifyQueueOrder(mlir::Region& region, const MayShare& mayShare,
                                     llvm::StringRef constraint);

/// Of two statements that a device may run concurrently (kernel.step), none writes bytes that the
/// other touches.
mlir::LogicalResult verifyStepOrder(mlir::Region& region, const MayShare& mayShare,
                                    llvm::StringRef constraint);

/// A buffer that a statement reads or writes.
struct Access {
  mlir::Value root;  ///< owner of the storage
  bool writes;
  mlir::Value buffer;  ///< what of it
};
/// The accesses of one statement, without those of statements nested in it.
llvm::SmallVector<Access> accessesOf(mlir::Operation* op);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_LEVELS_H
