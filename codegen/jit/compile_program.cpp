// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/compile_program.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/fatal_guard.h"

namespace straightline::jit {
namespace {

struct UnitResult {
  bool ok = false;
  bool cached = false;
  std::string key;
  std::string object;
  std::string diagnostics;
};

UnitResult compileUnit(const Unit& unit, const std::vector<std::string>& arguments, ObjectCache& cache) {
  UnitResult result;
  result.key = ObjectCache::key(unit.text, arguments);
  if (std::optional<std::string> object = cache.load(result.key)) {
    result.ok = true;
    result.cached = true;
    result.object = std::move(*object);
    return result;
  }
  ClangOutput output;
  std::string fatal;
  if (!runGuarded([&] { output = compileToObject(unit.name, unit.text, arguments); }, &fatal)) {
    result.diagnostics = "the compiler gave up: " + fatal;
    return result;
  }
  result.ok = output.ok;
  result.diagnostics = std::move(output.diagnostics);
  if (output.ok) {
    cache.store(result.key, output.object);
    result.object = std::move(output.object);
  }
  return result;
}

bool stopped(const CompileOptions& options) {
  return options.stop != nullptr && __atomic_load_n(options.stop, __ATOMIC_RELAXED) != 0;
}

/// Takes units one after the other until none is left, or all is to stop; the calling thread works too.
std::vector<UnitResult> compileUnits(const std::vector<Unit>& units,
                                     const std::vector<std::string>& arguments, ObjectCache& cache,
                                     unsigned threads, const CompileOptions& options) {
  std::vector<UnitResult> results(units.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < units.size() && !stopped(options); i = next++) {
      const auto begin = std::chrono::steady_clock::now();
      results[i] = compileUnit(units[i], arguments, cache);
      if (options.onUnit) {
        const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
        options.onUnit({units[i].name, results[i].key, passed.count(), results[i].cached, results[i].ok});
      }
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min<std::size_t>(threads, units.size());
  for (std::size_t i = 1; i < wanted; ++i) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no thread to be had: the others do the work
    }
  }
  work();
  for (std::thread& helper : helpers) {
    helper.join();
  }
  return results;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::unique_ptr<CompiledProgram> fail(CompileError* error, CompileError::Kind kind, std::string message) {
  error->kind = kind;
  error->message = std::move(message);
  return nullptr;
}

}  // namespace

std::string keepText(const std::string& stem, const std::string& suffix, const std::string& text) {
  const char* chosen = std::getenv("STRAIGHTLINE_DUMP");
  std::error_code error;
  const std::filesystem::path folder = chosen != nullptr && chosen[0] != '\0'
                                           ? std::filesystem::path(chosen)
                                           : std::filesystem::temp_directory_path(error);
  std::filesystem::create_directories(folder, error);
  std::string safe = stem;
  std::replace(safe.begin(), safe.end(), '/', '_');
  std::string path = (folder / ("straightline-" + safe + "-XXXXXX" + suffix)).string();
  const int descriptor = ::mkstemps(path.data(), static_cast<int>(suffix.size()));
  if (descriptor < 0) {
    return "(text not kept: cannot write in " + folder.string() + ": " + std::strerror(errno) + ")";
  }
  std::FILE* file = ::fdopen(descriptor, "w");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) {
    return "(text not kept: cannot write " + path + ": " + std::strerror(errno) + ")";
  }
  return path;
}

std::unique_ptr<CompiledProgram> compileProgram(const std::vector<Unit>& units,
                                                const std::vector<std::string>& symbols,
                                                const CompileOptions& options, CompileError* error) {
  const std::optional<Target> target = targetNamed(options.cpu);
  if (!target) {
    return fail(error, CompileError::Kind::user, "unknown target cpu '" + options.cpu + "'");
  }
  const std::vector<std::string> missing = featuresMissingHere(*target);
  if (!missing.empty()) {
    return fail(error, CompileError::Kind::unsupported,
                "target cpu " + target->cpu + " needs " + join(missing) + ", which this machine (" +
                    hostTarget().cpu + ") lacks");
  }
  const std::vector<std::string> arguments =
      clangArguments({*target, debuggerHookWanted(), options.clangExtra});
  ObjectCache& cache = options.cache != nullptr ? *options.cache : ObjectCache::process();
  const unsigned threads =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<UnitResult> results = compileUnits(units, arguments, cache, threads, options);
  if (stopped(options)) {
    return fail(error, CompileError::Kind::user, "the compilation was asked to stop");
  }

  auto program = std::make_unique<CompiledProgram>();
  program->notes = cache.takeNotes();
  std::vector<Object> objects;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!results[i].ok) {
      return fail(error, CompileError::Kind::internal,
                  "emitted unit " + units[i].name + " does not compile; its text is kept in " +
                      keepText(units[i].name, ".cpp", units[i].text) + "\n" + results[i].diagnostics);
    }
    ++(results[i].cached ? program->cached : program->compiled);
    objects.push_back({units[i].name, std::move(results[i].object)});
  }
  std::string message;
  const bool survived = runGuarded(
      [&] { program->code = linkProgram(std::move(objects), options.resolver, symbols, &message); }, &message);
  if (!survived || !program->code) {
    return fail(error, CompileError::Kind::internal, "emitted units do not link: " + message);
  }
  return program;
}

}  // namespace straightline::jit
