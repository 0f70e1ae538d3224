// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_DECOMPOSE_REDUCTIONS_H
#define STRAIGHTLINE_PASSES_DECOMPOSE_REDUCTIONS_H

#include "mlir/IR/Builders.h"

namespace straightline::passes {

/// Writes softmax, log_softmax, layer_norm, rms_norm, mean or var over trailing dims as sums,
/// maxima and elementwise ops before `operation`, which stays. Null when `operation` is none of
/// these; failure, with a diagnostic, when it cannot be written.
mlir::FailureOr<mlir::Value> writeReduction(mlir::Operation* operation, mlir::OpBuilder& builder);

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_DECOMPOSE_REDUCTIONS_H
