// SPDX-License-Identifier: Apache-2.0
// Storage of fresh outputs and its hand-over, and the checks of `out=`.
#include <stdlib.h>

#include "call_path.h"

// One malloc per output: header, then shape and strides, then the elements from the next 64-byte
// boundary on. The C library's own per-thread cache of small blocks is faster than one of ours
// under the GIL (measured).
typedef struct Block {
  sl_dl_managed managed;
  int64_t sizes[];  // shape [rank], strides [rank]
} Block;
enum { kAlignment = 64 };

static void freeBlock(sl_dl_managed* managed) { free(managed); }

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

void slOutputPlanClear(sl_output_plan* plan) {
  Py_CLEAR(plan->numpy_dtype);
  Py_CLEAR(plan->numpy_shape);
  slKeptClear(plan);
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

static int isContiguous(int32_t rank, const int64_t* shape, const int64_t* strides) {
  int64_t want = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    if (shape[d] == 0) {
      return 1;
    }
    if (shape[d] != 1 && strides[d] != want) {
      return 0;
    }
    want *= shape[d];
  }
  return 1;
}

static int outOfMemory(const sl_output_plan* plan, int64_t bytes) {
  sl_message message;
  PyOS_snprintf(message.text, sizeof(message.text),
                "output '%s' needs %lld bytes, which could not be allocated", plan->buffer->source,
                (long long)bytes);
  slRaiseStatus(SL_OUT_OF_MEMORY, message.text);
  return -1;
}

static int allocateNumpy(sl_fresh* fresh, sl_output_plan* plan, int64_t bytes, const int64_t* shape,
                         const int64_t* strides) {
  static PyObject* numpy_empty;
  const int32_t rank = plan->buffer->rank;
  if (!numpy_empty) {
    PyObject* numpy = PyImport_ImportModule("numpy");
    numpy_empty = numpy ? PyObject_GetAttrString(numpy, "empty") : NULL;
    Py_XDECREF(numpy);
    if (!numpy_empty) {
      return -1;
    }
  }
  if (!plan->numpy_dtype) {
    plan->numpy_dtype =
        slSupport("numpy_dtype", "(ii)", plan->buffer->dtype.code, plan->buffer->dtype.bits);
    if (!plan->numpy_dtype) {
      return -1;
    }
  }
  PyObject* size = plan->numpy_shape;
  Py_XINCREF(size);
  if (!size) {
    size = slSizeTuple(rank, shape);
    if (size && plan->fixed) {
      Py_INCREF(size);
      plan->numpy_shape = size;
    }
  }
  if (size && isContiguous(rank, shape, strides)) {
    fresh->object = PyObject_CallFunctionObjArgs(numpy_empty, size, plan->numpy_dtype, NULL);
  } else if (size) {
    PyObject* steps = slSizeTuple(rank, strides);
    if (steps) {
      fresh->object = slSupport("numpy_empty_strided", "(OOOL)", size, steps, plan->numpy_dtype,
                                (long long)bytes);
      Py_DECREF(steps);
    }
  }
  Py_XDECREF(size);
  if (!fresh->object && PyErr_ExceptionMatches(PyExc_MemoryError)) {
    return outOfMemory(plan, bytes);
  }
  return fresh->object ? slNumpyData(fresh->object, &fresh->data) : -1;
}

int slOnDevice(const sl_tensor* tensor, int32_t device_type, int32_t device) {
  return tensor->device_type == device_type &&
         (device_type == SL_DLPACK_CPU || tensor->device_id == device);
}

PyObject* slDeviceName(int32_t device_type, int32_t device_id) {
  switch (device_type) {
    case SL_DLPACK_CPU:
      return PyUnicode_FromString("cpu");
    case SL_DLPACK_CUDA:
      return PyUnicode_FromFormat("cuda:%d", (int)device_id);
    default:
      return PyUnicode_FromFormat("dlpack device %d", (int)device_type);
  }
}

void slNotAllocated(const sl_output_plan* plan, const char* reason) {
  sl_message text;
  PyOS_snprintf(text.text, sizeof(text.text), "output '%s' could not be allocated: %s",
                plan->buffer->source, reason ? reason : "no reason given");
  slRaiseStatus(SL_OUT_OF_MEMORY, text.text);
}

/// What an allocator says becomes the exception.
static void allocationFailed(void* user, const char* kind, const char* message) {
  (void)kind;
  if (!PyErr_Occurred()) {
    slNotAllocated(user, message);
  }
}

/// By another framework, so that its own pool, and its rules of streams, hold. It allocates a row
/// of elements, which is then described anew: strides are ours.
static int allocateOnDevice(sl_fresh* fresh, const sl_dl_exchange* exchange, sl_output_plan* plan,
                            int64_t bytes, const int64_t* shape, const int64_t* strides) {
  if (!exchange || !exchange->allocate) {
    PyErr_SetString(slUnsupportedError,
                    "results on a device need a framework with a dlpack allocator, such as torch");
    return -1;
  }
  const int32_t rank = plan->buffer->rank;
  const int64_t item = (plan->buffer->dtype.bits * plan->buffer->dtype.lanes + 7) / 8;
  int64_t elements = (bytes + item - 1) / item;
  int64_t step = 1;
  sl_dl_tensor prototype = {.data = NULL,
                            .device = {plan->device_type, plan->device},
                            .rank = 1,
                            .dtype = plan->buffer->dtype,
                            .shape = &elements,
                            .strides = &step,
                            .byte_offset = 0};
  if (exchange->allocate(&prototype, &fresh->block, plan, allocationFailed)) {
    fresh->block = NULL;
    if (!PyErr_Occurred()) {
      allocationFailed(plan, NULL, NULL);
    }
    return -1;
  }
  for (int32_t d = 0; d < rank; ++d) {
    fresh->sizes[d] = shape[d];
    fresh->sizes[SL_MAX_RANK + d] = strides[d];
  }
  sl_dl_tensor* tensor = &fresh->block->tensor;
  tensor->rank = rank;
  tensor->shape = fresh->sizes;
  tensor->strides = fresh->sizes + SL_MAX_RANK;
  fresh->data = (char*)tensor->data + tensor->byte_offset;
  return 0;
}

int slFreshAllocate(sl_fresh* fresh, sl_kind kind, const sl_dl_exchange* exchange,
                    sl_output_plan* plan, int64_t bytes, const int64_t* shape,
                    const int64_t* strides) {
  if (plan->device_type != SL_DLPACK_CPU && kind == SL_KIND_TORCH) {
    fresh->object = slTorchEmpty(plan, exchange, bytes, shape, strides, &fresh->data);
    return fresh->object ? 0 : -1;
  }
  if (plan->device_type != SL_DLPACK_CPU) {
    return allocateOnDevice(fresh, exchange, plan, bytes, shape, strides);
  }
  if (kind == SL_KIND_NUMPY) {
    return allocateNumpy(fresh, plan, bytes, shape, strides);
  }
  const int32_t rank = plan->buffer->rank;
  const size_t header = sizeof(Block) + 2 * (size_t)rank * sizeof(int64_t);
  Block* block = malloc(header + (size_t)bytes + kAlignment);
  if (!block) {
    return outOfMemory(plan, bytes);
  }
  for (int32_t d = 0; d < rank; ++d) {
    block->sizes[d] = shape[d];
    block->sizes[rank + d] = strides[d];
  }
  uintptr_t data = ((uintptr_t)block + header + kAlignment - 1) & ~(uintptr_t)(kAlignment - 1);
  block->managed = (sl_dl_managed){
      .version = {SL_DLPACK_MAJOR, SL_DLPACK_MINOR},
      .context = NULL,
      .deleter = freeBlock,
      .flags = 0,
      .tensor = {.data = (void*)data,
                 .device = {SL_DLPACK_CPU, 0},
                 .rank = rank,
                 .dtype = plan->buffer->dtype,
                 .shape = block->sizes,
                 .strides = block->sizes + rank,
                 .byte_offset = 0},
  };
  fresh->block = &block->managed;
  fresh->data = (void*)data;
  return 0;
}

int slFreshWrap(sl_fresh* fresh, const sl_dl_exchange* exchange) {
  if (!fresh->block) {
    return 0;
  }
  void* object = NULL;
  sl_dl_managed* block = fresh->block;
  fresh->block = NULL;  // taken over, also on failure
  if (exchange->wrap(block, &object)) {
    return -1;
  }
  fresh->object = object;
  return 0;
}

void slFreshClear(sl_fresh* fresh) {
  if (fresh->block) {
    fresh->block->deleter(fresh->block);
    fresh->block = NULL;
  }
  Py_CLEAR(fresh->object);
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
