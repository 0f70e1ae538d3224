// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/precompiled_headers.h"

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/fatal_guard.h"

namespace straightline::jit {
namespace {

/// Processes that compile for more targets than this build some of them again.
constexpr std::size_t kKept = 4;

struct Entry {
  std::vector<std::string> arguments;
  PrecompiledHeaders headers;  ///< null: clang refused
};

struct Table {
  std::mutex mutex;
  std::deque<Entry> entries;  ///< oldest first

  const Entry* find(const std::vector<std::string>& arguments) const {
    for (const Entry& entry : entries) {
      if (entry.arguments == arguments) {
        return &entry;
      }
    }
    return nullptr;
  }
};

/// Never destroyed: compilations may run until the very end of the process.
Table& table() {
  static auto* all = new Table;
  return *all;
}

/// What another thread kept meanwhile comes first: two that build or read come to the same.
PrecompiledHeaders keep(const std::vector<std::string>& arguments, PrecompiledHeaders headers) {
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (const Entry* entry = all.find(arguments)) {
    return entry->headers;
  }
  all.entries.push_back({arguments, headers});
  if (all.entries.size() > kKept) {
    all.entries.pop_front();
  }
  return headers;
}

/// True where this process has built them or was refused.
bool inMemory(const std::vector<std::string>& arguments, PrecompiledHeaders* headers) {
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Entry* entry = all.find(arguments);
  if (entry != nullptr) {
    *headers = entry->headers;
  }
  return entry != nullptr;
}

std::string cacheKey(const std::vector<std::string>& arguments) {
  return ObjectCache::key("precompiled headers", arguments);
}

PrecompiledHeaders onDisk(const std::vector<std::string>& arguments, ObjectCache& cache) {
  std::optional<std::string> bytes = cache.loadUncounted(cacheKey(arguments));
  return bytes ? keep(arguments, std::make_shared<const std::string>(std::move(*bytes))) : nullptr;
}

}  // namespace

PrecompiledHeaders findPrecompiledHeaders(const std::vector<std::string>& arguments,
                                          ObjectCache& cache) {
  PrecompiledHeaders headers;
  return inMemory(arguments, &headers) ? headers : onDisk(arguments, cache);
}

PrecompiledHeaders buildPrecompiledHeaders(const std::vector<std::string>& arguments,
                                           ObjectCache& cache) {
  PrecompiledHeaders headers;
  if (inMemory(arguments, &headers)) {
    return headers;
  }
  if (PrecompiledHeaders stored = onDisk(arguments, cache)) {
    return stored;
  }
  // Without a lock: others go on without the headers meanwhile.
  ClangOutput output;
  std::string fatal;
  const bool survived = runGuarded([&] { output = compileHeaders(arguments); }, &fatal);
  if (survived && output.ok) {
    headers = std::make_shared<const std::string>(std::move(output.object));
    cache.storeUncounted(cacheKey(arguments), *headers);
  }
  return keep(arguments, headers);
}

}  // namespace straightline::jit
