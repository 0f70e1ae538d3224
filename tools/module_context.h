// SPDX-License-Identifier: Apache-2.0
// An MLIR context with one module in it, and the diagnostics that MLIR emits while somebody works
// on it.
#ifndef STRAIGHTLINE_TOOLS_MODULE_CONTEXT_H
#define STRAIGHTLINE_TOOLS_MODULE_CONTEXT_H

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tools/stages.h"

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

/// Shared by a module and the compilations made of it; the mutex is held while the context is
/// worked on.
struct ModuleContext {
  explicit ModuleContext(const Stages& stages);
  const Stages& stages;
  mlir::MLIRContext context;
  std::mutex mutex;
};

struct Module {
  std::shared_ptr<ModuleContext> context;  ///< declared first: outlives `op`
  mlir::OwningOpRef<mlir::ModuleOp> op;
  bool isText = false;  ///< the user wrote it: a broken contract is the user's error, not ours
};

Failure parseModule(const Stages& stages, std::string_view text, const std::string& name,
                    std::unique_ptr<Module>* out);

/// `flags` are SL_PRINT_*. A module that may be invalid must be printed in generic form.
std::string printModule(mlir::ModuleOp module, unsigned flags);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_MODULE_CONTEXT_H
