// SPDX-License-Identifier: Apache-2.0
// A function of another system, and the model that its calls run.
#ifndef STRAIGHTLINE_RUNTIME_FFI_FUNCTION_H
#define STRAIGHTLINE_RUNTIME_FFI_FUNCTION_H

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "straightline/abi/ffi.h"

struct sl_ffi_function {
  // Copied from the caller's.
  sl_ffi_signature ownSignature{};
  std::vector<sl_ffi_argument> arguments;
  std::vector<int32_t> results;
  std::deque<std::string> texts;
  const sl_ffi_signature* signature = &ownSignature;
  /// Nullable: the model is loaded from it when it is first called, under the mutex.
  const sl_linked_model* linked = nullptr;
  std::mutex mutex;
  int32_t deviceType = 1;  ///< DLDeviceType of where its programs run
  int32_t device = 0;      ///< its number
  std::atomic<int32_t> references{1};
  std::atomic<std::shared_ptr<sl_model>> model;
  std::atomic<int64_t> refused{0};  ///< calls that found none
  /// The last one that it had; under the mutex.
  std::weak_ptr<sl_model> last;
  /// Of a linked model with slots: a model for each text of a choice that calls gave; under the
  /// mutex.
  std::map<std::string, std::shared_ptr<sl_model>, std::less<>> chosen;
};

namespace straightline::ffi {

/// So many tensors of a call need no allocation.
constexpr int32_t kMost = 32;

/// The tensors of one call. Sizes and strides belong to whoever owns the tensors.
class Tensors {
 public:
  explicit Tensors(int32_t count) {
    if (count > kMost) {
      more_.resize(static_cast<size_t>(count));
    }
  }
  sl_tensor* data() { return more_.empty() ? few_ : more_.data(); }
  sl_tensor& operator[](int32_t i) { return data()[i]; }

 private:
  sl_tensor few_[kMost];  // set by the caller before it is read
  std::vector<sl_tensor> more_;
};

/// Holds the model that a call began with.
class Call {
 public:
  explicit Call(sl_ffi_function* function)
      : function_(function), model_(function->model.load(std::memory_order_acquire)) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  /// Null: the function is gone or cannot be loaded, and the message says so.
  sl_model* model(sl_message* message);
  /// The same with a choice of slots; null also where there is no such choice.
  sl_model* model(std::string_view choice, sl_message* message);

 private:
  sl_ffi_function* function_;
  std::shared_ptr<sl_model> model_;
};

/// Writes why a number or text that a call gave is not the one that was compiled.
void saysOther(const sl_ffi_argument& argument, const char* given, sl_message* message);

}  // namespace straightline::ffi

#endif  // STRAIGHTLINE_RUNTIME_FFI_FUNCTION_H
