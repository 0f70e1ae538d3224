// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/precompiled_headers.h"

#include <deque>
#include <mutex>

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

}  // namespace

PrecompiledHeaders findPrecompiledHeaders(const std::vector<std::string>& arguments) {
  Table& all = table();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Entry* entry = all.find(arguments);
  return entry != nullptr ? entry->headers : nullptr;
}

PrecompiledHeaders buildPrecompiledHeaders(const std::vector<std::string>& arguments) {
  Table& all = table();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const Entry* entry = all.find(arguments)) {
      return entry->headers;
    }
  }
  // Without the lock: others go on without the headers meanwhile, and two that build both come to
  // the same.
  ClangOutput output;
  std::string fatal;
  const bool survived = runGuarded([&] { output = compileHeaders(arguments); }, &fatal);
  PrecompiledHeaders headers = survived && output.ok
                                   ? std::make_shared<const std::string>(std::move(output.object))
                                   : nullptr;
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

}  // namespace straightline::jit
