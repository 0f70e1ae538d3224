// SPDX-License-Identifier: Apache-2.0
// Fresh outputs as arrays of JAX, through DLPack.
//
// On a device a call waits for its own end, so that JAX gets results that are there and may give
// away the memory of arguments: JAX's allocator follows JAX's stream alone. Results lie in memory
// of PyTorch's allocator. When JAX drops one, its kernels may still read it, and JAX does not say
// until when, so that the memory goes back at the next call, after all work of the device.
#include <stdatomic.h>
#include <stdlib.h>

#include "call_path.h"
#include "straightline/abi/cuda_calls.h"

// What makes an array of a capsule of DLPack: looked up at the first result, never released.
static struct {
  PyObject* make;
  int takes_platform;  // it takes DLPack's number of the platform, too
} maker_;

/// DLPack's older description of a fresh output, which is all that jaxlib takes.
typedef struct Legacy {
  sl_dl_managed_legacy managed;
  sl_dl_managed* block;
  struct Legacy* next;
} Legacy;

/// Results on a device that JAX has dropped; any thread adds one.
static _Atomic(Legacy*) dropped_;

static void freeNow(Legacy* legacy) {
  legacy->block->deleter(legacy->block);
  free(legacy);
}

/// JAX's deleter of a result: on any thread, with or without the GIL.
static void freeLegacy(sl_dl_managed_legacy* managed) {
  Legacy* legacy = managed->context;
  if (managed->tensor.device.type == SL_DLPACK_CPU) {
    freeNow(legacy);
    return;
  }
  legacy->next = atomic_load(&dropped_);
  while (!atomic_compare_exchange_weak(&dropped_, &legacy->next, legacy)) {
  }
}

/// Frees what JAX has dropped, once no kernel reads it. 0, or -1 with an exception.
static int freeDropped(void) {
  if (!atomic_load(&dropped_)) {
    return 0;
  }
  Legacy* legacy = atomic_exchange(&dropped_, NULL);
  sl_message message;
  message.text[0] = '\0';
  int32_t status = SL_OK;
  PyThreadState* state = PyEval_SaveThread();
  int32_t waited = -1;
  for (Legacy* one = legacy; one && status == SL_OK; one = one->next) {
    if (one->managed.tensor.device.id != waited) {
      waited = one->managed.tensor.device.id;
      status = sl_cuda_finish(waited, message.text, sizeof(message.text));
    }
  }
  PyEval_RestoreThread(state);
  while (legacy) {
    Legacy* next = legacy->next;
    freeNow(legacy);
    legacy = next;
  }
  return status == SL_OK ? 0 : (slRaiseStatus(status, message.text), -1);
}

static void dropCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) {  // nobody took it
    sl_dl_managed_legacy* managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
  }
}

/// JAX's object for a device, borrowed; NULL with an exception.
static PyObject* resultDevice(int32_t type, int32_t number) {
  PyObject* known = maker_.make ? slJaxDevice(type, number) : NULL;
  if (known) {
    return known;
  }
  PyObject* found = slSupport("jax_maker", "(ii)", (int)type, (int)number);
  PyObject *make = NULL, *device = NULL;
  int takes = 0;
  if (found && PyArg_ParseTuple(found, "OOp", &make, &device, &takes)) {
    if (!maker_.make) {
      maker_.make = Py_NewRef(make);
      maker_.takes_platform = takes;
    }
    slJaxNoteDevice(device, type, number);
    known = device;  // which the table keeps
  }
  Py_XDECREF(found);
  return known;
}

static int wrapJax(sl_dl_managed* block, void** object) {
  Legacy* legacy = malloc(sizeof(Legacy));
  const int32_t type = block->tensor.device.type;
  PyObject* device = legacy ? resultDevice(type, block->tensor.device.id) : NULL;
  if (!device) {
    free(legacy);
    block->deleter(block);
    if (!PyErr_Occurred()) {
      PyErr_NoMemory();
    }
    return -1;
  }
  legacy->block = block;
  legacy->managed = (sl_dl_managed_legacy){block->tensor, legacy, freeLegacy};
  PyObject* capsule = PyCapsule_New(&legacy->managed, "dltensor", dropCapsule);
  if (!capsule) {
    freeLegacy(&legacy->managed);
    return -1;
  }
  if (maker_.takes_platform) {
    PyObject* kind = PyLong_FromLong(type);
    *object = kind ? PyObject_CallFunctionObjArgs(maker_.make, capsule, device, Py_None, Py_None,
                                                  kind, NULL)
                   : NULL;
    Py_XDECREF(kind);
  } else {
    *object = PyObject_CallFunctionObjArgs(maker_.make, capsule, device, Py_None, Py_None, NULL);
  }
  Py_DECREF(capsule);
  return *object ? 0 : -1;
}

static int allocateJax(sl_dl_tensor* prototype, sl_dl_managed** out, void* user,
                       void (*fail)(void* user, const char* kind, const char* message)) {
  const sl_dl_exchange* torch = slTorchExchange();
  if (!torch || freeDropped()) {
    return -1;
  }
  return torch->allocate(prototype, out, user, fail);
}

static int streamJax(int32_t device_type, int32_t device, void** out) {
  const sl_dl_exchange* torch = slTorchExchange();
  return torch ? torch->stream(device_type, device, out) : -1;
}

int slJaxFinish(int32_t device) {
  void* stream = NULL;
  if (streamJax(SL_DLPACK_CUDA, device, &stream)) {
    return -1;
  }
  sl_message message;
  message.text[0] = '\0';
  PyThreadState* state = PyEval_SaveThread();
  const int32_t status = sl_cuda_finish_stream(device, stream, message.text, sizeof(message.text));
  PyEval_RestoreThread(state);
  return status == SL_OK ? 0 : (slRaiseStatus(status, message.text), -1);
}

const sl_dl_exchange* slJaxExchange(void) {
  static const sl_dl_exchange table = {.version = {SL_DLPACK_MAJOR, SL_DLPACK_MINOR},
                                       .allocate = allocateJax,
                                       .wrap = wrapJax,
                                       .stream = streamJax};
  return &table;
}
