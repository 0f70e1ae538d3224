// SPDX-License-Identifier: Apache-2.0
// Storage of fresh outputs, and its hand-over to the caller's framework.
#include <stdlib.h>
#include <string.h>

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
    return slNoMemory(plan, bytes);
  }
  return fresh->object ? slNumpyData(fresh->object, &fresh->data) : -1;
}

/// Makes the allocator's message an exception.
static void allocationFailed(void* user, const char* kind, const char* message) {
  (void)kind;
  if (!PyErr_Occurred()) {
    slNotAllocated(user, message);
  }
}

/// The framework allocates, so that its own pool and its rules for streams apply. It allocates a
/// 1-d tensor, whose description then gets our sizes and strides.
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
  if (plan->spare) {
    fresh->block = plan->spare;
    fresh->data = plan->spare->tensor.data;
    plan->spare = NULL;
    return 0;
  }
  const int32_t rank = plan->buffer->rank;
  const size_t header = sizeof(Block) + 2 * (size_t)rank * sizeof(int64_t);
  Block* block = malloc(header + (size_t)bytes + kAlignment);
  if (!block) {
    return slNoMemory(plan, bytes);
  }
  for (int32_t d = 0; d < rank; ++d) {
    block->sizes[d] = shape[d];
    block->sizes[rank + d] = strides[d];
  }
  uintptr_t data = ((uintptr_t)block + header + kAlignment - 1) & ~(uintptr_t)(kAlignment - 1);
  block->managed = (sl_dl_managed){
      .version = {SL_DLPACK_MAJOR, SL_DLPACK_MINOR},
      .context = block,  // Paddle calls the deleter of nothing else
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

int slFreshTrim(sl_fresh* fresh, sl_kind kind, sl_output_plan* plan, const int64_t* extents) {
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  const int32_t rank = plan->buffer->rank;
  slOutputShape(plan->buffer, extents, shape, strides);
  if (fresh->block) {
    for (int32_t d = 0; d < rank; ++d) {
      fresh->block->tensor.shape[d] = shape[d];
      fresh->block->tensor.strides[d] = strides[d];
    }
    return 0;
  }
  PyObject* sizes = slSizeTuple(rank, shape);
  PyObject* steps = sizes ? slSizeTuple(rank, strides) : NULL;
  PyObject* view = steps ? slSupport("view", "(sOOOL)", kind == SL_KIND_NUMPY ? "numpy" : "torch",
                                     fresh->object, sizes, steps, 0LL)
                         : NULL;
  Py_XDECREF(sizes);
  Py_XDECREF(steps);
  if (!view) {
    return -1;
  }
  Py_DECREF(fresh->object);
  fresh->object = view;
  return 0;
}

void slFreshTakeGiven(sl_fresh* fresh, sl_output_plan* plan, sl_given* given) {
  if (!fresh->block || fresh->data != given->data || !plan->fixed) {
    return;
  }
  if (given->handle) {
    slGivenOpen(given);
  }
  if (!given->object) {
    return;
  }
  const sl_dl_tensor* tensor = &given->tensor;
  const int32_t rank = plan->buffer->rank;
  const size_t sizes = (size_t)rank * sizeof(int64_t);
  const sl_dtype want = plan->buffer->dtype;
  // Another statement may have written the output since.
  if (tensor->rank == rank && tensor->dtype.code == want.code && tensor->dtype.bits == want.bits &&
      memcmp(tensor->shape, plan->shape, sizes) == 0 && tensor->strides &&
      memcmp(tensor->strides, plan->strides, sizes) == 0 &&
      memcmp((char*)tensor->data + tensor->byte_offset, fresh->data, (size_t)plan->bytes) == 0) {
    if (plan->spare) {
      plan->spare->deleter(plan->spare);
    }
    plan->spare = fresh->block;
    fresh->block = NULL;
    fresh->object = given->object;
    given->object = NULL;
  }
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
