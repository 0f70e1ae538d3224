// SPDX-License-Identifier: Apache-2.0
// op.size_advice on a function: what messages advise where the size of an argument differs from the
// program's, in the words of the front end that it came by.
#ifndef STRAIGHTLINE_DIALECT_OP_SIZE_ADVICE_H
#define STRAIGHTLINE_DIALECT_OP_SIZE_ADVICE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace straightline::op {

constexpr llvm::StringLiteral kSizeAdviceAttr = "op.size_advice";

/// Whether it is such an attribute: two strings, those of `sl_program_desc` (fixed_size_advice,
/// size_bounds_advice).
bool isSizeAdvice(mlir::Attribute value);
/// Null: there is none.
mlir::ArrayAttr sizeAdviceOf(mlir::FunctionOpInterface function);
void setSizeAdvice(mlir::FunctionOpInterface function, mlir::Attribute advice);

}  // namespace straightline::op

#endif  // STRAIGHTLINE_DIALECT_OP_SIZE_ADVICE_H
