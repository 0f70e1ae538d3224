// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#define GET_TYPEDEF_CLASSES
#include "dialect/kernel/kernel_types.cpp.inc"

namespace straightline::kernel {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;
using mlir::AffineExpr;
using mlir::MLIRContext;
using mlir::StringAttr;
using mlir::Type;

namespace {

/// Extents and strides over one list of names, in the order extents, strides.
symbolic::ExprList canonicalShape(ArrayRef<StringAttr> names, ArrayRef<AffineExpr> extents,
                                  ArrayRef<AffineExpr> strides) {
  SmallVector<AffineExpr> all(extents);
  all.append(strides.begin(), strides.end());
  return symbolic::canonical(names, all);
}

int64_t around(ArrayRef<int64_t> border, size_t dim) {
  return border.empty() ? 0 : border[2 * dim] + border[2 * dim + 1];
}

/// What the extents with their borders from `dim` on multiply to, for dim = 0 .. rank, where they
/// are numbers; else nothing. Sizes are asked for all the time, and expressions of numbers are
/// slow.
SmallVector<int64_t> products(ArrayRef<AffineExpr> extents, ArrayRef<int64_t> border) {
  SmallVector<int64_t> result(extents.size() + 1, 1);
  for (size_t dim = extents.size(); dim-- > 0;) {
    const std::optional<int64_t> extent = symbolic::constantValue(extents[dim]);
    if (!extent || llvm::MulOverflow(result[dim + 1], *extent + around(border, dim), result[dim])) {
      return {};
    }
  }
  return result;
}

/// Whether the strides are those that go with these products.
bool areStrides(ArrayRef<AffineExpr> strides, ArrayRef<int64_t> products) {
  return llvm::all_of(llvm::zip_equal(strides, products.drop_front()), [](auto pair) {
    return symbolic::constantValue(std::get<0>(pair)) == std::get<1>(pair);
  });
}

/// Row-major strides of the extents with their borders.
SmallVector<AffineExpr> rowMajorStrides(MLIRContext* context, ArrayRef<AffineExpr> extents,
                                        ArrayRef<int64_t> border) {
  if (const SmallVector<int64_t> numbers = products(extents, border); !numbers.empty()) {
    return symbolic::constants(context, ArrayRef(numbers).drop_front()).exprs;
  }
  SmallVector<AffineExpr> strides(extents.size());
  AffineExpr product = mlir::getAffineConstantExpr(1, context);
  for (size_t dim = extents.size(); dim-- > 0;) {
    strides[dim] = product;
    product = product * (extents[dim] + around(border, dim));
  }
  return strides;
}

mlir::ParseResult parseBorder(mlir::AsmParser& parser, SmallVectorImpl<int64_t>& border) {
  auto parsePair = [&]() -> mlir::ParseResult {
    return mlir::failure(
        failed(parser.parseLSquare()) || failed(parser.parseInteger(border.emplace_back())) ||
        failed(parser.parseComma()) || failed(parser.parseInteger(border.emplace_back())) ||
        failed(parser.parseRSquare()));
  };
  return parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, parsePair);
}

}  // namespace

BufferType BufferType::get(MLIRContext* context, ArrayRef<StringAttr> names,
                           ArrayRef<AffineExpr> extents, Type elementType,
                           ArrayRef<AffineExpr> strides, StringRef space,
                           ArrayRef<int64_t> border) {
  symbolic::ExprList all = canonicalShape(names, extents, strides);
  ArrayRef<AffineExpr> exprs(all.exprs);
  // A border of zeros is no border.
  const bool bordered = llvm::any_of(border, [](int64_t width) { return width != 0; });
  return Base::get(context, all.names, exprs.take_front(extents.size()), elementType,
                   exprs.drop_front(extents.size()), space,
                   bordered ? border : ArrayRef<int64_t>());
}

BufferType BufferType::getChecked(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                  MLIRContext* context, ArrayRef<StringAttr> names,
                                  ArrayRef<AffineExpr> extents, Type elementType,
                                  ArrayRef<AffineExpr> strides, StringRef space,
                                  ArrayRef<int64_t> border) {
  if (failed(verify(emitError, names, extents, elementType, strides, space, border))) {
    return {};
  }
  return get(context, names, extents, elementType, strides, space, border);
}

BufferType BufferType::contiguous(MLIRContext* context, const symbolic::ExprList& extents,
                                  Type elementType, StringRef space, ArrayRef<int64_t> border) {
  return get(context, extents.names, extents.exprs, elementType,
             rowMajorStrides(context, extents.exprs, border), space, border);
}

BufferType BufferType::contiguous(ArrayRef<int64_t> extents, Type elementType, StringRef space) {
  MLIRContext* context = elementType.getContext();
  return contiguous(context, symbolic::constants(context, extents), elementType, space);
}

BufferType BufferType::withoutSizes() const {
  return get(getContext(), {}, {}, getElementType(), {}, getSpace());
}

llvm::LogicalResult BufferType::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                       ArrayRef<StringAttr>, ArrayRef<AffineExpr> extents,
                                       Type elementType, ArrayRef<AffineExpr> strides,
                                       StringRef space, ArrayRef<int64_t> border) {
  if (!elementType.isIntOrFloat()) {
    return emitError() << "element type " << elementType
                       << " is neither integer nor float (buffer_c1)";
  }
  if (extents.size() != strides.size()) {
    return emitError() << "buffer has " << extents.size() << " extents but " << strides.size()
                       << " strides (buffer_c2)";
  }
  if (!border.empty() && border.size() != 2 * extents.size()) {
    return emitError() << "buffer has " << extents.size() << " extents but a border of "
                       << border.size() / 2 << " dims (buffer_c3)";
  }
  for (int64_t width : border) {
    if (width < 0) {
      return emitError() << "border width " << width << " is below 0 (buffer_c4)";
    }
  }
  for (AffineExpr extent : extents) {
    std::optional<int64_t> value = symbolic::constantValue(extent);
    if (value && *value < 0) {
      return emitError() << "extent " << *value << " is below 0 (buffer_c5)";
    }
  }
  if (space.empty()) {
    return emitError() << "memory space is empty, expected a name such as \"host\" (buffer_c6)";
  }
  return mlir::success();
}

Type BufferType::parse(mlir::AsmParser& parser) {
  MLIRContext* context = parser.getContext();
  SmallVector<StringAttr> names;
  SmallVector<AffineExpr> extents, strides;
  SmallVector<int64_t> border;
  std::string space = "host";
  Type elementType;
  bool hasStrides = false;
  llvm::SMLoc start = parser.getCurrentLocation();
  auto parseExprs = [&](SmallVectorImpl<AffineExpr>& exprs) {
    return parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, [&] {
      return symbolic::parseExpr(parser, names, exprs.emplace_back());
    });
  };
  if (failed(parser.parseLess())) {
    return {};
  }
  SmallVector<int64_t> numbers;
  // `[b, 64] x f32` or `1x64xf32`.
  bool named = false;
  if (succeeded(parser.parseOptionalLSquare())) {
    named = true;
    if (failed(parser.parseOptionalRSquare())) {
      do {
        if (failed(symbolic::parseExpr(parser, names, extents.emplace_back()))) {
          return {};
        }
      } while (succeeded(parser.parseOptionalComma()));
      if (failed(parser.parseRSquare())) {
        return {};
      }
    }
  }
  if (named ? failed(parser.parseKeyword("x"))
            : failed(parser.parseDimensionList(numbers, /*allowDynamic=*/false))) {
    return {};
  }
  for (int64_t number : numbers) {
    extents.push_back(mlir::getAffineConstantExpr(number, context));
  }
  if (failed(parser.parseType(elementType))) {
    return {};
  }
  while (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    if (failed(parser.parseKeyword(&keyword))) {
      return {};
    }
    hasStrides |= keyword == "strides";
    mlir::ParseResult parsed =
        keyword == "strides" ? parseExprs(strides)
        : keyword == "space" ? parser.parseString(&space)
        : keyword == "border"
            ? parseBorder(parser, border)
            : mlir::ParseResult(parser.emitError(start) << "unknown part '" << keyword
                                                        << "' of a buffer type, expected "
                                                           "strides, space or border");
    if (failed(parsed)) {
      return {};
    }
  }
  if (failed(parser.parseGreater())) {
    return {};
  }
  if (!hasStrides && (border.empty() || border.size() == 2 * extents.size())) {
    strides = rowMajorStrides(context, extents, border);
  }
  return getChecked([&] { return parser.emitError(start); }, context, names, extents, elementType,
                    strides, space, border);
}

void BufferType::print(mlir::AsmPrinter& printer) const {
  printer << "<";
  if (isStatic()) {
    for (int64_t extent : getStaticExtents()) {
      printer << extent << "x";
    }
  } else {
    symbolic::printList(printer.getStream(), getNames(), getExtents());
    printer << " x ";
  }
  printer << getElementType();
  if (!isContiguous()) {
    printer << ", strides ";
    symbolic::printList(printer.getStream(), getNames(), getStrides());
  }
  if (getSpace() != "host") {
    printer << ", space \"" << getSpace() << "\"";
  }
  if (hasBorder()) {
    printer << ", border [";
    for (int64_t dim = 0; dim < getRank(); ++dim) {
      printer << (dim == 0 ? "[" : ", [") << getBorder()[2 * dim] << ", "
              << getBorder()[2 * dim + 1] << "]";
    }
    printer << "]";
  }
  printer << ">";
}

bool BufferType::isContiguous() const {
  if (const SmallVector<int64_t> numbers = products(getExtents(), getBorder()); !numbers.empty()) {
    return areStrides(getStrides(), numbers);
  }
  return ArrayRef<AffineExpr>(rowMajorStrides(getContext(), getExtents(), getBorder())) ==
         getStrides();
}

bool BufferType::isStatic() const {
  return llvm::all_of(
      getExtents(), [](AffineExpr extent) { return symbolic::constantValue(extent).has_value(); });
}

SmallVector<int64_t> BufferType::getStaticExtents() const {
  return llvm::map_to_vector(getExtents(),
                             [](AffineExpr extent) { return *symbolic::constantValue(extent); });
}

AffineExpr BufferType::numElements() const {
  AffineExpr product = mlir::getAffineConstantExpr(1, getContext());
  for (AffineExpr extent : getExtents()) {
    product = product * extent;
  }
  return product;
}

int64_t BufferType::elementBytes() const {
  return (getElementType().getIntOrFloatBitWidth() + 7) / 8;
}

AffineExpr BufferType::bytes() const {
  ArrayRef<int64_t> border = getBorder();
  for (auto [dim, extent] : llvm::enumerate(getExtents())) {
    if (symbolic::constantValue(extent) == -around(border, dim)) {  // borders have elements, too
      return mlir::getAffineConstantExpr(0, getContext());
    }
  }
  const SmallVector<int64_t> numbers = products(getExtents(), border);
  if (!numbers.empty() && areStrides(getStrides(), numbers)) {
    return mlir::getAffineConstantExpr(numbers.front(), getContext()) * elementBytes();
  }
  if (numbers.empty() && isContiguous()) {
    AffineExpr product = mlir::getAffineConstantExpr(1, getContext());
    for (auto [dim, extent] : llvm::enumerate(getExtents())) {
      product = product * (extent + around(border, dim));
    }
    return product * elementBytes();
  }
  // The last element that the strides reach; right for extents of at least 1.
  AffineExpr last = mlir::getAffineConstantExpr(0, getContext());
  for (auto [dim, extent] : llvm::enumerate(getExtents())) {
    last = last + (extent + (around(border, dim) - 1)) * getStrides()[dim];
  }
  return (last + 1) * elementBytes();
}

AffineExpr BufferType::storageOffsetElems() const {
  AffineExpr offset = mlir::getAffineConstantExpr(0, getContext());
  for (int64_t dim = 0; dim < getRank() && hasBorder(); ++dim) {
    offset = offset + getStrides()[dim] * getBorder()[2 * dim];
  }
  return offset;
}

void KernelDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/kernel/kernel_types.cpp.inc"
      >();
}

}  // namespace straightline::kernel
