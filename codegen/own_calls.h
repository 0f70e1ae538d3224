// SPDX-License-Identifier: Apache-2.0
// Text around a user's own C function (runtime/abi/own_kernel.h): its prototype, and the function
// `call_k` that calls it for a declaration `k` with what an external entry is given.
#ifndef STRAIGHTLINE_CODEGEN_OWN_CALLS_H
#define STRAIGHTLINE_CODEGEN_OWN_CALLS_H

#include <string>

#include "codegen/cpp_text.h"

namespace straightline::codegen {

bool isOwnKernel(kernel::DeclOp decl);
/// "call_k".
std::string ownCallName(kernel::DeclOp decl);
/// What of the runtime the text calls for the declaration.
void addOwnSymbols(kernel::DeclOp decl, llvm::SmallVectorImpl<llvm::StringRef>& symbols);
/// Prototypes and `call_k`; the text includes own_kernel.h.
std::string printOwnCall(kernel::DeclOp decl);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_OWN_CALLS_H
