// SPDX-License-Identifier: Apache-2.0
// Prints a kernel.func as the instantiation of its family's template, by one rule for all families
// (docs/design/kernel_dialect.md).
#ifndef STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H
#define STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H

#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::codegen {

/// Whether a kernel of a device waits by itself (`sl::awaitPrevious()`) before it touches memory
/// that the run writes, so that it may be launched before the one ahead has ended. The wait is
/// printed as its first statement; the template of gemv_group waits after its loads. Kernels with
/// large tiles do not wait by themselves: their blocks would be placed early on few processors,
/// where room is left, and stay there (an encoder layer of them took 107 us instead of 76 on an
/// H200).
bool mayStartEarly(kernel::FuncOp func);
/// The signature without an end: `extern "C" void name(sl_ctx* ctx, sl_team team, const float* a0,
/// float* o0, int64_t b)`. For a kernel of a device `SL_KERNEL(threads) name(...)` or a related
/// macro, without ctx and team.
std::string kernelSignature(kernel::FuncOp func);
/// `#include "straightline/kernels/<family>.h"`, and scalar.h for the lambdas where there are any.
llvm::SmallVector<std::string> kernelIncludes(kernel::FuncOp func);
/// The definition, ending in a line feed.
mlir::FailureOr<std::string> printKernel(kernel::FuncOp func);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H
