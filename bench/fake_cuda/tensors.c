// SPDX-License-Identifier: Apache-2.0
// Tensors on a device that is not there, with DLPack's exchange table, which is all that a call of
// a compiled function asks of a framework. An address stands for memory that nobody touches.
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "straightline/abi/dlpack.h"

enum { kRank = 8, kCuda = 2 };

typedef struct Tensor {
  PyObject_HEAD sl_dl_tensor tensor;
  int64_t sizes[2 * kRank];
  sl_dl_managed* managed;
} Tensor;

static PyObject* type_;
static uintptr_t next_ = (uintptr_t)1 << 44;
static uintptr_t free_;  // the address that was given back last, taken by the next one
static int keeps_;       // addresses never come back
static void* stream_;    // the current one; NULL: the default

static void release(sl_dl_managed* managed) {
  free_ = (uintptr_t)managed->tensor.data;
  free(managed);
}

static int allocate(sl_dl_tensor* prototype, sl_dl_managed** out, void* user,
                    void (*fail)(void*, const char*, const char*)) {
  sl_dl_managed* made = calloc(1, sizeof(sl_dl_managed));
  made->version.major = 1;
  made->deleter = release;
  made->tensor = *prototype;
  made->tensor.data = (void*)(free_ && !keeps_ ? free_ : (next_ += 1 << 20));
  free_ = 0;
  *out = made;
  return 0;
}

static int own(void* object, sl_dl_managed** out) { return -1; }

static Tensor* describe(const sl_dl_tensor* like) {
  Tensor* self = (Tensor*)PyType_GenericAlloc((PyTypeObject*)type_, 0);
  self->tensor = *like;
  memcpy(self->sizes, like->shape, (size_t)like->rank * sizeof(int64_t));
  memcpy(self->sizes + kRank, like->strides, (size_t)like->rank * sizeof(int64_t));
  self->tensor.shape = self->sizes;
  self->tensor.strides = self->sizes + kRank;
  return self;
}

static int wrap(sl_dl_managed* managed, void** object) {
  Tensor* self = describe(&managed->tensor);
  self->managed = managed;
  *object = self;
  return 0;
}

static int borrow(void* object, sl_dl_tensor* out) {
  *out = ((Tensor*)object)->tensor;
  return 0;
}

static int stream(int32_t type, int32_t device, void** out) {
  *out = stream_;
  return 0;
}

static const sl_dl_exchange table_ = {{1, 3}, NULL, allocate, own, wrap, borrow, stream};

static void dealloc(PyObject* object) {
  Tensor* self = (Tensor*)object;
  PyTypeObject* type = Py_TYPE(object);
  if (self->managed) {
    self->managed->deleter(self->managed);
  }
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

/// make(shape, strides, code, bits): at an address of its own.
static PyObject* make(PyObject* module, PyObject* args) {
  PyObject *shape, *strides;
  int code, bits;
  if (!PyArg_ParseTuple(args, "O!O!ii", &PyTuple_Type, &shape, &PyTuple_Type, &strides, &code,
                        &bits)) {
    return NULL;
  }
  int64_t sizes[kRank], steps[kRank];
  const int32_t rank = (int32_t)PyTuple_Size(shape);
  for (int32_t d = 0; d < rank && d < kRank; ++d) {
    sizes[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    steps[d] = PyLong_AsLongLong(PyTuple_GetItem(strides, d));
  }
  const sl_dl_tensor like = {(void*)(next_ += (uintptr_t)1 << 32),
                             {kCuda, 0},
                             rank,
                             {(uint8_t)code, (uint8_t)bits, 1},
                             sizes,
                             steps,
                             0};
  return (PyObject*)describe(&like);
}

/// keeps(flag): whether addresses of tensors that went never come back.
static PyObject* keeps(PyObject* module, PyObject* flag) {
  keeps_ = PyObject_IsTrue(flag);
  free_ = 0;
  Py_RETURN_NONE;
}

/// place(tensor): its address.
static PyObject* place(PyObject* module, PyObject* tensor) {
  return PyLong_FromVoidPtr(((Tensor*)tensor)->tensor.data);
}

/// shift(tensor, bytes): moves the address at which it begins.
static PyObject* shift(PyObject* module, PyObject* args) {
  PyObject* tensor;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "On", &tensor, &bytes)) {
    return NULL;
  }
  ((Tensor*)tensor)->tensor.data = (char*)((Tensor*)tensor)->tensor.data + bytes;
  Py_RETURN_NONE;
}

/// stream(handle): the current one from now on.
static PyObject* setStream(PyObject* module, PyObject* handle) {
  stream_ = PyLong_AsVoidPtr(handle);
  Py_RETURN_NONE;
}

PyMODINIT_FUNC PyInit_fake_tensors(void) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc}, {0, NULL}};
  static PyType_Spec spec = {"fake_tensors.Tensor", sizeof(Tensor), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyMethodDef methods[] = {
      {"make", make, METH_VARARGS, ""},  {"keeps", keeps, METH_O, ""},
      {"place", place, METH_O, ""},      {"shift", shift, METH_VARARGS, ""},
      {"stream", setStream, METH_O, ""}, {NULL, NULL, 0, NULL}};
  static struct PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "fake_tensors", NULL, -1, methods, NULL, NULL, NULL, NULL};
  PyObject* module = PyModule_Create(&definition);
  type_ = PyType_FromSpec(&spec);
  PyObject* capsule = PyCapsule_New((void*)&table_, SL_DL_EXCHANGE_CAPSULE, NULL);
  if (!module || !type_ || !capsule ||
      PyObject_SetAttrString(type_, SL_DL_EXCHANGE_ATTRIBUTE, capsule)) {
    return NULL;
  }
  return module;
}
