// SPDX-License-Identifier: Apache-2.0
// From a module of the `op` dialect to a program of the runtime: passes, emission, compilation of
// the text, link.
#ifndef STRAIGHTLINE_TOOLS_COMPILATION_H
#define STRAIGHTLINE_TOOLS_COMPILATION_H

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/jit/code_linker.h"
#include "codegen/jit/compile_program.h"
#include "llvm/ADT/StringRef.h"
#include "straightline/abi/straightline.h"
#include "tools/compile_options.h"
#include "tools/compiler_abi.h"
#include "tools/diagnostic_log.h"
#include "tools/dump.h"
#include "tools/links.h"
#include "tools/module_context.h"
#include "tools/pass_texts.h"
#include "tools/settings.h"

namespace straightline {

struct LoadedCode;

/// Wall-clock seconds of each phase of a compilation; `clang` alone is processor time, of all
/// threads.
struct CompileSeconds {
  double passes = 0;
  double emission = 0;
  /// emitted text to objects: looking them up in the cache, and compiling the missing ones
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

  static Failure compile(const Module& module, const CompileOptions& options,
                         std::unique_ptr<Compilation>* out);

  const Emitted& emitted() const { return emitted_; }
  /// The explanation of emitted(), with `compile_seconds`.
  std::string explain() const;
  sl_program* program() const { return program_; }  ///< NULL after emitOnly; owned
  /// linksJson, or "" where the options did not ask for it.
  std::string links() const;
  /// passesJson, or "" where the options did not ask for it.
  std::string passes() const;
  /// Machine code for a device.
  const std::vector<llvm::StringRef>& images() const { return images_; }
  unsigned compiled() const { return compiled_; }
  unsigned cached() const { return cached_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// The program's code as a shared object that stands alone (jit::linkSharedObject), also after
  /// emitOnly. `images` receives the machine code of its device by unit, and `compiler` that
  /// compiler's version (sl_device_image).
  Failure linkCode(std::string* library, std::map<std::string, std::string>* images,
                   int32_t* compiler) const;
  /// PTX of the device's units by name, with its final zero, and that compiler's version: code that
  /// every later device runs. User error: the program is for no device, or has a suffix ("sm_90a").
  Failure deviceText(std::map<std::string, std::string>* images, int32_t* compiler) const;
  /// The objects and the table of that code, for a library of several (jit::linkModel), and clang's
  /// arguments for its CPU.
  Failure codeObjects(jit::CodeRequest* request, std::map<std::string, std::string>* images,
                      int32_t* compiler, std::vector<std::string>* arguments) const;
  /// `level` is "op" or "kernel".
  Failure ir(const std::string& level, unsigned flags, std::string* out) const;

 private:
  explicit Compilation(std::shared_ptr<ModuleContext> context) : context_(std::move(context)) {}

  Failure verifyText() const;
  Failure lower(const Module& module, const CompileOptions& options, TargetOptions target);
  Failure plan(const TargetOptions& target);
  Failure emit(const TargetOptions& target);
  /// Runs a step that works on `kernelLevel_`; gives up on it, and on the context, where LLVM did.
  Failure guarded(const std::function<Failure(DiagnosticLog&)>& body);
  void logRoutes() const;
  Failure load(const CompileOptions& options);
  /// Compiles the text for the host and for a device, beside each other, and links it.
  Failure compileUnits(const std::vector<jit::Unit>& units, jit::CompileOptions options,
                       jit::ObjectCache& cache, LoadedCode* code);
  void reportUnit(const jit::UnitReport& unit, sl_progress* progress, bool usesCache) const;
  /// Makes the program, which keeps the code.
  Failure createProgram(int32_t device, std::unique_ptr<LoadedCode> code);
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
  llvm::json::Array routes_;  ///< see Stages::buildPipeline
  bool links_ = false;
  LostNumbers lost_;
  bool recordsPasses_ = false;
  PassTexts passTexts_;
  std::string cpu_;  ///< as the options have it
  bool usesCache_ = true;
  int kernelsPerUnit_ = 0;
  Settings settings_;
  Dump dump_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_COMPILATION_H
