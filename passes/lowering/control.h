// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_LOWERING_CONTROL_H
#define STRAIGHTLINE_PASSES_LOWERING_CONTROL_H

#include "passes/lowering/context.h"

namespace straightline::lowering {

/// If an op.dynamic_update_slice replaces a row of a tensor that a loop carries by `tensor`: that
/// row, with the extents of `tensor`, for the op that makes `tensor` to write to. The update is
/// then done. Null where there is no such row, or where another call has returned it.
mlir::Value takeRow(mlir::Value tensor, LoweringContext& context);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_CONTROL_H
