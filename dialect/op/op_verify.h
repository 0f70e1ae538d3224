// SPDX-License-Identifier: Apache-2.0
// Checks shared by the verifiers of several families. Messages: `linear: x has 64 features but ...
// (linear_c1)`.
#ifndef STRAIGHTLINE_DIALECT_OP_VERIFY_H
#define STRAIGHTLINE_DIALECT_OP_VERIFY_H

#include "dialect/op/op_dialect.h"

namespace straightline::op {

/// Starts an error with the op's mnemonic.
mlir::InFlightDiagnostic opError(mlir::Operation* operation);

/// (elementwise_c2): operands and result have one element type.
llvm::LogicalResult verifySameElements(mlir::Operation* operation);
/// (elementwise_c2), operands only.
llvm::LogicalResult verifySameOperandElements(mlir::Operation* operation);
/// (bitwise_c1): the first operand has integers or bools.
llvm::LogicalResult verifyIntegers(mlir::Operation* operation);
/// (reduce_c1), (reduce_c2), (reduce_c3).
llvm::LogicalResult verifyReduction(mlir::Operation* operation, mlir::Type resultElements);
/// (row_c1), (row_c2).
llvm::LogicalResult verifyRowMap(mlir::Operation* operation);

/// The named value's element types agree with the reference's, else an error numbered `constraint`.
llvm::LogicalResult verifyElements(mlir::Operation* operation, mlir::Value value,
                                   llvm::StringRef name, mlir::Type expected,
                                   llvm::StringRef constraint);
/// `extents` are `expected`, else an error numbered `constraint`.
llvm::LogicalResult verifyExtents(mlir::Operation* operation, const ExtentSpace& space,
                                  llvm::StringRef name, llvm::ArrayRef<mlir::AffineExpr> extents,
                                  llvm::ArrayRef<mlir::AffineExpr> expected,
                                  llvm::StringRef constraint);
/// 0 <= dim < rank, else an error numbered `constraint`.
llvm::LogicalResult verifyDim(mlir::Operation* operation, int64_t dim, int64_t rank,
                              llvm::StringRef constraint);
/// An f64 attribute for floats, an integer or bool otherwise.
bool isOfKind(mlir::Attribute scalar, mlir::Type elementType);

}  // namespace straightline::op

#endif  // STRAIGHTLINE_DIALECT_OP_VERIFY_H
