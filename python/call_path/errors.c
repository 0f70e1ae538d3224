// SPDX-License-Identifier: Apache-2.0
// The exceptions that the call path raises, and the helpers of straightline._call_support.
#include <stdarg.h>

#include "call_path.h"

PyObject* slUserError;
PyObject* slGuardError;
PyObject* slGuardTypeError;
PyObject* slUnsupportedError;
PyObject* slInternalError;
static PyObject* index_error_;
static PyObject* division_error_;
static PyObject* check_error_;
static PyObject* memory_error_;
static PyObject* cancelled_error_;
static PyObject* op_error_;
static PyObject* device_error_;

int slErrorsInit(void) {
  static const struct {
    const char* name;
    PyObject** slot;
  } classes[] = {
      {"UserError", &slUserError},
      {"GuardError", &slGuardError},
      {"GuardTypeError", &slGuardTypeError},
      {"UnsupportedError", &slUnsupportedError},
      {"InternalError", &slInternalError},
      {"IndexRangeError", &index_error_},
      {"DivisionError", &division_error_},
      {"CheckError", &check_error_},
      {"OutOfMemoryError", &memory_error_},
      {"CancelledError", &cancelled_error_},
      {"OpError", &op_error_},
      {"DeviceError", &device_error_},
  };
  PyObject* module = PyImport_ImportModule("straightline.errors");
  if (!module) {
    return -1;
  }
  for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
    *classes[i].slot = PyObject_GetAttrString(module, classes[i].name);
    if (!*classes[i].slot) {
      Py_DECREF(module);
      return -1;
    }
  }
  Py_DECREF(module);
  return 0;
}

static PyObject* statusClass(int32_t status) {
  switch ((sl_status)status) {
    case SL_OK:
      return slInternalError;
    case SL_INVALID_ARGUMENT:
      return slUserError;
    case SL_INDEX_ERROR:
      return index_error_;
    case SL_ZERO_DIVISION:
      return division_error_;
    case SL_CHECK_FAILED:
      return check_error_;
    case SL_OUT_OF_MEMORY:
      return memory_error_;
    case SL_CANCELLED:
      return cancelled_error_;
    case SL_UNSUPPORTED:
      return slUnsupportedError;
    case SL_DEVICE_ERROR:
      return device_error_;
    case SL_INTERNAL:
      return slInternalError;
    case SL_OP_FAILED:
      return op_error_;
  }
  return slInternalError;
}

/// The op may be Python code that raised: then that exception is the cause, or is raised itself.
static void raiseOpFailure(const char* message) {
  PyObject* error = slSupport("op_failure", "(s)", message);
  if (error) {
    PyErr_SetObject((PyObject*)Py_TYPE(error), error);
    Py_DECREF(error);
  }
}

void slRaiseStatus(int32_t status, const char* message) {
  if (status == SL_OP_FAILED && message && message[0]) {
    raiseOpFailure(message);
    return;
  }
  if (message && message[0]) {
    PyErr_SetString(statusClass(status), message);
  } else {
    PyErr_Format(statusClass(status), "the runtime gave status %d without a message", (int)status);
  }
}

PyObject* slSupport(const char* name, const char* format, ...) {
  static PyObject* module;
  if (!module) {
    module = PyImport_ImportModule("straightline._call_support");
  }
  PyObject* function = module ? PyObject_GetAttrString(module, name) : NULL;
  if (!function) {
    return NULL;
  }
  va_list values;
  va_start(values, format);
  PyObject* args = Py_VaBuildValue(format, values);
  va_end(values);
  PyObject* result = args ? PyObject_CallObject(function, args) : NULL;
  Py_XDECREF(args);
  Py_DECREF(function);
  return result;
}
