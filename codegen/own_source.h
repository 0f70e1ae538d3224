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

/// Of machine code that a user gave (kernel::isOwnImage): its whole unit, in which it is a
/// text in base64.
std::string ownImageText(kernel::FuncOp func);

/// A parameter of such a kernel: an expression over the arguments of its entry (ownImageNames).
struct OwnParameter {
  kernel::ExtentAttr value;
  int64_t alignment;  ///< the value is a multiple of it
};
struct OwnImage {
  llvm::SmallVector<OwnParameter> parameters;
  kernel::ExtentAttr blocksY, blocksZ;
  int64_t sharedBytes;
  bool cooperative;
};
OwnImage ownImageOf(kernel::FuncOp func);
/// What expressions of ownImageOf are over, of any kernel in the order of its entry's arguments: a
/// name for each address, "%0" and so on, then the run-time scalars.
llvm::SmallVector<mlir::StringAttr> ownImageNames(kernel::FuncOp func);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_OWN_SOURCE_H
