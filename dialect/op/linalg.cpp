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

LogicalResult GeqrfOp::verify() {
  ExtentSpace space;
  const auto extents = space.of(getX());
  const mlir::Type element = elementOf(getX());
  if (extents.size() < 2 || !(element.isF32() || element.isF64())) {
    return opError(*this) << "x has extents " << space.print(extents) << " of " << element
                          << " but [.., m, n] of f32 or f64 is needed (geqrf_c1)";
  }
  auto taus = extents;
  taus.pop_back();
  const auto rows = symbolic::constantValue(extents[extents.size() - 2]);
  const auto columns = symbolic::constantValue(extents.back());
  if (rows && columns && *columns < *rows) {
    taus.back() = extents.back();
  }
  return mlir::success(
      succeeded(verifyType(*this, space, getFactors(), "factors", element, extents, "geqrf_c2")) &&
      succeeded(verifyType(*this, space, getTaus(), "taus", element, taus, "geqrf_c2")));
}

LogicalResult OrgqrOp::verify() {
  ExtentSpace space;
  const auto x = space.of(getX()), taus = space.of(getTaus());
  const mlir::Type element = elementOf(getX());
  const size_t rank = x.size();
  const auto number = [](llvm::ArrayRef<mlir::AffineExpr> extents, size_t dim) {
    return dim < extents.size() ? symbolic::constantValue(extents[dim]).value_or(-1) : -1;
  };
  const int64_t m = rank < 2 ? -1 : number(x, rank - 2), n = rank < 2 ? -1 : number(x, rank - 1);
  const int64_t k = taus.empty() ? -1 : number(taus, taus.size() - 1);
  if (k < 0 || n < k || m < n || !(element.isF32() || element.isF64())) {
    return opError(*this) << "x has extents " << space.print(x) << " of " << element << " and taus "
                          << space.print(taus)
                          << " but [.., m, n] of f32 or f64 and [.., k] with m >= n >= k are"
                             " needed (orgqr_c1)";
  }
  auto expected = x;
  expected.pop_back();
  expected.back() = taus.back();
  return mlir::success(
      succeeded(verifyType(*this, space, getTaus(), "taus", element, expected, "orgqr_c2")) &&
      succeeded(verifyType(*this, space, getResult(), "the result", element, x, "orgqr_c2")));
}

LogicalResult EighOp::verify() {
  ExtentSpace space;
  if (failed(verifySquare(*this, space, getX(), "x"))) {
    return mlir::failure();
  }
  const auto extents = space.of(getX());
  const llvm::ArrayRef<mlir::AffineExpr> all = extents;
  const mlir::Type element = elementOf(getX()), number = mlir::IntegerType::get(getContext(), 32);
  return mlir::success(
      succeeded(verifyType(*this, space, getVectors(), "vectors", element, all, "eigh_c1")) &&
      succeeded(
          verifyType(*this, space, getValues(), "values", element, all.drop_back(), "eigh_c1")) &&
      succeeded(verifyType(*this, space, getInfo(), "info", number, all.drop_back(2), "eigh_c1")));
}

LogicalResult SvdOp::verify() {
  ExtentSpace space;
  const auto extents = space.of(getX());
  const llvm::ArrayRef<mlir::AffineExpr> all = extents;
  const mlir::Type element = elementOf(getX()), number = mlir::IntegerType::get(getContext(), 32);
  const auto size = [&](size_t fromEnd) {
    return extents.size() < 2 ? std::nullopt
                              : symbolic::constantValue(extents[extents.size() - fromEnd]);
  };
  const auto rows = size(2), columns = size(1);
  if (!rows || !columns || *rows > *columns || !(element.isF32() || element.isF64())) {
    return opError(*this) << "x has extents " << space.print(extents) << " of " << element
                          << " but [.., m, n] of f32 or f64 with static sizes m <= n is needed"
                             " (svd_c1)";
  }
  auto square = extents;
  square.back() = extents[extents.size() - 2];
  return mlir::success(
      succeeded(verifyType(*this, space, getRight(), "right", element, all, "svd_c2")) &&
      succeeded(
          verifyType(*this, space, getValues(), "values", element, all.drop_back(), "svd_c2")) &&
      succeeded(verifyType(*this, space, getLeft(), "left", element, square, "svd_c2")) &&
      succeeded(verifyType(*this, space, getInfo(), "info", number, all.drop_back(2), "svd_c2")));
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
