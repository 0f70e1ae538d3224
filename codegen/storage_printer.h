// SPDX-License-Identifier: Apache-2.0
// How the text of a program reaches its storage: literal data, locals for buffers, extents.
#ifndef STRAIGHTLINE_CODEGEN_STORAGE_PRINTER_H
#define STRAIGHTLINE_CODEGEN_STORAGE_PRINTER_H

#include <string>

#include "codegen/cpp_text.h"
#include "codegen/program_index.h"

namespace straightline::codegen {

/// `alignas(64) static constexpr float c[] = {...};` An error on the op for data that has no elements in memory.
mlir::FailureOr<std::string> printConstant(kernel::ConstantOp op, const ProgramIndex& index);

/// Locals of one phase: extents, arenas, and every buffer that `region` uses and that has an address at its start.
void printLocals(mlir::Region& region, const ProgramIndex& index, Writer& writer);

/// `float* const view = base + 64;`
void printView(kernel::ViewOp view, const ProgramIndex& index, Writer& writer);

/// Whether the pointer to `buffer` is one to const in this region.
bool isReadOnly(mlir::Value buffer, bool inPrepare);

/// How a named extent is spelled in a program.
Spelling extentSpelling(const ProgramIndex& index);

/// Bytes from the start of its storage to element 0: offset and the border before it.
mlir::AffineExpr addressBytes(kernel::BufferType type, kernel::ExtentAttr offset,
                              llvm::SmallVectorImpl<mlir::StringAttr>& names);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_STORAGE_PRINTER_H
