// SPDX-License-Identifier: Apache-2.0
// Arrays of JAX on the host or a CUDA device, borrowed by their address once they are computed.
// Their type has no exchange table, and its `__dlpack__` is Python code.
#include <string.h>

#include "call_path.h"
#include "straightline/abi/cuda_calls.h"

// Looked up once when jaxlib is imported; never released.
static struct {
  PyTypeObject* array;
  PyObject *ready, *address, *deleted, *shape, *dtype, *sharding, *own_device;  // attributes
  int has_cuda;  // 1: some array was on a CUDA device
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
void slJaxNoteDevice(PyObject* device, int32_t type, int32_t number) {
  const int place = device_count_ < kMaxDevices ? device_count_++ : kMaxDevices - 1;
  Py_XDECREF(devices_[place].object);
  devices_[place] = (Device){Py_NewRef(device), type, number};
}

PyObject* slJaxDevice(int32_t type, int32_t number) {
  for (int i = 0; i < device_count_; ++i) {
    if (devices_[i].type == type && devices_[i].number == number) {
      return devices_[i].object;
    }
  }
  return NULL;
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
      slJaxNoteDevice(device, *type, *number);
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

/// Sizes into `borrow`. 0 or -1.
static int sizesOf(PyObject* object, sl_tensor* tensor, sl_borrow* borrow) {
  PyObject* shape = PyObject_GetAttr(object, jax_.shape);
  const Py_ssize_t rank = shape && PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
  const int failed = rank < 0 || rank > SL_MAX_RANK;
  for (Py_ssize_t d = 0; !failed && d < rank; ++d) {
    borrow->shape[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
  }
  Py_XDECREF(shape);
  tensor->rank = (int32_t)rank;
  return failed || PyErr_Occurred() ? -1 : 0;
}

/// Remembers an array whose element type and sizes are known now. 0 or -1.
static int remember(sl_seen* seen, PyObject* object, const sl_tensor* tensor,
                    const sl_borrow* borrow) {
  slSeenClear(seen);
  const size_t bytes = (size_t)tensor->rank * sizeof(int64_t);
  seen->shape = PyMem_Malloc(bytes ? bytes : 1);
  if (!seen->shape) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(seen->shape, borrow->shape, bytes);
  seen->rank = tensor->rank;
  seen->dtype = tensor->dtype;
  seen->data = tensor->data;
  seen->weak = PyWeakref_NewRef(object, NULL);
  return seen->weak ? 0 : -1;
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
  if (!seen || !seen->weak || !seen->shape || PyWeakref_GetObject(seen->weak) != object) {
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
  if (known) {
    tensor->rank = seen->rank;
    tensor->dtype = seen->dtype;
    memcpy(borrow->shape, seen->shape, (size_t)seen->rank * sizeof(int64_t));
  } else if (addressOf(object, &tensor->data) || dtypeOf(object, &tensor->dtype) ||
             sizesOf(object, tensor, borrow)) {
    return -1;
  }
  int64_t step = 1;
  for (int32_t d = tensor->rank - 1; d >= 0; --d) {
    borrow->strides[d] = step;
    step *= borrow->shape[d];
  }
  tensor->shape = borrow->shape;
  tensor->strides = borrow->strides;
  if (!known && seen && seen->last == object && remember(seen, object, tensor, borrow)) {
    return -1;
  }
  if (!known && seen) {
    seen->last = object;
  }
  borrow->kind = SL_KIND_JAX;
  borrow->read_only = 1;
  return 0;
}
