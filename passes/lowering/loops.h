// SPDX-License-Identifier: Apache-2.0
// Loops of an iteration space with every operand's stride along them, and how they are merged.
#ifndef STRAIGHTLINE_PASSES_LOWERING_LOOPS_H
#define STRAIGHTLINE_PASSES_LOWERING_LOOPS_H

#include "passes/lowering/lowering.h"

namespace straightline::lowering {

struct Loop {
  mlir::AffineExpr extent;
  Exprs strides;  ///< one an operand, elements
};

/// One loop a dim whose extent is not one. `strides[operand][dim]`.
llvm::SmallVector<Loop> makeLoops(Lowering& lowering, const Exprs& extents,
                                  llvm::ArrayRef<Exprs> strides);
/// Merges neighbours that every operand walks as one.
llvm::SmallVector<Loop> mergeLoops(llvm::SmallVector<Loop> loops);
/// Orders loops by falling stride of the operand `key`.
void orderLoops(Lowering& lowering, llvm::SmallVectorImpl<Loop>& loops, size_t key);

Exprs extentsOf(llvm::ArrayRef<Loop> loops);
Exprs stridesOf(llvm::ArrayRef<Loop> loops, size_t operand);
/// "_8x1024"; a symbolic extent is "n".
std::string sizeName(llvm::ArrayRef<mlir::AffineExpr> extents);
std::string sizeName(llvm::ArrayRef<Loop> loops);
/// Values, one a dim, without that of `dim`.
Exprs without(Exprs values, int64_t dim);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_LOOPS_H
