// SPDX-License-Identifier: Apache-2.0
// Plug-ins (sl_backend_load of straightline/abi/straightline.h) for Python.
#include "call_path.h"

/// (name, file, ((kernel, op), ...)) of a backend.
static PyObject* describeBackend(const sl_backend_desc* backend) {
  PyObject* kernels = PyTuple_New(backend->kernel_count);
  if (!kernels) {
    return NULL;
  }
  for (int32_t i = 0; i < backend->kernel_count; ++i) {
    PyObject* kernel = Py_BuildValue("(ss)", backend->kernels[i].name, backend->kernels[i].op);
    if (!kernel || PyTuple_SetItem(kernels, i, kernel) != 0) {
      Py_DECREF(kernels);
      return NULL;
    }
  }
  return Py_BuildValue("(szN)", backend->name, sl_backend_file(backend->name), kernels);
}

PyObject* slBackendLoad(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path = NULL;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) {
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  const sl_backend_desc* backend = NULL;
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status = sl_backend_load(PyBytes_AsString(path), &backend, &message);
  Py_END_ALLOW_THREADS Py_DECREF(path);
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return NULL;
  }
  return describeBackend(backend);
}

PyObject* slBackendSearch(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  sl_message message;
  message.text[0] = '\0';
  int32_t status;
  Py_BEGIN_ALLOW_THREADS status = sl_backend_search(&message);
  Py_END_ALLOW_THREADS if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return NULL;
  }
  Py_RETURN_NONE;
}

PyObject* slBackendNames(PyObject* module, PyObject* args) {
  (void)module, (void)args;
  const int32_t count = sl_backend_count();
  PyObject* names = PyTuple_New(count);
  for (int32_t i = 0; names && i < count; ++i) {
    PyObject* name = PyUnicode_FromString(sl_backend_at(i)->name);
    if (!name || PyTuple_SetItem(names, i, name) != 0) {
      Py_CLEAR(names);
    }
  }
  return names;
}
