// SPDX-License-Identifier: Apache-2.0
// Which images [n, c, h, w] and signals [n, c, w] have the channels of a pixel side by side in
// memory.
#ifndef STRAIGHTLINE_PASSES_CHANNELS_LAST_H
#define STRAIGHTLINE_PASSES_CHANNELS_LAST_H

#include "dialect/op/op_dialect.h"

namespace straightline::passes {

/// The value that a slice is a part of, through slices of slices.
mlir::Value wholeOf(mlir::Value value);

/// Whether `value` lies channels last, as far as assign-layouts has come: what makes it, or what it
/// is a slice of, has that op.layout, or it is a row-major tensor [n, h, w, c] permuted to
/// [n, c, h, w].
bool liesChannelsLast(mlir::Value value);

/// The same before kernels are chosen, on a target whose convolutions write channels last: a guess
/// from the ops that make the value. A wrong one costs time, no more.
bool willLieChannelsLast(mlir::Value value);

/// The permute of an operand of `op` that `back`, a permute of a result, undoes; null: none does.
op::PermuteOp undoneBy(op::PermuteOp back, mlir::Operation* op);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_CHANNELS_LAST_H
