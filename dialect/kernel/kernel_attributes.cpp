// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "dialect/kernel/kernel_attributes.cpp.inc"

namespace straightline::kernel {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;
using mlir::AffineExpr;
using mlir::Attribute;
using mlir::MLIRContext;
using mlir::NamedAttribute;
using mlir::StringAttr;

ExtentAttr ExtentAttr::get(MLIRContext* context, ArrayRef<StringAttr> names, AffineExpr expr) {
  symbolic::ExprList list = symbolic::canonical(names, expr);
  return Base::get(context, list.names, list.exprs.front());
}

ExtentAttr ExtentAttr::get(MLIRContext* context, int64_t value) {
  return get(context, {}, mlir::getAffineConstantExpr(value, context));
}

std::optional<int64_t> ExtentAttr::getConstant() const {
  return symbolic::constantValue(getExpr());
}

Attribute ExtentAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  SmallVector<StringAttr> names;
  AffineExpr expr;
  if (failed(parser.parseLess()) || failed(symbolic::parseExpr(parser, names, expr)) ||
      failed(parser.parseGreater())) {
    return {};
  }
  return get(parser.getContext(), names, expr);
}

void ExtentAttr::print(mlir::AsmPrinter& printer) const {
  printer << "<";
  symbolic::printExpr(printer.getStream(), getExpr(), getNames());
  printer << ">";
}

namespace {

/// An attribute, or `[value, ...]`, or a named-extent expression that starts with a name.
mlir::ParseResult parseValue(mlir::AsmParser& parser, Attribute& value) {
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> items;
    if (failed(parser.parseOptionalRSquare())) {
      do {
        if (failed(parseValue(parser, items.emplace_back()))) {
          return mlir::failure();
        }
      } while (succeeded(parser.parseOptionalComma()));
      if (failed(parser.parseRSquare())) {
        return mlir::failure();
      }
    }
    value = mlir::ArrayAttr::get(parser.getContext(), items);
    return mlir::success();
  }
  mlir::OptionalParseResult parsed = parser.parseOptionalAttribute(value);
  if (parsed.has_value()) {
    return *parsed;
  }
  SmallVector<StringAttr> names;
  AffineExpr expr;
  if (failed(symbolic::parseExpr(parser, names, expr))) {
    return mlir::failure();
  }
  value = ExtentAttr::get(parser.getContext(), names, expr);
  return mlir::success();
}

void printValue(mlir::AsmPrinter& printer, Attribute value) {
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(value)) {
    printer << "[";
    llvm::interleaveComma(array, printer, [&](Attribute item) { printValue(printer, item); });
    printer << "]";
    return;
  }
  std::string text;
  if (auto extent = llvm::dyn_cast<ExtentAttr>(value)) {
    llvm::raw_string_ostream os(text);
    symbolic::printExpr(os, extent.getExpr(), extent.getNames());
  }
  // Only a name at the front cannot be taken for an attribute.
  if (!text.empty() && (std::isalpha(text.front()) || text.front() == '_')) {
    printer << text;
  } else {
    printer.printAttributeWithoutType(value);
  }
}

/// `{key = value, ...}`.
mlir::ParseResult parseValues(mlir::AsmParser& parser, SmallVectorImpl<NamedAttribute>& values) {
  return parser.parseCommaSeparatedList(
      mlir::AsmParser::Delimiter::Braces, [&]() -> mlir::ParseResult {
        std::string key;
        Attribute value;
        if (failed(parser.parseKeywordOrString(&key)) || failed(parser.parseEqual()) ||
            failed(parseValue(parser, value))) {
          return mlir::failure();
        }
        values.push_back({StringAttr::get(parser.getContext(), key), value});
        return mlir::success();
      });
}

void printValues(mlir::AsmPrinter& printer, ArrayRef<NamedAttribute> values) {
  printer << "{";
  llvm::interleaveComma(values, printer, [&](NamedAttribute value) {
    printer.printKeywordOrString(value.getName());
    printer << " = ";
    printValue(printer, value.getValue());
  });
  printer << "}";
}

bool isScheduleValue(Attribute value, bool mayBeSymbolic) {
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(value)) {
    return llvm::all_of(array,
                        [&](Attribute item) { return isScheduleValue(item, mayBeSymbolic); });
  }
  if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(value)) {
    return integer.getType().isSignlessInteger(64) || integer.getType().isSignlessInteger(1);
  }
  if (auto number = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    return number.getType().isF64();
  }
  return llvm::isa<StringAttr>(value) || (mayBeSymbolic && llvm::isa<ExtentAttr>(value));
}

Attribute find(ArrayRef<NamedAttribute> values, StringRef key) {
  for (NamedAttribute value : values) {
    if (value.getName() == key) {
      return value.getValue();
    }
  }
  return {};
}

}  // namespace

llvm::LogicalResult ScheduleAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                         StringAttr family, ArrayRef<NamedAttribute> shape,
                                         ArrayRef<NamedAttribute> tune) {
  if (family.empty()) {
    return emitError() << "family is empty, expected the name of a kernel family (schedule_c1)";
  }
  for (bool symbolic : {true, false}) {
    for (NamedAttribute value : symbolic ? shape : tune) {
      if (!isScheduleValue(value.getValue(), symbolic)) {
        return emitError() << "value " << value.getValue() << " of " << value.getName()
                           << (symbolic ? " is not an i64, bool, f64, string, array or extent"
                                        : " is not an i64, bool, f64, string or array")
                           << " (schedule_c2)";
      }
    }
  }
  return mlir::success();
}

Attribute ScheduleAttr::getShapeValue(StringRef key) const { return find(getShape(), key); }
Attribute ScheduleAttr::getTuneValue(StringRef key) const { return find(getTune(), key); }

Attribute ScheduleAttr::parse(mlir::AsmParser& parser, mlir::Type) {
  std::string family;
  SmallVector<NamedAttribute> shape, tune;
  llvm::SMLoc start = parser.getCurrentLocation();
  if (failed(parser.parseLess()) || failed(parser.parseString(&family)) ||
      failed(parser.parseComma()) || failed(parser.parseKeyword("shape")) ||
      failed(parser.parseEqual()) || failed(parseValues(parser, shape)) ||
      failed(parser.parseComma()) || failed(parser.parseKeyword("tune")) ||
      failed(parser.parseEqual()) || failed(parseValues(parser, tune)) ||
      failed(parser.parseGreater())) {
    return {};
  }
  return getChecked([&] { return parser.emitError(start); }, parser.getContext(),
                    StringAttr::get(parser.getContext(), family), shape, tune);
}

void ScheduleAttr::print(mlir::AsmPrinter& printer) const {
  printer << "<" << getFamily() << ", shape = ";
  printValues(printer, getShape());
  printer << ", tune = ";
  printValues(printer, getTune());
  printer << ">";
}

void KernelDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/kernel/kernel_attributes.cpp.inc"
      >();
}

}  // namespace straightline::kernel
