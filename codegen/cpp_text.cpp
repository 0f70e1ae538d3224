// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpp_text.h"

#include "dialect/element_type.h"

#include <charconv>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

namespace straightline::codegen {
namespace {

template <typename T>
std::string shortest(T value) {
  char buffer[64];
  std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end.ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

int precedence(mlir::AffineExpr expr) {
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return 0;
    case mlir::AffineExprKind::Mul:
    case mlir::AffineExprKind::FloorDiv:
    case mlir::AffineExprKind::CeilDiv:
    case mlir::AffineExprKind::Mod:
      return 1;
    case mlir::AffineExprKind::Constant:
    case mlir::AffineExprKind::SymbolId:
    case mlir::AffineExprKind::DimId:
      return 2;
  }
  return 2;
}

void appendSource(mlir::Location location, llvm::SmallVectorImpl<std::string>& parts) {
  auto add = [&](std::string part) {
    if (!part.empty() && !llvm::is_contained(parts, part)) {
      parts.push_back(std::move(part));
    }
  };
  if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(location)) {
    add((llvm::sys::path::filename(file.getFilename().getValue()) + ":" +
         llvm::Twine(file.getLine()))
            .str());
    return;
  }
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(location)) {
    const std::string inner = sourceOf(name.getChildLoc());
    add(name.getName().str() + (inner.empty() ? "" : " (" + inner + ")"));
    return;
  }
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location part : fused.getLocations()) {
      appendSource(part, parts);
    }
    return;
  }
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location)) {
    appendSource(call.getCallee(), parts);
  }
}

bool isWord(char c) { return llvm::isAlnum(c) || c == '_'; }

}  // namespace

std::string cppType(mlir::Type type) {
  if (type.isIndex()) {
    return "int64_t";
  }
  if (type.isF32()) {
    return "float";
  }
  if (type.isF64()) {
    return "double";
  }
  if (type.isBF16()) {
    return "sl::bfloat16";
  }
  if (type.isF16()) {
    return "sl::half";
  }
  if (type.isInteger(1)) {
    return "bool";
  }
  const std::string width = std::to_string(type.getIntOrFloatBitWidth());
  return (type.isUnsignedInteger() ? "uint" : "int") + width + "_t";
}

std::string dtypeText(mlir::Type type) {
  const unsigned bits = type.isInteger(1) ? 8 : type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  return "{" + std::to_string(dlpackCode(type)) + ", " + std::to_string(bits) + ", 1}";
}

std::string floatLiteral(const llvm::APFloat& value, mlir::Type type) {
  const bool isDouble = type.isF64();
  const std::string suffix = isDouble ? "" : "f";
  if (value.isNaN()) {
    return "__builtin_nan" + suffix + "(\"\")";
  }
  if (value.isInfinity()) {
    return std::string(value.isNegative() ? "-" : "") + "__builtin_inf" + suffix + "()";
  }
  llvm::APFloat exact = value;
  bool inexact = false;
  exact.convert(isDouble ? llvm::APFloat::IEEEdouble() : llvm::APFloat::IEEEsingle(),
                llvm::APFloat::rmNearestTiesToEven, &inexact);
  return (isDouble ? shortest(exact.convertToDouble()) : shortest(exact.convertToFloat())) + suffix;
}

std::string doubleText(double value) { return shortest(value); }

std::string intLiteral(int64_t value) {
  return value == std::numeric_limits<int64_t>::min() ? "(-9223372036854775807 - 1)"
                                                      : std::to_string(value);
}

std::string intLiteral(const llvm::APInt& value, mlir::Type type) {
  if (type.isInteger(1)) {
    return value.isZero() ? "false" : "true";
  }
  if (type.isUnsignedInteger()) {
    return std::to_string(value.getZExtValue()) + "u";
  }
  return intLiteral(value.getSExtValue());
}

std::string stringLiteral(llvm::StringRef value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '"';
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      os << '\\' << c;
    } else if (byte < 32 || byte == 127 || c == '?') {
      // Exactly three octal digits, so that a digit after the escape is not read as part of it; `?`
      // could start a trigraph.
      os << '\\' << char('0' + (byte >> 6)) << char('0' + ((byte >> 3) & 7))
         << char('0' + (byte & 7));
    } else {
      os << c;
    }
  }
  os << '"';
  return text;
}

std::string scalarLiteral(mlir::TypedAttr value) {
  if (auto number = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    return floatLiteral(number.getValue(), number.getType());
  }
  auto integer = llvm::cast<mlir::IntegerAttr>(value);
  return intLiteral(integer.getValue(), integer.getType());
}

namespace {

/// Sizes are not negative, so only what has a negative number in it may be.
bool mayBeNegative(mlir::AffineExpr expr) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    return constant.getValue() < 0;
  }
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
  return binary && expr.getKind() != mlir::AffineExprKind::Mod &&
         (mayBeNegative(binary.getLHS()) || mayBeNegative(binary.getRHS()));
}

/// A division or a remainder that rounds down (CeilDiv: up), where C++ rounds towards zero; by a
/// size that is 0 it gives 0, as in runtime/expression.cpp. The divisor is not negative.
std::string flooredDivision(mlir::AffineExprKind kind, std::string left, const std::string& right,
                            bool mayBeNegative, bool byConstant) {
  if (kind == mlir::AffineExprKind::CeilDiv) {
    left = "(" + left + " + " + right + " - 1)";
  }
  const bool divides = kind != mlir::AffineExprKind::Mod;
  std::string text = left + (divides ? " / " : " % ") + right;
  if (mayBeNegative) {
    const std::string rest = "(" + left + " % " + right + " + " + right + ") % " + right;
    text = divides ? "((" + left + " - " + rest + ") / " + right + ")" : "(" + rest + ")";
  }
  return byConstant ? text : "(" + right + " == 0 ? 0 : " + text + ")";
}

}  // namespace

std::string expression(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names,
                       const Spelling& identifier, llvm::StringRef divide) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    return intLiteral(constant.getValue());
  }
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
    return identifier(names[symbol.getPosition()]);
  }
  auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const int own = precedence(expr);
  const bool sum = expr.getKind() == mlir::AffineExprKind::Add;
  auto operand = [&](mlir::AffineExpr side, bool parenthesised) {
    const std::string text = expression(side, names, identifier, divide);
    return parenthesised || text.front() == '-' ? "(" + text + ")" : text;
  };
  const std::string left = operand(binary.getLHS(), precedence(binary.getLHS()) < own);
  const std::string right = operand(binary.getRHS(), !sum && precedence(binary.getRHS()) < 2);
  const bool floors = divide == "//";  // Python's own division and remainder do
  if (!floors && (expr.getKind() == mlir::AffineExprKind::FloorDiv ||
                  expr.getKind() == mlir::AffineExprKind::CeilDiv ||
                  expr.getKind() == mlir::AffineExprKind::Mod)) {
    return flooredDivision(expr.getKind(), left, right, mayBeNegative(binary.getLHS()),
                           llvm::isa<mlir::AffineConstantExpr>(binary.getRHS()));
  }
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return left + " + " + right;
    case mlir::AffineExprKind::Mul:
      return left + " * " + right;
    case mlir::AffineExprKind::FloorDiv:
      return left + " " + divide.str() + " " + right;
    case mlir::AffineExprKind::Mod:
      return left + " % " + right;
    case mlir::AffineExprKind::CeilDiv:
      return "(" + left + " + " + right + " - 1) " + divide.str() + " " + right;
    case mlir::AffineExprKind::Constant:
    case mlir::AffineExprKind::SymbolId:
    case mlir::AffineExprKind::DimId:
      break;
  }
  return "";
}

std::string sourceOf(mlir::Location location) {
  llvm::SmallVector<std::string> parts;
  appendSource(location, parts);
  return llvm::join(parts, ", ");
}

bool mentions(llvm::StringRef text, llvm::StringRef word) {
  for (size_t at = text.find(word); at != llvm::StringRef::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !isWord(text[at - 1]);
    const size_t end = at + word.size();
    if (starts && (end == text.size() || !isWord(text[end]))) {
      return true;
    }
  }
  return false;
}

llvm::StringSet<> wordsOf(llvm::StringRef text) {
  llvm::StringSet<> words;
  while (!text.empty()) {
    const llvm::StringRef word = text.take_while(isWord);
    if (!word.empty()) {
      words.insert(word);
    }
    text = text.drop_front(word.size()).drop_until(isWord);
  }
  return words;
}

std::string wrapped(llvm::ArrayRef<std::string> items, size_t column, size_t indent) {
  constexpr size_t kColumns = 100;
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    const size_t space = i == 0 ? 0 : 1;
    if (i > 0 && column + space + item.size() > kColumns - 4) {
      text += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (space == 1) {
      text += " ";
      ++column;
    }
    text += item;
    // An item may have several lines.
    const size_t newline = item.rfind('\n');
    column = newline == std::string::npos ? column + item.size() : item.size() - newline - 1;
  }
  return text;
}

void Writer::line(const std::string& text) {
  if (!text.empty()) {
    text_.append(indent_, ' ');
  }
  text_ += text;
  text_ += '\n';
}

void Writer::call(const std::string& head, llvm::ArrayRef<std::string> items,
                  const std::string& tail) {
  line(head + wrapped(items, indent_ + head.size(), indent_ + 4) + tail);
}

}  // namespace straightline::codegen
