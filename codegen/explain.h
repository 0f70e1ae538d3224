// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_CODEGEN_EXPLAIN_H
#define STRAIGHTLINE_CODEGEN_EXPLAIN_H

#include <string>

#include "mlir/IR/BuiltinOps.h"

namespace straightline::codegen {

/// The fate of every op, as JSON (fields: docs/reference/explain.md). Precondition: one
/// kernel.program at planned level. Sizes that depend on named extents are those at their upper
/// bounds.
std::string explainProgram(mlir::ModuleOp module);

/// The explanation's `estimated_us`: the sum over the statements of `run`. Same precondition.
double estimatedUs(mlir::ModuleOp module);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_EXPLAIN_H
