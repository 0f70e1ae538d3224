// SPDX-License-Identifier: Apache-2.0
// Extents that a statement of run computes (kernel.set_extent), where memory is planned.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_COMPUTED_EXTENTS_H
#define STRAIGHTLINE_DIALECT_KERNEL_COMPUTED_EXTENTS_H

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::kernel {

/// An expression over the extents that a caller gives which is at least `expr`, whatever values the
/// computed ones get; `expr` itself where it uses none of those.
ExtentAttr largestOf(ProgramOp program, mlir::AffineExpr expr,
                     llvm::ArrayRef<mlir::StringAttr> names);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_COMPUTED_EXTENTS_H
