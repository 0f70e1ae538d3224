// SPDX-License-Identifier: Apache-2.0
// Text around external entries: prototypes and problem descriptions.
#ifndef STRAIGHTLINE_CODEGEN_EXTERNAL_CALLS_H
#define STRAIGHTLINE_CODEGEN_EXTERNAL_CALLS_H

#include <string>

#include "codegen/cpp_text.h"

namespace straightline::codegen {

/// The symbols of run, plan and destroy that a declaration has, and of what calls them.
llvm::SmallVector<llvm::StringRef> externalSymbols(kernel::DeclOp decl);
/// What destroys the handle that the declaration's plan makes.
llvm::StringRef destroyerOf(kernel::DeclOp decl);
/// `sl::report(ctx, run(items));`, or `sl::report(ctx, sl_exclusive_run(items, run));` where a run
/// writes into its handle.
void printRunCall(kernel::DeclOp decl, llvm::SmallVector<std::string> items, Writer& writer);
/// The same of plan.
void printPlanCall(kernel::DeclOp decl, llvm::SmallVector<std::string> items, Writer& writer);
/// The numbers known only in a call, which `run` finds after its inputs.
llvm::SmallVector<std::string> sizeTexts(kernel::DeclOp decl, const Spelling& spelling);
std::string printExternalPrototypes(kernel::DeclOp decl);

/// `static constexpr sl_problem k_problem = {...};` with the arrays it points to, for a declaration
/// `k`.
std::string problemName(kernel::DeclOp decl);
void printProblem(kernel::DeclOp decl, kernel::TargetAttr target, Writer& writer);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_EXTERNAL_CALLS_H
