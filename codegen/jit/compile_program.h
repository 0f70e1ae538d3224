// SPDX-License-Identifier: Apache-2.0
// Emitted units to running code: cache look-up, parallel compilation, link.
#ifndef STRAIGHTLINE_CODEGEN_JIT_COMPILE_PROGRAM_H
#define STRAIGHTLINE_CODEGEN_JIT_COMPILE_PROGRAM_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/jit/object_cache.h"
#include "codegen/jit/orc_linker.h"

namespace straightline::jit {

/// One translation unit of emitted text. `name` names it in diagnostics; it is unique within a
/// program.
struct Unit {
  std::string name;
  std::string text;
  /// its functions are called once: clang takes less time for it, at the cost of theirs
  bool runsOnce = false;
};

/// What became of one unit.
struct UnitReport {
  const std::string& name;
  bool runsOnce;
  const std::string& key;  ///< in the cache
  double milliseconds;
  bool cached;
  bool ok;
};

struct CompileOptions {
  /// "" or "host", else a CPU that LLVM knows ("x86-64-v3")
  std::string cpu;
  unsigned threads = 0;                 ///< 0: as many as the process may use
  std::vector<std::string> clangExtra;  ///< further `clang -cc1` arguments
  ObjectCache* cache = nullptr;         ///< null: ObjectCache::process()
  /// called after each unit, from any of the threads; may be empty
  std::function<void(const UnitReport&)> onUnit;
  /// nullable; nonzero, stored atomically by any thread: no further unit is compiled
  const int* stop = nullptr;
  /// extern "C" names outside the program (the runtime's sl_symbol)
  SymbolResolver resolver;
};

struct CompileError {
  enum class Kind { user, unsupported, internal };
  Kind kind = Kind::internal;
  std::string message;
};

struct CompiledProgram {
  std::unique_ptr<LinkedProgram> code;  ///< destroying it frees the code
  unsigned compiled = 0;                ///< units that clang compiled
  unsigned cached = 0;                  ///< units that came from the disk cache
  std::vector<std::string> notes;       ///< trouble with the cache, for a warning to the user
  double unitsSeconds = 0;              ///< until all objects were there
  double clangSeconds = 0;              ///< processor seconds in clang, all threads
  double linkSeconds = 0;
};

/// Compiles and links `units`; `symbols` are looked up in them at once, so that every unresolved
/// name is an error now. Null with `error` set otherwise. A unit that clang refuses is an internal
/// error: the message holds the diagnostics and names the file that keeps its text. Thread-safe.
std::unique_ptr<CompiledProgram> compileProgram(const std::vector<Unit>& units,
                                                const std::vector<std::string>& symbols,
                                                const CompileOptions& options, CompileError* error);

/// The objects of `units` for a CPU that need not be this machine's, from the cache or through
/// clang; those that run once stand last. False with `error` set otherwise, as compileProgram.
bool compileObjects(const std::vector<Unit>& units, const CompileOptions& options,
                    std::vector<Object>* objects, CompileError* error);

/// Writes `text` to a file of its own in $STRAIGHTLINE_DUMP, else in the temporary folder, for a
/// bug report. Returns its path, or a sentence saying why there is none.
std::string keepText(const std::string& stem, const std::string& suffix, const std::string& text);
/// Lines behind "// ", as they stand before a kept text.
std::string asComments(const std::string& text);
std::string firstLine(const std::string& text);
/// "emitted unit NAME does not compile: WHY; its text is kept in FILE", WHY being the first error
/// in what the compiler said, all of which is in the file.
std::string keptUnit(const Unit& unit, const std::string& suffix, const std::string& said);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_COMPILE_PROGRAM_H
