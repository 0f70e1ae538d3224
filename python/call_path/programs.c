// SPDX-License-Identifier: Apache-2.0
// Several callables as one: which program a call takes, and new weights for all of them at once.
#include "callable.h"

Py_ssize_t slFindOther(const Callable* self, const Scratch* scratch) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->others); ++i) {
    const Callable* other = (const Callable*)PyTuple_GetItem(self->others, i);
    if (other->desc->input_count == self->desc->input_count &&
        slAllMatch(other, scratch->tensors)) {
      return i;
    }
  }
  return -1;
}

/// No program fits: what each of them says, in one exception.
static PyObject* refuseAll(Callable* self, PyObject* others, PyObject* const* args,
                           Py_ssize_t nargs, PyObject* names) {
  PyObject* reasons = PyList_New(0);
  for (Py_ssize_t i = -1; reasons && i < PyTuple_Size(others); ++i) {
    Callable* program = i < 0 ? self : (Callable*)PyTuple_GetItem(others, i);
    PyObject* result = slCallOne(program, args, nargs, names, NULL, NULL);
    if (result || !PyErr_ExceptionMatches(slGuardError)) {
      Py_DECREF(reasons);
      return result;  // the arguments were changed meanwhile
    }
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (PyList_Append(reasons, value)) {
      Py_CLEAR(reasons);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  PyObject* error = reasons ? slSupport("no_example_fits", "(OO)", (PyObject*)self, reasons) : NULL;
  if (error) {
    PyErr_SetObject((PyObject*)Py_TYPE(error), error);
    Py_DECREF(error);
  }
  Py_XDECREF(reasons);
  return NULL;
}

/// Several programs: the first that fits the arguments. The own one has missed already.
static PyObject* callOthers(Callable* self, PyObject* const* args, Py_ssize_t nargs,
                            PyObject* names, Py_ssize_t likely) {
  PyObject* others = self->others;
  Py_INCREF(others);
  PyObject* result = NULL;
  int miss = 1;
  if (likely >= 0) {
    miss = 0;
    result = slCallOne((Callable*)PyTuple_GetItem(others, likely), args, nargs, names, &miss, NULL);
  }
  for (Py_ssize_t i = 0; miss && i < PyTuple_Size(others); ++i) {
    miss = 0;
    result = slCallOne((Callable*)PyTuple_GetItem(others, i), args, nargs, names, &miss, NULL);
  }
  if (miss) {
    result = refuseAll(self, others, args, nargs, names);
  }
  Py_DECREF(others);
  return result;
}

PyObject* slCallAny(Callable* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  if (!self->others) {
    return slCallOne(self, args, nargs, names, NULL, NULL);
  }
  int miss = 0;
  Py_ssize_t likely = -1;
  Py_INCREF((PyObject*)self);
  PyObject* result = slCallOne(self, args, nargs, names, &miss, &likely);
  if (miss) {
    result = self->others ? callOthers(self, args, nargs, names, likely) : NULL;
  }
  Py_DECREF((PyObject*)self);
  return result;
}

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
