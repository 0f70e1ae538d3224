// SPDX-License-Identifier: Apache-2.0
// From a module of the `op` dialect to a program of the runtime: passes, emission, compilation of
// the text, link.
#ifndef STRAIGHTLINE_TOOLS_COMPILATION_H
#define STRAIGHTLINE_TOOLS_COMPILATION_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "straightline/abi/straightline.h"
#include "tools/compiler_abi.h"
#include "tools/dump.h"
#include "tools/module_context.h"
#include "tools/settings.h"

namespace straightline {

struct CompileRequest {
  std::string cpu;  ///< "" or "host": this machine
  int threads = 1;
  /// more than `threads`: up to so many instead of it where the estimate is more than `teamFromUs`
  int team = 0;
  double teamFromUs = 0;   ///< each thread of the team has at least half of this to do
  int kernelsPerUnit = 1;  ///< compiled together
  int32_t device = 0;      ///< number of that on which the program is
  std::string pipeline;
  bool emitOnly = false;
  bool useCache = true;
  sl_progress* progress = nullptr;  ///< nullable: told how far the compilation is
};

/// Wall-clock seconds of each phase of a compilation; `clang` alone is processor time, of all
/// threads.
struct CompileSeconds {
  double passes = 0;
  double emission = 0;
  /// emitted text to objects: looking them up in the cache, and compiling what it has not
  double units = 0;
  double clang = 0;
  double link = 0;
  double load = 0;  ///< the runtime's checks of the program
};

/// What one compilation made. Immutable; getters are thread-safe.
class Compilation {
 public:
  ~Compilation();
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  static Failure compile(const Module& module, const CompileRequest& request,
                         std::unique_ptr<Compilation>* out);

  const Emitted& emitted() const { return emitted_; }
  /// The explanation of emitted(), with `compile_seconds`.
  std::string explain() const;
  sl_program* program() const { return program_; }  ///< NULL after emitOnly; owned
  /// Machine code for a device.
  const std::vector<llvm::StringRef>& images() const { return images_; }
  unsigned compiled() const { return compiled_; }
  unsigned cached() const { return cached_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// `level` is "op" or "kernel".
  Failure ir(const std::string& level, unsigned flags, std::string* out) const;

 private:
  explicit Compilation(std::shared_ptr<ModuleContext> context) : context_(std::move(context)) {}

  Failure verifyText() const;
  Failure lower(const Module& module, const CompileRequest& request, TargetOptions target);
  Failure plan(const TargetOptions& target);
  Failure emit(const TargetOptions& target);
  /// Runs a step that works on `kernelLevel_`; gives up on it, and on the context, where LLVM did.
  Failure guarded(const std::function<Failure(DiagnosticLog&)>& body);
  void logRoutes() const;
  Failure load(const CompileRequest& request);
  Failure withIr(Failure failure) const;

  std::shared_ptr<ModuleContext> context_;  ///< declared first: outlives the modules
  mlir::OwningOpRef<mlir::ModuleOp> opLevel_;
  mlir::OwningOpRef<mlir::ModuleOp> kernelLevel_;
  Emitted emitted_;
  sl_program* program_ = nullptr;
  std::vector<llvm::StringRef> images_;  ///< the program's
  unsigned compiled_ = 0;
  unsigned cached_ = 0;
  std::vector<std::string> notes_;
  CompileSeconds seconds_;
  Settings settings_;
  Dump dump_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_COMPILATION_H
