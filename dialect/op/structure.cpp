// SPDX-License-Identifier: Apache-2.0
// Verifiers and folders of the family "structure".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::success;

llvm::LogicalResult SetExtentOp::verify() {
  if (getBound().getExprs().size() != 1) {
    return opError(*this) << "has " << getBound().getExprs().size()
                          << " bounds but one is needed (set_extent_c1)";
  }
  mlir::Operation* around = (*this)->getParentOp();
  while (llvm::isa<IfOp, ForOp, WhileOp>(around)) {
    around = around->getParentOp();
  }
  if (llvm::isa<OpDialect>(around->getDialect())) {
    return opError(*this) << "stands in " << around->getName()
                          << " but the body of a function, a branch or a loop is needed"
                          << " (set_extent_c2)";
  }
  return success();
}

llvm::LogicalResult CheckOp::verify() {
  return getMessage().empty() ? opError(*this) << "the message is \"\" (check_c1)" : success();
}

llvm::LogicalResult SymbolOp::verify() {
  const int64_t min = getMin(), max = getMax();
  if (min >= 0 && min <= max) {
    return success();
  }
  return opError(*this) << "'" << getSymName() << "' has min " << min << " and max " << max
                        << " but 0 <= min <= max is needed (symbol_c1)";
}

llvm::LogicalResult ParameterOp::verify() {
  return getName().empty() ? opError(*this) << "the name is \"\" (parameter_c1)" : success();
}

llvm::LogicalResult StateOp::verify() {
  return getName().empty() ? opError(*this) << "the name is \"\" (state_c1)" : success();
}

mlir::OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

llvm::LogicalResult FullOp::verify() {
  const mlir::Type element = getType().getElementType();
  if (isOfKind(getValue(), element)) {
    return success();
  }
  return opError(*this) << "value " << getValue() << " does not suit elements " << element
                        << " (full_c1)";
}

llvm::LogicalResult IotaOp::verify() {
  const mlir::Type element = getType().getElementType();
  if (getType().getRank() != 1) {
    return opError(*this) << "the result has rank " << getType().getRank()
                          << " but 1 is needed (iota_c1)";
  }
  for (mlir::Attribute scalar : {getStart(), getStep()}) {
    if (!isOfKind(scalar, element)) {
      return opError(*this) << "start or step " << scalar << " does not suit elements " << element
                            << " (iota_c2)";
    }
  }
  return success();
}

llvm::LogicalResult FusionOp::verify() {
  if (!llvm::is_contained(
          {"pointwise", "row_reduction", "gemm", "convolution", "matmul", "product_group"},
          getFamily())) {
    return opError(*this) << "family \"" << getFamily()
                          << "\" is none of pointwise, row_reduction, gemm, convolution, matmul, "
                             "product_group (fusion_c1)";
  }
  mlir::Block& block = getBody().front();
  if (!llvm::equal(block.getArgumentTypes(), getInputs().getTypes())) {
    return opError(*this) << "block arguments (" << block.getArgumentTypes()
                          << ") differ from inputs (" << getInputs().getTypes() << ") (fusion_c2)";
  }
  mlir::Operation* terminator = block.getTerminator();
  if (!llvm::isa<YieldOp>(terminator) ||
      !llvm::equal(terminator->getOperandTypes(), getResultTypes())) {
    return opError(*this) << "yielded values (" << terminator->getOperandTypes()
                          << ") differ from results (" << getResultTypes() << ") (fusion_c3)";
  }
  return success();
}

}  // namespace straightline::op
