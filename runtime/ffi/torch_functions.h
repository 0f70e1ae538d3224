// SPDX-License-Identifier: Apache-2.0
// The functions of torch's stable C shim that a registered op calls, found by name in the running
// process. Each is in torch 2.10 (tests/ffi/shim_names_test.py compares); prototypes are facts of
// its headers, none of which is read.
#ifndef STRAIGHTLINE_RUNTIME_FFI_TORCH_FUNCTIONS_H
#define STRAIGHTLINE_RUNTIME_FFI_TORCH_FUNCTIONS_H

#include <cstdint>

#include "straightline/abi/straightline.h"

namespace straightline::ffi {

using TensorHandle = void*;
using ListHandle = void*;
using StringHandle = void*;
using LibraryHandle = void*;

/// Those that return int32_t give 0, or another number after a C++ exception.
struct TorchFunctions {
  int32_t (*aoti_torch_delete_tensor_object)(TensorHandle tensor);
  int32_t (*aoti_torch_get_data_ptr)(TensorHandle tensor, void** borrowed);
  int32_t (*aoti_torch_get_dim)(TensorHandle tensor, int64_t* out);
  int32_t (*aoti_torch_get_sizes)(TensorHandle tensor, int64_t** borrowed);
  int32_t (*aoti_torch_get_strides)(TensorHandle tensor, int64_t** borrowed);
  int32_t (*aoti_torch_get_dtype)(TensorHandle tensor, int32_t* out);
  int32_t (*aoti_torch_get_device_type)(TensorHandle tensor, int32_t* out);
  int32_t (*aoti_torch_get_device_index)(TensorHandle tensor, int32_t* out);
  int32_t (*aoti_torch_empty_strided)(int64_t rank, const int64_t* sizes, const int64_t* strides,
                                      int32_t dtype, int32_t device_type, int32_t device_index,
                                      TensorHandle* out);
  bool (*aoti_torch_grad_mode_is_enabled)();
  uint64_t (*aoti_torch_abi_version)();
  int32_t (*torch_set_requires_grad)(TensorHandle tensor, bool requires_grad);
  /// Throws torch's error unless `holds`.
  void (*aoti_torch_check)(bool holds, const char* function, const char* file, uint32_t line,
                           const char* message);
  int32_t (*torch_list_size)(ListHandle list, size_t* out);
  int32_t (*torch_list_get_item)(ListHandle list, size_t index, uint64_t* out);
  int32_t (*torch_delete_list)(ListHandle list);
  int32_t (*torch_string_length)(StringHandle text, size_t* out);
  int32_t (*torch_string_c_str)(StringHandle text, const char** borrowed);
  int32_t (*torch_delete_string)(StringHandle text);
  int32_t (*aoti_torch_library_init_fragment)(const char* space, const char* file, uint32_t line,
                                              LibraryHandle* out);
  int32_t (*aoti_torch_library_init_impl)(const char* space, const char* key, const char* file,
                                          uint32_t line, LibraryHandle* out);
  int32_t (*aoti_torch_library_def)(LibraryHandle library, const char* schema);
  int32_t (*torch_library_impl)(LibraryHandle library, const char* name,
                                void (*kernel)(uint64_t*, uint64_t, uint64_t), uint64_t version);
  int32_t (*aoti_torch_delete_library_object)(LibraryHandle library);
  /// Null where this torch has no CUDA.
  int32_t (*aoti_torch_get_current_cuda_stream)(int32_t device, void** out);
  /// Null where this torch does not say why something failed (before 2.13).
  const char* (*torch_exception_get_what_without_backtrace)();
  /// c10::TensorImpl::requires_grad, of which the shim has no form; null where it does not
  /// say of what a handle points to what was set.
  bool (*requires_grad)(const void* tensor);
  /// c10::TensorImpl::_fw_grad: the tangent of forward mode at a level, by reference. Null where a
  /// later torch has none, or where it does not say of a fresh tensor that there is none.
  const void* const* (*fw_grad)(const void* tensor, uint64_t level, const void* handle);
  const void* no_tangent;  ///< what it gives where there is none
  /// at::Tensor::is_inference and torch::autograd::impl::bump_version, of which the shim has no
  /// form: a handle is the tensor that they take by reference. Null where a later torch has none.
  bool (*is_inference)(const void* handle);
  void (*bump_version)(const void* handle);

  /// By torch's number of a dtype; bits 0: none that is known here.
  sl_dtype dtypes[64];
  int32_t cpu, cuda, meta;  ///< torch's numbers of device types
  /// torch's number of a dtype; -1: it has none.
  int32_t numberOf(sl_dtype dtype) const;
  bool requiresGrad(TensorHandle tensor) const {
    return requires_grad && requires_grad(*static_cast<void* const*>(tensor));
  }
  bool hasTangent(TensorHandle tensor) const {
    return fw_grad && *fw_grad(*static_cast<void* const*>(tensor), 0, tensor) != no_tangent;
  }
  /// Tells autograd that a tensor is written; those of inference mode have no version.
  void countWrite(TensorHandle tensor) const {
    if (bump_version && is_inference && !is_inference(tensor)) {
      bump_version(tensor);
    }
  }
};

/// Null when the process has no torch of 2.10 or later, and the message says so. Any thread.
const TorchFunctions* torchFunctions(sl_message* message);

}  // namespace straightline::ffi

#endif  // STRAIGHTLINE_RUNTIME_FFI_TORCH_FUNCTIONS_H
