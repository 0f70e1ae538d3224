// SPDX-License-Identifier: Apache-2.0
#include "torch_functions.h"

#include <dlfcn.h>

#include <mutex>

namespace straightline::aten {
namespace {

/// Python opens libtorch with local visibility, so the global scope alone may not show it. This
/// handle is one more reference to the library; we never close it.
void* torchLibrary() { return dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD); }

void* find(void* library, const char* name) {
  if (void* address = dlsym(RTLD_DEFAULT, name)) {
    return address;
  }
  return library ? dlsym(library, name) : nullptr;
}

/// Fills the table; returns the first name that is missing, or null.
const char* load(void* library, TorchFunctions* functions) {
  const char* missing = nullptr;
#define SL_TORCH_OPTIONAL(name) \
  functions->name = reinterpret_cast<decltype(functions->name)>(find(library, #name));
#define SL_TORCH(name)    \
  SL_TORCH_OPTIONAL(name) \
  missing = missing || functions->name ? missing : #name;
  SL_TORCH(torch_call_dispatcher)
  SL_TORCH(aoti_torch_create_tensor_from_blob)
  SL_TORCH(aoti_torch_delete_tensor_object)
  SL_TORCH(aoti_torch_get_dim)
  SL_TORCH(aoti_torch_get_sizes)
  SL_TORCH(aoti_torch_get_dtype)
  SL_TORCH(aoti_torch_copy_)
  SL_TORCH(torch_new_list_reserve_size)
  SL_TORCH(torch_list_size)
  SL_TORCH(torch_list_get_item)
  SL_TORCH(torch_list_push_back)
  SL_TORCH(torch_delete_list)
  SL_TORCH(torch_new_string_handle)
  SL_TORCH_OPTIONAL(aoti_torch_is_contiguous)
  SL_TORCH_OPTIONAL(aoti_torch_get_data_ptr)
  SL_TORCH_OPTIONAL(aoti_torch_get_device_type)
  SL_TORCH_OPTIONAL(torch_exception_get_what_without_backtrace)
  SL_TORCH_OPTIONAL(torch_new_stable_ivalue)
#undef SL_TORCH
#undef SL_TORCH_OPTIONAL
  return missing;
}

/// Whether a function takes a handle for a tensor: it says of a fresh one and of its negation what
/// they are. Torch numbers versions by a byte each from the highest; the op is as old as 2.10.
bool tellsNegations(bool (*isNegated)(TensorHandle), const TorchFunctions& torch) {
  constexpr uint64_t kVersion = (uint64_t{2} << 56) | (uint64_t{10} << 48);
  int32_t float32 = 0, cpu = 0;
  TensorHandle fresh = nullptr;
  const int64_t one = 1;
  float element = 1;
  if (!isNegated || !torchNumber("dtype", "float32", &float32) ||
      !torchNumber("device_type", "cpu", &cpu) ||
      torch.aoti_torch_create_tensor_from_blob(&element, 1, &one, &one, 0, float32, cpu, 0,
                                               &fresh)) {
    return false;
  }
  const bool before = isNegated(fresh);
  StableValue stack[1] = {reinterpret_cast<StableValue>(fresh)};
  if (torch.torch_call_dispatcher("aten::_neg_view", "", stack, kVersion)) {
    return false;
  }
  const auto negation = reinterpret_cast<TensorHandle>(stack[0]);
  const bool after = isNegated(negation);
  torch.aoti_torch_delete_tensor_object(negation);
  return !before && after;
}

}  // namespace

const TorchFunctions* torchFunctions(std::string* reason) {
  static std::mutex mutex;
  static TorchFunctions functions;
  static bool loaded = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded) {
    return &functions;
  }
  void* library = torchLibrary();
  const char* missing = load(library, &functions);
  if (missing && reason) {
    *reason = library ? std::string("the torch in this process has no ") + missing +
                            ", which 2.10 and newer have"
                      : "aten needs torch in this process, and libtorch_cpu is not loaded";
  }
  loaded = !missing;
  if (loaded) {
    const auto isNegated = reinterpret_cast<bool (*)(TensorHandle)>(
        find(library, "_ZN2at6native6is_negERKNS_6TensorE"));
    functions.is_negated = tellsNegations(isNegated, functions) ? isNegated : nullptr;
  }
  return loaded ? &functions : nullptr;
}

bool torchNumber(const char* kind, const std::string& name, int32_t* out) {
  const std::string symbol = std::string("aoti_torch_") + kind + "_" + name;
  const auto function = reinterpret_cast<int32_t (*)()>(find(torchLibrary(), symbol.c_str()));
  if (function) {
    *out = function();
  } else if (name == "float8_e8m0fnu") {
    *out = 44;  // torch before 2.12 has it without such a function; a dtype's number never changes
  } else {
    return false;
  }
  return true;
}

std::string deviceOf(const sl_problem& problem) {
  const bool says = problem.size > offsetof(sl_problem, device) && problem.device;
  return says ? problem.device : "cpu";
}

std::string torchDtypeName(sl_dtype dtype) {
  const std::string bits = std::to_string(dtype.bits);
  switch (dtype.code) {
    case 0:
      return "int" + bits;
    case 1:
      return "uint" + bits;
    case 2:
      return "float" + bits;
    case 4:
      return "bfloat" + bits;
    case 6:
      return "bool";
    case 10:
      return "float8_e4m3fn";
    case 11:
      return "float8_e4m3fnuz";
    case 12:
      return "float8_e5m2";
    case 13:
      return "float8_e5m2fnuz";
    case 14:
      return "float8_e8m0fnu";
    default:
      return "";
  }
}

}  // namespace straightline::aten
