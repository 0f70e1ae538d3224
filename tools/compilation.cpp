// SPDX-License-Identifier: Apache-2.0
#include "tools/compilation.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <map>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/code_linker.h"
#include "codegen/jit/compile_program.h"
#include "codegen/jit/fatal_guard.h"
#include "codegen/jit/nvrtc.h"
#include "codegen/jit/plugin_compiler.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "mlir/Pass/PassManager.h"
#include "tools/compiler_abi.h"
#include "tools/pass_log.h"

namespace straightline {

/// What the program's release callback deletes: the code with the constant description inside it,
/// and what it names.
struct LoadedCode {
  std::unique_ptr<jit::DeviceProgram> device;     ///< null: no kernel runs on a device
  std::map<std::string, sl_device_image> images;  ///< by symbol
  std::unique_ptr<jit::CompiledProgram> host;
};

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

/// The machine as passes see it. Cache sizes are read only if it is this machine.
TargetOptions targetOptions(const jit::Target& target, const CompileOptions& given) {
  TargetOptions options;
  options.cpu = target.cpu;
  options.threads = given.threads;
  options.options = &given;
  options.vectorBytes = jit::hasFeature(target, "avx512f") ? 64 : 32;
  options.dotBf16 = options.vectorBytes == 64 && jit::hasFeature(target, "avx512bf16");
  options.fmaBytes = jit::beginsTwoWideVectors(target) ? 128 : options.fmaBytes;
  if (target.cpu == jit::hostTarget().cpu) {
    const long l1 = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
    const long l2 = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    options.l1Bytes = l1 > 0 ? l1 : options.l1Bytes;
    options.l2Bytes = l2 > 0 ? l2 : options.l2Bytes;
  }
  return options;
}

void releaseCode(void* user) { delete static_cast<LoadedCode*>(user); }

/// Adds the seconds of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double* sum) : sum_(sum) {}
  ~Stopwatch() { *sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double* sum_;
  Clock::time_point begin_ = Clock::now();
};

/// By the compiler of the device's plug-in, or by NVRTC.
std::unique_ptr<jit::DeviceProgram> compileDeviceUnits(const Emitted& emitted,
                                                       const jit::CompileOptions& options,
                                                       jit::CompileError* error) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc& backend = *sl_backend_at(i);
    if (emitted.device == backend.name && backend.device && backend.device->compile) {
      return jit::compileByPlugin(emitted.deviceUnits, emitted.device, *backend.device,
                                  emitted.deviceArch, options, error);
    }
  }
  return jit::compileForDevice(emitted.deviceUnits, emitted.deviceArch, options, error);
}

/// The compilation of a program's kernels for a device, which runs in parallel to that of its host
/// text until an image is needed. It is on the heap because after a jump out of LLVM
/// (fatal_guard.h) its thread still uses it.
class DeviceCompilation {
 public:
  /// `options` are copied. Fills device and images of `code`, which outlives it, as `emitted` does.
  DeviceCompilation(const Emitted& emitted, const jit::CompileOptions& options, LoadedCode* code)
      : emitted_(emitted), code_(code) {
    if (emitted.deviceUnits.empty()) {
      return;
    }
    work_ = std::async(std::launch::async, [this, options] {
      const auto begin = std::chrono::steady_clock::now();
      code_->device = compileDeviceUnits(emitted_, options, &error_);
      seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
  }
  /// The images by symbol after the thread has ended; none if it failed. Adds the seconds of
  /// waiting to `waited`. One thread at a time calls it.
  std::map<std::string, sl_device_image>& finish(double* waited) {
    if (work_.valid()) {
      const Stopwatch watch(waited);
      try {
        work_.get();
      } catch (const std::exception& exception) {
        error_ = {jit::CompileError::Kind::internal, exception.what()};
      }
      failed_ = !code_->device;
      if (failed_) {
        return code_->images;
      }
      for (const auto& [kernel, unit] : emitted_.unitOfDeviceKernel) {
        const std::string& image = code_->device->images.at(unit);
        code_->images[kernel + "_image"] = {sizeof(sl_device_image), image.data(), image.size(),
                                            code_->device->compiler};
      }
    }
    return code_->images;
  }
  bool failed() const { return failed_; }
  const jit::CompileError& error() const { return error_; }
  double seconds() const { return seconds_; }

 private:
  const Emitted& emitted_;
  LoadedCode* code_;
  jit::CompileError error_;
  double seconds_ = 0;
  bool failed_ = false;
  std::future<void> work_;  ///< last: its end waits for the thread
};

void report(sl_progress* progress, int32_t stage) {
  if (progress != nullptr) {
    __atomic_store_n(&progress->stage, stage, __ATOMIC_RELAXED);
  }
}

std::string milliseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", value);
  return text;
}

/// The program's unit, and so many kernels as one unit each.
std::vector<jit::Unit> together(const std::vector<jit::Unit>& units, int kernels) {
  std::vector<jit::Unit> result(units.begin(), units.begin() + std::min<size_t>(units.size(), 1));
  for (size_t i = 1; i < units.size(); ++i) {
    if ((i - 1) % kernels == 0) {
      result.push_back({units[i].name, "", units[i].runsOnce});
    }
    result.back().runsOnce &= units[i].runsOnce;
    result.back().text += units[i].text;
  }
  return result;
}

/// The difference of two readings of the cache's counters; other compilations of this process are
/// included.
void logCache(const jit::ObjectCache& cache, const jit::CacheCounts& before,
              const std::vector<std::string>& notes) {
  const jit::CacheCounts now = cache.counts();
  for (const std::string& note : notes) {
    logLine("cache", note);
  }
  if (cache.capBytes() == 0 || cache.directory().empty()) {
    return logLine("cache", "off");
  }
  logLine("cache", cache.directory() + ": " + std::to_string(now.hits - before.hits) + " hits, " +
                       std::to_string(now.misses - before.misses) + " misses, " +
                       std::to_string(now.damaged - before.damaged) + " damaged, " +
                       std::to_string(now.stored - before.stored) + " stored, " +
                       std::to_string(now.evicted - before.evicted) + " evicted");
}

}  // namespace

Compilation::~Compilation() {
  if (program_ != nullptr) {
    sl_program_release(program_);
  }
}

Failure Compilation::compile(const Module& module, const CompileOptions& options,
                             std::unique_ptr<Compilation>* out) {
  const std::optional<jit::Target> target = jit::targetNamed(options.cpu);
  if (!target) {
    return Failure::user("unknown target cpu '" + options.cpu + "'");
  }
  if (Failure failure = validate(options); failure.failed()) {
    return failure;
  }
  std::unique_ptr<Compilation> compilation(new Compilation(module.context));
  if (Failure failure = readSettings(&compilation->settings_); failure.failed()) {
    return failure;
  }
  compilation->cpu_ = options.cpu;
  compilation->usesCache_ = options.useCache;
  compilation->kernelsPerUnit_ = options.internal.kernelsPerUnit;
  compilation->links_ = options.internal.links;
  compilation->recordsPasses_ = options.internal.passes;
  report(options.progress, SL_STAGE_PASSES);
  {
    const std::lock_guard<std::mutex> lock(module.context->mutex);
    compilation->opLevel_ = module.op.get().clone();
    compilation->kernelLevel_ = module.op.get().clone();
    if (Failure failure = module.isText ? compilation->verifyText() : Failure::none();
        failure.failed()) {
      return failure;
    }
    if (Failure failure = compilation->dump_.open(compilation->settings_.dump); failure.failed()) {
      return failure;
    }
    if (compilation->dump_.isOpen()) {
      compilation->dump_.write("captured.mlir",
                               printModule(*compilation->opLevel_, SL_PRINT_LOCATIONS));
    }
    Failure failure = compilation->lower(module, options, targetOptions(*target, options));
    if (failure.kind == ErrorKind::internal) {
      return compilation->withIr(std::move(failure));
    }
    if (failure.failed()) {
      return failure;
    }
  }
  compilation->logRoutes();
  if (!options.emitOnly) {
    if (Failure failure = compilation->load(options); failure.failed()) {
      return failure;
    }
  }
  if (Failure failure = compilation->dump_.finish(); failure.failed()) {
    return failure;
  }
  *out = std::move(compilation);
  return Failure::none();
}

void Compilation::logRoutes() const {
  if (!settings_.log.route) {
    return;
  }
  llvm::Expected<llvm::json::Value> facts = llvm::json::parse(emitted_.explain);
  if (!facts) {
    llvm::consumeError(facts.takeError());
    return;
  }
  const llvm::json::Object* object = facts->getAsObject();
  const llvm::json::Array* statements =
      object != nullptr ? object->getArray("statements") : nullptr;
  for (const llvm::json::Value& value : statements != nullptr ? *statements : llvm::json::Array()) {
    const llvm::json::Object& statement = *value.getAsObject();
    const auto text = [&](const char* key) { return statement.getString(key).value_or("").str(); };
    const std::string source = text("source"), why = text("why");
    logLine("route", text("phase") + " " + text("op") +
                         (source.empty() ? "" : " [" + source + "]") + " -> " + text("backend") +
                         " " + text("kernel") + (why.empty() ? "" : ": " + why));
  }
}

Failure Compilation::verifyText() const {
  DiagnosticLog log(&context_->context);
  if (failed(context_->stages.verifyText(*opLevel_))) {
    return log.failure(ErrorKind::user, "the module is not what can be compiled");
  }
  return Failure::none();
}

Failure Compilation::lower(const Module& module, const CompileOptions& options,
                           TargetOptions target) {
  if (Failure failure = plan(target); failure.failed()) {
    return failure;
  }
  const double estimatedUs =
      options.team > options.threads ? context_->stages.estimatedUs(*kernelLevel_) : 0;
  if (options.team > options.threads && estimatedUs > options.teamFromUs) {
    // Each thread gets at least half of what makes a team worth while.
    const double most = std::min<double>(estimatedUs / (options.teamFromUs / 2), options.team);
    target.threads = std::max({static_cast<int>(most), options.threads + 1, 2});
    kernelLevel_ = module.op.get().clone();
    dump_.goBack(1);  // what was captured stays
    if (Failure failure = plan(target); failure.failed()) {
      return failure;
    }
  }
  return emit(target);
}

Failure Compilation::plan(const TargetOptions& machine) {
  const Stopwatch watch(&seconds_.passes);
  TargetOptions target = machine;
  if (dump_.isOpen()) {
    target.afterGroup = [this](llvm::StringRef group, mlir::ModuleOp module) {
      dump_.write(group.str() + ".mlir", printModule(module, SL_PRINT_LOCATIONS));
    };
  }
  if (links_ || recordsPasses_) {
    numberOps(*kernelLevel_);
    lost_.clear();
  }
  context_->stages.setTarget(*kernelLevel_, target);
  mlir::PassManager manager(&context_->context);
  if (Failure failure = context_->stages.buildPipeline(manager, *kernelLevel_, target, &routes_);
      failure.failed()) {
    return failure;
  }
  if (settings_.log.passes) {
    manager.addInstrumentation(makePassLog());
  }
  if (links_) {
    manager.addInstrumentation(watchNumbers(&lost_));
  }
  if (recordsPasses_) {
    passTexts_ = textBeforePasses(*kernelLevel_);
    manager.addInstrumentation(recordTexts(&passTexts_));
  }
  return guarded([&](DiagnosticLog& log) {
    return failed(manager.run(*kernelLevel_)) ? log.failure(ErrorKind::internal, "a pass failed")
                                              : Failure::none();
  });
}

Failure Compilation::emit(const TargetOptions& target) {
  const Stopwatch watch(&seconds_.emission);
  return guarded([&](DiagnosticLog& log) {
    Failure failure = context_->stages.emit(*kernelLevel_, target, &emitted_);
    if (failure.kind == ErrorKind::internal) {
      failure = log.failure(ErrorKind::internal, failure.message);
    }
    dump_.write("program.cpp", emitted_.listing);
    dump_.write("explain.json", emitted_.explain + "\n");
    return failure;
  });
}

Failure Compilation::guarded(const std::function<Failure(DiagnosticLog&)>& body) {
  DiagnosticLog log(&context_->context);
  Failure failure;
  std::string fatal;
  if (jit::runGuarded([&] { failure = body(log); }, &fatal)) {
    return failure;
  }
  // A fatal error interrupted a change of the module: it is neither printed nor destroyed, and
  // neither is its context.
  kernelLevel_.release();
  new std::shared_ptr<ModuleContext>(context_);
  failure = Failure::internal("the compiler gave up: " + jit::firstLine(fatal));
  failure.details = fatal + "\n" + log.text();
  return failure;
}

std::string Compilation::links() const {
  if (!links_) {
    return "";
  }
  const std::lock_guard<std::mutex> lock(context_->mutex);
  return linksJson(*opLevel_, *kernelLevel_, lost_);
}

std::string Compilation::passes() const {
  return recordsPasses_ ? passesJson(passTexts_) : std::string();
}

std::string Compilation::explain() const {
  if (!llvm::StringRef(emitted_.explain).ends_with("}")) {
    return emitted_.explain;
  }
  llvm::json::Object seconds{{"passes", seconds_.passes}, {"emission", seconds_.emission},
                             {"units", seconds_.units},   {"clang", seconds_.clang},
                             {"link", seconds_.link},     {"load", seconds_.load}};
  std::string text =
      emitted_.explain.substr(0, emitted_.explain.size() - 1) + ",\"compile_seconds\":";
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(seconds))
                                 << ",\"routes\":" << llvm::json::Value(llvm::json::Array(routes_))
                                 << "}";
  return text;
}

Failure Compilation::withIr(Failure failure) const {
  const unsigned flags = SL_PRINT_LOCATIONS | SL_PRINT_GENERIC;
  const std::string said =
      jit::asComments(failure.message + (failure.details.empty() ? "" : "\n" + failure.details));
  failure.message += "; the module is kept in " +
                     jit::keepText("op", ".mlir", said + printModule(*opLevel_, flags));
  if (kernelLevel_) {
    failure.message += " and as far as the passes came in " +
                       jit::keepText("failed", ".mlir", printModule(*kernelLevel_, flags));
  }
  return failure;
}

Failure Compilation::load(const CompileOptions& options) {
  jit::ObjectCache none("", 0);
  jit::ObjectCache& cache = options.useCache ? jit::ObjectCache::process() : none;
  const std::vector<jit::Unit> units = together(emitted_.units, options.internal.kernelsPerUnit);
  if (options.progress != nullptr) {
    const size_t count = units.size() + emitted_.deviceUnits.size();
    __atomic_store_n(&options.progress->units, static_cast<int32_t>(count), __ATOMIC_RELAXED);
  }
  report(options.progress, SL_STAGE_UNITS);
  jit::CompileOptions forUnits;
  forUnits.cpu = options.cpu;
  forUnits.cache = &cache;
  forUnits.stop = options.progress != nullptr ? &options.progress->stop : nullptr;
  forUnits.onUnit = [this, progress = options.progress, usesCache = options.useCache](
                        const jit::UnitReport& unit) { reportUnit(unit, progress, usesCache); };
  auto code = std::make_unique<LoadedCode>();
  const jit::CacheCounts before = cache.counts();
  Failure failure = compileUnits(units, std::move(forUnits), cache, code.get());
  if (settings_.log.cache) {
    logCache(cache, before, notes_);
  }
  return failure.failed() ? failure : createProgram(options.device, std::move(code));
}

void Compilation::reportUnit(const jit::UnitReport& unit, sl_progress* progress,
                             bool usesCache) const {
  if (progress != nullptr) {
    __atomic_fetch_add(&progress->units_done, 1, __ATOMIC_RELAXED);
  }
  if (settings_.log.codegen) {
    logLine("codegen", unit.name + ": " + milliseconds(unit.milliseconds) +
                           (!unit.ok        ? ", does not compile"
                            : unit.cached   ? ", from the cache"
                            : unit.runsOnce ? ", compiled for one run"
                                            : ", compiled"));
  }
  if (settings_.log.cache && usesCache) {
    logLine("cache", std::string(unit.cached ? "hit " : "miss ") + unit.name + " " + unit.key);
  }
}

Failure Compilation::compileUnits(const std::vector<jit::Unit>& units, jit::CompileOptions options,
                                  jit::ObjectCache& cache, LoadedCode* code) {
  jit::CompileError error;
  const auto device = std::make_unique<DeviceCompilation>(emitted_, options, code);
  double waited = 0;
  options.resolver = [&](const std::string& name) -> void* {
    auto image = device->finish(&waited).find(name);
    return image != code->images.end() ? &image->second : sl_symbol(name.c_str());
  };
  code->host = jit::compileProgram(units, {emitted_.symbol}, options, &error);
  double ended = 0;
  device->finish(&ended);
  notes_ = code->host ? code->host->notes : std::vector<std::string>();
  // compiling for the device may have taken longer
  for (std::string& note : cache.takeNotes()) {
    notes_.push_back(std::move(note));
  }
  // the host's link then lacks what the device's part should have given
  if (device->failed()) {
    return {kindOf(device->error().kind), device->error().message};
  }
  if (!code->host) {
    return {kindOf(error.kind), error.message};
  }
  compiled_ += code->host->compiled + (code->device ? code->device->compiled : 0);
  cached_ += code->host->cached + (code->device ? code->device->cached : 0);
  seconds_.units += std::max(device->seconds(), code->host->unitsSeconds);
  seconds_.clang += code->host->clangSeconds;
  seconds_.link = std::max(0.0, code->host->linkSeconds - waited);
  return Failure::none();
}

Failure Compilation::createProgram(int32_t device, std::unique_ptr<LoadedCode> code) {
  const Stopwatch watch(&seconds_.load);
  std::string message;
  const auto* description =
      static_cast<const sl_program_desc*>(code->host->code->lookup(emitted_.symbol, &message));
  if (description == nullptr) {
    return Failure::internal("emitted program has no " + emitted_.symbol + ": " + message);
  }
  sl_message text;
  text.text[0] = '\0';
  if (sl_program_create_on(description, device, releaseCode, code.get(), &program_, &text) !=
      SL_OK) {
    program_ = nullptr;
    return Failure::internal(std::string("the runtime refuses the emitted program: ") + text.text);
  }
  if (code->device) {
    for (const auto& [unit, image] : code->device->images) {
      images_.emplace_back(image);
    }
  }
  [[maybe_unused]] const LoadedCode* ofProgram = code.release();  // owned by it from now on
  return Failure::none();
}

Failure Compilation::codeObjects(jit::CodeRequest* request,
                                 std::map<std::string, std::string>* images, int32_t* compiler,
                                 std::vector<std::string>* arguments) const {
  jit::ObjectCache none("", 0);
  jit::CompileOptions options;
  options.cpu = cpu_;
  options.cache = usesCache_ ? &jit::ObjectCache::process() : &none;
  jit::CompileError error;
  request->program = emitted_.symbol;
  if (!jit::compileObjects(together(emitted_.units, kernelsPerUnit_), options, &request->objects,
                           &error)) {
    return {kindOf(error.kind), error.message};
  }
  *compiler = 0;
  if (!emitted_.deviceUnits.empty()) {
    const std::unique_ptr<jit::DeviceProgram> device =
        compileDeviceUnits(emitted_, options, &error);
    if (!device) {
      return {kindOf(error.kind), error.message};
    }
    for (const auto& [unit, image] : device->images) {
      images->emplace(unit, image);
    }
    *compiler = device->compiler;
    for (const auto& [kernel, unit] : emitted_.unitOfDeviceKernel) {
      request->images[kernel + "_image"] = unit;
    }
  }
  *arguments = jit::clangArguments({*jit::targetNamed(cpu_), false, {}});
  std::string message;
  bool made = false;
  const bool survived =
      jit::runGuarded([&] { made = jit::addCodeTable(request, *arguments, &message); }, &message);
  if (!survived || !made) {
    return Failure::internal("the program's code has no table: " + message);
  }
  return Failure::none();
}

Failure Compilation::linkCode(std::string* library, std::map<std::string, std::string>* images,
                              int32_t* compiler) const {
  jit::CodeRequest request;
  std::vector<std::string> arguments;
  if (Failure failure = codeObjects(&request, images, compiler, &arguments); failure.failed()) {
    return failure;
  }
  std::string message;
  bool linked = false;
  const bool survived = jit::runGuarded(
      [&] { linked = jit::linkSharedObject(request, library, &message); }, &message);
  if (!survived || !linked) {
    return Failure::internal("the program's code does not link: " + message);
  }
  return Failure::none();
}

Failure Compilation::deviceText(std::map<std::string, std::string>* images,
                                int32_t* compiler) const {
  llvm::StringRef number(emitted_.deviceArch);
  if (!number.consume_front("sm_") || number.empty() || !llvm::isDigit(number.back())) {
    return Failure::user("the program is for " +
                         (emitted_.deviceArch.empty() ? "no device" : emitted_.deviceArch) +
                         ": PTX is made of one for an architecture without a suffix");
  }
  jit::ObjectCache none("", 0);
  jit::CompileOptions options;
  options.cache = usesCache_ ? &jit::ObjectCache::process() : &none;
  jit::CompileError error;
  const std::unique_ptr<jit::DeviceProgram> device =
      jit::compileForDevice(emitted_.deviceUnits, "compute_" + number.str(), options, &error);
  if (!device) {
    return {kindOf(error.kind), error.message};
  }
  images->insert(device->images.begin(), device->images.end());
  *compiler = device->compiler;
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
