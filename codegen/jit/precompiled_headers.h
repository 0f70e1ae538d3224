// SPDX-License-Identifier: Apache-2.0
// The embedded headers, parsed once: most of a small unit's time in clang would go into parsing
// them. Kept in memory for the life of the process, one for each list of compiler arguments; never
// on disk, so that nothing can be stale or damaged.
#ifndef STRAIGHTLINE_CODEGEN_JIT_PRECOMPILED_HEADERS_H
#define STRAIGHTLINE_CODEGEN_JIT_PRECOMPILED_HEADERS_H

#include <memory>
#include <string>
#include <vector>

namespace straightline::jit {

/// Serialised syntax trees, as `clang -include-pch` takes them.
using PrecompiledHeaders = std::shared_ptr<const std::string>;

/// What was built for these arguments of clangArguments(); null when nothing was. Thread-safe, as
/// is the other one.
PrecompiledHeaders findPrecompiledHeaders(const std::vector<std::string>& arguments);

/// The same, built when there is none yet (some 0.1 s). Null when clang refuses; units then parse
/// the headers themselves.
PrecompiledHeaders buildPrecompiledHeaders(const std::vector<std::string>& arguments);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_PRECOMPILED_HEADERS_H
