// SPDX-License-Identifier: Apache-2.0
// Extents that the graph computes (op.set_extent).
#ifndef STRAIGHTLINE_PASSES_LOWERING_COMPUTED_EXTENTS_H
#define STRAIGHTLINE_PASSES_LOWERING_COMPUTED_EXTENTS_H

#include "mlir/IR/Block.h"

namespace straightline::lowering {

/// Moves ops whose types use a computed extent, with all that read them, behind the op that gives
/// the extent its value, in `block` and in regions of its ops. Passes know of no order between an
/// op without operands (a range of numbers) and that op, and move such ops out of regions.
void orderBehindExtents(mlir::Block& block);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_COMPUTED_EXTENTS_H
