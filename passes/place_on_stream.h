// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_PLACE_ON_STREAM_H
#define STRAIGHTLINE_PASSES_PLACE_ON_STREAM_H

#include "passes/targets/target.h"

namespace straightline::passes {

/// Moves a program to a device where its tensors already are: inputs, results, parameters and
/// states are in the space of the target's name, nothing is copied at the edges and nothing waits.
/// All statements go to one queue, which is the caller's stream, so their order is that of the
/// text.
///
///   launch @k(%x, %p) outs(%y) on @team  ->  launch @k(%x, %p) outs(%y) on @stream
///
/// Fails with an error for each kernel and statement that the target has no form of. `hostKernels`:
/// kernels are printed as the host's are, and tell of a bad index and of a division by zero by
/// their context.
mlir::LogicalResult placeOnStream(kernel::ProgramOp program, const Target& target,
                                  bool hostKernels = false);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_PLACE_ON_STREAM_H
