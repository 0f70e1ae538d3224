// SPDX-License-Identifier: Apache-2.0
// The program as Python: `prepare(io)` and `run(io)` over the same kernels, buffers and statements
// as the C++ text.
#ifndef STRAIGHTLINE_CODEGEN_PYTHON_PRINTER_H
#define STRAIGHTLINE_CODEGEN_PYTHON_PRINTER_H

#include <string>

#include "codegen/program_index.h"

namespace straightline::codegen {

/// A whole module, without the headline. What `io`, its queues and buffers offer is
/// python/straightline/_call.pyi.
mlir::FailureOr<std::string> printPython(kernel::ProgramOp program, const ProgramIndex& index);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_PYTHON_PRINTER_H
