// SPDX-License-Identifier: Apache-2.0
// Verifiers, assembly and canonicalisers of the family "control flow".
#include "dialect/op/op_verify.h"
#include "mlir/IR/PatternMatch.h"

namespace straightline::op {

using mlir::failure;
using mlir::OpAsmParser;
using mlir::OpAsmPrinter;
using mlir::ParseResult;
using mlir::success;
using mlir::Type;

namespace {

llvm::LogicalResult verifyYield(mlir::Operation* operation, mlir::Region& region,
                                mlir::TypeRange expected, llvm::StringRef name,
                                llvm::StringRef constraint) {
  mlir::Operation* terminator = region.front().getTerminator();
  if (llvm::isa<YieldOp>(terminator) && llvm::equal(terminator->getOperandTypes(), expected)) {
    return success();
  }
  return opError(operation) << name << " yields (" << terminator->getOperandTypes() << ") but ("
                            << expected << ") are needed (" << constraint << ")";
}

llvm::LogicalResult verifyArguments(mlir::Operation* operation, mlir::Region& region,
                                    mlir::TypeRange expected, llvm::StringRef name,
                                    llvm::StringRef constraint) {
  if (llvm::equal(region.getArgumentTypes(), expected)) {
    return success();
  }
  return opError(operation) << name << " takes (" << region.getArgumentTypes() << ") but ("
                            << expected << ") are needed (" << constraint << ")";
}

}  // namespace

llvm::LogicalResult IfOp::verify() {
  if (failed(verifyArguments(*this, getThenRegion(), {}, "the then branch", "if_c1")) ||
      failed(verifyArguments(*this, getElseRegion(), {}, "the else branch", "if_c1")) ||
      failed(verifyYield(*this, getThenRegion(), getResultTypes(), "the then branch", "if_c2"))) {
    return failure();
  }
  return verifyYield(*this, getElseRegion(), getResultTypes(), "the else branch", "if_c2");
}

llvm::LogicalResult ForOp::verify() {
  llvm::ArrayRef<mlir::AffineExpr> bounds = getBounds().getExprs();
  if (bounds.size() != 3) {
    return opError(*this) << "has " << bounds.size()
                          << " bounds but lower, upper and step are needed (for_c1)";
  }
  if (std::optional<int64_t> step = symbolic::constantValue(bounds[2]); step && *step <= 0) {
    return opError(*this) << "step is " << *step << " but must be at least 1 (for_c1)";
  }
  llvm::SmallVector<Type> arguments = {
      mlir::RankedTensorType::get({}, mlir::IntegerType::get(getContext(), 64))};
  llvm::append_range(arguments, getInits().getTypes());
  if (failed(verifyArguments(*this, getBody(), arguments, "the body", "for_c2"))) {
    return failure();
  }
  if (!llvm::equal(getInits().getTypes(), getResultTypes())) {
    return opError(*this) << "carries (" << getInits().getTypes() << ") but gives ("
                          << getResultTypes() << ") (for_c3)";
  }
  return verifyYield(*this, getBody(), getResultTypes(), "the body", "for_c3");
}

ParseResult ForOp::parse(OpAsmParser& parser, mlir::OperationState& state) {
  mlir::MLIRContext* context = parser.getContext();
  llvm::SmallVector<OpAsmParser::Argument> arguments(1);
  llvm::SmallVector<mlir::StringAttr> names;
  mlir::AffineExpr lower, upper, step;
  if (parser.parseArgument(arguments[0]) || parser.parseEqual() ||
      symbolic::parseExpr(parser, names, lower) || parser.parseKeyword("to") ||
      symbolic::parseExpr(parser, names, upper) || parser.parseKeyword("step") ||
      symbolic::parseExpr(parser, names, step) || parser.parseKeyword("iter")) {
    return failure();
  }
  llvm::SmallVector<OpAsmParser::UnresolvedOperand> inits;
  auto parseCarried = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
                   parser.parseOperand(inits.emplace_back()));
  };
  const llvm::SMLoc where = parser.getCurrentLocation();
  llvm::SmallVector<Type> types;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseCarried) ||
      parser.parseColon() || parser.parseLParen() ||
      (!inits.empty() && parser.parseTypeList(types)) || parser.parseRParen() ||
      parser.resolveOperands(inits, types, where, state.operands) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes)) {
    return failure();
  }
  state.addTypes(types);
  state.getOrAddProperties<Properties>().bounds =
      DimsAttr::get(context, symbolic::canonical(names, {lower, upper, step}));
  arguments[0].type = mlir::RankedTensorType::get({}, mlir::IntegerType::get(context, 64));
  for (auto [argument, type] : llvm::zip(llvm::drop_begin(arguments), types)) {
    argument.type = type;
  }
  return parser.parseRegion(*state.addRegion(), arguments);
}

void ForOp::print(OpAsmPrinter& printer) {
  llvm::ArrayRef<mlir::StringAttr> names = getBounds().getNames();
  llvm::ArrayRef<mlir::AffineExpr> bounds = getBounds().getExprs();
  printer << " " << getBody().getArgument(0) << " = ";
  symbolic::printExpr(printer.getStream(), bounds[0], names);
  printer << " to ";
  symbolic::printExpr(printer.getStream(), bounds[1], names);
  printer << " step ";
  symbolic::printExpr(printer.getStream(), bounds[2], names);
  printer << " iter(";
  llvm::interleaveComma(
      llvm::zip(getBody().getArguments().drop_front(), getInits()), printer,
      [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
  printer << ") : (" << getInits().getTypes() << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"bounds"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

llvm::LogicalResult WhileOp::verify() {
  mlir::TypeRange carried = getInits().getTypes();
  if (failed(verifyArguments(*this, getCondition(), carried, "the condition", "while_c1")) ||
      failed(verifyArguments(*this, getBody(), carried, "the body", "while_c1"))) {
    return failure();
  }
  mlir::TypeRange condition = getCondition().front().getTerminator()->getOperandTypes();
  if (condition.size() != 1 || !isTensor(condition[0]) || !isCondition(condition[0])) {
    return opError(*this) << "the condition yields (" << condition
                          << ") but tensor<i1> is needed (while_c2)";
  }
  if (!llvm::equal(carried, getResultTypes())) {
    return opError(*this) << "carries (" << carried << ") but gives (" << getResultTypes()
                          << ") (while_c3)";
  }
  return verifyYield(*this, getBody(), carried, "the body", "while_c3");
}

namespace {

/// Both branches give the same value from above: op.if %c { yield %a } else { yield %a } -> %a.
struct IfOfEqualBranches : mlir::OpRewritePattern<IfOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(IfOp op, mlir::PatternRewriter& rewriter) const override {
    if (op->getNumResults() == 0) {
      return rewriter.notifyMatchFailure(op, "no results");
    }
    mlir::ValueRange left = op.getThenRegion().front().getTerminator()->getOperands();
    mlir::ValueRange right = op.getElseRegion().front().getTerminator()->getOperands();
    for (auto [a, b] : llvm::zip(left, right)) {
      if (a != b || op->isAncestor(a.getParentBlock()->getParentOp())) {
        return rewriter.notifyMatchFailure(op, "branches differ");
      }
    }
    rewriter.replaceOp(op, llvm::SmallVector<mlir::Value>(left));
    return success();
  }
};

}  // namespace

void IfOp::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns,
                                       mlir::MLIRContext* context) {
  patterns.add<IfOfEqualBranches>(context);
}

}  // namespace straightline::op
