// SPDX-License-Identifier: Apache-2.0
// Prints a kernel.func as the instantiation of its family's template, by one rule for all families
// (docs/design/kernel_dialect.md).
#ifndef STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H
#define STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H

#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::codegen {

/// The signature without an end: `extern "C" void name(sl_ctx* ctx, sl_team team, const float* a0,
/// float* o0, int64_t b)`. For a kernel of a device `SL_KERNEL(threads) name(...)` or a related
/// macro, without ctx and team.
std::string kernelSignature(kernel::FuncOp func);
/// `#include "straightline/kernels/<family>.h"`, and scalar.h for the lambdas where there are any,
/// special.h where these call a special function: other units do not pay for compiling it.
llvm::SmallVector<std::string> kernelIncludes(kernel::FuncOp func);
/// The definition, ending in a line feed.
mlir::FailureOr<std::string> printKernel(kernel::FuncOp func);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H
