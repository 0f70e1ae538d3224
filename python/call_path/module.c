// SPDX-License-Identifier: Apache-2.0
// straightline._call: the module, its exceptions and its functions.
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>

#include "emitted.h"

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

static void closeLibrary(void* library) { dlclose(library); }

static void releaseProgram(PyObject* capsule) {
  sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  sl_program_release(program);
}

/// dlopens a compiled unit and takes its description `sl_program`.
static PyObject* programFromLibrary(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* path = NULL;
  if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) {
    return NULL;
  }
  void* library = dlopen(PyBytes_AsString(path), RTLD_NOW | RTLD_LOCAL);
  Py_DECREF(path);
  if (!library) {
    PyErr_Format(slUserError, "the library cannot be loaded: %s", dlerror());
    return NULL;
  }
  const sl_program_desc* desc = dlsym(library, "sl_program");
  if (!desc) {
    dlclose(library);
    PyErr_SetString(slUserError, "the library has no symbol 'sl_program'");
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  sl_program* program = NULL;
  int32_t status = sl_program_create(desc, closeLibrary, library, &program, &message);
  if (status != SL_OK) {
    dlclose(library);
    slRaiseStatus(status, message.text);
    return NULL;
  }
  PyObject* capsule = PyCapsule_New(program, SL_PROGRAM_CAPSULE, releaseProgram);
  if (!capsule) {
    sl_program_release(program);
  }
  return capsule;
}

/// callable_type(name, base). Types live as long as the process here, and so do their names.
static PyObject* callableType(PyObject* module, PyObject* args) {
  (void)module;
  const char* name = NULL;
  PyObject* base = NULL;
  if (!PyArg_ParseTuple(args, "sO!", &name, &PyType_Type, &base)) {
    return NULL;
  }
  char* kept = PyMem_Malloc(strlen(name) + 1);
  if (!kept) {
    return PyErr_NoMemory();
  }
  return slCallableType(strcpy(kept, name), base);
}

/// symbol(name): the address of a C function of the runtime or of a backend, 0 when there is none.
static PyObject* symbolAddress(PyObject* module, PyObject* args) {
  (void)module;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "s", &name)) {
    return NULL;
  }
  return PyLong_FromVoidPtr(sl_symbol(name));
}

static PyMethodDef functions[] = {
    {"callable_type", callableType, METH_VARARGS,
     "callable_type(name, base)\n--\n\nA type like Callable with the methods of a class without "
     "fields."},
    {"cuda_calls", slCudaCalls, METH_NOARGS,
     "cuda_calls()\n--\n\nCalls of NVIDIA's driver by this process so far, by kind."},
    {"cuda_missing", slCudaMissing, METH_NOARGS,
     "cuda_missing()\n--\n\nWhy there is no device; empty when there is one."},
    {"entries", slEntries, METH_O,
     "entries(program)\n--\n\nAll that the program's statements call."},
    {"graph_nodes", slGraphNodes, METH_O,
     "graph_nodes(program)\n--\n\nNodes of a run as a graph, and \"\"; or -1 and why it cannot be "
     "one."},
    {"override_fast_path", slOverrideFastPath, METH_O,
     "override_fast_path(value)\n--\n\nTrue, False or None for calls of this thread; gives what "
     "held before."},
    {"program_from_library", programFromLibrary, METH_VARARGS,
     "program_from_library(path)\n--\n\nLoads a compiled unit that exports sl_program; gives a "
     "program capsule."},
    {"symbol", symbolAddress, METH_VARARGS,
     "symbol(name)\n--\n\nAddress of an extern \"C\" function of the runtime or of a backend, 0 "
     "when "
     "there is none."},
    {"weights", slWeightsNew, METH_VARARGS,
     "weights(program, parameters, live=False, prepare=None)\n--\n\nBorrows the parameters' "
     "storage and prepares "
     "them; gives a weights capsule."},
    {"parameters", slWeightsParameters, METH_VARARGS,
     "parameters(weights)\n--\n\nThe tensors of a set, which own the storage that it reads."},
    {"group", slGroup, METH_VARARGS,
     "group(first, others)\n--\n\nCalls of `first` that do not fit its program go to the first of "
     "the others that they fit."},
    {"publish", slPublish, METH_VARARGS,
     "publish(callables, weights)\n--\n\nGives each callable its new set, all at once."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "straightline._call",
                                        .m_doc = "The call path.", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__call(void) {
  if (slErrorsInit() || slBufferTypeInit() || slIoTypesInit() || slEntryTypeInit()) {
    return NULL;
  }
  PyObject* module = PyModule_Create(&definition);
  PyObject* type = module ? slCallableType("straightline._call.Callable", NULL) : NULL;
  if (!type || PyModule_AddObject(module, "Callable", type)) {
    Py_XDECREF(type);
    Py_CLEAR(module);
  }
  return module;
}
