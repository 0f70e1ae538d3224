// SPDX-License-Identifier: Apache-2.0
// A kernel.func as the instantiation of its family's template. One rule for all families
// (ARCHITECTURE.md).
#ifndef STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H
#define STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H

#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::codegen {

/// Whether a kernel of a device waits by itself (`sl::awaitPrevious()`) before it touches what the
/// run writes, so that it may be launched before the one ahead has ended. It is printed as its
/// first act; the template of gemv_group does it behind its requests. Those of large tiles do not:
/// blocks that come early are put where room is left, several on one processor, and stay there (an
/// encoder layer of them took 107 us so and 76 us without on an H200).
bool mayStartEarly(kernel::FuncOp func);
/// `extern "C" void name(sl_ctx* ctx, sl_team team, const float* a0, float* o0, int64_t b)`,
/// without an end. For a kernel of a device `SL_KERNEL(threads) name(...)` or one of its kin,
/// without ctx and team.
std::string kernelSignature(kernel::FuncOp func);
/// `#include "straightline/kernels/<family>.h"`, and scalar.h for the lambdas where there are any.
llvm::SmallVector<std::string> kernelIncludes(kernel::FuncOp func);
/// The definition, ending in a line feed.
mlir::FailureOr<std::string> printKernel(kernel::FuncOp func);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_KERNEL_PRINTER_H
