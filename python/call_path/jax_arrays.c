// SPDX-License-Identifier: Apache-2.0
// Arrays of JAX on the host or a CUDA device: borrowed by their address, once they are computed,
// and made of fresh outputs through DLPack. Their type has no exchange table, and its `__dlpack__`
// is Python code.
//
// On a device a call waits for its own end, so that JAX gets results that are there and may give
// away the memory of arguments: JAX's allocator follows JAX's stream alone. Results lie in memory
// of PyTorch's allocator. When JAX drops one, its kernels may still read it, and JAX does not say
// until when, so that the memory goes back at the next call, after all work of the device.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "call_path.h"
#include "straightline/abi/cuda_calls.h"

// Looked up once when jaxlib is imported; never released.
static struct {
  PyTypeObject* array;
  PyObject *ready, *address, *deleted, *shape, *dtype, *sharding, *own_device;  // attributes
  PyObject* make;      // from a capsule of DLPack
  int takes_platform;  // `make` takes DLPack's number of the platform, too
  int has_cuda;        // 1: some array was on a CUDA device
} jax_;

// Devices of JAX that are known by now.
enum { kMaxDevices = 17 };
typedef struct Device {
  PyObject* object;
  int32_t type, number;  // DLPack's
} Device;
static Device devices_[kMaxDevices];
static int device_count_;

// Element types by numpy's object for them, of which there is one each.
enum { kMaxDtypes = 24 };
static struct {
  PyObject* object;
  sl_dtype dtype;
} dtypes_[kMaxDtypes];
static int dtype_count_;

int slJaxLearn(void) {
  if (jax_.array) {
    return 0;
  }
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* library = modules ? PyDict_GetItemString(modules, "jaxlib._jax") : NULL;
  if (!library) {
    library = modules ? PyDict_GetItemString(modules, "jaxlib.xla_extension") : NULL;
  }
  PyObject* array = library ? PyObject_GetAttrString(library, "ArrayImpl") : NULL;
  if (!array || !PyType_Check(array)) {  // not there, or not yet whole
    Py_XDECREF(array);
    PyErr_Clear();
    return 0;
  }
  if (!(jax_.ready = PyUnicode_InternFromString("block_until_ready")) ||
      !(jax_.address = PyUnicode_InternFromString("unsafe_buffer_pointer")) ||
      !(jax_.deleted = PyUnicode_InternFromString("is_deleted")) ||
      !(jax_.shape = PyUnicode_InternFromString("shape")) ||
      !(jax_.dtype = PyUnicode_InternFromString("dtype")) ||
      !(jax_.sharding = PyUnicode_InternFromString("sharding")) ||
      !(jax_.own_device = PyUnicode_InternFromString("_device"))) {
    Py_DECREF(array);
    return -1;
  }
  jax_.array = (PyTypeObject*)array;
  return 0;
}

int slIsJaxArray(PyTypeObject* type) { return jax_.array && type == jax_.array; }

static PyObject* called(PyObject* object, PyObject* name) {
  PyObject* method = PyObject_GetAttr(object, name);
  PyObject* result = method ? PyObject_CallNoArgs(method) : NULL;
  Py_XDECREF(method);
  return result;
}

/// The device of a sharding that has one by itself, NULL (no exception) for another one.
static PyObject* deviceOf(PyObject* sharding) {
  PyObject* device = PyObject_GetAttr(sharding, jax_.own_device);
  if (!device) {
    PyErr_Clear();
  }
  return device;
}

/// Notes a device; the last place stands for all that have none of their own.
static void noteDevice(PyObject* device, int32_t type, int32_t number) {
  const int place = device_count_ < kMaxDevices ? device_count_++ : kMaxDevices - 1;
  Py_XDECREF(devices_[place].object);
  devices_[place] = (Device){Py_NewRef(device), type, number};
}

/// Where an array lies, in DLPack's terms. 1, 0 where it does not lie on one device that programs
/// take, -1 with an exception.
static int placeOf(PyObject* object, int32_t* type, int32_t* number) {
  PyObject* sharding = PyObject_GetAttr(object, jax_.sharding);
  if (!sharding) {
    return -1;
  }
  PyObject* device = deviceOf(sharding);
  int found = 0;
  for (int i = 0; device && !found && i < device_count_; ++i) {
    if (devices_[i].object == device) {
      *type = devices_[i].type;
      *number = devices_[i].number;
      found = 1;
    }
  }
  if (!found) {
    PyObject* place = slSupport("jax_place", "(O)", sharding);
    found = place && PyArg_ParseTuple(place, "ii", type, number) ? *type > 0 : -1;
    Py_XDECREF(place);
    if (found == 1 && device) {
      noteDevice(device, *type, *number);
    }
  }
  if (found == 1 && *type == SL_DLPACK_CUDA) {
    jax_.has_cuda = 1;
  }
  Py_XDECREF(device);
  Py_DECREF(sharding);
  return found;
}

static int dtypeOf(PyObject* object, sl_dtype* dtype) {
  PyObject* own = PyObject_GetAttr(object, jax_.dtype);
  if (!own) {
    return -1;
  }
  for (int i = 0; i < dtype_count_; ++i) {
    if (dtypes_[i].object == own) {
      *dtype = dtypes_[i].dtype;
      Py_DECREF(own);
      return 0;
    }
  }
  PyObject* pair = slSupport("dlpack_dtype", "(O)", own);
  int code = -1;
  int bits = 0;
  const int known = pair && PyArg_ParseTuple(pair, "ii", &code, &bits) && code >= 0;
  Py_XDECREF(pair);
  if (known) {
    *dtype = (sl_dtype){(uint8_t)code, (uint8_t)bits, 1};
    if (dtype_count_ < kMaxDtypes) {
      dtypes_[dtype_count_].object = Py_NewRef(own);
      dtypes_[dtype_count_++].dtype = *dtype;
    }
  }
  Py_DECREF(own);
  return known ? 0 : -1;
}

/// Sizes and row-major strides into `borrow`. 0 or -1.
static int sizesOf(PyObject* object, sl_tensor* tensor, sl_borrow* borrow) {
  PyObject* shape = PyObject_GetAttr(object, jax_.shape);
  const Py_ssize_t rank = shape && PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
  int failed = rank < 0 || rank > SL_MAX_RANK;
  int64_t step = 1;
  for (Py_ssize_t d = rank - 1; !failed && d >= 0; --d) {
    borrow->shape[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    borrow->strides[d] = step;
    step *= borrow->shape[d];
  }
  Py_XDECREF(shape);
  tensor->shape = borrow->shape;
  tensor->strides = borrow->strides;
  tensor->rank = (int32_t)rank;
  return failed || PyErr_Occurred() ? -1 : 0;
}

/// The address of an array that is computed now. 0, or -1 with or without an exception.
static int addressOf(PyObject* object, void** data) {
  PyObject* itself = called(object, jax_.ready);
  if (!itself) {
    return -1;
  }
  Py_DECREF(itself);
  PyObject* address = called(object, jax_.address);
  *data = address ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  return PyErr_Occurred() ? -1 : 0;
}

/// The address that this very object was seen with, unless it was deleted. 1, 0, or -1.
static int seenAddress(const sl_seen* seen, PyObject* object, void** data) {
  if (!seen || !seen->weak || PyWeakref_GetObject(seen->weak) != object) {
    return 0;
  }
  PyObject* deleted = called(object, jax_.deleted);
  const int is = deleted ? deleted == Py_False : -1;
  Py_XDECREF(deleted);
  *data = seen->data;
  return is;
}

int slBorrowJax(PyObject* object, sl_seen* seen, sl_tensor* tensor, sl_borrow* borrow) {
  int known = seenAddress(seen, object, &tensor->data);
  tensor->device_type = SL_DLPACK_CPU;
  tensor->device_id = 0;
  if (known < 0 || ((!known || jax_.has_cuda) &&
                    placeOf(object, &tensor->device_type, &tensor->device_id) != 1)) {
    return -1;
  }
  if (!known) {
    if (addressOf(object, &tensor->data)) {
      return -1;
    }
    if (seen && seen->last == object) {
      Py_CLEAR(seen->weak);
      seen->weak = PyWeakref_NewRef(object, NULL);
      seen->data = tensor->data;
      if (!seen->weak) {
        return -1;
      }
    } else if (seen) {
      seen->last = object;
    }
  }
  if (dtypeOf(object, &tensor->dtype) || sizesOf(object, tensor, borrow)) {
    return -1;
  }
  borrow->kind = SL_KIND_JAX;
  borrow->exchange = slJaxExchange();
  borrow->read_only = 1;
  return 0;
}

// ---- results

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
  for (int i = 0; jax_.make && i < device_count_; ++i) {
    if (devices_[i].type == type && devices_[i].number == number) {
      return devices_[i].object;
    }
  }
  PyObject* found = slSupport("jax_maker", "(ii)", (int)type, (int)number);
  PyObject *make = NULL, *device = NULL, *known = NULL;
  int takes = 0;
  if (found && PyArg_ParseTuple(found, "OOp", &make, &device, &takes)) {
    if (!jax_.make) {
      jax_.make = Py_NewRef(make);
      jax_.takes_platform = takes;
    }
    noteDevice(device, type, number);
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
  if (jax_.takes_platform) {
    PyObject* kind = PyLong_FromLong(type);
    *object = kind ? PyObject_CallFunctionObjArgs(jax_.make, capsule, device, Py_None, Py_None,
                                                  kind, NULL)
                   : NULL;
    Py_XDECREF(kind);
  } else {
    *object = PyObject_CallFunctionObjArgs(jax_.make, capsule, device, Py_None, Py_None, NULL);
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
