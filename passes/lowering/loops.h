// SPDX-License-Identifier: Apache-2.0
// Loops of an iteration space with every operand's stride along them, and how they are merged.
#ifndef STRAIGHTLINE_PASSES_LOWERING_LOOPS_H
#define STRAIGHTLINE_PASSES_LOWERING_LOOPS_H

#include "passes/lowering/sizes.h"

namespace straightline::lowering {

struct Loop {
  mlir::AffineExpr extent;
  Exprs strides;  ///< one an operand, elements
};

/// One loop a dim whose extent is not one. `strides[operand][dim]`.
llvm::SmallVector<Loop> makeLoops(const Sizes& sizes, const Exprs& extents,
                                  llvm::ArrayRef<Exprs> strides);
/// Merges neighbours that every operand walks as one.
llvm::SmallVector<Loop> mergeLoops(llvm::SmallVector<Loop> loops);
/// Orders loops by falling stride of the operand `key`.
void orderLoops(const Sizes& sizes, llvm::SmallVectorImpl<Loop>& loops, size_t key);

Exprs extentsOf(llvm::ArrayRef<Loop> loops);
Exprs stridesOf(llvm::ArrayRef<Loop> loops, size_t operand);
/// "_8x1024"; a symbolic extent is "n".
std::string sizeName(llvm::ArrayRef<mlir::AffineExpr> extents);
std::string sizeName(llvm::ArrayRef<Loop> loops);
/// Values, one a dim, without that of `dim`.
Exprs without(Exprs values, int64_t dim);
/// Those of `count` dims from `first` on.
Exprs part(const Exprs& values, size_t first, size_t count);

/// Of at most one loop: its extent, 1 where there is none; its stride, 0 where there is none.
mlir::AffineExpr onlyExtent(const Sizes& sizes, llvm::ArrayRef<Loop> loops);
mlir::AffineExpr onlyStride(const Sizes& sizes, llvm::ArrayRef<Loop> loops, size_t operand);
/// Whether there is at most one loop, along which every operand lies densely.
bool isDenseRun(const Sizes& sizes, llvm::ArrayRef<Loop> loops);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_LOOPS_H
