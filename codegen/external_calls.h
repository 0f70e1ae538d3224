// SPDX-License-Identifier: Apache-2.0
// Text around external entries and device queues: prototypes, problem descriptions, thunks.
#ifndef STRAIGHTLINE_CODEGEN_EXTERNAL_CALLS_H
#define STRAIGHTLINE_CODEGEN_EXTERNAL_CALLS_H

#include <string>

#include "codegen/cpp_text.h"

namespace straightline::codegen {

/// run, plan and destroy of a declaration, those that it has.
llvm::SmallVector<llvm::StringRef> externalSymbols(kernel::DeclOp decl);
std::string printExternalPrototypes(kernel::DeclOp decl);

/// `static constexpr sl_problem problem = {...};` with the arrays it points to.
void printProblem(kernel::DeclOp decl, kernel::TargetAttr target, Writer& writer);

/// `static void enqueue_k(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars)`, which unpacks the arguments
/// of a kernel.func or a kernel.decl (there pointer 0 is the handle).
std::string printThunk(mlir::Operation* entry);

/// `{2, 32, 1}`: an sl_dtype.
std::string dtypeText(mlir::Type type);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_EXTERNAL_CALLS_H
