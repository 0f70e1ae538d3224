// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_LOWERING_CONSTANTS_H
#define STRAIGHTLINE_PASSES_LOWERING_CONSTANTS_H

#include "passes/lowering/context.h"

namespace straightline::lowering {

/// Whether the op is a `full`, a literal of equal elements or a view of one, and its users print
/// the element as a literal: it needs no storage.
bool isLiteralOnly(mlir::Operation* op, const LoweringContext& context);
/// Whether a full has no storage: each loop that begins with it writes it where it carries it.
bool isWrittenByLoops(mlir::Value tensor);
/// Writes the elements of a full or an iota to `place`.
void writeElements(op::FullOp full, mlir::Value place, LoweringContext& context);
void writeElements(op::IotaOp iota, mlir::Value place, LoweringContext& context);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_CONSTANTS_H
