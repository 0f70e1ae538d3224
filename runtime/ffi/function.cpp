// SPDX-License-Identifier: Apache-2.0
#include "ffi/function.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "artifact/model.h"
#include "boundary.h"
#include "message_writer.h"

namespace straightline::ffi {

namespace {

/// Where the programs of its model run.
void settle(sl_ffi_function* function, const sl_model* model) {
  function->deviceType = std::strcmp(model->backend, "cuda") == 0 ? 2 : 1;
  function->device = model->options.device;
}

int32_t check(const sl_ffi_signature& signature, const sl_model* model, sl_message* message);

/// The model of a function that is linked into a library.
std::shared_ptr<sl_model> loadLinked(sl_ffi_function* function, sl_message* message) {
  const std::lock_guard<std::mutex> lock(function->mutex);
  std::shared_ptr<sl_model> known = function->model.load();
  sl_model* made = nullptr;
  if (known || sl_model_load_linked(function->linked, nullptr, &made, message) != SL_OK) {
    return known;
  }
  known.reset(made, sl_model_release);
  if (check(*function->signature, made, message) != SL_OK) {
    return nullptr;
  }
  settle(function, made);
  function->last = known;
  function->model.store(known);
  return known;
}

}  // namespace

sl_model* Call::model(sl_message* message) {
  if (!model_ && function_->linked) {
    model_ = loadLinked(function_, message);
  } else if (!model_) {
    function_->refused.fetch_add(1, std::memory_order_relaxed);
    MessageWriter(message).text("it was unregistered: register the function again");
  }
  return model_.get();
}

sl_model* Call::model(std::string_view choice, sl_message* message) {
  /// Texts may differ in spaces alone, so their number has no bound of its own.
  constexpr size_t kMostTexts = 64;
  if (!model(message)) {
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(function_->mutex);
  auto found = function_->chosen.find(choice);
  if (found == function_->chosen.end()) {
    std::string text(choice);
    sl_model* made = nullptr;
    if (sl_model_with_slots(model_.get(), text.c_str(), &made, message) != SL_OK) {
      return nullptr;
    }
    std::shared_ptr<sl_model> owned(made, sl_model_release);
    if (function_->chosen.size() >= kMostTexts) {
      function_->chosen.clear();  // calls that run hold theirs
    }
    found = function_->chosen.emplace(std::move(text), std::move(owned)).first;
  }
  model_ = found->second;
  return model_.get();
}

void saysOther(const sl_ffi_argument& argument, const char* given, sl_message* message) {
  char compiled[64];
  switch (argument.kind) {
    case SL_FFI_FLOAT:
      std::snprintf(compiled, sizeof compiled, "%.17g", argument.real);
      break;
    case SL_FFI_BOOL:
      std::snprintf(compiled, sizeof compiled, "%s", argument.integer ? "True" : "False");
      break;
    case SL_FFI_TEXT:
      std::snprintf(compiled, sizeof compiled, "'%.48s'", argument.text);
      break;
    default:
      std::snprintf(compiled, sizeof compiled, "%lld", static_cast<long long>(argument.integer));
  }
  MessageWriter(message)
      .text("argument '")
      .text(argument.name)
      .text("' is ")
      .text(given)
      .text(" but the program was compiled for ")
      .text(compiled);
}

namespace {

/// Whether the signature is one of the model's programs.
int32_t check(const sl_ffi_signature& signature, const sl_model* model, sl_message* message) {
  for (int32_t i = 0; i < sl_model_program_count(model); ++i) {
    const int32_t inputs = sl_model_input_count(model, i);
    const int32_t results = sl_model_output_count(model, i);
    if (inputs != signature.input_count || results != signature.model_result_count) {
      MessageWriter(message)
          .text(signature.name)
          .text(": program ")
          .number(i + 1)
          .text(" has ")
          .number(inputs)
          .text(" inputs and ")
          .number(results)
          .text(" results but the signature ")
          .number(signature.input_count)
          .text(" and ")
          .number(signature.model_result_count);
      return SL_INVALID_ARGUMENT;
    }
  }
  return SL_OK;
}

/// A function with a copy of the signature.
std::unique_ptr<sl_ffi_function> made(const sl_ffi_signature& signature) {
  auto function = std::make_unique<sl_ffi_function>();
  auto kept = [&](const char* text) {
    return text ? function->texts.emplace_back(text).c_str() : nullptr;
  };
  sl_ffi_signature& own = function->ownSignature;
  own = signature;
  own.size = sizeof(own);
  own.name = kept(signature.name);
  function->arguments.assign(signature.arguments, signature.arguments + signature.argument_count);
  for (sl_ffi_argument& argument : function->arguments) {
    argument.name = kept(argument.name);
    argument.text = kept(argument.text);
  }
  function->results.assign(signature.results, signature.results + signature.result_count);
  own.arguments = function->arguments.data();
  own.results = function->results.data();
  return function;
}

}  // namespace
}  // namespace straightline::ffi

using namespace straightline;

int32_t sl_ffi_create(const sl_ffi_signature* signature, sl_model* model, sl_ffi_function** out,
                      sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    std::shared_ptr<sl_model> owned(model, sl_model_release);
    if (const int32_t status = ffi::check(*signature, model, message)) {
      return status;
    }
    auto function = ffi::made(*signature);
    ffi::settle(function.get(), model);
    function->last = owned;
    function->model.store(std::move(owned));
    *out = function.release();
    return SL_OK;
  });
}

int32_t sl_ffi_create_linked(const sl_ffi_signature* signature, const sl_linked_model* linked,
                             sl_ffi_function** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    auto function = ffi::made(*signature);
    function->linked = linked;
    *out = function.release();
    return SL_OK;
  });
}

int32_t sl_ffi_publish(sl_ffi_function* function, sl_model* model, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    std::shared_ptr<sl_model> owned;
    if (model) {
      owned.reset(model, sl_model_release);
      if (const int32_t status = ffi::check(*function->signature, model, message)) {
        return status;
      }
    }
    const std::lock_guard<std::mutex> lock(function->mutex);
    if (owned) {
      function->last = owned;
    }
    owned = function->model.exchange(std::move(owned));  // the one before goes after the lock
    return SL_OK;
  });
}

void sl_ffi_retain(sl_ffi_function* function) {
  function->references.fetch_add(1, std::memory_order_relaxed);
}

void sl_ffi_release(sl_ffi_function* function) {
  if (function && function->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete function;
  }
}

int32_t sl_ffi_running(sl_ffi_function* function) {
  const std::lock_guard<std::mutex> lock(function->mutex);
  const bool isOpen = function->model.load() != nullptr;  // a reference that is gone again
  return static_cast<int32_t>(function->last.use_count()) - (isOpen ? 1 : 0);
}

int64_t sl_ffi_refused(sl_ffi_function* function) {
  return function->refused.load(std::memory_order_relaxed);
}
