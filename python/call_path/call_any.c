// SPDX-License-Identifier: Apache-2.0
// A call of a function with several programs: the first that fits the arguments.
#include "callable.h"

/// No program fits: raises one exception with the reasons of all programs.
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

/// Tries the other programs in order, after the callable's own program did not fit.
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
