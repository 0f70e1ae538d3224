// SPDX-License-Identifier: Apache-2.0
// Functions of other systems over callables (straightline/abi/ffi.h): made, given new weights, and
// registered. Calls of them do not come through Python.
#include <string.h>

#include "callable.h"
#include "straightline/abi/ffi.h"

#define SL_FFI_CAPSULE "straightline.ffi"

static PyObject* raise(int32_t status, const sl_message* message) {
  slRaiseStatus(status, message->text);
  return NULL;
}

/// A model over the programs of several callables, in order, and the sets that their next calls
/// take.
static sl_model* modelOf(const char* name, PyObject* callables) {
  const Py_ssize_t count = PyTuple_Size(callables);
  sl_program** programs = PyMem_Calloc((size_t)count + 1, sizeof(sl_program*));
  sl_weights** weights = PyMem_Calloc((size_t)count + 1, sizeof(sl_weights*));
  int isFine = programs && weights;
  if (!isFine) {
    PyErr_NoMemory();
  }
  sl_model_options options = {.size = sizeof(options)};
  for (Py_ssize_t i = 0; isFine && i < count; ++i) {
    PyObject* item = PyTuple_GetItem(callables, i);
    isFine = slIsCallable(item);
    if (isFine) {
      const Callable* callable = (const Callable*)item;
      programs[i] = callable->program;
      weights[i] = callable->record->weights;
      options.threads = callable->threads;
    }
  }
  sl_model* model = NULL;
  sl_message message;
  message.text[0] = '\0';
  if (isFine) {
    const int32_t status =
        sl_model_of_programs(name, programs, weights, (int32_t)count, &options, &model, &message);
    if (status != SL_OK) {
      raise(status, &message);
    }
  }
  PyMem_Free(programs);
  PyMem_Free(weights);
  return model;
}

static void releaseFunction(PyObject* capsule) {
  sl_ffi_release(PyCapsule_GetPointer(capsule, SL_FFI_CAPSULE));
}

static sl_ffi_function* functionOf(PyObject* capsule) {
  return PyCapsule_GetPointer(capsule, SL_FFI_CAPSULE);
}

/// Reads (name, kind, index, count, updated, integer, real, text) of each argument; texts are
/// borrowed from the tuples.
static int parseArguments(PyObject* rows, sl_ffi_argument* arguments) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(rows); ++i) {
    sl_ffi_argument* own = &arguments[i];
    long long integer = 0;
    if (!PyArg_ParseTuple(PyTuple_GetItem(rows, i), "siiiiLdz", &own->name, &own->kind, &own->index,
                          &own->count, &own->updated, &integer, &own->real, &own->text)) {
      return -1;
    }
    own->integer = integer;
  }
  return 0;
}

PyObject* slFfiFunction(PyObject* module, PyObject* args) {
  (void)module;
  sl_ffi_signature signature = {.size = sizeof(signature)};
  PyObject *rows, *results, *callables;
  if (!PyArg_ParseTuple(args, "sO!iO!iO!", &signature.name, &PyTuple_Type, &rows,
                        &signature.input_count, &PyTuple_Type, &results,
                        &signature.model_result_count, &PyTuple_Type, &callables)) {
    return NULL;
  }
  signature.argument_count = (int32_t)PyTuple_Size(rows);
  signature.result_count = (int32_t)PyTuple_Size(results);
  sl_ffi_argument* arguments =
      PyMem_Calloc((size_t)signature.argument_count + 1, sizeof(sl_ffi_argument));
  int32_t* order = PyMem_Calloc((size_t)signature.result_count + 1, sizeof(int32_t));
  sl_model* model = NULL;
  PyObject* capsule = NULL;
  if (!arguments || !order) {
    PyErr_NoMemory();
  } else if (parseArguments(rows, arguments) == 0) {
    model = modelOf(signature.name, callables);
  }
  for (int32_t i = 0; model && i < signature.result_count; ++i) {
    order[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(results, i));
  }
  if (model && !PyErr_Occurred()) {
    signature.arguments = arguments;
    signature.results = order;
    sl_ffi_function* function = NULL;
    sl_message message;
    message.text[0] = '\0';
    const int32_t status = sl_ffi_create(&signature, model, &function, &message);
    capsule = status == SL_OK ? PyCapsule_New(function, SL_FFI_CAPSULE, releaseFunction)
                              : raise(status, &message);
  }
  PyMem_Free(arguments);
  PyMem_Free(order);
  return capsule;
}

PyObject* slFfiPublish(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *capsule, *callables;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "OsO", &capsule, &name, &callables)) {
    return NULL;
  }
  sl_ffi_function* function = functionOf(capsule);
  sl_model* model = NULL;
  if (!function || (callables != Py_None && !(model = modelOf(name, callables)))) {
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  const int32_t status = sl_ffi_publish(function, model, &message);
  if (status != SL_OK) {
    return raise(status, &message);
  }
  Py_RETURN_NONE;
}

PyObject* slFfiAddresses(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_ffi_function* function = functionOf(capsule);
  return function ? Py_BuildValue("(NNN)", PyLong_FromVoidPtr(function),
                                  PyLong_FromVoidPtr((void*)sl_ffi_torch_call),
                                  PyLong_FromVoidPtr((void*)sl_ffi_program_call))
                  : NULL;
}

PyObject* slFfiRunning(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_ffi_function* function = functionOf(capsule);
  return function ? PyLong_FromLong(sl_ffi_running(function)) : NULL;
}

PyObject* slFfiRefused(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_ffi_function* function = functionOf(capsule);
  return function ? PyLong_FromLongLong(sl_ffi_refused(function)) : NULL;
}

PyObject* slFfiTorchRegister(PyObject* module, PyObject* args) {
  (void)module;
  const char *space, *schema, *key;
  PyObject* kernel;
  if (!PyArg_ParseTuple(args, "sssO", &space, &schema, &key, &kernel)) {
    return NULL;
  }
  void* address = PyLong_AsVoidPtr(kernel);
  if (PyErr_Occurred()) {
    return NULL;
  }
  void* registered = NULL;
  sl_message message;
  message.text[0] = '\0';
  const int32_t status = sl_ffi_torch_register(space, schema, key, (sl_torch_kernel)address, NULL,
                                               &registered, &message);
  return status == SL_OK ? PyLong_FromVoidPtr(registered) : raise(status, &message);
}

PyObject* slFfiTorchUnregister(PyObject* module, PyObject* address) {
  (void)module;
  void* registered = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) {
    return NULL;
  }
  Py_BEGIN_ALLOW_THREADS sl_ffi_torch_unregister(registered);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

PyObject* slFfiTvmGlobal(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* capsule;
  const char* name = NULL;
  if (!PyArg_ParseTuple(args, "Os", &capsule, &name)) {
    return NULL;
  }
  sl_ffi_function* function = functionOf(capsule);
  sl_message message;
  message.text[0] = '\0';
  const int32_t status = function ? sl_ffi_tvm_global(function, name, &message) : SL_OK;
  if (!function) {
    return NULL;
  }
  if (status != SL_OK) {
    return raise(status, &message);
  }
  Py_RETURN_NONE;
}

// ---- layouts, for fake kernels

/// ((op, value), ...) of an expression.
static PyObject* stepsOf(const sl_expr* expression) {
  PyObject* steps = PyTuple_New((Py_ssize_t)expression->count);
  for (int64_t s = 0; steps && s < expression->count; ++s) {
    const char op[2] = {(char)expression->steps[s].op, '\0'};
    PyObject* step = Py_BuildValue("(sL)", op, (long long)expression->steps[s].value);
    if (!step || PyTuple_SetItem(steps, (Py_ssize_t)s, step)) {
      Py_CLEAR(steps);
    }
  }
  return steps;
}

/// (dtype code, bits, sizes, strides), an expression for each dim.
static PyObject* layoutOf(const sl_buffer* buffer, int isUpdated) {
  PyObject* sizes = PyTuple_New(buffer->rank);
  PyObject* strides = PyTuple_New(buffer->rank);
  for (int32_t d = 0; sizes && strides && d < buffer->rank; ++d) {
    PyObject* size = stepsOf(&buffer->extents[d]);
    PyObject* stride = stepsOf(&buffer->strides[d]);
    if (!size || !stride || PyTuple_SetItem(sizes, d, size) ||
        PyTuple_SetItem(strides, d, stride)) {
      Py_CLEAR(sizes);
    }
  }
  if (!sizes || !strides) {
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return NULL;
  }
  return Py_BuildValue("(iiNNi)", (int)buffer->dtype.code, (int)buffer->dtype.bits, sizes, strides,
                       isUpdated);
}

typedef struct Written {
  int32_t count;
  unsigned char is[];
} Written;

static void noteWritten(void* user, int32_t input) {
  Written* written = user;
  written->is[input < written->count ? input : written->count] = 1;
}

PyObject* slFfiLayouts(PyObject* module, PyObject* capsule) {
  (void)module;
  const sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  if (!program) {
    return NULL;
  }
  const sl_program_desc* desc = sl_program_description(program);
  Written* written = PyMem_Calloc(1, sizeof(Written) + (size_t)desc->input_count + 1);
  PyObject* inputs = PyTuple_New(desc->input_count);
  PyObject* results = PyTuple_New(desc->result_count);
  PyObject* extents = PyTuple_New(desc->extent_count);
  int isFine = written && inputs && results && extents;
  if (written) {
    written->count = desc->input_count;
    slFindWritten(desc, noteWritten, written);
  }
  for (int32_t b = 0; isFine && b < desc->buffer_count; ++b) {
    const sl_buffer* buffer = &desc->buffers[b];
    if (buffer->role == SL_ROLE_INPUT) {
      PyObject* layout = layoutOf(buffer, written->is[buffer->index]);
      isFine = layout && PyTuple_SetItem(inputs, buffer->index, layout) == 0;
    }
  }
  for (int32_t r = 0; isFine && r < desc->result_count; ++r) {
    PyObject* layout = layoutOf(&desc->buffers[desc->results[r].buffer], 0);
    isFine = layout && PyTuple_SetItem(results, r, layout) == 0;
  }
  for (int32_t e = 0; isFine && e < desc->extent_count; ++e) {
    const sl_extent* extent = &desc->extents[e];
    PyObject* row = Py_BuildValue("(sLLi)", extent->name, (long long)extent->min,
                                  (long long)extent->max, extent->bound.count > 0);
    isFine = row && PyTuple_SetItem(extents, e, row) == 0;
  }
  PyMem_Free(written);
  if (!isFine) {
    Py_XDECREF(inputs);
    Py_XDECREF(results);
    Py_XDECREF(extents);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  return Py_BuildValue("(NNN)", inputs, results, extents);
}
