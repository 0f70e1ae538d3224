// SPDX-License-Identifier: Apache-2.0
// Arrays of JAX on the host: borrowed by their address, once they are computed, and made of fresh
// outputs through DLPack. Their type has no exchange table, and its `__dlpack__` is Python code.
#include <stdlib.h>
#include <string.h>

#include "call_path.h"

// Looked up once when jaxlib is imported; never released.
static struct {
  PyTypeObject* array;
  PyObject *ready, *address, *deleted, *shape, *dtype, *sharding, *own_device;  // attributes
  PyObject* host;      // a device that is known to be of the host
  PyObject* make;      // from a capsule of DLPack
  PyObject* device;    // the device of results
  int takes_platform;  // `make` takes DLPack's number of the platform, too
} jax_;

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

/// 1 where the array lies on one device of the host, 0 where not, -1 with an exception. The last
/// device that is of the host is remembered: there is one, as a rule.
static int isOnHost(PyObject* object) {
  PyObject* sharding = PyObject_GetAttr(object, jax_.sharding);
  if (!sharding) {
    return -1;
  }
  PyObject* device = deviceOf(sharding);
  int on_host = device && device == jax_.host;
  if (!on_host) {
    PyObject* answer = slSupport("jax_on_host", "(O)", sharding);
    on_host = answer ? answer == Py_True : -1;
    Py_XDECREF(answer);
    if (on_host == 1 && device) {
      Py_XDECREF(jax_.host);
      jax_.host = Py_NewRef(device);
    }
  }
  Py_XDECREF(device);
  Py_DECREF(sharding);
  return on_host;
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
  if (isOnHost(object) != 1) {
    return -1;
  }
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
  if (known < 0) {
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
  tensor->device_type = SL_DLPACK_CPU;
  tensor->device_id = 0;
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
} Legacy;

static void freeLegacy(sl_dl_managed_legacy* managed) {
  Legacy* legacy = managed->context;
  legacy->block->deleter(legacy->block);
  free(legacy);
}

static void dropCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) {  // nobody took it
    sl_dl_managed_legacy* managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
  }
}

static int learnMaker(void) {
  if (jax_.make) {
    return 0;
  }
  PyObject* found = slSupport("jax_maker", "()");
  PyObject *make = NULL, *device = NULL;
  int takes = 0;
  const int parsed = found && PyArg_ParseTuple(found, "OOp", &make, &device, &takes);
  if (parsed) {
    jax_.make = Py_NewRef(make);
    jax_.device = Py_NewRef(device);
    jax_.takes_platform = takes;
  }
  Py_XDECREF(found);
  return parsed ? 0 : -1;
}

static int wrapJax(sl_dl_managed* block, void** object) {
  Legacy* legacy = malloc(sizeof(Legacy));
  if (!legacy || learnMaker()) {
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
    PyObject* host = PyLong_FromLong(SL_DLPACK_CPU);
    *object = host ? PyObject_CallFunctionObjArgs(jax_.make, capsule, jax_.device, Py_None, Py_None,
                                                  host, NULL)
                   : NULL;
    Py_XDECREF(host);
  } else {
    *object = PyObject_CallFunctionObjArgs(jax_.make, capsule, jax_.device, Py_None, Py_None, NULL);
  }
  Py_DECREF(capsule);
  return *object ? 0 : -1;
}

const sl_dl_exchange* slJaxExchange(void) {
  static const sl_dl_exchange table = {.version = {SL_DLPACK_MAJOR, SL_DLPACK_MINOR},
                                       .wrap = wrapJax};
  return &table;
}
