// SPDX-License-Identifier: Apache-2.0
// The C functions of libtorch that are called, found by name in the running process. Their
// prototypes are facts of torch's stable C ABI (torch/csrc/stable/c/shim.h and
// torch/csrc/inductor/aoti_torch/c/shim.h of 2.10 and newer); no header of torch is read.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_TORCH_FUNCTIONS_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_TORCH_FUNCTIONS_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "straightline/abi/kernel.h"

namespace straightline::aten {

/// One argument or result of a boxed call: the value itself in its low bytes, or a handle that
/// whoever receives it owns.
using StableValue = uint64_t;
using TensorHandle = void*;
using ListHandle = void*;
using StringHandle = void*;

/// Those that return int32_t give 0, or another number after a C++ exception.
struct TorchFunctions {
  // Boxed dispatcher. Takes over the handles of the arguments in `stack`, and writes the results
  // there.
  int32_t (*torch_call_dispatcher)(const char* op, const char* overload, StableValue* stack,
                                   uint64_t version);
  // Tensors.
  int32_t (*aoti_torch_create_tensor_from_blob)(void* data, int64_t rank, const int64_t* sizes,
                                                const int64_t* strides, int64_t offset,
                                                int32_t dtype, int32_t device_type,
                                                int32_t device_index, TensorHandle* out);
  int32_t (*aoti_torch_delete_tensor_object)(TensorHandle tensor);
  int32_t (*aoti_torch_get_dim)(TensorHandle tensor, int64_t* out);
  int32_t (*aoti_torch_get_sizes)(TensorHandle tensor, int64_t** borrowed);
  int32_t (*aoti_torch_get_dtype)(TensorHandle tensor, int32_t* out);
  int32_t (*aoti_torch_copy_)(TensorHandle to, TensorHandle from, int32_t non_blocking);
  // Lists and strings.
  int32_t (*torch_new_list_reserve_size)(size_t size, ListHandle* out);
  int32_t (*torch_list_size)(ListHandle list, size_t* out);
  int32_t (*torch_list_get_item)(ListHandle list, size_t index, StableValue* out);
  int32_t (*torch_list_push_back)(ListHandle list, StableValue element);
  int32_t (*torch_delete_list)(ListHandle list);
  int32_t (*torch_new_string_handle)(const char* data, size_t length, StringHandle* out);
  // Null where this torch has none; results are copied by torch then.
  int32_t (*aoti_torch_is_contiguous)(TensorHandle tensor, bool* out);
  int32_t (*aoti_torch_get_data_ptr)(TensorHandle tensor, void** borrowed);
  int32_t (*aoti_torch_get_device_type)(TensorHandle tensor, int32_t* out);
  /// at::native::is_neg, of torch's C++: whether the elements are still to be negated. Null where
  /// it does not say so of a tensor that torch negated lazily.
  bool (*is_negated)(TensorHandle tensor);
  // From 2.13 on; null before.
  const char* (*torch_exception_get_what_without_backtrace)();
  int32_t (*torch_new_stable_ivalue)(StableValue** out);
};

/// Null when the process has no torch of 2.10 or newer; `reason` (nullable) then says so.
const TorchFunctions* torchFunctions(std::string* reason);

/// Torch's number of `kind`_`name`, kinds being dtype, layout, memory_format and device_type; false
/// when it has no such thing.
bool torchNumber(const char* kind, const std::string& name, int32_t* out);

/// "cpu" or "cuda".
std::string deviceOf(const sl_problem& problem);

/// "float32", or "" for what torch has no name for.
std::string torchDtypeName(sl_dtype dtype);

}  // namespace straightline::aten

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_TORCH_FUNCTIONS_H
