// SPDX-License-Identifier: Apache-2.0
// Loops over what `op.index` reads and `op.index_put` writes, in the order of its dims.
#ifndef STRAIGHTLINE_PASSES_LOWERING_INDEXED_LOOPS_H
#define STRAIGHTLINE_PASSES_LOWERING_INDEXED_LOOPS_H

#include "passes/lowering/context.h"

namespace straightline::lowering {

/// A buffer of which several index tensors (of one shape) index one dim each.
struct IndexedBuffer {
  mlir::Value whole;
  llvm::ArrayRef<mlir::Value> indices;
  llvm::ArrayRef<int64_t> dims;
  int64_t firstIndexDim;  ///< the loop where those of the index tensors begin
};

struct IndexedLoops {
  Exprs beside;                        ///< strides of the buffer: 0 along the index tensors' loops
  llvm::SmallVector<Exprs> indices;    ///< strides of each index tensor: 0 along the others
  Exprs dimExtents, dimStrides;        ///< of the buffer, along the dim that each tensor indexes
  llvm::SmallVector<bool> isIndexDim;  ///< for each loop
};

IndexedLoops indexedLoops(const IndexedBuffer& indexed, size_t rank, LoweringContext& context);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_INDEXED_LOOPS_H
