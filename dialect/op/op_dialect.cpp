// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/op_dialect.h"

#include "dialect/op/canonicalize.h"
#include "dialect/op/op_verify.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "dialect/op/op_dialect.cpp.inc"
#include "dialect/op/op_interfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/op/op_attributes.cpp.inc"

namespace straightline::op {

using mlir::Attribute;
using mlir::NamedAttribute;
using mlir::Operation;
using mlir::StringAttr;

void OpDialect::initialize() {
  getContext()->getOrLoadDialect<mlir::arith::ArithDialect>();
  getContext()->getOrLoadDialect<mlir::math::MathDialect>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/op/op_attributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/op/op_ops.cpp.inc"
      >();
}

Operation* OpDialect::materializeConstant(mlir::OpBuilder& builder, Attribute value,
                                          mlir::Type type, mlir::Location loc) {
  auto elements = llvm::dyn_cast<mlir::ElementsAttr>(value);
  return elements && elements.getType() == type ? ConstantOp::create(builder, loc, elements)
                                                : nullptr;
}

void OpDialect::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns) const {
  addConstantPatterns(patterns);
  addIdentityPatterns(patterns);
}

static bool areRoutes(mlir::Attribute value) {
  auto routes = llvm::dyn_cast<mlir::DictionaryAttr>(value);
  return routes && llvm::all_of(routes, [](NamedAttribute route) {
           auto pair = llvm::dyn_cast<mlir::ArrayAttr>(route.getValue());
           return pair && pair.size() == 2 && llvm::all_of(pair, [](mlir::Attribute text) {
                    return llvm::isa<StringAttr>(text);
                  });
         });
}

static bool areTexts(mlir::Attribute value) {
  auto texts = llvm::dyn_cast<mlir::DictionaryAttr>(value);
  return texts && llvm::all_of(texts, [](NamedAttribute entry) {
           return llvm::isa<StringAttr>(entry.getValue());
         });
}

llvm::LogicalResult OpDialect::verifyOperationAttribute(Operation* operation,
                                                        NamedAttribute attribute) {
  // What passes note on an op: its phase, the kernel chosen and why, the layout of its result,
  // strides of a parameter's storage, for a group of products its kernel's tunables and cost
  // (passes/group_products.cpp), and for a measurement the key of its problem and what was chosen
  // (passes/tuned_choices.h); on a function: its parameters are live; on the module: the target,
  // routes by op as [kernel, who said so], measured choices by key, candidates, what may be rounded
  // to TF32.
  const llvm::StringRef name = attribute.getName().getValue();
  const mlir::Attribute value = attribute.getValue();
  const bool known =
      (name == kPrepare && llvm::isa<mlir::UnitAttr>(value)) ||
      ((name == "op.kernel" || name == "op.estimated" || name == "op.why") &&
       llvm::isa<StringAttr>(value)) ||
      (name == "op.layout" && llvm::isa<mlir::DictionaryAttr>(value)) ||
      (name == "op.strides" && llvm::isa<DimsAttr>(value)) ||
      (name == "op.live_parameters" && llvm::isa<mlir::UnitAttr>(value)) ||
      (name == "op.target" && llvm::isa<mlir::ModuleOp>(operation)) ||
      (name == "op.choice" && llvm::isa<StringAttr>(value)) ||
      (name == "op.variant" && llvm::isa<mlir::IntegerAttr>(value)) ||
      (name == "op.alone" && llvm::isa<mlir::BoolAttr>(value)) ||
      (name == "op.tune" && llvm::isa<mlir::DictionaryAttr>(value)) ||
      (name == "op.cost_us" && llvm::isa<mlir::FloatAttr>(value)) ||
      (name == "op.choices" && llvm::isa<mlir::ModuleOp>(operation) && areTexts(value)) ||
      (name == kCandidates && llvm::isa<mlir::ModuleOp>(operation) &&
       llvm::isa<mlir::ArrayAttr>(value)) ||
      (name == "op.routes" && llvm::isa<mlir::ModuleOp>(operation) && areRoutes(value)) ||
      (name == "op.resident_bytes" && llvm::isa<mlir::ModuleOp>(operation) &&
       llvm::isa<mlir::IntegerAttr>(value)) ||
      (name == "op.launch" && llvm::isa<mlir::ModuleOp>(operation) &&
       value == StringAttr::get(value.getContext(), "stream")) ||
      (name == "op.tf32" && llvm::isa<mlir::ModuleOp>(operation) && llvm::isa<StringAttr>(value));
  if (known) {
    return mlir::success();
  }
  return operation->emitError() << "attribute '" << name
                                << "' is not one of an operation's: op.prepare, op.kernel, op.why, "
                                   "op.layout and op.strides are (op_c1)";
}

llvm::LogicalResult OpDialect::verifyRegionArgAttribute(Operation* operation, unsigned,
                                                        unsigned index, NamedAttribute attribute) {
  if ((attribute.getName() == "op.name" && llvm::isa<StringAttr>(attribute.getValue())) ||
      (attribute.getName() == "op.strides" && llvm::isa<DimsAttr>(attribute.getValue()))) {
    return mlir::success();
  }
  return operation->emitError() << "attribute '" << attribute.getName().getValue()
                                << "' of argument #" << index
                                << " is not 'op.name' with a string (op_c2)";
}

llvm::LogicalResult OpDialect::verifyRegionResultAttribute(Operation* operation, unsigned,
                                                           unsigned index,
                                                           NamedAttribute attribute) {
  auto text = llvm::dyn_cast<StringAttr>(attribute.getValue());
  if (attribute.getName() == "op.name" && text) {
    return mlir::success();
  }
  if (attribute.getName() == "op.tie" && text &&
      (text.getValue().starts_with("input:") || text.getValue().starts_with("state:"))) {
    return mlir::success();
  }
  if (attribute.getName() == "op.alias" && llvm::isa<mlir::UnitAttr>(attribute.getValue())) {
    return mlir::success();
  }
  if (attribute.getName() == "op.strides" && llvm::isa<DimsAttr>(attribute.getValue())) {
    return mlir::success();  // of the state that the result overwrites
  }
  return operation->emitError() << "attribute '" << attribute.getName().getValue()
                                << "' of result #" << index
                                << " is neither 'op.name' nor 'op.tie' with \"input:NAME\" or "
                                   "\"state:NAME\" nor 'op.alias' (op_c3)";
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

llvm::StringRef mnemonicOf(Operation* operation) { return operation->getName().stripDialect(); }

}  // namespace straightline::op

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_ops.cpp.inc"
#pragma GCC diagnostic pop
