// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/op_dialect.h"

#include "mlir/IR/DialectImplementation.h"

#include "dialect/op/op_dialect.cpp.inc"
#include "dialect/op/op_interfaces.cpp.inc"

namespace straightline::op {

using mlir::Attribute;
using mlir::Operation;

Operation* OpDialect::materializeConstant(mlir::OpBuilder& builder, Attribute value,
                                          mlir::Type type, mlir::Location loc) {
  auto elements = llvm::dyn_cast<mlir::ElementsAttr>(value);
  return elements && elements.getType() == type ? ConstantOp::create(builder, loc, elements)
                                                : nullptr;
}

llvm::StringRef mnemonicOf(Operation* operation) { return operation->getName().stripDialect(); }

}  // namespace straightline::op
