// SPDX-License-Identifier: Apache-2.0
// C++ text to object code in this process, through clang. The compiler sees an in-memory file
// system that holds the unit and our freestanding headers (<straightline/abi/...>,
// <straightline/kernels/...>) and nothing of the machine's disk. No LLVM type appears here, so that
// includers stay cheap to compile.
#ifndef STRAIGHTLINE_CODEGEN_JIT_CLANG_DRIVER_H
#define STRAIGHTLINE_CODEGEN_JIT_CLANG_DRIVER_H

#include <optional>
#include <string>
#include <vector>

namespace straightline::jit {

/// The CPU that code is made for. `features` as clang takes them ("+avx2", "-sse4a"), sorted.
struct Target {
  std::string triple;
  std::string cpu;
  std::vector<std::string> features;
};

/// The CPU of this process; detected once.
const Target& hostTarget();

/// "" and "host" give the host; otherwise a CPU or level that LLVM knows ("x86-64-v3", "znver4");
/// nullopt for others.
std::optional<Target> targetNamed(const std::string& cpu);

/// Whether the target's CPU has a feature, by LLVM's name ("avx512f").
bool hasFeature(const Target& target, const std::string& feature);
/// Whether a core begins two multiply-adds of 64 bytes in a cycle, as far as name and features
/// tell: Intel's server cores and Zen 5 do, others with AVX-512 begin one.
bool beginsTwoWideVectors(const Target& target);

/// Names of the features that code for the target may use, sorted.
std::vector<std::string> neededFeatures(const Target& target);
/// Features that `target` needs and this machine lacks ("avx512f"); empty when code for it can run
/// here.
std::vector<std::string> featuresMissingHere(const Target& target);

struct ClangOptions {
  Target target;
  bool lineTables = false;         ///< debug line tables, for gdb
  std::vector<std::string> extra;  ///< further `clang -cc1` arguments
};

/// Arguments for `clang -cc1`, in a fixed order, without the file: part of the cache key.
std::vector<std::string> clangArguments(const ClangOptions& options);

struct ClangOutput {
  bool ok = false;
  std::string object;       ///< ELF relocatable file, when ok
  std::string diagnostics;  ///< everything clang said, warnings included
};

/// Compiles one unit. Thread-safe: any number of concurrent calls. `name` appears in diagnostics
/// and debug information. `headers`: what compileHeaders made with the same arguments, which saves
/// parsing them; the object is the same. `runsOnce`: by -O1, which takes 0.55 to 0.7 times what -O3
/// does for a kernel that prepare starts.
ClangOutput compileToObject(const std::string& name, const std::string& text,
                            const std::vector<std::string>& arguments,
                            const std::string* headers = nullptr, bool runsOnce = false);

/// Parses all embedded headers except those of CUDA C++; the output's object is the `headers`
/// argument of the function above.
ClangOutput compileHeaders(std::vector<std::string> arguments);

/// clang's full version text: part of the cache key.
const std::string& compilerVersion();

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_CLANG_DRIVER_H
