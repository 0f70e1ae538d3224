// SPDX-License-Identifier: Apache-2.0
// The kind of an error, which travels with its diagnostic. An error that says nothing is our own
// mistake.
//
// The text of emitUnsupported and emitUserError is what a user reads, behind the place in the
// model: it begins with the op where that helps ("linear has no kernel; ...") and has none of
// MLIR's words.
#ifndef STRAIGHTLINE_DIALECT_ERROR_KIND_H
#define STRAIGHTLINE_DIALECT_ERROR_KIND_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace straightline {

/// The values are those of sl_error_kind.
enum class ErrorKind {
  none = 0,
  user = 1,         ///< the input is wrong
  unsupported = 2,  ///< right, but beyond what Straightline does
  internal = 3      ///< a bug
};

/// The kind is the only metadata of a diagnostic here; MLIR prints none.
inline ErrorKind errorKindOf(mlir::Diagnostic& diagnostic) {
  for (const mlir::DiagnosticArgument& argument : diagnostic.getMetadata()) {
    if (argument.getKind() == mlir::DiagnosticArgument::DiagnosticArgumentKind::Integer) {
      return static_cast<ErrorKind>(argument.getAsInteger());
    }
  }
  return ErrorKind::internal;
}

inline mlir::InFlightDiagnostic emitErrorOf(ErrorKind kind, mlir::Location location) {
  mlir::InFlightDiagnostic diagnostic = mlir::emitError(location);
  diagnostic.getUnderlyingDiagnostic()->getMetadata().emplace_back(static_cast<int64_t>(kind));
  return diagnostic;
}

/// What stands there is right, but beyond what Straightline does; names the nearest supported form.
inline mlir::InFlightDiagnostic emitUnsupported(mlir::Location location) {
  return emitErrorOf(ErrorKind::unsupported, location);
}
inline mlir::InFlightDiagnostic emitUnsupported(mlir::Operation* op) {
  return emitUnsupported(op->getLoc());
}

/// What the user gave is wrong.
inline mlir::InFlightDiagnostic emitUserError(mlir::Location location) {
  return emitErrorOf(ErrorKind::user, location);
}
inline mlir::InFlightDiagnostic emitUserError(mlir::Operation* op) {
  return emitUserError(op->getLoc());
}

}  // namespace straightline

#endif  // STRAIGHTLINE_DIALECT_ERROR_KIND_H
