// SPDX-License-Identifier: Apache-2.0
// The family "special": the generated definitions, verifiers and the scalar meaning.
#include "dialect/op/special.h"

#include "dialect/op/op_verify.h"
#include "dialect/op/special_functions.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_special.cpp.inc"
#pragma GCC diagnostic pop

namespace straightline::op {

/// (special_c1), (special_c2).
static llvm::LogicalResult verifySpecial(mlir::Operation* operation, llvm::StringRef function) {
  const std::optional<unsigned> arity = arityOfSpecial(function);
  if (!arity) {
    return opError(operation) << "\"" << function << "\" is no special function (special_c1)";
  }
  if (operation->getNumOperands() != *arity) {
    return opError(operation) << function << " has " << operation->getNumOperands()
                              << " operands but takes " << *arity << " (special_c2)";
  }
  return mlir::success();
}

llvm::LogicalResult SpecialOp::verify() {
  return failed(verifySpecial(*this, getFunction())) ? mlir::failure() : verifySameElements(*this);
}

llvm::LogicalResult ScalarSpecialOp::verify() {
  if (failed(verifySpecial(*this, getFunction()))) {
    return mlir::failure();
  }
  for (mlir::Type type : getOperandTypes()) {
    if (type != getType()) {
      return opError(*this) << "an operand is " << type << " but the result " << getType()
                            << " (special_c3)";
    }
  }
  return mlir::success();
}

// Two of the functions have an op of upstream's, which its folders know.
mlir::Value SpecialOp::buildScalar(mlir::OpBuilder& builder, mlir::Location loc,
                                   mlir::ValueRange scalars) {
  if (getFunction() == "exp2") {
    return mlir::math::Exp2Op::create(builder, loc, scalars[0]);
  }
  if (getFunction() == "copysign") {
    return mlir::math::CopySignOp::create(builder, loc, scalars[0], scalars[1]);
  }
  return ScalarSpecialOp::create(builder, loc, scalars.front().getType(), scalars, getFunction());
}

}  // namespace straightline::op
