// SPDX-License-Identifier: Apache-2.0
// An op of torch over a model: what a kernel of the stable C shim does, and its registration.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "boundary.h"
#include "few.h"
#include "ffi/function.h"
#include "ffi/torch_functions.h"
#include "message_writer.h"

namespace straightline::ffi {
namespace {

/// torch 2.10 as torch numbers it: the version whose rules these kernels follow.
constexpr uint64_t kVersion = (uint64_t{2} << 56) | (uint64_t{10} << 48);

/// One call: takes over the handles of the stack's arguments and drops them when it ends.
class TorchCall {
 public:
  TorchCall(const TorchFunctions& torch, sl_ffi_function* function, bool isMeta)
      : torch_(torch),
        function_(function),
        signature_(*function->signature),
        isMeta_(isMeta),
        tensors_(signature_.input_count),
        handles_(signature_.input_count),
        results_(signature_.model_result_count) {}
  TorchCall(const TorchCall&) = delete;
  TorchCall& operator=(const TorchCall&) = delete;
  ~TorchCall() {
    for (int32_t i = 0; i < signature_.input_count; ++i) {
      drop(handles_[i]);
    }
    for (int32_t i = 0; i < signature_.model_result_count; ++i) {
      drop(results_[i]);
    }
  }

  int32_t run(uint64_t* stack, uint64_t arguments, uint64_t results, sl_message* message) {
    int32_t status = read(stack, arguments, message);
    Call call(function_);
    sl_model* model = status == SL_OK ? call.model(message) : nullptr;
    if (!model) {
      return SL_INVALID_ARGUMENT;
    }
    sl_model_target target{};
    target.size = sizeof(target);
    target.place = [](void* user, int32_t i, sl_tensor* result, sl_message* said) {
      return static_cast<TorchCall*>(user)->place(i, result, said);
    };
    target.user = this;
    target.plan_only = isMeta_;
    target.on_stream = device_ == 2 && torch_.aoti_torch_get_current_cuda_stream &&
                       torch_.aoti_torch_get_current_cuda_stream(number_, &target.stream) == 0;
    status = sl_model_call_into(model, tensors_.data(), signature_.input_count, &target, message);
    countWrites(status);
    for (int32_t k = 0;
         status == SL_OK && k < signature_.result_count && static_cast<uint64_t>(k) < results;
         ++k) {
      TensorHandle& made = results_[signature_.results[k]];
      std::memcpy(&stack[k], &made, sizeof(made));
      made = nullptr;
    }
    return status;
  }

 private:
  /// A backward that needs what was there before is refused. Nothing was written when the tensors
  /// do not fit.
  void countWrites(int32_t status) {
    for (int32_t a = 0; status != SL_INVALID_ARGUMENT && a < signature_.argument_count; ++a) {
      const sl_ffi_argument& argument = signature_.arguments[a];
      for (int32_t i = 0; argument.updated && !isMeta_ && i < argument.count; ++i) {
        torch_.countWrite(handles_[argument.index + i]);
      }
    }
  }

  void drop(TensorHandle handle) const {
    if (handle) {
      torch_.aoti_torch_delete_tensor_object(handle);
    }
  }

  /// Takes over every handle, then reads what they say.
  int32_t read(uint64_t* stack, uint64_t arguments, sl_message* message) {
    if (arguments != static_cast<uint64_t>(signature_.argument_count)) {
      MessageWriter(message)
          .text("the op has ")
          .number(static_cast<int64_t>(arguments))
          .text(" arguments but its function ")
          .number(signature_.argument_count);
      return SL_INTERNAL;
    }
    int32_t status = SL_OK;
    for (int32_t i = 0; i < signature_.argument_count; ++i) {
      const int32_t own = take(signature_.arguments[i], stack[i], status ? nullptr : message);
      status = status ? status : own;
    }
    for (int32_t i = 0; status == SL_OK && i < signature_.input_count; ++i) {
      status = describe(handles_[i], &tensors_[i], message);
    }
    return status;
  }

  int32_t take(const sl_ffi_argument& argument, uint64_t value, sl_message* message) {
    char given[64];
    switch (argument.kind) {
      case SL_FFI_TENSOR:
        std::memcpy(&handles_[argument.index], &value, sizeof(TensorHandle));
        return SL_OK;
      case SL_FFI_TENSORS:
        return takeList(argument, value, message);
      case SL_FFI_INT:
        if (static_cast<int64_t>(value) == argument.integer) {
          return SL_OK;
        }
        std::snprintf(given, sizeof given, "%lld", static_cast<long long>(value));
        break;
      case SL_FFI_BOOL:
        if (((value & 0xff) != 0) == (argument.integer != 0)) {
          return SL_OK;
        }
        std::snprintf(given, sizeof given, "%s", (value & 0xff) != 0 ? "True" : "False");
        break;
      case SL_FFI_FLOAT: {
        double real = 0;
        std::memcpy(&real, &value, sizeof real);
        if (std::memcmp(&real, &argument.real, sizeof real) == 0 || real == argument.real) {
          return SL_OK;
        }
        std::snprintf(given, sizeof given, "%.17g", real);
        break;
      }
      default:
        return takeText(argument, value, message);
    }
    saysOther(argument, given, message);
    return SL_INVALID_ARGUMENT;
  }

  int32_t takeText(const sl_ffi_argument& argument, uint64_t value, sl_message* message) {
    StringHandle handle = nullptr;
    std::memcpy(&handle, &value, sizeof handle);
    size_t length = 0;
    const char* text = "";
    torch_.torch_string_length(handle, &length);
    torch_.torch_string_c_str(handle, &text);
    const bool same =
        length == std::strlen(argument.text) && std::memcmp(text, argument.text, length) == 0;
    if (!same) {
      char given[64];
      std::snprintf(given, sizeof given, "'%.48s'", text);
      saysOther(argument, given, message);
    }
    torch_.torch_delete_string(handle);
    return same ? SL_OK : SL_INVALID_ARGUMENT;
  }

  int32_t takeList(const sl_ffi_argument& argument, uint64_t value, sl_message* message) {
    ListHandle list = nullptr;
    std::memcpy(&list, &value, sizeof list);
    size_t count = 0;
    torch_.torch_list_size(list, &count);
    const bool same = count == static_cast<size_t>(argument.count);
    for (size_t i = 0; i < count; ++i) {
      uint64_t item = 0;
      TensorHandle handle = nullptr;
      torch_.torch_list_get_item(list, i, &item);
      std::memcpy(&handle, &item, sizeof(handle));
      if (same) {
        handles_[argument.index + static_cast<int32_t>(i)] = handle;
      } else {
        drop(handle);
      }
    }
    torch_.torch_delete_list(list);
    if (!same) {
      MessageWriter(message)
          .text("argument '")
          .text(argument.name)
          .text("' has ")
          .number(static_cast<int64_t>(count))
          .text(" tensors but the program was compiled for ")
          .number(argument.count);
    }
    return same ? SL_OK : SL_INVALID_ARGUMENT;
  }

  int32_t describe(TensorHandle handle, sl_tensor* tensor, sl_message* message) {
    int64_t rank = 0;
    int64_t* sizes = nullptr;
    int64_t* strides = nullptr;
    int32_t dtype = -1, type = -1, number = 0;
    tensor->data = nullptr;
    if (torch_.aoti_torch_get_dim(handle, &rank) || torch_.aoti_torch_get_sizes(handle, &sizes) ||
        torch_.aoti_torch_get_strides(handle, &strides) ||
        torch_.aoti_torch_get_dtype(handle, &dtype) ||
        torch_.aoti_torch_get_device_type(handle, &type) ||
        (type != torch_.cpu && torch_.aoti_torch_get_device_index(handle, &number)) ||
        (!isMeta_ && torch_.aoti_torch_get_data_ptr(handle, &tensor->data))) {
      MessageWriter(message).text(
          "a tensor has no sizes, strides or memory (it is sparse, undefined, or of named sizes "
          "without a fake kernel): give a dense one");
      return SL_INVALID_ARGUMENT;
    }
    if (rank > SL_MAX_RANK || dtype < 0 || dtype >= 64 || torch_.dtypes[dtype].bits == 0) {
      MessageWriter(message)
          .text("a tensor of rank ")
          .number(rank)
          .text(" and torch's dtype number ")
          .number(dtype)
          .text(" has no form here: at most rank ")
          .number(SL_MAX_RANK);
      return SL_UNSUPPORTED;
    }
    const bool isRecorded = recordsGradients() && torch_.requiresGrad(handle);
    if (isRecorded || (!isMeta_ && torch_.hasTangent(handle))) {
      MessageWriter(message)
          .text(isRecorded ? "an argument requires grad"
                           : "an argument has a tangent of forward mode")
          .text(
              ", and the op has no derivative: register one with torch.library.register_autograd('")
          .text(signature_.name)
          .text(
              "', ..), or call it under torch.no_grad(); torch.func and forward mode want a "
              "torch.autograd.Function around it, with setup_context or jvp");
      return SL_INVALID_ARGUMENT;
    }
    tensor->shape = sizes;
    tensor->strides = strides;
    tensor->rank = static_cast<int32_t>(rank);
    tensor->dtype = torch_.dtypes[dtype];
    tensor->device_type = type == torch_.cpu ? 1 : type == torch_.cuda ? 2 : 12;
    tensor->device_id = number;
    if (tensor->device_type == 2) {
      device_ = 2;
      number_ = number;
    }
    if (isMeta_ || type == torch_.meta) {
      alignas(64) static char nowhere;  // never read
      tensor->data = &nowhere;
      tensor->device_type = function_->deviceType;  // it stands for one of the program's device
      tensor->device_id = function_->device;
    }
    return SL_OK;
  }

  /// Asked once in a call.
  bool recordsGradients() {
    if (grads_ < 0) {
      grads_ = !isMeta_ && torch_.aoti_torch_grad_mode_is_enabled() ? 1 : 0;
    }
    return grads_ != 0;
  }

  int32_t place(int32_t i, sl_tensor* result, sl_message* message) {
    const int32_t dtype = torch_.numberOf(result->dtype);
    const int32_t device = isMeta_                    ? torch_.meta
                           : result->device_type == 2 ? torch_.cuda
                                                      : torch_.cpu;
    TensorHandle made = nullptr;
    if (dtype < 0 ||
        torch_.aoti_torch_empty_strided(result->rank, result->shape, result->strides, dtype, device,
                                        result->device_type == 2 ? result->device_id : 0, &made) ||
        (!isMeta_ && torch_.aoti_torch_get_data_ptr(made, &result->data))) {
      drop(made);
      MessageWriter writer(message);
      writer.text("torch makes no result of ").dtype(result->dtype);
      writer.tuple(result->shape, result->rank);
      if (torch_.torch_exception_get_what_without_backtrace) {
        writer.text(": ").text(torch_.torch_exception_get_what_without_backtrace());
      }
      return SL_OUT_OF_MEMORY;
    }
    results_[i] = made;
    return SL_OK;
  }

  const TorchFunctions& torch_;
  sl_ffi_function* function_;
  const sl_ffi_signature& signature_;
  bool isMeta_;
  Tensors tensors_;
  Few<TensorHandle, kMost> handles_;  // null at first
  Few<TensorHandle, kMost> results_;
  int32_t device_ = 1;
  int32_t number_ = 0;
  int32_t grads_ = -1;  // whether gradients are recorded; below 0: not asked yet
};

int32_t callOnce(const TorchFunctions& torch, uint64_t* stack, uint64_t arguments, uint64_t results,
                 sl_ffi_function* function, bool isMeta, sl_message* message) {
  return atBoundary(message, [&] {
    return TorchCall(torch, function, isMeta).run(stack, arguments, results, message);
  });
}

/// Nothing here has a destructor: torch's exception leaves through it.
void call(uint64_t* stack, uint64_t arguments, uint64_t results, void* user, bool isMeta) {
  auto* function = static_cast<sl_ffi_function*>(user);
  sl_message message;
  message.text[0] = '\0';
  const TorchFunctions* torch = torchFunctions(nullptr);  // it is there: it calls
  if (callOnce(*torch, stack, arguments, results, function, isMeta, &message) != SL_OK) {
    sl_message whole;
    MessageWriter(&whole).text(function->signature->name).text(": ").text(message.text);
    torch->aoti_torch_check(false, function->signature->name, "straightline", 0, whole.text);
  }
}

struct Registered {
  LibraryHandle definition = nullptr;
  LibraryHandle kernels = nullptr;
  LibraryHandle meta = nullptr;
};

int32_t refuse(const TorchFunctions& torch, const char* space, const std::string& schema,
               sl_message* message) {
  MessageWriter writer(message);
  writer.text("torch refuses to register ").text(space).text("::").text(schema.c_str());
  if (torch.torch_exception_get_what_without_backtrace) {
    writer.text(": ").text(torch.torch_exception_get_what_without_backtrace());
  } else {
    writer.text(": the name is taken, or its schema is wrong; torch wrote why to standard error");
  }
  return SL_INVALID_ARGUMENT;
}

/// torch's own type has three parameters; what it gives in the fourth place is never read.
auto asTorchKernel(sl_torch_kernel kernel) {
  return reinterpret_cast<void (*)(uint64_t*, uint64_t, uint64_t)>(reinterpret_cast<void*>(kernel));
}

int32_t addKernel(const TorchFunctions& torch, const char* space, const std::string& name,
                  const char* key, sl_torch_kernel kernel, LibraryHandle* out,
                  sl_message* message) {
  if (torch.aoti_torch_library_init_impl(space, key, "straightline", 0, out) ||
      torch.torch_library_impl(*out, name.c_str(), asTorchKernel(kernel), kVersion)) {
    return refuse(torch, space, name + " for " + key, message);
  }
  return SL_OK;
}

}  // namespace
}  // namespace straightline::ffi

using namespace straightline;

void sl_ffi_torch_call(uint64_t* stack, uint64_t arguments, uint64_t results, void* function) {
  ffi::call(stack, arguments, results, function, false);
}

void sl_ffi_torch_meta(uint64_t* stack, uint64_t arguments, uint64_t results, void* function) {
  ffi::call(stack, arguments, results, function, true);
}

int32_t sl_ffi_torch_register(const char* space, const char* schema, const char* key,
                              sl_torch_kernel kernel, sl_torch_kernel meta, void** out,
                              sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    const ffi::TorchFunctions* torch = ffi::torchFunctions(message);
    if (!torch) {
      return SL_UNSUPPORTED;
    }
    auto release = [](ffi::Registered* made) { sl_ffi_torch_unregister(made); };
    std::unique_ptr<ffi::Registered, decltype(release)> made(new ffi::Registered);
    const std::string text(schema);
    const std::string name = text.substr(0, text.find('('));
    if (torch->aoti_torch_library_init_fragment(space, "straightline", 0, &made->definition) ||
        torch->aoti_torch_library_def(made->definition, schema)) {
      return ffi::refuse(*torch, space, text, message);
    }
    int32_t status = ffi::addKernel(*torch, space, name, key, kernel, &made->kernels, message);
    if (status == SL_OK && meta) {
      status = ffi::addKernel(*torch, space, name, "Meta", meta, &made->meta, message);
    }
    if (status == SL_OK) {
      *out = made.release();
    }
    return status;
  });
}

void sl_ffi_torch_unregister(void* registered) {
  std::unique_ptr<ffi::Registered> made(static_cast<ffi::Registered*>(registered));
  const ffi::TorchFunctions* torch = ffi::torchFunctions(nullptr);
  for (ffi::LibraryHandle library : {made->meta, made->kernels, made->definition}) {
    if (library) {
      torch->aoti_torch_delete_library_object(library);
    }
  }
}
