// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_syntax.h"

#include "mlir/IR/Builders.h"

namespace straightline::kernel {

using llvm::SmallVector;
using llvm::SmallVectorImpl;
using mlir::Attribute;
using mlir::OpAsmParser;
using mlir::OpAsmPrinter;
using mlir::ParseResult;
using mlir::StringAttr;
using mlir::TypeAttr;

ParseResult parseSignature(OpAsmParser& parser, mlir::ArrayAttr& inputs,
                           mlir::DenseBoolArrayAttr* constants, mlir::ArrayAttr& outputs,
                           mlir::ArrayAttr& roles, mlir::ArrayAttr& workspace) {
  SmallVector<Attribute> in, out, role, scratch;
  SmallVector<bool> constant;
  mlir::Builder& builder = parser.getBuilder();
  auto parseType = [&](SmallVectorImpl<Attribute>& types) -> ParseResult {
    mlir::Type type;
    if (failed(parser.parseType(type))) {
      return mlir::failure();
    }
    types.push_back(TypeAttr::get(type));
    return mlir::success();
  };
  auto parseInput = [&]() -> ParseResult {
    constant.push_back(constants && succeeded(parser.parseOptionalKeyword("constant")));
    return parseType(in);
  };
  auto parseOutput = [&]() -> ParseResult {
    if (failed(parseType(out))) {
      return mlir::failure();
    }
    const bool reads = succeeded(parser.parseOptionalKeyword("readwrite"));
    role.push_back(builder.getStringAttr(reads ? "readwrite" : "write"));
    return mlir::success();
  };
  if (failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseInput)) ||
      failed(parser.parseKeyword("outs")) ||
      failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOutput)) ||
      (succeeded(parser.parseOptionalKeyword("workspace")) &&
       failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                             [&] { return parseType(scratch); })))) {
    return mlir::failure();
  }
  inputs = builder.getArrayAttr(in);
  outputs = builder.getArrayAttr(out);
  roles = builder.getArrayAttr(role);
  workspace = builder.getArrayAttr(scratch);
  if (constants) {
    *constants = builder.getDenseBoolArrayAttr(constant);
  }
  return mlir::success();
}

void printSignature(OpAsmPrinter& printer, mlir::ArrayAttr inputs, llvm::ArrayRef<bool> constants,
                    mlir::ArrayAttr outputs, mlir::ArrayAttr roles, mlir::ArrayAttr workspace) {
  printer << "(";
  llvm::interleaveComma(llvm::enumerate(inputs), printer, [&](auto input) {
    printer << (!constants.empty() && constants[input.index()] ? "constant " : "") << input.value();
  });
  printer << ") outs(";
  llvm::interleaveComma(llvm::zip(outputs, roles), printer, [&](auto pair) {
    auto [type, role] = pair;
    printer << type << (llvm::cast<StringAttr>(role).getValue() == "readwrite" ? " readwrite" : "");
  });
  printer << ")";
  if (!workspace.empty()) {
    printer << " workspace(";
    llvm::interleaveComma(workspace, printer);
    printer << ")";
  }
}

ParseResult parseTies(OpAsmParser& parser, mlir::DenseI64ArrayAttr& ties) {
  SmallVector<int64_t> pairs;
  auto parsePair = [&]() -> ParseResult {
    return mlir::failure(failed(parser.parseInteger(pairs.emplace_back())) ||
                         failed(parser.parseArrow()) ||
                         failed(parser.parseInteger(pairs.emplace_back())));
  };
  if (failed(parser.parseKeyword("ties")) || failed(parser.parseLParen()) ||
      failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parsePair)) ||
      failed(parser.parseRParen())) {
    return mlir::failure();
  }
  ties = parser.getBuilder().getDenseI64ArrayAttr(pairs);
  return mlir::success();
}

void printTies(OpAsmPrinter& printer, llvm::ArrayRef<int64_t> ties) {
  printer << "ties([";
  for (size_t i = 0; i + 1 < ties.size(); i += 2) {
    printer << (i == 0 ? "" : ", ") << ties[i] << " -> " << ties[i + 1];
  }
  printer << "])";
}

ParseResult parseExpr(OpAsmParser& parser, ExtentAttr& expr) {
  SmallVector<StringAttr> names;
  mlir::AffineExpr parsed;
  if (failed(parser.parseLParen()) || failed(symbolic::parseExpr(parser, names, parsed)) ||
      failed(parser.parseRParen())) {
    return mlir::failure();
  }
  expr = ExtentAttr::get(parser.getContext(), names, parsed);
  return mlir::success();
}

void printExpr(OpAsmPrinter& printer, mlir::Operation*, ExtentAttr expr) {
  printer << "(";
  symbolic::printExpr(printer.getStream(), expr.getExpr(), expr.getNames());
  printer << ")";
}

ParseResult parseExprs(OpAsmParser& parser, mlir::ArrayAttr& exprs) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    SmallVector<StringAttr> names;
    mlir::AffineExpr expr;
    if (failed(symbolic::parseExpr(parser, names, expr))) {
      return mlir::failure();
    }
    parsed.push_back(ExtentAttr::get(parser.getContext(), names, expr));
    return mlir::success();
  };
  if (failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseOne))) {
    return mlir::failure();
  }
  exprs = parser.getBuilder().getArrayAttr(parsed);
  return mlir::success();
}

void printExprs(OpAsmPrinter& printer, mlir::Operation*, mlir::ArrayAttr exprs) {
  printer << "[";
  llvm::interleaveComma(exprs.getAsRange<ExtentAttr>(), printer, [&](ExtentAttr expr) {
    symbolic::printExpr(printer.getStream(), expr.getExpr(), expr.getNames());
  });
  printer << "]";
}

ParseResult parseIndices(OpAsmParser& parser, mlir::ArrayAttr& names,
                         SmallVectorImpl<OpAsmParser::UnresolvedOperand>& indices) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    if (failed(parser.parseKeywordOrString(&name)) || failed(parser.parseEqual()) ||
        failed(parser.parseOperand(indices.emplace_back()))) {
      return mlir::failure();
    }
    parsed.push_back(parser.getBuilder().getStringAttr(name));
    return mlir::success();
  };
  if (failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::OptionalSquare, parseOne))) {
    return mlir::failure();
  }
  names = parser.getBuilder().getArrayAttr(parsed);
  return mlir::success();
}

void printIndices(OpAsmPrinter& printer, mlir::Operation*, mlir::ArrayAttr names,
                  mlir::OperandRange indices) {
  if (indices.empty()) {
    return;
  }
  printer << " [";
  llvm::interleaveComma(llvm::zip(names, indices), printer, [&](auto pair) {
    auto [name, index] = pair;
    printer.printKeywordOrString(llvm::cast<StringAttr>(name).getValue());
    printer << " = " << index;
  });
  printer << "]";
}

}  // namespace straightline::kernel
