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
#include <ctime>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/fatal_guard.h"
#include "codegen/jit/precompiled_headers.h"

namespace straightline::jit {
namespace {

using Clock = std::chrono::steady_clock;

/// From so many units on that clang has to compile, parsing the headers once for all of them pays.
constexpr std::size_t kWorthHeaders = 5;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Processor seconds of this thread.
double threadSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct UnitResult {
  bool ok = false;
  bool cached = false;
  double clangSeconds = 0;
  std::string key;
  std::string object;
  std::string diagnostics;
};

/// Looks for the unit in the cache.
bool findUnit(const Unit& unit, const std::vector<std::string>& arguments, ObjectCache& cache,
              UnitResult* result) {
  std::vector<std::string> asked = arguments;
  if (unit.runsOnce) {
    asked.emplace_back("runs once");
  }
  result->key = ObjectCache::key(unit.text, asked);
  if (std::optional<std::string> object = cache.load(result->key)) {
    result->ok = true;
    result->cached = true;
    result->object = std::move(*object);
  }
  return result->cached;
}

bool stopped(const CompileOptions& options) {
  return options.stop != nullptr && __atomic_load_n(options.stop, __ATOMIC_RELAXED) != 0;
}

/// Fails with headers and without them alike, so that the diagnostics are those of the text by
/// itself.
void compileUnit(const Unit& unit, const std::vector<std::string>& arguments,
                 const PrecompiledHeaders& headers, ObjectCache& cache, UnitResult* result) {
  const double begin = threadSeconds();
  ClangOutput output;
  std::string fatal;
  const auto compile = [&](const std::string* given) {
    return runGuarded(
        [&] { output = compileToObject(unit.name, unit.text, arguments, given, unit.runsOnce); },
        &fatal);
  };
  bool survived = compile(headers.get());
  if (headers && !(survived && output.ok)) {
    survived = compile(nullptr);
  }
  result->clangSeconds = threadSeconds() - begin;
  if (!survived) {
    result->diagnostics = "the compiler gave up: " + fatal;
    return;
  }
  result->ok = output.ok;
  result->diagnostics = std::move(output.diagnostics);
  if (output.ok) {
    cache.store(result->key, output.object);
    result->object = std::move(output.object);
  }
}

/// Calls work() in up to `threads` threads, this one among them.
void inThreads(std::size_t threads, const std::function<void()>& work) {
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < threads; ++i) {
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
}

/// Each from the cache or through clang. `headerSeconds`: what parsing the headers for all of them
/// took.
std::vector<UnitResult> compileUnits(const std::vector<Unit>& units,
                                     const std::vector<std::string>& arguments, ObjectCache& cache,
                                     unsigned threads, const CompileOptions& options,
                                     double* headerSeconds) {
  std::vector<UnitResult> results(units.size());
  const auto report = [&](std::size_t i, Clock::time_point begin) {
    if (options.onUnit) {
      options.onUnit({units[i].name, units[i].runsOnce, results[i].key, secondsSince(begin) * 1e3,
                      results[i].cached, results[i].ok});
    }
  };
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Clock::time_point begin = Clock::now();
    if (findUnit(units[i], arguments, cache, &results[i])) {
      report(i, begin);
    } else {
      missing.push_back(i);
    }
  }
  std::atomic<bool> buildsHeaders{missing.size() >= kWorthHeaders};
  std::atomic<std::size_t> next{0};
  inThreads(std::min<std::size_t>(threads, missing.size()), [&] {
    if (buildsHeaders.exchange(false)) {  // one thread does; the others begin without
      const double begin = threadSeconds();
      buildPrecompiledHeaders(arguments, cache);
      *headerSeconds = threadSeconds() - begin;
    }
    for (std::size_t at = next++; at < missing.size() && !stopped(options); at = next++) {
      const std::size_t i = missing[at];
      const Clock::time_point begin = Clock::now();
      compileUnit(units[i], arguments, findPrecompiledHeaders(arguments, cache), cache,
                  &results[i]);
      report(i, begin);
    }
  });
  return results;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::unique_ptr<CompiledProgram> fail(CompileError* error, CompileError::Kind kind,
                                      std::string message) {
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

std::string asComments(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    result += "// " + line + "\n";
  }
  return result;
}

std::string firstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string keptUnit(const Unit& unit, const std::string& suffix, const std::string& said) {
  std::string why = firstLine(said);
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error") != std::string::npos) {
      why = line;
      break;
    }
  }
  return "emitted unit " + unit.name + " does not compile: " + why + "; its text is kept in " +
         keepText(unit.name, suffix, unit.text + "\n" + asComments(said));
}

bool compileObjects(const std::vector<Unit>& units, const CompileOptions& options,
                    std::vector<Object>* objects, CompileError* error) {
  const std::optional<Target> target = targetNamed(options.cpu);
  if (!target) {
    fail(error, CompileError::Kind::user, "unknown target cpu '" + options.cpu + "'");
    return false;
  }
  const std::vector<std::string> arguments =
      clangArguments({*target, debuggerHookWanted(), options.clangExtra});
  ObjectCache& cache = options.cache != nullptr ? *options.cache : ObjectCache::process();
  const unsigned threads =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  double headerSeconds = 0;
  std::vector<UnitResult> results =
      compileUnits(units, arguments, cache, threads, options, &headerSeconds);
  if (stopped(options)) {
    fail(error, CompileError::Kind::user, "the compilation was asked to stop");
    return false;
  }
  for (const bool runsOnce : {false, true}) {
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (!results[i].ok) {
        fail(error, CompileError::Kind::internal,
             keptUnit(units[i], ".cpp", results[i].diagnostics));
        return false;
      }
      if (units[i].runsOnce == runsOnce) {
        objects->push_back({units[i].name, std::move(results[i].object)});
      }
    }
  }
  return true;
}

std::unique_ptr<CompiledProgram> compileProgram(const std::vector<Unit>& units,
                                                const std::vector<std::string>& symbols,
                                                const CompileOptions& options,
                                                CompileError* error) {
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
  const Clock::time_point begin = Clock::now();
  auto program = std::make_unique<CompiledProgram>();
  std::vector<UnitResult> results =
      compileUnits(units, arguments, cache, threads, options, &program->clangSeconds);
  if (stopped(options)) {
    return fail(error, CompileError::Kind::user, "the compilation was asked to stop");
  }
  program->unitsSeconds = secondsSince(begin);
  program->notes = cache.takeNotes();
  std::vector<Object> objects;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!results[i].ok) {
      return fail(error, CompileError::Kind::internal,
                  keptUnit(units[i], ".cpp", results[i].diagnostics));
    }
    ++(results[i].cached ? program->cached : program->compiled);
    program->clangSeconds += results[i].clangSeconds;
    objects.push_back({units[i].name, std::move(results[i].object)});
  }
  std::string message;
  const Clock::time_point linkBegin = Clock::now();
  const bool survived = runGuarded(
      [&] { program->code = linkProgram(std::move(objects), options.resolver, symbols, &message); },
      &message);
  if (!survived || !program->code) {
    return fail(error, CompileError::Kind::internal, "emitted units do not link: " + message);
  }
  program->linkSeconds = secondsSince(linkBegin);
  return program;
}

}  // namespace straightline::jit
