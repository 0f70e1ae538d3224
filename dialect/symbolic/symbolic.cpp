// SPDX-License-Identifier: Apache-2.0
#include "dialect/symbolic/symbolic.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace straightline::symbolic {

using mlir::AffineExpr;
using mlir::AffineExprKind;
using mlir::AsmParser;
using mlir::ParseResult;
using mlir::StringAttr;

ExprList canonical(llvm::ArrayRef<StringAttr> names, llvm::ArrayRef<AffineExpr> exprs) {
  ExprList result;
  for (unsigned position = 0; position < names.size(); ++position) {
    const bool used =
        llvm::any_of(exprs, [&](AffineExpr expr) { return expr.isFunctionOfSymbol(position); });
    if (used && !llvm::is_contained(result.names, names[position])) {
      result.names.push_back(names[position]);
    }
  }
  llvm::sort(result.names, [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); });
  for (AffineExpr expr : exprs) {
    llvm::SmallVector<StringAttr> order = result.names;
    result.exprs.push_back(rebase(expr, names, order));
  }
  return result;
}

ExprList constants(mlir::MLIRContext* context, llvm::ArrayRef<int64_t> values) {
  ExprList result;
  for (int64_t value : values) {
    result.exprs.push_back(mlir::getAffineConstantExpr(value, context));
  }
  return result;
}

AffineExpr rebase(AffineExpr expr, llvm::ArrayRef<StringAttr> from,
                  llvm::SmallVectorImpl<StringAttr>& names) {
  if (from.empty()) {
    return expr;
  }
  llvm::SmallVector<AffineExpr> replacements;
  for (auto [position, name] : llvm::enumerate(from)) {
    auto* found = llvm::find(names, name);
    unsigned target = found - names.begin();
    if (found == names.end() && expr.isFunctionOfSymbol(position)) {
      names.push_back(name);
    }
    replacements.push_back(mlir::getAffineSymbolExpr(target, expr.getContext()));
  }
  return expr.replaceSymbols(replacements);
}

namespace {

ParseResult parseSum(AsmParser& parser, llvm::SmallVectorImpl<StringAttr>& names, AffineExpr& expr);

ParseResult parseAtom(AsmParser& parser, llvm::SmallVectorImpl<StringAttr>& names,
                      AffineExpr& expr) {
  mlir::MLIRContext* context = parser.getContext();
  if (succeeded(parser.parseOptionalLParen())) {
    return mlir::failure(failed(parseSum(parser, names, expr)) || failed(parser.parseRParen()));
  }
  int64_t value = 0;
  mlir::OptionalParseResult integer = parser.parseOptionalInteger(value);
  if (integer.has_value()) {
    expr = mlir::getAffineConstantExpr(value, context);
    return *integer;
  }
  llvm::StringRef keyword;
  if (failed(parser.parseKeyword(&keyword))) {
    return mlir::failure();
  }
  StringAttr name = StringAttr::get(context, keyword);
  auto* found = llvm::find(names, name);
  const unsigned position = found - names.begin();
  if (found == names.end()) {
    names.push_back(name);
  }
  expr = mlir::getAffineSymbolExpr(position, context);
  return mlir::success();
}

ParseResult parseProduct(AsmParser& parser, llvm::SmallVectorImpl<StringAttr>& names,
                         AffineExpr& expr) {
  if (failed(parseAtom(parser, names, expr))) {
    return mlir::failure();
  }
  while (true) {
    AffineExpr right;
    if (succeeded(parser.parseOptionalStar())) {
      if (failed(parseAtom(parser, names, right))) {
        return mlir::failure();
      }
      expr = expr * right;
      continue;
    }
    llvm::StringRef keyword;
    if (failed(parser.parseOptionalKeyword(&keyword, {"floordiv", "mod", "ceildiv"}))) {
      return mlir::success();
    }
    const std::string operation = keyword.str();
    if (failed(parseAtom(parser, names, right))) {
      return mlir::failure();
    }
    expr = operation == "floordiv" ? expr.floorDiv(right)
           : operation == "mod"    ? expr % right
                                   : expr.ceilDiv(right);
  }
}

ParseResult parseSum(AsmParser& parser, llvm::SmallVectorImpl<StringAttr>& names,
                     AffineExpr& expr) {
  if (failed(parseProduct(parser, names, expr))) {
    return mlir::failure();
  }
  while (succeeded(parser.parseOptionalPlus())) {
    AffineExpr right;
    if (failed(parseProduct(parser, names, right))) {
      return mlir::failure();
    }
    expr = expr + right;
  }
  return mlir::success();
}

int precedence(AffineExpr expr) {
  switch (expr.getKind()) {
    case AffineExprKind::Add:
      return 0;
    case AffineExprKind::Mul:
    case AffineExprKind::FloorDiv:
    case AffineExprKind::CeilDiv:
    case AffineExprKind::Mod:
      return 1;
    case AffineExprKind::Constant:
    case AffineExprKind::DimId:
    case AffineExprKind::SymbolId:
      return 2;
  }
  return 2;
}

void printOperand(llvm::raw_ostream& os, AffineExpr expr, llvm::ArrayRef<StringAttr> names,
                  bool parenthesised) {
  os << (parenthesised ? "(" : "");
  printExpr(os, expr, names);
  os << (parenthesised ? ")" : "");
}

llvm::StringRef spelling(AffineExprKind kind) {
  switch (kind) {
    case AffineExprKind::Add:
      return " + ";
    case AffineExprKind::Mul:
      return " * ";
    case AffineExprKind::FloorDiv:
      return " floordiv ";
    case AffineExprKind::CeilDiv:
      return " ceildiv ";
    case AffineExprKind::Mod:
      return " mod ";
    case AffineExprKind::Constant:
    case AffineExprKind::DimId:
    case AffineExprKind::SymbolId:
      return "";
  }
  return "";
}

}  // namespace

ParseResult parseExpr(AsmParser& parser, llvm::SmallVectorImpl<StringAttr>& names,
                      AffineExpr& expr) {
  return parseSum(parser, names, expr);
}

ParseResult parseList(AsmParser& parser, ExprList& list) {
  llvm::SmallVector<StringAttr> names;
  llvm::SmallVector<AffineExpr> exprs;
  auto parseOne = [&]() -> ParseResult { return parseSum(parser, names, exprs.emplace_back()); };
  if (failed(parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))) {
    return mlir::failure();
  }
  list = canonical(names, exprs);
  return mlir::success();
}

void printExpr(llvm::raw_ostream& os, AffineExpr expr, llvm::ArrayRef<StringAttr> names) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    os << constant.getValue();
    return;
  }
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
    os << names[symbol.getPosition()].getValue();
    return;
  }
  if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) {
    os << "d" << dim.getPosition();
    return;
  }
  auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const int own = precedence(expr);
  printOperand(os, binary.getLHS(), names, precedence(binary.getLHS()) < own);
  os << spelling(expr.getKind());
  // Sums and products are read from the left; a right operand of the same rank keeps its
  // parentheses.
  const bool right = own == 0 ? precedence(binary.getRHS()) < own : precedence(binary.getRHS()) < 2;
  printOperand(os, binary.getRHS(), names, right);
}

void printList(llvm::raw_ostream& os, llvm::ArrayRef<StringAttr> names,
               llvm::ArrayRef<AffineExpr> exprs) {
  os << "[";
  llvm::interleaveComma(exprs, os, [&](AffineExpr expr) { printExpr(os, expr, names); });
  os << "]";
}

std::optional<int64_t> constantValue(AffineExpr expr) {
  auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr);
  return constant ? std::optional<int64_t>(constant.getValue()) : std::nullopt;
}

std::optional<Bounds> bounds(AffineExpr expr, llvm::ArrayRef<StringAttr> names,
                             const BoundsMap& known) {
  if (std::optional<int64_t> value = constantValue(expr)) {
    return Bounds{*value, *value};
  }
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
    auto found = known.find(names[symbol.getPosition()]);
    return found == known.end() ? std::nullopt : std::optional<Bounds>(found->second);
  }
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
  if (!binary) {
    return std::nullopt;
  }
  std::optional<Bounds> a = bounds(binary.getLHS(), names, known);
  std::optional<Bounds> b = bounds(binary.getRHS(), names, known);
  if (!a || !b) {
    return std::nullopt;
  }
  const bool divides =
      expr.getKind() != AffineExprKind::Add && expr.getKind() != AffineExprKind::Mul;
  if (divides && (b->lowest <= 0 || a->lowest < 0)) {
    return std::nullopt;
  }
  // A bound beyond 64 bits is none: memory planned at a wrapped one would be too small.
  switch (expr.getKind()) {
    case AffineExprKind::Add: {
      Bounds sum;
      const bool overflow = llvm::AddOverflow(a->lowest, b->lowest, sum.lowest) ||
                            llvm::AddOverflow(a->highest, b->highest, sum.highest);
      return overflow ? std::nullopt : std::optional<Bounds>(sum);
    }
    case AffineExprKind::Mul: {
      int64_t corners[4];
      const bool overflow = llvm::MulOverflow(a->lowest, b->lowest, corners[0]) ||
                            llvm::MulOverflow(a->lowest, b->highest, corners[1]) ||
                            llvm::MulOverflow(a->highest, b->lowest, corners[2]) ||
                            llvm::MulOverflow(a->highest, b->highest, corners[3]);
      if (overflow) {
        return std::nullopt;
      }
      return Bounds{*llvm::min_element(corners), *llvm::max_element(corners)};
    }
    case AffineExprKind::FloorDiv:
      return Bounds{a->lowest / b->highest, a->highest / b->lowest};
    case AffineExprKind::CeilDiv:
      return Bounds{a->lowest / b->highest + (a->lowest % b->highest != 0 ? 1 : 0),
                    a->highest / b->lowest + (a->highest % b->lowest != 0 ? 1 : 0)};
    case AffineExprKind::Mod:
      return Bounds{0, std::min(a->highest, b->highest - 1)};
    case AffineExprKind::Constant:
    case AffineExprKind::DimId:
    case AffineExprKind::SymbolId:
      break;
  }
  return std::nullopt;
}

}  // namespace straightline::symbolic
