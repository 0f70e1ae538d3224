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

/// A callable's program for the very sizes of a call, where there is one; else its own.
static PyObject* callProgram(Callable* self, PyObject* const* args, Py_ssize_t nargs,
                             PyObject* names, int* miss, sl_likely* likely) {
  sl_likely fitting = {self->special, -1};
  if (fitting.among) {
    Py_INCREF(fitting.among);
    int other_sizes = 0;
    PyObject* first = PyTuple_GetItem(fitting.among, self->last_special);
    PyObject* result = slCallOne((Callable*)first, args, nargs, names, &other_sizes, &fitting);
    if (other_sizes && fitting.at >= 0) {
      if (self->special == fitting.among) {
        self->last_special = fitting.at;
      }
      other_sizes = 0;
      PyObject* program = PyTuple_GetItem(fitting.among, fitting.at);
      result = slCallOne((Callable*)program, args, nargs, names, &other_sizes, NULL);
    }
    Py_DECREF(fitting.among);
    if (!other_sizes) {
      return result;
    }
  }
  return slCallOne(self, args, nargs, names, miss, likely);
}

/// Tries the other programs in order, after the callable's own program did not fit.
static PyObject* callOthers(Callable* self, PyObject* const* args, Py_ssize_t nargs,
                            PyObject* names, const sl_likely* likely) {
  PyObject* others = likely->among;
  PyObject* result = NULL;
  int miss = 1;
  if (likely->at >= 0) {
    miss = 0;
    Callable* program = (Callable*)PyTuple_GetItem(others, likely->at);
    result = callProgram(program, args, nargs, names, &miss, NULL);
  }
  for (Py_ssize_t i = 0; miss && i < PyTuple_Size(others); ++i) {
    miss = 0;
    Callable* program = (Callable*)PyTuple_GetItem(others, i);
    result = callProgram(program, args, nargs, names, &miss, NULL);
  }
  if (miss) {
    result = refuseAll(self, others, args, nargs, names);
  }
  return result;
}

/// A program that slot() chose, which has no slots of its own.
static PyObject* callChosen(Callable* program, PyObject* const* args, Py_ssize_t nargs,
                            PyObject* names) {
  Py_INCREF((PyObject*)program);
  PyObject* result = slCallAny(program, args, nargs, names);
  Py_DECREF((PyObject*)program);
  return result;
}

PyObject* slCallAny(Callable* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  if (self->slotted) {
    Callable* program = slSlotted(self);
    if (program != self) {
      return program ? callChosen(program, args, nargs, names) : NULL;
    }
  }
  if (!self->others && !self->special) {
    return slCallOne(self, args, nargs, names, NULL, NULL);
  }
  Py_INCREF((PyObject*)self);
  sl_likely likely = {self->others, -1};
  PyObject* result;
  if (likely.among) {
    Py_INCREF(likely.among);
    int miss = 0;
    result = callProgram(self, args, nargs, names, &miss, &likely);
    if (miss) {
      result = callOthers(self, args, nargs, names, &likely);
    }
    Py_DECREF(likely.among);
  } else {
    result = callProgram(self, args, nargs, names, NULL, NULL);
  }
  Py_DECREF((PyObject*)self);
  return result;
}
