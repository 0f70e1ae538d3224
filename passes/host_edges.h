// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_HOST_EDGES_H
#define STRAIGHTLINE_PASSES_HOST_EDGES_H

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::passes {

/// Makes the tensors of a program that placeOnStream has moved to a device those of the host again:
/// each that a statement uses gets a twin on the device. Inputs and states are copied there at the
/// beginning of run, results, states and inputs that are updated in place back at its end, where
/// the host waits. Parameters are copied once, in prepare; without `freeze` in every run.
///
///   launch @k(%x) outs(%y) on @stream  ->  copy %x to %d on @stream
///                                          launch @k(%d) outs(%e) on @stream
///                                          copy %e to %y on @stream
///                                          %done = record on @stream;  wait %done on @team
///
/// Fails with an unsupported error for an input that is updated in place and whose elements do not
/// lie densely: copying it back would overwrite what lies between them.
mlir::LogicalResult addHostEdges(kernel::ProgramOp program, bool freeze);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_HOST_EDGES_H
