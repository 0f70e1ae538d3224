// SPDX-License-Identifier: Apache-2.0
#include "ffi/torch_functions.h"

#include <string>

#include "ffi/process_library.h"

namespace straightline::ffi {
namespace {

struct Dtype {
  const char* name;
  uint8_t code, bits;
};
constexpr Dtype kDtypes[] = {
    {"uint8", 1, 8},
    {"uint16", 1, 16},
    {"uint32", 1, 32},
    {"uint64", 1, 64},
    {"int8", 0, 8},
    {"int16", 0, 16},
    {"int32", 0, 32},
    {"int64", 0, 64},
    {"float16", 2, 16},
    {"float32", 2, 32},
    {"float64", 2, 64},
    {"bfloat16", 4, 16},
    {"bool", 6, 8},
    {"float8_e4m3fn", 10, 8},
    {"float8_e4m3fnuz", 11, 8},
    {"float8_e5m2", 12, 8},
    {"float8_e5m2fnuz", 13, 8},
};

int32_t numberBy(const ProcessLibrary& library, const std::string& name) {
  const auto function = reinterpret_cast<int32_t (*)()>(library.find(name.c_str()));
  return function ? function() : -1;
}

/// The first name that is missing, or null.
const char* load(const ProcessLibrary& library, TorchFunctions* functions) {
  const char* missing = nullptr;
#define SL_TORCH_OPTIONAL(name) \
  functions->name = reinterpret_cast<decltype(functions->name)>(library.find(#name));
#define SL_TORCH(name)    \
  SL_TORCH_OPTIONAL(name) \
  missing = missing || functions->name ? missing : #name;
  SL_TORCH(aoti_torch_delete_tensor_object)
  SL_TORCH(aoti_torch_get_data_ptr)
  SL_TORCH(aoti_torch_get_dim)
  SL_TORCH(aoti_torch_get_sizes)
  SL_TORCH(aoti_torch_get_strides)
  SL_TORCH(aoti_torch_get_dtype)
  SL_TORCH(aoti_torch_get_device_type)
  SL_TORCH(aoti_torch_get_device_index)
  SL_TORCH(aoti_torch_empty_strided)
  SL_TORCH(aoti_torch_grad_mode_is_enabled)
  SL_TORCH(aoti_torch_abi_version)
  SL_TORCH(torch_set_requires_grad)
  SL_TORCH(aoti_torch_check)
  SL_TORCH(torch_list_size)
  SL_TORCH(torch_list_get_item)
  SL_TORCH(torch_delete_list)
  SL_TORCH(torch_string_length)
  SL_TORCH(torch_string_c_str)
  SL_TORCH(torch_delete_string)
  SL_TORCH(aoti_torch_library_init_fragment)
  SL_TORCH(aoti_torch_library_init_impl)
  SL_TORCH(aoti_torch_library_def)
  SL_TORCH(torch_library_impl)
  SL_TORCH(aoti_torch_delete_library_object)
  SL_TORCH_OPTIONAL(torch_exception_get_what_without_backtrace)
#undef SL_TORCH
#undef SL_TORCH_OPTIONAL
  return missing;
}

/// Whether a function takes what a handle points to for a tensor: it says of a fresh one what was
/// set.
bool readsWhatWasSet(bool (*requiresGrad)(const void*), const TorchFunctions& functions) {
  const int64_t one = 1;
  TensorHandle tensor = nullptr;
  if (!requiresGrad ||
      functions.aoti_torch_empty_strided(1, &one, &one, functions.numberOf({2, 32, 1}),
                                         functions.cpu, 0, &tensor)) {
    return false;
  }
  const void* object = *static_cast<void* const*>(tensor);
  const bool before = requiresGrad(object);
  const bool isSet = functions.torch_set_requires_grad(tensor, true) == 0;
  const bool isRight = isSet && !before && requiresGrad(object);
  functions.aoti_torch_delete_tensor_object(tensor);
  return isRight;
}

/// Takes torch's function for tangents if it gives its undefined tensor for a fresh one.
void settleTangents(const ProcessLibrary& c10, TorchFunctions* functions) {
  const auto tangent = reinterpret_cast<decltype(functions->fw_grad)>(
      c10.find("_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE"));
  const void* undefined = c10.find("_ZN3c1019UndefinedTensorImpl10_singletonE");
  const int64_t one = 1;
  TensorHandle tensor = nullptr;
  if (!tangent || !undefined ||
      functions->aoti_torch_empty_strided(1, &one, &one, functions->numberOf({2, 32, 1}),
                                          functions->cpu, 0, &tensor)) {
    return;
  }
  if (*tangent(*static_cast<void* const*>(tensor), 0, tensor) == undefined) {
    functions->fw_grad = tangent;
    functions->no_tangent = undefined;
  }
  functions->aoti_torch_delete_tensor_object(tensor);
}

void settle(const ProcessLibrary& library, TorchFunctions* functions) {
  for (const Dtype& dtype : kDtypes) {
    const int32_t number = numberBy(library, std::string("aoti_torch_dtype_") + dtype.name);
    if (number >= 0 && number < 64) {
      functions->dtypes[number] = {dtype.code, dtype.bits, 1};
    }
  }
  functions->cpu = numberBy(library, "aoti_torch_device_type_cpu");
  functions->cuda = numberBy(library, "aoti_torch_device_type_cuda");
  functions->meta = numberBy(library, "aoti_torch_device_type_meta");
  static const ProcessLibrary cuda("libtorch_cuda.so");
  functions->aoti_torch_get_current_cuda_stream =
      reinterpret_cast<decltype(functions->aoti_torch_get_current_cuda_stream)>(
          cuda.find("aoti_torch_get_current_cuda_stream"));
  static const ProcessLibrary c10("libc10.so");
  const auto requiresGrad =
      reinterpret_cast<bool (*)(const void*)>(c10.find("_ZNK3c1010TensorImpl13requires_gradEv"));
  functions->requires_grad = readsWhatWasSet(requiresGrad, *functions) ? requiresGrad : nullptr;
  settleTangents(c10, functions);
  functions->is_inference = reinterpret_cast<bool (*)(const void*)>(
      library.find("_ZN2at6native12is_inferenceERKNS_6TensorE"));
  functions->bump_version = reinterpret_cast<void (*)(const void*)>(
      library.find("_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE"));
}

const char* loadAndSettle(const ProcessLibrary& library, TorchFunctions* functions) {
  const char* missing = load(library, functions);
  if (!missing) {
    settle(library, functions);
  }
  return missing;
}

}  // namespace

int32_t TorchFunctions::numberOf(sl_dtype dtype) const {
  for (int32_t i = 0; i < 64; ++i) {
    if (dtypes[i].bits && dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits) {
      return i;
    }
  }
  return -1;
}

const TorchFunctions* torchFunctions(sl_message* message) {
  static LoadedOnce<TorchFunctions> functions;
  return functions.get("libtorch_cpu.so", loadAndSettle, "torch", "2.10 and later",
                       "this needs torch in the process, and libtorch_cpu is not loaded: import "
                       "torch",
                       message);
}

}  // namespace straightline::ffi
