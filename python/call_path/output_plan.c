// SPDX-License-Identifier: Apache-2.0
// Computes the sizes of a fresh output, checks a tensor given for it, and raises the error for
// missing memory.
#include "call_path.h"

int64_t slOutputShape(const sl_buffer* buffer, const int64_t* extents, int64_t* shape,
                      int64_t* strides) {
  int64_t last = 0;
  int empty = 0;
  for (int32_t d = 0; d < buffer->rank; ++d) {
    shape[d] = sl_expr_value(&buffer->extents[d], extents);
    strides[d] = sl_expr_value(&buffer->strides[d], extents);
    empty |= shape[d] == 0;
    last += (shape[d] - 1) * strides[d];
  }
  int64_t item = (buffer->dtype.bits * buffer->dtype.lanes + 7) / 8;
  int64_t touched = empty ? 0 : (last + 1) * item;
  int64_t owned = sl_expr_value(&buffer->bytes, extents);
  return owned > touched ? owned : touched;
}

int64_t slOutputRoom(const sl_buffer* buffer, const int64_t* extents, int64_t* shape,
                     int64_t* strides) {
  const int64_t item = (buffer->dtype.bits * buffer->dtype.lanes + 7) / 8;
  const int64_t bytes = sl_expr_value(&buffer->bytes, extents);
  for (int32_t d = 0; d < buffer->rank; ++d) {
    shape[d] = d == 0 ? bytes / item : 1;
    strides[d] = 1;
  }
  return bytes;
}

int slNoMemory(const sl_output_plan* plan, int64_t bytes) {
  sl_message message;
  PyOS_snprintf(message.text, sizeof(message.text),
                "output '%s' needs %lld bytes, which could not be allocated", plan->buffer->source,
                (long long)bytes);
  slRaiseStatus(SL_OUT_OF_MEMORY, message.text);
  return -1;
}

void slNotAllocated(const sl_output_plan* plan, const char* reason) {
  sl_message text;
  PyOS_snprintf(text.text, sizeof(text.text), "output '%s' could not be allocated: %s",
                plan->buffer->source, reason ? reason : "no reason given");
  slRaiseStatus(SL_OUT_OF_MEMORY, text.text);
}

int slOutCheck(const sl_tensor* tensor, const sl_borrow* borrow, PyObject* name,
               const sl_output_plan* plan, const int64_t* shape, const int64_t* strides) {
  const sl_buffer* buffer = plan->buffer;
  const sl_dtype want = buffer->dtype;
  if (!slOnDevice(tensor, plan->device_type, plan->device)) {
    PyObject* given = slDeviceName(tensor->device_type, tensor->device_id);
    PyObject* wanted = slDeviceName(plan->device_type, plan->device);
    if (given && wanted) {
      PyErr_Format(slGuardError, "out '%U' is on %U but the program runs on %U", name, given,
                   wanted);
    }
    Py_XDECREF(given);
    Py_XDECREF(wanted);
    return -1;
  }
  if (tensor->dtype.code != want.code || tensor->dtype.bits != want.bits ||
      tensor->dtype.lanes != want.lanes) {
    PyObject* both = slSupport("dtype_pair", "(iiii)", tensor->dtype.code, tensor->dtype.bits,
                               want.code, want.bits);
    if (both) {
      PyErr_Format(slGuardTypeError, "out '%U' has dtype %U was compiled", name, both);
      Py_DECREF(both);
    }
    return -1;
  }
  if (tensor->rank != buffer->rank) {
    PyErr_Format(slGuardError, "out '%U' has rank %d but the result has rank %d", name,
                 (int)tensor->rank, (int)buffer->rank);
    return -1;
  }
  int empty = 0;
  for (int32_t d = 0; d < tensor->rank; ++d) {
    if (tensor->shape[d] != shape[d]) {
      PyErr_Format(slGuardError, "out '%U' has size %lld in dim %d but the result has %lld", name,
                   (long long)tensor->shape[d], (int)d, (long long)shape[d]);
      return -1;
    }
    empty |= shape[d] == 0;
  }
  int64_t contiguous = 1;
  for (int32_t d = tensor->rank - 1; d >= 0 && !empty; --d) {
    int64_t stride = tensor->strides ? tensor->strides[d] : contiguous;
    contiguous *= shape[d];
    if (shape[d] != 1 && stride != strides[d]) {
      PyErr_Format(slGuardError, "out '%U' has stride %lld in dim %d but %lld was compiled", name,
                   (long long)stride, (int)d, (long long)strides[d]);
      return -1;
    }
  }
  if (borrow->read_only) {
    PyErr_Format(slGuardError, "out '%U' is read-only", name);
    return -1;
  }
  return 0;
}
