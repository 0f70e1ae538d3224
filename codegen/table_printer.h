// SPDX-License-Identifier: Apache-2.0
// The constant description of a program (abi/entry.h): buffers, statements, extents, results,
// sizes.
#ifndef STRAIGHTLINE_CODEGEN_TABLE_PRINTER_H
#define STRAIGHTLINE_CODEGEN_TABLE_PRINTER_H

#include <string>

#include "codegen/program_index.h"

namespace straightline::codegen {

/// Text that ends with the definition of `sl_program`. Follows the definitions of the entry points.
std::string printTables(kernel::ProgramOp program, const ProgramIndex& index, bool hasPrepare);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_TABLE_PRINTER_H
