// SPDX-License-Identifier: Apache-2.0
// The text of sl_program_prepare and sl_program_run: one case per kind of statement, no decisions.
#ifndef STRAIGHTLINE_CODEGEN_PROGRAM_PRINTER_H
#define STRAIGHTLINE_CODEGEN_PROGRAM_PRINTER_H

#include <string>
#include <vector>

#include "codegen/program_index.h"

namespace straightline::codegen {

struct ProgramText {
  std::vector<std::string> includes;  ///< whole lines
  std::string declarations;           ///< prototypes of external entries
  std::string body;                   ///< constants, thunks and the two functions
  /// extern "C" names that the body calls, kernels not among them
  std::vector<std::string> externals;
  bool hasPrepare;
};

/// With `profile` every statement reports its begin and end to ctx->profile.
mlir::FailureOr<ProgramText> printProgram(kernel::ProgramOp program, const ProgramIndex& index,
                                          bool profile);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_PROGRAM_PRINTER_H
