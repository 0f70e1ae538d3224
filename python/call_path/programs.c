// SPDX-License-Identifier: Apache-2.0
// Several callables as one, and new weights for all of them at once.
#include "callable.h"

/// group(first, others): calls of `first` that do not fit its own program go to those of the
/// others.
PyObject* slGroup(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* first = NULL;
  PyObject* others = NULL;
  if (!PyArg_ParseTuple(args, "OO!", &first, &PyTuple_Type, &others) || !slIsCallable(first)) {
    return NULL;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(others); ++i) {
    if (!slIsCallable(PyTuple_GetItem(others, i))) {
      return NULL;
    }
  }
  PyObject* before = ((Callable*)first)->others;
  Py_INCREF(others);
  ((Callable*)first)->others = others;
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

/// specialize(callable, programs): calls whose sizes are exactly those of one of the programs go to
/// that; there is at least one.
PyObject* slSpecialize(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* callable = NULL;
  PyObject* programs = NULL;
  if (!PyArg_ParseTuple(args, "OO!", &callable, &PyTuple_Type, &programs) ||
      !slIsCallable(callable)) {
    return NULL;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(programs); ++i) {
    if (!slIsCallable(PyTuple_GetItem(programs, i))) {
      return NULL;
    }
  }
  if (PyTuple_Size(programs) == 0) {
    PyErr_SetString(PyExc_ValueError, "specialize needs at least one program");
    return NULL;
  }
  Callable* self = (Callable*)callable;
  PyObject* before = self->special;
  Py_INCREF(programs);
  self->special = programs;
  self->last_special = 0;
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

/// count_sizes(callable, enough, told): `told({name: size})` is called once a callable's named
/// sizes came so often; enough 0: no longer.
PyObject* slCountSizes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* callable = NULL;
  PyObject* told = NULL;
  unsigned int enough = 0;
  if (!PyArg_ParseTuple(args, "OIO", &callable, &enough, &told) || !slIsCallable(callable)) {
    return NULL;
  }
  slHotSizesEnd((Callable*)callable);
  if (enough && slHotSizesBegin((Callable*)callable, enough, told)) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/// publish(callables, weights): one exchange of pointers for each, with nothing between them that
/// could let another thread in. Sets that were replaced go when the last call that began with them
/// is over.
PyObject* slPublish(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* callables = NULL;
  PyObject* capsules = NULL;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &callables, &PyTuple_Type, &capsules)) {
    return NULL;
  }
  const Py_ssize_t count = PyTuple_Size(callables);
  if (count != PyTuple_Size(capsules)) {
    PyErr_SetString(PyExc_ValueError, "publish needs one set of weights for each callable");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* callable = PyTuple_GetItem(callables, i);
    if (!slIsCallable(callable)) {
      return NULL;
    }
    sl_weights_record* record = slWeightsRecord(PyTuple_GetItem(capsules, i));
    if (!record) {
      return NULL;
    }
    if (record->program != ((Callable*)callable)->program) {
      PyErr_SetString(slUserError, "these weights were prepared for another program");
      return NULL;
    }
  }
  PyObject** before = PyMem_Calloc((size_t)count + 1, sizeof(PyObject*));
  if (!before) {
    return PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* capsule = PyTuple_GetItem(capsules, i);
    before[i] = slExchangeWeights((Callable*)PyTuple_GetItem(callables, i), capsule,
                                  PyCapsule_GetPointer(capsule, SL_WEIGHTS_CAPSULE));
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_DECREF(before[i]);
  }
  PyMem_Free(before);
  Py_RETURN_NONE;
}
