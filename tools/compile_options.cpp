// SPDX-License-Identifier: Apache-2.0
#include "tools/compile_options.h"

#include <algorithm>
#include <cstring>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

namespace straightline {
namespace {

/// Largest team of the runtime.
constexpr int kMostThreads = 256;

std::string text(const char* given) { return given == nullptr ? "" : given; }

/// Copies the caller's struct into one of this library's size. A longer one must be zero where this
/// library knows no option.
template <typename T>
Failure copyStruct(const T* given, llvm::StringRef name, T* own) {
  constexpr size_t kSize = sizeof(uint64_t);
  if (given->size < kSize) {
    return Failure::user(name.str() + " has the size " + std::to_string(given->size) +
                         ", expected " + std::to_string(sizeof(T)));
  }
  std::memcpy(own, given, std::min<size_t>(given->size, sizeof(T)));
  const char* bytes = reinterpret_cast<const char*>(given);
  for (size_t i = sizeof(T); i < given->size; ++i) {
    if (bytes[i] != 0) {
      return Failure::user(name.str() + " has an option at byte " + std::to_string(i) +
                           " that this library does not know: it has " + std::to_string(sizeof(T)) +
                           " bytes");
    }
  }
  return Failure::none();
}

Failure readSwitch(int32_t given, llvm::StringRef name, bool* value) {
  if (given < SL_SWITCH_DEFAULT || given > SL_SWITCH_OFF) {
    return Failure::user(name.str() + " is " + std::to_string(given) +
                         " but must be SL_SWITCH_DEFAULT, SL_SWITCH_ON or SL_SWITCH_OFF");
  }
  *value = given == SL_SWITCH_DEFAULT ? *value : given == SL_SWITCH_ON;
  return Failure::none();
}

Failure oneOf(llvm::StringRef option, const std::string& value,
              llvm::ArrayRef<llvm::StringRef> valid) {
  if (value.empty() || llvm::is_contained(valid, value)) {
    return Failure::none();
  }
  return Failure::user(option.str() + " is '" + value + "' but must be one of " +
                       llvm::join(valid, ", "));
}

Failure readInternal(const sl_internal_options* given, InternalOptions* options) {
  sl_internal_options own{};
  if (Failure failure = copyStruct(given, "sl_internal_options", &own); failure.failed()) {
    return failure;
  }
  options->kernelsPerUnit = std::max(own.kernels_per_unit, 1);
  options->listCandidates = own.list_candidates != 0;
  options->profile = own.profile != 0;
  options->poison = own.poison != 0;
  options->links = own.links != 0;
  options->passes = own.passes != 0;
  options->everyBranch = own.every_branch != 0;
  for (int32_t i = 0; i < own.choice_count; ++i) {
    options->choices.emplace_back(text(own.choices[i].key), text(own.choices[i].value));
  }
  options->prefer = text(own.prefer);
  options->deviceBackend = text(own.device_backend);
  options->sharesPrepared = own.shares_prepared != 0;
  for (int32_t i = 0; i < own.prepared_count; ++i) {
    options->preparedBefore.push_back(text(own.prepared[i]));
  }
  return Failure::none();
}

}  // namespace

Failure validate(const CompileOptions& options) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    return Failure::user("threads is " + std::to_string(options.threads) +
                         " but must be from 1 to " + std::to_string(kMostThreads));
  }
  if (Failure failure = oneOf("launch", options.launch, {"stream", "graph"}); failure.failed()) {
    return failure;
  }
  if (Failure failure =
          oneOf("tf32", options.tf32, {"convolution", "matmul", "convolution+matmul"});
      failure.failed()) {
    return failure;
  }
  return Failure::none();
}

Failure readCompileOptions(const sl_compile_options* given, CompileOptions* options) {
  if (given == nullptr) {
    return Failure::none();
  }
  sl_compile_options own{};
  if (Failure failure = copyStruct(given, "sl_compile_options", &own); failure.failed()) {
    return failure;
  }
  options->cpu = text(own.cpu);
  options->target = text(own.target);
  options->threads = own.threads == 0 ? 1 : own.threads;
  options->team = own.team;
  options->teamFromUs = own.team_from_us;
  options->device = own.device;
  options->emitOnly = own.emit_only != 0;
  const struct {
    const char* name;
    int32_t given;
    bool* value;
  } switches[] = {{"freeze", own.freeze, &options->freeze},
                  {"concurrent_branches", own.concurrent_branches, &options->concurrentBranches},
                  {"winograd", own.winograd, &options->winograd},
                  {"cache", own.cache, &options->useCache}};
  for (const auto& each : switches) {
    if (Failure failure = readSwitch(each.given, each.name, each.value); failure.failed()) {
      return failure;
    }
  }
  options->launch = text(own.launch);
  options->tf32 = text(own.tf32);
  options->hostEdges = own.host_edges != 0;
  if (own.allow != nullptr && own.allow_count < 1) {
    return Failure::user("allow is empty but must have backends that kernels may come from");
  }
  for (int32_t i = 0; i < own.allow_count; ++i) {
    options->allow.push_back(text(own.allow[i]));
  }
  for (int32_t i = 0; i < own.route_count; ++i) {
    options->routes.emplace_back(text(own.routes[i].key), text(own.routes[i].value));
  }
  options->slotRules = own.slot_rules;
  options->progress = own.progress;
  if (own.internal != nullptr) {
    if (Failure failure = readInternal(own.internal, &options->internal); failure.failed()) {
      return failure;
    }
  }
  return validate(*options);
}

}  // namespace straightline
