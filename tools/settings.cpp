// SPDX-License-Identifier: Apache-2.0
#include "tools/settings.h"

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "codegen/jit/object_cache.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

/// Calls `take` for each word of a comma-separated list; it returns whether the word is known.
Failure readList(const char* variable, const char* valid,
                 const std::function<bool(llvm::StringRef)>& take) {
  const char* text = std::getenv(variable);
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(text == nullptr ? "" : text)
      .split(words, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    if (!take(word.trim())) {
      return Failure::user(std::string(variable) + " has '" + word.trim().str() + "'; valid are " +
                           valid + ", with commas between them");
    }
  }
  return Failure::none();
}

}  // namespace

Failure readSettings(Settings* settings) {
  LogTopics& log = settings->log;
  Failure failure =
      readList("STRAIGHTLINE_LOG", "route, passes, codegen, cache", [&](llvm::StringRef word) {
        bool* topic = word == "route"     ? &log.route
                      : word == "passes"  ? &log.passes
                      : word == "codegen" ? &log.codegen
                      : word == "cache"   ? &log.cache
                                          : nullptr;
        if (topic != nullptr) {
          *topic = true;
        }
        return topic != nullptr;
      });
  if (failure.failed()) {
    return failure;
  }
  if (const std::string trouble = jit::ObjectCache::environmentTrouble(); !trouble.empty()) {
    return Failure::user(trouble);
  }
  const char* sync = std::getenv("STRAIGHTLINE_SYNC");
  if (const llvm::StringRef waits(sync == nullptr ? "" : sync);
      !waits.empty() && waits != "0" && waits != "1") {
    return Failure::user("STRAIGHTLINE_SYNC is '" + waits.str() + "' but must be '0' or '1'");
  }
  if (const char* folder = std::getenv("STRAIGHTLINE_DUMP")) {
    settings->dump = folder;
  }
  sl_message message{};
  if (sl_backend_search(&message) != SL_OK) {
    return Failure::user(message.text);
  }
  return readList("STRAIGHTLINE_JIT_HOOKS", "gdb, perf",
                  [](llvm::StringRef word) { return word == "gdb" || word == "perf"; });
}

void logLine(const char* topic, const std::string& text) {
  const std::string line = std::string("straightline ") + topic + ": " + text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace straightline
