// SPDX-License-Identifier: Apache-2.0
// The embedded headers, parsed once: most of a small unit's time in clang would go into parsing
// them. Kept in memory for the life of the process, one for each list of compiler arguments, and in
// the cache of objects, whose keys hold the headers, the arguments and the compiler's version and
// whose entries carry a checksum.
#ifndef STRAIGHTLINE_CODEGEN_JIT_PRECOMPILED_HEADERS_H
#define STRAIGHTLINE_CODEGEN_JIT_PRECOMPILED_HEADERS_H

#include <memory>
#include <string>
#include <vector>

#include "codegen/jit/object_cache.h"

namespace straightline::jit {

/// Serialised syntax trees, as `clang -include-pch` takes them.
using PrecompiledHeaders = std::shared_ptr<const std::string>;

/// What was built for these arguments of clangArguments() by this process, or by one that left it
/// in the cache; null when nothing was. Thread-safe, as is the other one.
PrecompiledHeaders findPrecompiledHeaders(const std::vector<std::string>& arguments,
                                          ObjectCache& cache);

/// The same, built and stored when there is none yet (some 0.1 s). Null when clang refuses; units
/// then parse the headers themselves.
PrecompiledHeaders buildPrecompiledHeaders(const std::vector<std::string>& arguments,
                                           ObjectCache& cache);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_PRECOMPILED_HEADERS_H
