// SPDX-License-Identifier: Apache-2.0
// Pieces of assembly that several ops share.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_SYNTAX_H
#define STRAIGHTLINE_DIALECT_KERNEL_SYNTAX_H

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::kernel {

/// `(T, constant T) outs(T, T readwrite) workspace(T)`; `constants` null: the keyword is not taken.
mlir::ParseResult parseSignature(mlir::OpAsmParser& parser, mlir::ArrayAttr& inputs,
                                 mlir::DenseBoolArrayAttr* constants, mlir::ArrayAttr& outputs,
                                 mlir::ArrayAttr& roles, mlir::ArrayAttr& workspace);
void printSignature(mlir::OpAsmPrinter& printer, mlir::ArrayAttr inputs,
                    llvm::ArrayRef<bool> constants, mlir::ArrayAttr outputs, mlir::ArrayAttr roles,
                    mlir::ArrayAttr workspace);

/// `ties([0 -> 0, 2 -> 0])`.
mlir::ParseResult parseTies(mlir::OpAsmParser& parser, mlir::DenseI64ArrayAttr& ties);
void printTies(mlir::OpAsmPrinter& printer, llvm::ArrayRef<int64_t> ties);

/// `(b * 64)`: the directive custom<Expr>.
mlir::ParseResult parseExpr(mlir::OpAsmParser& parser, ExtentAttr& expr);
void printExpr(mlir::OpAsmPrinter& printer, mlir::Operation* op, ExtentAttr expr);

/// `[64, b * 2]`: the directive custom<Exprs>.
mlir::ParseResult parseExprs(mlir::OpAsmParser& parser, mlir::ArrayAttr& exprs);
void printExprs(mlir::OpAsmPrinter& printer, mlir::Operation* op, mlir::ArrayAttr exprs);

/// `[i = %i, j = %j]` or nothing: the directive custom<Indices>.
mlir::ParseResult parseIndices(
    mlir::OpAsmParser& parser, mlir::ArrayAttr& names,
    llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand>& indices);
void printIndices(mlir::OpAsmPrinter& printer, mlir::Operation* op, mlir::ArrayAttr names,
                  mlir::OperandRange indices);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_SYNTAX_H
