// SPDX-License-Identifier: Apache-2.0
// Fresh results on a device as torch's own tensors. A tensor that torch imports by DLPack cannot be
// resized, and `record_stream` has no effect on it: its memory may be written again while another
// stream still reads it, because it does not belong to torch's allocator.
#include <dlfcn.h>

#include "call_path.h"

/// torch's C shim (torch/csrc/inductor/aoti_torch/c/shim.h), and the function of its Python library
/// that makes an object of a tensor; a handle of the shim is the address of an at::Tensor. All null
/// where this torch lacks one of them.
static struct {
  int looked;
  int (*empty)(int64_t rank, const int64_t* shape, const int64_t* strides, int32_t dtype,
               int32_t device_type, int32_t device, void** handle);
  int (*drop)(void* handle);
  PyObject* (*wrap)(const void* handle);
  PyObject* (*take)(void* handle);  ///< the same, of which nothing is left at the handle; nullable
} shim_;

static void lookUp(void) {
  shim_.looked = 1;
  void* library = dlopen("libtorch_python.so", RTLD_NOLOAD | RTLD_LAZY);
  if (!library) {
    return;
  }
  *(void**)&shim_.empty = dlsym(library, "aoti_torch_empty_strided");
  *(void**)&shim_.drop = dlsym(library, "aoti_torch_delete_tensor_object");
  *(void**)&shim_.wrap = dlsym(library, "_Z16THPVariable_WrapRKN2at10TensorBaseE");
  *(void**)&shim_.take = dlsym(library, "_Z16THPVariable_WrapON2at10TensorBaseE");
  if (!shim_.drop || !shim_.wrap) {
    shim_.empty = NULL;
  }
}

int slTorchHasHandles(void) {
  if (!shim_.looked) {
    lookUp();
  }
  return shim_.empty != NULL;
}

PyObject* slTorchObjectOf(void* handle) {
  // An object of a tensor that others have too has one reference more while they do, and taking it
  // back asks for the GIL.
  PyObject* object = shim_.take ? shim_.take(handle) : shim_.wrap(handle);
  shim_.drop(handle);
  return object;
}

void slTorchDrop(void* handle) { shim_.drop(handle); }

/// torch's number of a dtype (c10::ScalarType, which files of torch hold too), -1 for others than
/// these.
static int32_t scalarType(sl_dtype dtype) {
  static const struct {
    uint8_t code, bits, number;
  } known[] = {{0, 8, 1},   {0, 16, 2},  {0, 32, 3},  {0, 64, 4},   {1, 8, 0},
               {1, 16, 27}, {1, 32, 28}, {1, 64, 29}, {2, 16, 5},   {2, 32, 6},
               {2, 64, 7},  {4, 16, 15}, {5, 64, 9},  {5, 128, 10}, {6, 8, 11}};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
    if (known[i].code == dtype.code && known[i].bits == dtype.bits && dtype.lanes == 1) {
      return known[i].number;
    }
  }
  return -1;
}

/// For larger results half a microsecond does not matter. Memory runs out mostly for them, and then
/// the shim of torch 2.11 writes a backtrace to the error stream.
enum { kSmallBytes = 1 << 20 };

static PyObject* byShim(const sl_output_plan* plan, int64_t bytes, const int64_t* shape,
                        const int64_t* strides) {
  // Of aoti_torch_device_type_cuda and _privateuse1.
  enum { kCuda = 1, kPrivateUse1 = 20 };
  if (!shim_.looked) {
    lookUp();
  }
  const int32_t type = scalarType(plan->buffer->dtype);
  void* handle = NULL;
  if (!shim_.empty || type < 0 || bytes > kSmallBytes || plan->device_type == SL_DLPACK_CPU ||
      shim_.empty(plan->buffer->rank, shape, strides, type,
                  plan->device_type == SL_DLPACK_CUDA ? kCuda : kPrivateUse1, plan->device,
                  &handle)) {
    return NULL;
  }
  PyObject* object = shim_.wrap(handle);
  shim_.drop(handle);
  return object;
}

/// Also where the shim failed, which does not say why.
static PyObject* byPython(const sl_output_plan* plan, const int64_t* shape,
                          const int64_t* strides) {
  PyErr_Clear();
  PyObject* sizes = slSizeTuple(plan->buffer->rank, shape);
  PyObject* steps = sizes ? slSizeTuple(plan->buffer->rank, strides) : NULL;
  PyObject* device = steps ? slDeviceName(plan->device_type, plan->device) : NULL;
  PyObject* object = device ? slSupport("torch_empty_strided", "(OOiiO)", sizes, steps,
                                        plan->buffer->dtype.code, plan->buffer->dtype.bits, device)
                            : NULL;
  Py_XDECREF(sizes);
  Py_XDECREF(steps);
  Py_XDECREF(device);
  if (!object && PyErr_ExceptionMatches(PyExc_Exception)) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject* words = value ? PyObject_Str(value) : NULL;
    slNotAllocated(plan, words ? PyUnicode_AsUTF8AndSize(words, NULL) : NULL);
    Py_XDECREF(words);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  return object;
}

PyObject* slTorchEmpty(const sl_output_plan* plan, const sl_dl_exchange* exchange, int64_t bytes,
                       const int64_t* shape, const int64_t* strides, void** data) {
  PyObject* object = byShim(plan, bytes, shape, strides);
  if (!object) {
    object = byPython(plan, shape, strides);
  }
  sl_dl_tensor tensor;
  if (!object || exchange->borrow(object, &tensor)) {
    Py_XDECREF(object);
    return NULL;
  }
  const sl_dtype want = plan->buffer->dtype;
  if (tensor.dtype.code != want.code || tensor.dtype.bits != want.bits ||
      tensor.device.type != plan->device_type || tensor.device.id != plan->device) {
    PyErr_Format(slInternalError,
                 "torch made a tensor of another dtype or device than result '%s' has",
                 plan->buffer->source);
    Py_DECREF(object);
    return NULL;
  }
  if (!tensor.data && bytes > 0) {
    PyErr_Format(
        slUnsupportedError,
        "torch made result '%s' without memory, as in a mode of fake tensors: call outside of it",
        plan->buffer->source);
    Py_DECREF(object);
    return NULL;
  }
  *data = (char*)tensor.data + tensor.byte_offset;
  return object;
}
