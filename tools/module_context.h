// SPDX-License-Identifier: Apache-2.0
// An MLIR context with one module in it.
#ifndef STRAIGHTLINE_TOOLS_MODULE_CONTEXT_H
#define STRAIGHTLINE_TOOLS_MODULE_CONTEXT_H

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "tools/failure.h"
#include "tools/stages.h"

namespace straightline {

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

/// A copy of a module at op level, with numbers ("name=number") in place of named sizes. User
/// error: a name that is not there or depends on data, a number beyond its bounds.
Failure withSizes(const Module& module, const std::vector<std::string>& sizes,
                  std::unique_ptr<Module>* out);

/// `flags` are SL_PRINT_*. A module that may be invalid must be printed in generic form.
std::string printModule(mlir::ModuleOp module, unsigned flags);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_MODULE_CONTEXT_H
