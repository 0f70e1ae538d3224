// SPDX-License-Identifier: Apache-2.0
// Which ops external kernels of the registry may be given, beside contractions and attention.
#ifndef STRAIGHTLINE_PASSES_EXTERNAL_OPS_H
#define STRAIGHTLINE_PASSES_EXTERNAL_OPS_H

#include "dialect/op/op_dialect.h"
#include "llvm/ADT/StringRef.h"

namespace straightline {

/// Whether ops of that name may be given to an external kernel: pure ops without regions that are
/// neither views, contractions, attention nor storage. `name` has no dialect: "softmax".
bool mayBeExternal(llvm::StringRef name, mlir::MLIRContext* context);
/// The same of one op: index arithmetic of a loop, which never has a buffer, and what reads such a
/// number stay with the compiler.
bool mayBeExternal(mlir::Operation* operation);
/// Whether the registry has an external kernel with a calling rule for ops of that name.
bool hasExternalKernel(llvm::StringRef name);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_EXTERNAL_OPS_H
