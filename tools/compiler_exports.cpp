// SPDX-License-Identifier: Apache-2.0
// The functions of compiler_abi.h, the C boundary: each turns C arguments into C++ ones, calls one
// function, and hands texts back. No exception and no fatal error of LLVM leaves it.
#include "tools/compiler_abi.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/disassembler.h"
#include "codegen/jit/fatal_guard.h"
#include "codegen/jit/object_cache.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "passes/kernel_facts.h"
#include "tools/compilation.h"
#include "tools/module_builder.h"
#include "tools/module_context.h"
#include "tools/module_parameters.h"
#include "tools/pipeline_options.h"
#include "tools/route_rules.h"
#include "tools/target_facts.h"
#include "tools/timing.h"

using straightline::Compilation;
using straightline::ErrorKind;
using straightline::Failure;
using straightline::Module;
using straightline::ModuleBuilder;
using straightline::SourceLocation;

struct sl_text {
  std::string text;
};
struct sl_module {
  std::unique_ptr<Module> module;
};
struct sl_builder {
  explicit sl_builder(const straightline::Stages& stages) : builder(stages) {}
  ModuleBuilder builder;
  bool forUser = false;  ///< its calls are a user's: mistakes are user errors
};
struct sl_compilation {
  std::unique_ptr<Compilation> compilation;
};
struct sl_linked {
  std::string code;
  std::map<std::string, std::string> images;
  int32_t compiler = 0;
};
struct sl_library {
  std::string name;
  std::vector<straightline::jit::CodeRequest> codes;
  std::vector<std::string> arguments;  ///< clang's, of the first code
};
struct sl_route_table {
  straightline::ModuleContext context{straightline::productStages()};
  std::vector<straightline::Route> routes;
};
struct sl_timing {
  std::unique_ptr<straightline::Timing> timing;
};

namespace {

sl_text* makeText(std::string text) { return new sl_text{std::move(text)}; }

llvm::StringRef viewOf(const char* text) {
  return text == nullptr ? llvm::StringRef() : llvm::StringRef(text);
}

template <typename T>
llvm::ArrayRef<T> listOf(const T* data, int32_t count) {
  return data == nullptr || count <= 0 ? llvm::ArrayRef<T>() : llvm::ArrayRef<T>(data, count);
}

SourceLocation locationOf(const sl_location* location) {
  if (location == nullptr) {
    return {};
  }
  return {viewOf(location->module), viewOf(location->file), location->line,
          viewOf(location->overload)};
}

/// Whether clang may make code of C++ without intrinsics for a feature that the runtime has no test
/// for. Those of other families (cache control, cryptography, tuning) it never does.
bool mayEmit(llvm::StringRef feature) {
  static constexpr llvm::StringRef intrinsicsOnly[] = {
      "avx512vp2intersect", "avxifma", "avxneconvert", "avxvnniint16", "avxvnniint8"};
  const bool family = feature.starts_with("avx") || feature.starts_with("apx") ||
                      feature == "egpr" || feature == "ndd";
  return family && !llvm::is_contained(intrinsicsOnly, feature);
}

/// Runs `work` (returns a Failure) so that nothing escapes, and hands its message out.
template <typename Work>
int32_t guarded(sl_text** error, const Work& work) {
  Failure failure;
  std::string fatal;
  if (!straightline::jit::runGuarded([&] { failure = work(); }, &fatal)) {
    failure = Failure::internal("the compiler gave up: " + fatal);
  }
  if (failure.failed()) {
    *error = makeText(std::move(failure.message));
  }
  return static_cast<int32_t>(failure.kind);
}

/// The same for a call of a builder: what our front ends must not do is a bug, a user may get it
/// wrong.
template <typename Work>
int32_t guardedBuild(const sl_builder* builder, sl_text** error, const Work& work) {
  return guarded(error, [&] {
    Failure failure = work();
    if (builder->forUser && failure.kind == ErrorKind::internal) {
      failure.kind = ErrorKind::user;
    }
    return failure;
  });
}

}  // namespace

const char* sl_text_data(const sl_text* text) { return text->text.c_str(); }
size_t sl_text_size(const sl_text* text) { return text->text.size(); }
void sl_text_release(sl_text* text) { delete text; }

const char* sl_compiler_version(void) {
  static const std::string version = std::string("straightline ") + SL_VERSION + ", LLVM " +
                                     LLVM_VERSION_STRING + ", host cpu " +
                                     straightline::jit::hostTarget().cpu;
  return version.c_str();
}

int32_t sl_target_facts(const char* target, sl_text** out, sl_text** error) {
  return guarded(error, [&] {
    std::string facts;
    Failure failure = straightline::targetFacts(viewOf(target).str(), &facts);
    if (!failure.failed()) {
      *out = makeText(std::move(facts));
    }
    return failure;
  });
}

int32_t sl_target_nearest_topk(const char* target, int64_t rows, int64_t count, int64_t k,
                               int64_t element_bytes, sl_text** out, sl_text** error) {
  return guarded(error, [&] {
    std::string nearest;
    Failure failure =
        straightline::nearestTopk(viewOf(target).str(), {rows, count, k, element_bytes}, &nearest);
    if (!failure.failed()) {
      *out = makeText(std::move(nearest));
    }
    return failure;
  });
}

int32_t sl_module_parse(const char* text, size_t bytes, const char* name, sl_module** out,
                        sl_text** error) {
  return guarded(error, [&] {
    auto module = std::make_unique<sl_module>();
    Failure failure =
        straightline::parseModule(straightline::productStages(), std::string_view(text, bytes),
                                  viewOf(name).str(), &module->module);
    if (!failure.failed()) {
      *out = module.release();
    }
    return failure;
  });
}

sl_text* sl_module_print(const sl_module* module, uint32_t flags) {
  return makeText(straightline::printModule(module->module->op.get(), flags));
}

sl_text* sl_module_parameters(const sl_module* module) {
  return makeText(straightline::moduleParameters(module->module->op.get()));
}

sl_text* sl_module_parameter_name(const sl_module* module, int32_t i) {
  const std::vector<std::string> names =
      straightline::moduleParameterNames(module->module->op.get());
  return i >= 0 && static_cast<size_t>(i) < names.size() ? makeText(names[static_cast<size_t>(i)])
                                                         : nullptr;
}

int32_t sl_module_with_sizes(const sl_module* module, const char* const* sizes, int32_t count,
                             sl_module** out, sl_text** error) {
  return guarded(error, [&] {
    auto copy = std::make_unique<sl_module>();
    const llvm::ArrayRef<const char*> given = listOf(sizes, count);
    Failure failure =
        straightline::withSizes(*module->module, {given.begin(), given.end()}, &copy->module);
    if (!failure.failed()) {
      *out = copy.release();
    }
    return failure;
  });
}

void sl_module_release(sl_module* module) { delete module; }

sl_builder* sl_builder_create(void) { return new sl_builder(straightline::productStages()); }
void sl_builder_release(sl_builder* builder) { delete builder; }
void sl_builder_set_user(sl_builder* builder) { builder->forUser = true; }

int32_t sl_builder_symbol(sl_builder* builder, const char* name, int64_t min, int64_t max,
                          sl_text** error) {
  return guardedBuild(builder, error,
                      [&] { return builder->builder.symbol(viewOf(name), min, max); });
}

int32_t sl_builder_begin_function(sl_builder* builder, const char* name,
                                  const char* const* argument_names,
                                  const char* const* argument_types, int32_t count, int32_t* values,
                                  sl_text** error) {
  return guardedBuild(builder, error, [&] {
    return builder->builder.beginFunction(viewOf(name), listOf(argument_names, count),
                                          listOf(argument_types, count), values);
  });
}

int32_t sl_builder_attribute(sl_builder* builder, const char* name, const char* text,
                             sl_text** error) {
  return guardedBuild(builder, error,
                      [&] { return builder->builder.attribute(viewOf(name), viewOf(text)); });
}

int32_t sl_builder_attribute_string(sl_builder* builder, const char* name, const char* value,
                                    size_t bytes, sl_text** error) {
  return guardedBuild(builder, error, [&] {
    return builder->builder.attributeString(viewOf(name), llvm::StringRef(value, bytes));
  });
}

int32_t sl_builder_attribute_dense(sl_builder* builder, const char* name, const char* type,
                                   const void* data, size_t bytes, sl_text** error) {
  return guardedBuild(builder, error, [&] {
    return builder->builder.attributeDense(
        viewOf(name), viewOf(type), llvm::ArrayRef<char>(static_cast<const char*>(data), bytes));
  });
}

int32_t sl_builder_op(sl_builder* builder, const char* name, const int32_t* operands,
                      int32_t operand_count, const char* const* result_types, int32_t result_count,
                      const int32_t* segments, int32_t segment_count, int32_t regions,
                      const sl_location* location, int32_t* results, sl_text** error) {
  return guardedBuild(builder, error, [&] {
    return builder->builder.op(viewOf(name), listOf(operands, operand_count),
                               listOf(result_types, result_count), listOf(segments, segment_count),
                               segments != nullptr, regions, locationOf(location), results);
  });
}

int32_t sl_builder_begin_region(sl_builder* builder, const char* const* argument_types,
                                int32_t count, int32_t* values, sl_text** error) {
  return guardedBuild(builder, error, [&] {
    return builder->builder.beginRegion(listOf(argument_types, count), values);
  });
}

int32_t sl_builder_end_region(sl_builder* builder, const int32_t* yields, int32_t count,
                              const sl_location* location, sl_text** error) {
  return guardedBuild(builder, error, [&] {
    return builder->builder.endRegion(listOf(yields, count), locationOf(location));
  });
}

int32_t sl_builder_end_function(sl_builder* builder, const int32_t* values,
                                const char* const* names, const char* const* ties, int32_t count,
                                sl_text** error) {
  return guardedBuild(builder, error, [&] {
    llvm::SmallVector<straightline::FunctionResult> results;
    for (int32_t i = 0; i < count; ++i) {
      results.push_back(
          {values[i], viewOf(names[i]), ties == nullptr ? llvm::StringRef() : viewOf(ties[i])});
    }
    return builder->builder.endFunction(results);
  });
}

int32_t sl_builder_finish(sl_builder* builder, sl_module** out, sl_text** error) {
  return guardedBuild(builder, error, [&] {
    auto module = std::make_unique<sl_module>();
    Failure failure = builder->builder.finish(&module->module);
    if (!failure.failed()) {
      module->module->isText = builder->forUser;
      *out = module.release();
    }
    return failure;
  });
}

int32_t sl_compile_options_check(const sl_compile_options* options, sl_text** error) {
  return guarded(error, [&] {
    straightline::CompileOptions own;
    if (Failure failure = readCompileOptions(options, &own); failure.failed()) {
      return failure;
    }
    if (!straightline::jit::targetNamed(own.cpu)) {
      return Failure::user("unknown target cpu '" + own.cpu + "'");
    }
    if (Failure failure = straightline::checkTarget(own); failure.failed()) {
      return failure;
    }
    return straightline::checkRules(own);
  });
}

int32_t sl_compile(const sl_module* module, const sl_compile_options* options, sl_compilation** out,
                   sl_text** error) {
  return guarded(error, [&] {
    straightline::CompileOptions own;
    if (Failure failure = readCompileOptions(options, &own); failure.failed()) {
      return failure;
    }
    auto compilation = std::make_unique<sl_compilation>();
    Failure failure = Compilation::compile(*module->module, own, &compilation->compilation);
    if (!failure.failed()) {
      *out = compilation.release();
    }
    return failure;
  });
}

void sl_compilation_release(sl_compilation* compilation) { delete compilation; }

sl_program* sl_compilation_program(const sl_compilation* compilation) {
  sl_program* program = compilation->compilation->program();
  if (program != nullptr) {
    sl_program_retain(program);
  }
  return program;
}

sl_text* sl_compilation_code(const sl_compilation* compilation) {
  return makeText(compilation->compilation->emitted().listing);
}

sl_text* sl_compilation_python(const sl_compilation* compilation) {
  return makeText(compilation->compilation->emitted().python);
}

int32_t sl_compilation_ir(const sl_compilation* compilation, const char* level, uint32_t flags,
                          sl_text** out, sl_text** error) {
  return guarded(error, [&] {
    std::string text;
    Failure failure = compilation->compilation->ir(viewOf(level).str(), flags, &text);
    if (!failure.failed()) {
      *out = makeText(std::move(text));
    }
    return failure;
  });
}

int32_t sl_compilation_link(const sl_compilation* compilation, sl_linked** out, sl_text** error) {
  return guarded(error, [&] {
    auto linked = std::make_unique<sl_linked>();
    Failure failure =
        compilation->compilation->linkCode(&linked->code, &linked->images, &linked->compiler);
    if (!failure.failed()) {
      *out = linked.release();
    }
    return failure;
  });
}

int32_t sl_compilation_device_text(const sl_compilation* compilation, sl_linked** out,
                                   sl_text** error) {
  return guarded(error, [&] {
    auto linked = std::make_unique<sl_linked>();
    Failure failure = compilation->compilation->deviceText(&linked->images, &linked->compiler);
    if (!failure.failed()) {
      *out = linked.release();
    }
    return failure;
  });
}

void sl_linked_release(sl_linked* linked) { delete linked; }

void sl_linked_code(const sl_linked* linked, const void** data, size_t* bytes) {
  *data = linked->code.data();
  *bytes = linked->code.size();
}

int32_t sl_linked_image_count(const sl_linked* linked) {
  return static_cast<int32_t>(linked->images.size());
}

void sl_linked_image(const sl_linked* linked, int32_t i, const char** name, const void** data,
                     size_t* bytes) {
  const auto& [unit, image] = *std::next(linked->images.begin(), i);
  *name = unit.c_str();
  *data = image.data();
  *bytes = image.size();
}

int32_t sl_linked_image_compiler(const sl_linked* linked) { return linked->compiler; }

int32_t sl_disassemble(const void* code, size_t bytes, const char* function, sl_text** out,
                       sl_text** error) {
  return guarded(error, [&] {
    std::string text, message;
    const std::string elf(static_cast<const char*>(code), bytes);
    if (!straightline::jit::disassemble(elf, viewOf(function).str(), &text, &message)) {
      return Failure::user(message);
    }
    *out = makeText(std::move(text));
    return Failure::none();
  });
}

int32_t sl_library_create(const char* name, sl_library** out, sl_text** error) {
  return guarded(error, [&] {
    const llvm::StringRef text = viewOf(name);
    const bool isIdentifier =
        !text.empty() && !llvm::isDigit(text.front()) &&
        llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (!isIdentifier) {
      return Failure::user("the name '" + text.str() + "' is no identifier of C");
    }
    *out = new sl_library{text.str(), {}, {}};
    return Failure::none();
  });
}

void sl_library_release(sl_library* library) { delete library; }

int32_t sl_library_add(sl_library* library, const sl_compilation* compilation, sl_text** error) {
  return guarded(error, [&] {
    straightline::jit::CodeRequest request;
    std::map<std::string, std::string> images;
    int32_t compiler = 0;
    std::vector<std::string> arguments;
    Failure failure =
        compilation->compilation->codeObjects(&request, &images, &compiler, &arguments);
    if (!failure.failed()) {
      library->codes.push_back(std::move(request));
      library->arguments = library->arguments.empty() ? arguments : library->arguments;
    }
    return failure;
  });
}

int32_t sl_library_link(const sl_library* library, const void* artifact, size_t bytes,
                        int32_t archive, sl_linked** out, sl_text** error) {
  return guarded(error, [&] {
    using straightline::jit::LibraryKind;
    auto linked = std::make_unique<sl_linked>();
    std::string message;
    const std::string data(static_cast<const char*>(artifact), bytes);
    if (!straightline::jit::linkModel(library->name, library->codes, data,
                                      archive != 0 ? LibraryKind::archive : LibraryKind::shared,
                                      library->arguments, &linked->code, &message)) {
      return Failure::internal("the model's library does not link: " + message);
    }
    *out = linked.release();
    return Failure::none();
  });
}

int32_t sl_library_link_exported(const sl_library* library, const void* artifact, size_t bytes,
                                 const sl_exported_text* exported, sl_linked** out,
                                 sl_text** error) {
  return guarded(error, [&] {
    auto linked = std::make_unique<sl_linked>();
    std::string message;
    const std::string data(static_cast<const char*>(artifact), bytes);
    straightline::jit::ExportedText text;
    text.text = viewOf(exported->text).str();
    text.exports.assign(exported->exports, exported->exports + exported->export_count);
    text.runtime.assign(static_cast<const char*>(exported->runtime), exported->runtime_bytes);
    if (!straightline::jit::linkExportedModel(library->name, library->codes, data, text,
                                              library->arguments, &linked->code, &message)) {
      return Failure::internal("the model's library does not link: " + message);
    }
    *out = linked.release();
    return Failure::none();
  });
}

int32_t sl_link_text(const char* name, const char* text, const char* const* exports,
                     int32_t export_count, sl_linked** out, sl_text** error) {
  return guarded(error, [&] {
    auto linked = std::make_unique<sl_linked>();
    std::string message;
    if (!straightline::jit::linkText(viewOf(name).str(), viewOf(text).str(),
                                     {exports, exports + export_count}, &linked->code, &message)) {
      return Failure::internal("emitted text does not link: " + message);
    }
    *out = linked.release();
    return Failure::none();
  });
}

int32_t sl_cpu_features(const char* cpu, sl_text** out, sl_text** error) {
  return guarded(error, [&] {
    const std::optional<straightline::jit::Target> target =
        straightline::jit::targetNamed(viewOf(cpu).str());
    if (!target) {
      return Failure::user("unknown target cpu '" + viewOf(cpu).str() + "'");
    }
    std::string text;
    for (const std::string& feature : straightline::jit::neededFeatures(*target)) {
      if (sl_cpu_has(feature.c_str()) < 0) {
        if (mayEmit(feature)) {
          return Failure::unsupported("code for the cpu " + target->cpu + " may use " + feature +
                                      ", for which the runtime has no test");
        }
        continue;  // nothing that clang makes of C++ without intrinsics
      }
      text += (text.empty() ? "" : " ") + feature;
    }
    *out = makeText(target->cpu + " " + text);
    return Failure::none();
  });
}

sl_text* sl_compilation_links(const sl_compilation* compilation) {
  return makeText(compilation->compilation->links());
}

sl_text* sl_compilation_passes(const sl_compilation* compilation) {
  return makeText(compilation->compilation->passes());
}

sl_text* sl_compilation_explain(const sl_compilation* compilation) {
  return makeText(compilation->compilation->explain());
}

int32_t sl_compilation_unit_count(const sl_compilation* compilation) {
  return static_cast<int32_t>(compilation->compilation->emitted().units.size());
}

void sl_compilation_unit(const sl_compilation* compilation, int32_t i, const char** name,
                         const char** text) {
  const straightline::jit::Unit& unit = compilation->compilation->emitted().units.at(i);
  *name = unit.name.c_str();
  *text = unit.text.c_str();
}

int32_t sl_compilation_image_count(const sl_compilation* compilation) {
  return static_cast<int32_t>(compilation->compilation->images().size());
}

void sl_compilation_image(const sl_compilation* compilation, int32_t i, const void** data,
                          size_t* bytes) {
  const llvm::StringRef image = compilation->compilation->images().at(i);
  *data = image.data();
  *bytes = image.size();
}

void sl_compilation_counts(const sl_compilation* compilation, int32_t* compiled, int32_t* cached) {
  *compiled = static_cast<int32_t>(compilation->compilation->compiled());
  *cached = static_cast<int32_t>(compilation->compilation->cached());
}

sl_text* sl_compilation_notes(const sl_compilation* compilation) {
  std::string text;
  for (const std::string& note : compilation->compilation->notes()) {
    text += (text.empty() ? "" : "\n") + note;
  }
  return makeText(std::move(text));
}

int32_t sl_timing_create(sl_program* program, uint64_t seed, int32_t by_stream, sl_timing** out,
                         sl_text** error) {
  return guarded(error, [&] {
    auto timing = std::make_unique<sl_timing>();
    Failure failure = straightline::Timing::create(program, seed, by_stream != 0, &timing->timing);
    if (!failure.failed()) {
      *out = timing.release();
    }
    return failure;
  });
}

int32_t sl_timing_run(sl_timing* timing, double seconds, double* us, sl_text** error) {
  return guarded(error, [&] { return timing->timing->run(seconds, us); });
}

void sl_timing_release(sl_timing* timing) { delete timing; }

sl_text* sl_cache_directory(void) {
  const straightline::jit::ObjectCache& cache = straightline::jit::ObjectCache::process();
  return makeText(cache.capBytes() == 0 ? "" : cache.directory());
}

void sl_cache_inspect(sl_cache_info* info) {
  const straightline::jit::ObjectCache& cache = straightline::jit::ObjectCache::process();
  const straightline::jit::CacheCounts counts = cache.counts();
  const bool present = cache.capBytes() != 0 && !cache.directory().empty();
  sl_cache_info full{sizeof(sl_cache_info),
                     present ? cache.sizeBytes() : 0,
                     present ? cache.capBytes() : 0,
                     counts.hits,
                     counts.misses,
                     counts.damaged,
                     counts.stored,
                     counts.evicted};
  full.size = std::min<uint64_t>(info->size, sizeof(full));
  std::copy_n(reinterpret_cast<const char*>(&full), full.size, reinterpret_cast<char*>(info));
}

int32_t sl_route_table_create(const sl_compile_options* options, sl_route_table** out,
                              sl_text** error) {
  return guarded(error, [&] {
    straightline::CompileOptions own;
    if (Failure failure = readCompileOptions(options, &own); failure.failed()) {
      return failure;
    }
    auto table = std::make_unique<sl_route_table>();
    if (Failure failure = readRoutes(own, &table->context.context, &table->routes);
        failure.failed()) {
      return failure;
    }
    *out = table.release();
    return Failure::none();
  });
}

void sl_route_table_destroy(sl_route_table* table) { delete table; }

sl_text* sl_route_table_rules(const sl_route_table* table) {
  llvm::json::Array rules;
  for (const straightline::Route& route : table->routes) {
    rules.push_back(straightline::routeJson(route));
  }
  return makeText(llvm::formatv("{0}", llvm::json::Value(std::move(rules))).str());
}

int32_t sl_route_table_find(const sl_route_table* table, const char* op,
                            const sl_location* location) {
  auto* const context = const_cast<mlir::MLIRContext*>(&table->context.context);
  const SourceLocation place = locationOf(location);
  const straightline::Route* route = straightline::findRoute(table->routes, op, place.overload,
                                                             place.module, place.file, place.line);
  // FlagGems has ops of torch's, which need not be ops here.
  const bool isFound = route != nullptr && (route->targets.front() == straightline::kGemsRoute ||
                                            straightline::isRoutable(op, context));
  return isFound ? static_cast<int32_t>(route - table->routes.data()) : -1;
}

sl_text* sl_backends(int32_t probes) {
  const auto text = [](const char* value) { return llvm::json::fixUTF8(viewOf(value)); };
  llvm::json::Array rows;
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc& backend = *sl_backend_at(i);
    llvm::json::Array kernels;
    for (int32_t k = 0; k < backend.kernel_count; ++k) {
      const sl_kernel_desc& kernel = backend.kernels[k];
      kernels.push_back(llvm::json::Object{{"name", text(kernel.name)},
                                           {"op", text(kernel.op)},
                                           {"family", text(kernel.family)},
                                           {"summary", text(kernel.summary)}});
    }
    const sl_device_desc* device = backend.device;
    const char* missing = probes && backend.missing != nullptr ? backend.missing() : nullptr;
    if (probes && missing == nullptr && device != nullptr && device->missing != nullptr) {
      missing = device->missing(0);
    }
    rows.push_back(llvm::json::Object{
        {"name", text(backend.name)},
        {"version", text(probes && backend.version != nullptr ? backend.version() : nullptr)},
        {"file", text(sl_backend_file(backend.name))},
        {"runs_on", text(backend.runs_on)},
        {"space", text(device != nullptr ? device->space : nullptr)},
        {"emits", straightline::emitsKernels(backend.name)},
        {"missing", text(missing)},
        {"default_routes", text(backend.default_routes)},
        {"kernels", std::move(kernels)}});
  }
  return makeText(llvm::formatv("{0}", llvm::json::Value(std::move(rows))).str());
}

uint64_t sl_cache_clear(void) { return straightline::jit::ObjectCache::process().clear(); }
