// SPDX-License-Identifier: Apache-2.0
// C functions of users (straightline/abi/own_kernel.h) for Python: opened, and called alone.
#include "call_path.h"

#include "straightline/abi/own_calls.h"

PyObject* slOwnKernelOpen(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path = NULL;
  const char *function, *symbol;
  if (!PyArg_ParseTuple(args, "O&ss", PyUnicode_FSConverter, &path, &function, &symbol)) {
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status =
      sl_own_kernel_open(PyBytes_AsString(path), function, symbol, &message);
  Py_END_ALLOW_THREADS Py_DECREF(path);
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return NULL;
  }
  Py_RETURN_NONE;
}

PyObject* slOwnKernelCall(PyObject* module, PyObject* args) {
  (void)module;
  const char *symbol, *name;
  PyObject *given_integers, *given_numbers;
  int has_status;
  if (!PyArg_ParseTuple(args, "ssO!O!p", &symbol, &name, &PyTuple_Type, &given_integers,
                        &PyTuple_Type, &given_numbers, &has_status)) {
    return NULL;
  }
  int64_t integers[SL_OWN_INTEGERS];
  double numbers[SL_OWN_NUMBERS];
  const Py_ssize_t integer_count = PyTuple_Size(given_integers);
  const Py_ssize_t number_count = PyTuple_Size(given_numbers);
  if (integer_count > SL_OWN_INTEGERS || number_count > SL_OWN_NUMBERS) {
    PyErr_Format(slInternalError, "%s takes %zd integers and %zd doubles, at most %d and %d", name,
                 integer_count, number_count, SL_OWN_INTEGERS, SL_OWN_NUMBERS);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < integer_count; ++i) {
    integers[i] = PyLong_AsLongLong(PyTuple_GetItem(given_integers, i));
  }
  for (Py_ssize_t i = 0; i < number_count; ++i) {
    numbers[i] = PyFloat_AsDouble(PyTuple_GetItem(given_numbers, i));
  }
  if (PyErr_Occurred()) {
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status =
      sl_own_invoke(symbol, name, integers, (int32_t)integer_count, numbers, (int32_t)number_count,
                    has_status, &message);
  Py_END_ALLOW_THREADS if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return NULL;
  }
  Py_RETURN_NONE;
}
