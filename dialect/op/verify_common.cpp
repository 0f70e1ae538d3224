// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;

namespace {

Type elementOf(Value value) {
  return llvm::cast<RankedTensorType>(value.getType()).getElementType();
}

llvm::LogicalResult verifyOneElementType(Operation* operation, mlir::ValueRange values) {
  for (Value value : values.drop_front()) {
    if (elementOf(value) != elementOf(values.front())) {
      return opError(operation) << "one operand or result has elements "
                                << elementOf(values.front()) << " but another " << elementOf(value)
                                << " (elementwise_c2)";
    }
  }
  return mlir::success();
}

}  // namespace

mlir::InFlightDiagnostic opError(Operation* operation) {
  return operation->emitError() << mnemonicOf(operation) << ": ";
}

llvm::LogicalResult verifyElementwise(Operation* operation) {
  const auto type = llvm::cast<mlir::RankedTensorType>(operation->getResult(0).getType());
  const auto isLikeResult = [&](Type other) {
    const auto tensor = llvm::cast<mlir::RankedTensorType>(other);
    return tensor.getShape() == type.getShape() && tensor.getEncoding() == type.getEncoding();
  };
  if (llvm::all_of(operation->getOperandTypes(), isLikeResult)) {
    return mlir::success();  // most, after every pass: not a matter of expressions
  }
  ExtentSpace space;
  const ExtentSpace::Extents result = space.of(operation->getResult(0));
  for (Value operand : operation->getOperands()) {
    const ExtentSpace::Extents extents = space.of(operand);
    if (operand.getType() != operation->getResult(0).getType() && !space.equal(extents, result)) {
      return opError(operation) << "an operand has extents " << space.print(extents)
                                << " but the result " << space.print(result) << " (elementwise_c1)";
    }
  }
  return mlir::success();
}

llvm::LogicalResult verifySameElements(Operation* operation) {
  llvm::SmallVector<Value> values(operation->getOperands());
  values.push_back(operation->getResult(0));
  return verifyOneElementType(operation, values);
}

llvm::LogicalResult verifySameOperandElements(Operation* operation) {
  return verifyOneElementType(operation, operation->getOperands());
}

llvm::LogicalResult verifyIntegers(Operation* operation) {
  if (llvm::isa<mlir::IntegerType>(elementOf(operation->getOperand(0)))) {
    return mlir::success();
  }
  return opError(operation) << "elements are " << elementOf(operation->getOperand(0))
                            << " but must be integers or i1 (bitwise_c1)";
}

llvm::LogicalResult verifyElements(Operation* operation, Value value, llvm::StringRef name,
                                   Type expected, llvm::StringRef constraint) {
  if (!value || elementOf(value) == expected) {
    return mlir::success();
  }
  return opError(operation) << name << " has elements " << elementOf(value) << " but " << expected
                            << " are needed (" << constraint << ")";
}

llvm::LogicalResult verifyExtents(Operation* operation, const ExtentSpace& space,
                                  llvm::StringRef name, llvm::ArrayRef<AffineExpr> extents,
                                  llvm::ArrayRef<AffineExpr> expected, llvm::StringRef constraint) {
  if (space.equal(extents, expected)) {
    return mlir::success();
  }
  return opError(operation) << name << " has extents " << space.print(extents) << " but "
                            << space.print(expected) << " are needed (" << constraint << ")";
}

llvm::LogicalResult verifyDim(Operation* operation, int64_t dim, int64_t rank,
                              llvm::StringRef constraint) {
  if (dim >= 0 && dim < rank) {
    return mlir::success();
  }
  return opError(operation) << "dim " << dim << " is outside a tensor of rank " << rank << " ("
                            << constraint << ")";
}

bool isOfKind(mlir::Attribute scalar, Type elementType) {
  return llvm::isa<mlir::FloatType>(elementType) ? llvm::isa<mlir::FloatAttr>(scalar)
                                                 : llvm::isa<mlir::IntegerAttr>(scalar);
}

}  // namespace straightline::op
