// SPDX-License-Identifier: Apache-2.0
// The family "linalg": the generated definitions, and the verifiers.
#include "dialect/op/linalg.h"

#include "dialect/op/op_verify.h"
#include "mlir/IR/DialectImplementation.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_linalg.cpp.inc"
#pragma GCC diagnostic pop

namespace straightline::op {

namespace {

using llvm::LogicalResult;

mlir::Type elementOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

/// (linalg_c1).
LogicalResult verifySquare(mlir::Operation* operation, ExtentSpace& space, mlir::Value x,
                           llvm::StringRef name) {
  const auto extents = space.of(x);
  const mlir::Type element = elementOf(x);
  if (extents.size() >= 2 && extents.back() == extents[extents.size() - 2] &&
      (element.isF32() || element.isF64())) {
    return mlir::success();
  }
  return opError(operation) << name << " has extents " << space.print(extents) << " of " << element
                            << " but [.., n, n] of f32 or f64 is needed (linalg_c1)";
}

/// The value has an element type and extents, else an error numbered `constraint`.
LogicalResult verifyType(mlir::Operation* operation, ExtentSpace& space, mlir::Value value,
                         llvm::StringRef name, mlir::Type element,
                         llvm::ArrayRef<mlir::AffineExpr> extents, llvm::StringRef constraint) {
  if (failed(verifyElements(operation, value, name, element, constraint))) {
    return mlir::failure();
  }
  return verifyExtents(operation, space, name, space.of(value), extents, constraint);
}

}  // namespace

LogicalResult CholeskyOp::verify() {
  ExtentSpace space;
  if (failed(verifySquare(*this, space, getX(), "x"))) {
    return mlir::failure();
  }
  const auto extents = space.of(getX());
  const llvm::ArrayRef<mlir::AffineExpr> all = extents;
  const mlir::Type number = mlir::IntegerType::get(getContext(), 32);
  return mlir::success(succeeded(verifyType(*this, space, getFactor(), "the factor",
                                            elementOf(getX()), all, "cholesky_c1")) &&
                       succeeded(verifyType(*this, space, getInfo(), "info", number,
                                            all.drop_back(2), "cholesky_c1")));
}

LogicalResult LuOp::verify() {
  ExtentSpace space;
  if (failed(verifySquare(*this, space, getX(), "x"))) {
    return mlir::failure();
  }
  const auto extents = space.of(getX());
  const llvm::ArrayRef<mlir::AffineExpr> all = extents;
  const mlir::Type number = mlir::IntegerType::get(getContext(), 32);
  const mlir::Type place = mlir::IntegerType::get(getContext(), 64);
  return mlir::success(
      succeeded(
          verifyType(*this, space, getFactors(), "factors", elementOf(getX()), all, "lu_c1")) &&
      succeeded(
          verifyType(*this, space, getPivots(), "pivots", number, all.drop_back(), "lu_c1")) &&
      succeeded(verifyType(*this, space, getPermutation(), "permutation", place, all.drop_back(),
                           "lu_c1")) &&
      succeeded(verifyType(*this, space, getInfo(), "info", number, all.drop_back(2), "lu_c1")));
}

LogicalResult TriangularSolveOp::verify() {
  ExtentSpace space;
  if (failed(verifySquare(*this, space, getA(), "a"))) {
    return mlir::failure();
  }
  const auto a = space.of(getA()), b = space.of(getB());
  const mlir::Type element = elementOf(getA());
  if (a.size() != b.size()) {
    return opError(*this) << "b has extents " << space.print(b) << " but a " << space.print(a)
                          << " (triangular_solve_c1)";
  }
  auto expected = a;
  expected.back() = b.back();
  return mlir::success(
      succeeded(verifyType(*this, space, getB(), "b", element, expected, "triangular_solve_c1")) &&
      succeeded(verifyType(*this, space, getResult(), "the result", element, expected,
                           "triangular_solve_c1")));
}

}  // namespace straightline::op
