// SPDX-License-Identifier: Apache-2.0
// Named extents: integer expressions over named symbols, shared by both dialects. An expression is
// an AffineExpr whose symbol s_i stands for names[i]; lists keep their names sorted and used, so
// that equal lists are equal attributes.
#ifndef STRAIGHTLINE_DIALECT_SYMBOLIC_H
#define STRAIGHTLINE_DIALECT_SYMBOLIC_H

#include <optional>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

namespace straightline::symbolic {

/// Lowest and highest value of each named extent.
struct Bounds {
  int64_t lowest;
  int64_t highest;
};
using BoundsMap = llvm::DenseMap<mlir::StringAttr, Bounds>;

/// Integer expressions over common names.
struct ExprList {
  llvm::SmallVector<mlir::StringAttr> names;  ///< sorted, each used by some expression
  llvm::SmallVector<mlir::AffineExpr> exprs;
  bool operator==(const ExprList&) const = default;
};

/// Sorts and prunes `names` and renumbers the expressions' symbols accordingly.
ExprList canonical(llvm::ArrayRef<mlir::StringAttr> names, llvm::ArrayRef<mlir::AffineExpr> exprs);

/// A list of constants.
ExprList constants(mlir::MLIRContext* context, llvm::ArrayRef<int64_t> values);

/// Expresses `expr` (over `from`) over `names`, appending names that are missing.
mlir::AffineExpr rebase(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> from,
                        llvm::SmallVectorImpl<mlir::StringAttr>& names);

/// Parses one expression (`b * 64 + 1`, `(a + 1) floordiv 2`); new names are appended to `names`.
mlir::ParseResult parseExpr(mlir::AsmParser& parser, llvm::SmallVectorImpl<mlir::StringAttr>& names,
                            mlir::AffineExpr& expr);
/// Parses `[e, e, ...]` and makes it canonical.
mlir::ParseResult parseList(mlir::AsmParser& parser, ExprList& list);

void printExpr(llvm::raw_ostream& os, mlir::AffineExpr expr,
               llvm::ArrayRef<mlir::StringAttr> names);
/// Prints `[e, e, ...]`.
void printList(llvm::raw_ostream& os, llvm::ArrayRef<mlir::StringAttr> names,
               llvm::ArrayRef<mlir::AffineExpr> exprs);

/// The value when `expr` is a constant.
std::optional<int64_t> constantValue(mlir::AffineExpr expr);

/// Largest value over the bounds (interval arithmetic; exact for monotone expressions). A name
/// without bounds, or a division by something not positive, gives nullopt.
std::optional<Bounds> bounds(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names,
                             const BoundsMap& known);

}  // namespace straightline::symbolic

#endif  // STRAIGHTLINE_DIALECT_SYMBOLIC_H
