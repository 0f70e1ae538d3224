// SPDX-License-Identifier: Apache-2.0
// How the text of a program reaches its storage: literal data, locals for buffers, extents.
#ifndef STRAIGHTLINE_CODEGEN_STORAGE_PRINTER_H
#define STRAIGHTLINE_CODEGEN_STORAGE_PRINTER_H

#include <string>

#include "codegen/cpp_text.h"
#include "codegen/program_index.h"

namespace straightline::codegen {

/// How an index value is spelled.
using ValueSpelling = std::function<std::string(mlir::Value)>;

/// What a phase needs before its first statement, as numbers in the index: extents, and buffers
/// that have an address then.
struct Locals {
  llvm::SmallVector<int> extents, buffers;
};
Locals localsOf(mlir::Region& region, const ProgramIndex& index);

/// `alignas(64) static constexpr float c[] = {...};` An error on the op for data that has no
/// elements in memory.
mlir::FailureOr<std::string> printConstant(kernel::ConstantOp op, const ProgramIndex& index);

/// Locals of one phase: extents, arenas, and every buffer that `region` uses and that has an
/// address at its start.
void printLocals(mlir::Region& region, const ProgramIndex& index, Writer& writer);

/// `float* const view = base + 64;`
void printView(kernel::ViewOp view, const ProgramIndex& index, Writer& writer);

/// `i * 64 + 3`: the place of a loaded element, counted in elements from element 0. `name` says how
/// an index is spelled.
std::string loadPlace(kernel::LoadOp load, const ProgramIndex& index, const ValueSpelling& name);

/// How the names in a view's offset are spelled: index values by `name`, all others as extents.
Spelling viewSpelling(kernel::ViewOp view, const ProgramIndex& index, ValueSpelling name);

/// Whether the text needs a pointer for a view: what is only returned does not.
bool isAddressNeeded(kernel::ViewOp view);

/// Whether the pointer to `buffer` is one to const in this region.
bool isReadOnly(mlir::Value buffer, bool inPrepare);

/// How a named extent is spelled in a program.
Spelling extentSpelling(const ProgramIndex& index);

/// Bytes from the start of its storage to element 0: offset and the border before it.
mlir::AffineExpr addressBytes(kernel::BufferType type, kernel::ExtentAttr offset,
                              llvm::SmallVectorImpl<mlir::StringAttr>& names);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_STORAGE_PRINTER_H
