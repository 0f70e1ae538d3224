// SPDX-License-Identifier: Apache-2.0
#include "tools/compilation.h"

#include <unistd.h>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/compile_program.h"
#include "codegen/jit/fatal_guard.h"
#include "mlir/Pass/PassManager.h"
#include "tools/compiler_abi.h"

namespace straightline {
namespace {

ErrorKind kindOf(jit::CompileError::Kind kind) {
  switch (kind) {
    case jit::CompileError::Kind::user:
      return ErrorKind::user;
    case jit::CompileError::Kind::unsupported:
      return ErrorKind::unsupported;
    case jit::CompileError::Kind::internal:
      return ErrorKind::internal;
  }
  return ErrorKind::internal;
}

/// The machine as passes see it. Caches are asked for only when it is this one.
TargetOptions targetOptions(const jit::Target& target, const CompileRequest& request) {
  TargetOptions options;
  options.cpu = target.cpu;
  options.threads = request.threads;
  options.pipeline = request.pipeline;
  options.vectorBytes = jit::hasFeature(target, "avx512f") ? 64 : 32;
  if (target.cpu == jit::hostTarget().cpu) {
    const long l1 = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
    const long l2 = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    options.l1Bytes = l1 > 0 ? l1 : options.l1Bytes;
    options.l2Bytes = l2 > 0 ? l2 : options.l2Bytes;
  }
  return options;
}

/// What the program's release callback deletes: the code and the constant description inside it.
void releaseCode(void* user) { delete static_cast<jit::CompiledProgram*>(user); }

}  // namespace

Compilation::~Compilation() {
  if (program_ != nullptr) {
    sl_program_release(program_);
  }
}

Failure Compilation::compile(const Module& module, const CompileRequest& request,
                             std::unique_ptr<Compilation>* out) {
  const std::optional<jit::Target> target = jit::targetNamed(request.cpu);
  if (!target) {
    return Failure::user("unknown target cpu '" + request.cpu + "'");
  }
  if (request.threads < 1) {
    return Failure::user("threads is " + std::to_string(request.threads) + ", must be at least 1");
  }
  std::unique_ptr<Compilation> compilation(new Compilation(module.context));
  {
    const std::lock_guard<std::mutex> lock(module.context->mutex);
    compilation->opLevel_ = module.op.get().clone();
    compilation->kernelLevel_ = module.op.get().clone();
    if (Failure failure = module.isText ? compilation->verifyText() : Failure::none(); failure.failed()) {
      return failure;
    }
    Failure failure = compilation->lower(targetOptions(*target, request));
    if (failure.kind == ErrorKind::internal) {
      return compilation->withIr(std::move(failure));
    }
    if (failure.failed()) {
      return failure;
    }
  }
  if (!request.emitOnly) {
    if (Failure failure = compilation->load(request); failure.failed()) {
      return failure;
    }
  }
  *out = std::move(compilation);
  return Failure::none();
}

Failure Compilation::verifyText() const {
  DiagnosticLog log(&context_->context);
  if (failed(context_->stages.verifyText(*opLevel_))) {
    return log.failure(ErrorKind::user, "the module is not what can be compiled");
  }
  return Failure::none();
}

Failure Compilation::lower(const TargetOptions& target) {
  DiagnosticLog log(&context_->context);
  context_->stages.setTarget(*kernelLevel_, target);
  mlir::PassManager manager(&context_->context);
  if (Failure failure = context_->stages.buildPipeline(manager, *kernelLevel_, target); failure.failed()) {
    return failure;
  }
  Failure failure;
  std::string fatal;
  const bool survived = jit::runGuarded(
      [&] {
        if (failed(manager.run(*kernelLevel_))) {
          failure = log.failure(ErrorKind::internal, "a pass failed");
          return;
        }
        failure = context_->stages.emit(*kernelLevel_, target, &emitted_);
        if (failure.kind == ErrorKind::internal) {
          failure = log.failure(ErrorKind::internal, failure.message);
        }
      },
      &fatal);
  if (!survived) {
    // The module was left in the middle of a change: it is neither printed nor destroyed, nor is its context.
    kernelLevel_.release();
    new std::shared_ptr<ModuleContext>(context_);
    return Failure::internal("the compiler gave up: " + fatal + (log.empty() ? "" : "\n" + log.text()));
  }
  return failure;
}

Failure Compilation::withIr(Failure failure) const {
  const unsigned flags = SL_PRINT_LOCATIONS | SL_PRINT_GENERIC;
  failure.message += "\nthe module is kept in " + jit::keepText("op", ".mlir", printModule(*opLevel_, flags));
  if (kernelLevel_) {
    failure.message += "\nas far as the passes came: " + jit::keepText("failed", ".mlir", printModule(*kernelLevel_, flags));
  }
  return failure;
}

Failure Compilation::load(const CompileRequest& request) {
  jit::ObjectCache none("", 0);
  jit::CompileOptions options;
  options.cpu = request.cpu;
  options.cache = request.useCache ? nullptr : &none;
  options.resolver = [](const std::string& name) { return sl_symbol(name.c_str()); };
  jit::CompileError error;
  std::unique_ptr<jit::CompiledProgram> code =
      jit::compileProgram(emitted_.units, {emitted_.symbol}, options, &error);
  if (!code) {
    return {kindOf(error.kind), error.message};
  }
  compiled_ = code->compiled;
  cached_ = code->cached;
  notes_ = code->notes;
  std::string message;
  const auto* description = static_cast<const sl_program_desc*>(code->code->lookup(emitted_.symbol, &message));
  if (description == nullptr) {
    return Failure::internal("emitted program has no " + emitted_.symbol + ": " + message);
  }
  sl_message text;
  text.text[0] = '\0';
  if (sl_program_create(description, releaseCode, code.get(), &program_, &text) != SL_OK) {
    program_ = nullptr;
    return Failure::internal(std::string("the runtime refuses the emitted program: ") + text.text);
  }
  code.release();  // the program's from now on
  return Failure::none();
}

Failure Compilation::ir(const std::string& level, unsigned flags, std::string* out) const {
  if (level != "op" && level != "kernel") {
    return Failure::user("no IR level '" + level + "': 'op' or 'kernel'");
  }
  const std::lock_guard<std::mutex> lock(context_->mutex);
  *out = printModule(level == "op" ? *opLevel_ : *kernelLevel_, flags);
  return Failure::none();
}

}  // namespace straightline
