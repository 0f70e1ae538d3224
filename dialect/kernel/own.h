// SPDX-License-Identifier: Apache-2.0
// What is recorded of users' own kernels (recorded.h has the rest).
#ifndef STRAIGHTLINE_DIALECT_KERNEL_OWN_H
#define STRAIGHTLINE_DIALECT_KERNEL_OWN_H

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::kernel {

/// kernel.own_arguments and kernel.own_traits, of a declaration of a user's own C function: a text
/// for each of its arguments (dialect/own_argument.h), and what else it takes and gives: "status",
/// "stream", "device", "outside" (op.own_kernel says what they mean). Null: the declaration is of a
/// library's kernel.
mlir::ArrayAttr ownArgumentsOf(DeclOp declaration);
bool hasOwnTrait(DeclOp declaration, llvm::StringRef trait);
/// Whether input or output `number` lies on the host in a program for a device: numbers that the
/// function reads or gives when it is called. Of a library's kernel none does.
bool isOwnOnHost(DeclOp declaration, bool isOutput, size_t number);
void setOwnArguments(DeclOp declaration, mlir::ArrayAttr arguments, llvm::StringRef traits);

/// kernel.own_source, of a kernel.func: the user's CUDA C++ text that has its body, a dictionary of
/// `source`, `function` (the kernel in that text), `arguments` (as above) and `threads`, i64, of a
/// block; null: the family's template is its body. The schedule's shape has the number of blocks,
/// `blocks`, and the numbers that arguments mean, `sizes`. With `image`, a cubin in base64, the
/// kernel is `function` of that: `source` is what people read, `arguments` are its parameters in
/// order, which begin at multiples of `alignments` bytes (array<i64>), the shape has `more_blocks`,
/// those in y and z, `shared_bytes`, i64, is what a block gets, and with `waits` it touches memory
/// only after it has waited for the kernel before it; with `cooperative` its blocks run at once.
mlir::DictionaryAttr ownSourceOf(FuncOp function);
void setOwnSource(FuncOp function, mlir::DictionaryAttr source);
/// Whether the kernel is machine code that a user gave.
bool isOwnImage(mlir::Operation* function);

}  // namespace straightline::kernel

#endif  // STRAIGHTLINE_DIALECT_KERNEL_OWN_H
