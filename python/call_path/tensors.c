// SPDX-License-Identifier: Apache-2.0
// What the description of a tensor says: its memory, its device, its sizes.
#include <string.h>

#include "call_path.h"

sl_range slTensorRange(const sl_tensor* tensor) {
  int64_t low = 0;
  int64_t high = 1;
  int64_t contiguous = 1;
  for (int32_t d = tensor->rank - 1; d >= 0; --d) {
    if (tensor->shape[d] == 0) {
      return (sl_range){0, 0};
    }
    int64_t stride = tensor->strides ? tensor->strides[d] : contiguous;
    contiguous *= tensor->shape[d];
    int64_t reach = (tensor->shape[d] - 1) * stride;
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
  }
  int64_t bytes = (tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
  uintptr_t base = (uintptr_t)tensor->data;
  return (sl_range){base + (uintptr_t)(low * bytes), base + (uintptr_t)(high * bytes)};
}

int slRangesTouch(const sl_range* ranges, int32_t count, sl_range range) {
  int32_t first = 0;  // first range that ends after `range` begins
  int32_t last = count;
  while (first < last) {
    int32_t middle = (first + last) / 2;
    if (ranges[middle].high <= range.low) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first < count && slRangesOverlap(ranges[first], range);
}

int slOnDevice(const sl_tensor* tensor, int32_t device_type, int32_t device) {
  return tensor->device_type == device_type &&
         (device_type == SL_DLPACK_CPU || tensor->device_id == device);
}

int32_t slDeviceType(const sl_program_desc* desc, const sl_buffer* buffer) {
  const char* space = desc->spaces[buffer->space];
  return strcmp(space, "host") == 0   ? SL_DLPACK_CPU
         : strcmp(space, "cuda") == 0 ? SL_DLPACK_CUDA
                                      : SL_DLPACK_EXTENSION;
}

PyObject* slDeviceName(int32_t device_type, int32_t device_id) {
  switch (device_type) {
    case SL_DLPACK_CPU:
      return PyUnicode_FromString("cpu");
    case SL_DLPACK_CUDA:
      return PyUnicode_FromFormat("cuda:%d", (int)device_id);
    case SL_DLPACK_EXTENSION:
      return slSupport("extension_device_name", "(i)", (int)device_id);
    default:
      return PyUnicode_FromFormat("dlpack device %d", (int)device_type);
  }
}

PyObject* slSizeTuple(int32_t rank, const int64_t* values) {
  PyObject* tuple = PyTuple_New(rank);
  for (int32_t d = 0; tuple && d < rank; ++d) {
    PyObject* value = PyLong_FromLongLong(values[d]);
    if (!value || PyTuple_SetItem(tuple, d, value)) {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}
