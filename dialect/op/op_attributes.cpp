// SPDX-License-Identifier: Apache-2.0
// The attributes of the dialect: those of ops, and those that passes record (recorded.h).
#include "dialect/op/op_dialect.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "dialect/op/op_attributes.cpp.inc"

namespace straightline::op {

using mlir::Attribute;

void OpDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/op/op_attributes.cpp.inc"
      >();
}

DimsAttr DimsAttr::get(mlir::MLIRContext* context, const symbolic::ExprList& list) {
  return get(context, list.names, list.exprs);
}

symbolic::ExprList DimsAttr::getList() const {
  symbolic::ExprList list;
  list.names.assign(getNames().begin(), getNames().end());
  list.exprs.assign(getExprs().begin(), getExprs().end());
  return list;
}

Attribute DimsAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  symbolic::ExprList list;
  if (parser.parseLess() || symbolic::parseList(parser, list) || parser.parseGreater()) {
    return {};
  }
  return get(parser.getContext(), list);
}

void DimsAttr::print(mlir::AsmPrinter& printer) const {
  printer << "<";
  symbolic::printList(printer.getStream(), getNames(), getExprs());
  printer << ">";
}

llvm::LogicalResult DimsAttr::verifyEncoding(
    llvm::ArrayRef<int64_t> shape, mlir::Type,
    llvm::function_ref<mlir::InFlightDiagnostic()> emitError) const {
  if (shape.size() != getExprs().size()) {
    return emitError() << "dims: the tensor has rank " << shape.size() << " but "
                       << getExprs().size() << " extents are named (dims_c1)";
  }
  for (auto [dim, size] : llvm::enumerate(shape)) {
    const int64_t named =
        symbolic::constantValue(getExprs()[dim]).value_or(mlir::ShapedType::kDynamic);
    if (named == size) {
      continue;
    }
    mlir::InFlightDiagnostic diagnostic = emitError();
    diagnostic << "dims: dim " << dim << " has size ";
    mlir::ShapedType::isDynamic(size) ? (diagnostic << "?") : (diagnostic << size);
    std::string text;
    llvm::raw_string_ostream os(text);
    symbolic::printExpr(os, getExprs()[dim], getNames());
    return diagnostic << " but extent " << text << " (dims_c2)";
  }
  if (!llvm::any_of(shape, mlir::ShapedType::isDynamic)) {
    return emitError() << "dims: a static shape of rank " << shape.size()
                       << " needs no named extents (dims_c3)";
  }
  return mlir::success();
}

}  // namespace straightline::op
