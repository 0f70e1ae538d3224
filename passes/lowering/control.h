// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_LOWERING_CONTROL_H
#define STRAIGHTLINE_PASSES_LOWERING_CONTROL_H

#include "passes/lowering/context.h"

namespace straightline::lowering {

/// The row that `tensor` replaces in what a loop carries, seen with its extents, for the op that
/// makes `tensor` to write: the update then has nothing to do. Null where there is no such row, or
/// it was given out before.
mlir::Value takeRow(mlir::Value tensor, LoweringContext& context);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_CONTROL_H
