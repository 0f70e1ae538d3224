// SPDX-License-Identifier: Apache-2.0
// kernel.size_advice on a program: op.size_advice of the function that it was.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_SIZE_ADVICE_H
#define STRAIGHTLINE_DIALECT_KERNEL_SIZE_ADVICE_H

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::kernel {

/// Null: there is none.
mlir::ArrayAttr sizeAdviceOf(ProgramOp program);
void setSizeAdvice(ProgramOp program, mlir::ArrayAttr advice);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_SIZE_ADVICE_H
