// SPDX-License-Identifier: Apache-2.0
// The diagnostics that MLIR emits while somebody works on a module, and where they point.
#ifndef STRAIGHTLINE_TOOLS_DIAGNOSTIC_LOG_H
#define STRAIGHTLINE_TOOLS_DIAGNOSTIC_LOG_H

#include <string>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "tools/failure.h"

namespace straightline {

/// "fc (model.py:12)" for loc("fc"("model.py":12:0)); "" for an unknown location.
std::string describeLocation(mlir::Location location);

/// Collects the diagnostics of a context while it lives: errors with their notes, one per line,
/// each with its location.
class DiagnosticLog {
 public:
  explicit DiagnosticLog(mlir::MLIRContext* context);
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  /// A failure: unsupported or user when all errors are of these kinds (dialect/error_kind.h), in
  /// the words of these errors alone; else `fallback`, with all text behind `head`. An internal one
  /// says the first line of the first error that is ours, and has all text as details.
  Failure failure(ErrorKind fallback, const std::string& head) const;

 private:
  void add(mlir::Diagnostic& diagnostic);

  std::string text_;
  std::string words_;     ///< of errors that are unsupported or the user's
  std::string first_;     ///< the first line of the first error of ours
  bool invalid_ = false;  ///< an error of the user's was among them
  bool other_ = false;    ///< an error of ours was among them
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_DIAGNOSTIC_LOG_H
