// SPDX-License-Identifier: Apache-2.0
// What the three fusion passes share: growing a set of ops of one block and moving it into an
// op.fusion.
#ifndef STRAIGHTLINE_PASSES_FUSION_GROUP_H
#define STRAIGHTLINE_PASSES_FUSION_GROUP_H

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace straightline::passes {

/// Ops of one block and one phase that will be one kernel.
using FusionGroup = llvm::SetVector<mlir::Operation*>;

/// Rank 0, computed from loop indices and literals only: it becomes scalar statements, not a
/// kernel.
bool isIndexArithmetic(mlir::Operation* operation);

/// No path leaves the group and enters it again. The block must be in topological order.
bool isConvex(const FusionGroup& group);

/// Both depend on parameters only, or neither does.
bool inSamePhase(mlir::Operation* a, mlir::Operation* b);

/// Adds producers and consumers that `accepts` takes until none is left, never so that something
/// outside the group stands between two members. The block must be in topological order.
void grow(FusionGroup& group, llvm::function_ref<bool(mlir::Operation*)> accepts);

/// Moves the group into an op.fusion and gives it. Expands and splat literals that its ops read are
/// copied into the body. Inputs: `leading` (may be shared with later inputs), then what the body
/// reads, in order of use. The block is brought into topological order again.
op::FusionOp outline(const FusionGroup& group, llvm::StringRef family,
                     mlir::ValueRange leading = {});

/// Restores the topological order of a block in which only `fusion` may be out of order. It stands
/// where the last of its ops stood; ops before it that read its results, directly or through other
/// ops, are moved behind it.
void restoreOrder(op::FusionOp fusion);

/// Calls `fuse` with every block of the function that is no fusion's body, innermost last.
void forEachBlock(mlir::func::FuncOp function, llvm::function_ref<void(mlir::Block&)> fuse);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_FUSION_GROUP_H
