// SPDX-License-Identifier: Apache-2.0
// Text of a user's own CUDA kernel (kernel.own_source). The user's text is a device function to
// ours: `__global__` is written `__device__`, so that a kernel of ours, which has the constants and
// the order of the arguments, calls it in each of its threads.
#ifndef STRAIGHTLINE_CODEGEN_OWN_SOURCE_H
#define STRAIGHTLINE_CODEGEN_OWN_SOURCE_H

#include <string>

#include "codegen/cpp_text.h"
#include "codegen/own_source_mark.h"

namespace straightline::codegen {

/// The headers that the kernel needs: ours, and those that the user's text includes.
llvm::SmallVector<std::string> ownIncludes(kernel::FuncOp func);
/// The user's text, in a namespace of its own.
std::string ownSourceText(kernel::FuncOp func);
/// `  own_scale_source::scale(a0, 2.0, o0);`
std::string ownCallText(kernel::FuncOp func, llvm::ArrayRef<std::string> pointers,
                        const Spelling& spelling);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_OWN_SOURCE_H
