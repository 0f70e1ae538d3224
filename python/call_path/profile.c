// SPDX-License-Identifier: Apache-2.0
// What a profiled program tells of its statements, and what a program says of itself for tools.
#include <string.h>
#include <time.h>

#include "callable.h"

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// events[0] is the number of pairs behind it: 2 * statement + begin, and nanoseconds. A call whose
/// events do not fit drops the last ones.
void slProfileNote(void* user, int32_t statement, int32_t begin) {
  Profile* profile = user;
  const int64_t at = profile->events[0];
  if (at < profile->capacity) {
    profile->events[0] = at + 1;
    profile->events[1 + 2 * at] = 2 * (int64_t)statement + begin;
    profile->events[2 + 2 * at] = now();
  }
}

/// On a device the host only enqueues: the caller's function records events there. With the GIL or
/// without it, as the call is.
void slProfileTell(void* user, int32_t statement, int32_t begin) {
  Profile* profile = user;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject* result = PyObject_CallFunction(profile->told, "ii", (int)statement, (int)begin);
  if (!result) {
    PyErr_WriteUnraisable(profile->told);
  }
  Py_XDECREF(result);
  PyGILState_Release(state);
}

int slProfileParse(PyObject* option, Profile* profile) {
  memset(profile, 0, sizeof(*profile));
  if (!option || option == Py_None) {
    return 0;
  }
  if (PyCallable_Check(option)) {
    Py_INCREF(option);
    profile->told = option;
    profile->hook = slProfileTell;
    return 0;
  }
  PyObject* address = NULL;
  Py_ssize_t pairs = 0;
  if (!PyArg_ParseTuple(option, "On", &address, &pairs)) {
    return -1;
  }
  profile->events = PyLong_AsVoidPtr(address);
  profile->capacity = pairs;
  profile->hook = slProfileNote;
  return PyErr_Occurred() ? -1 : 0;
}

void slProfileClear(Profile* profile) { Py_CLEAR(profile->told); }

// ---- descriptions

static PyObject* values(const sl_expr* expressions, int32_t count, const int64_t* extents) {
  PyObject* tuple = PyTuple_New(count);
  for (int32_t d = 0; tuple && d < count; ++d) {
    PyTuple_SetItem(tuple, d, PyLong_FromLongLong(sl_expr_value(&expressions[d], extents)));
  }
  return tuple;
}

static PyObject* bufferRow(const sl_buffer* buffer, const int64_t* extents) {
  return Py_BuildValue("{sssssisisisisisNsNsLsLsL}", "name", buffer->name, "source",
                       buffer->source ? buffer->source : "", "role", (int)buffer->role, "space",
                       (int)buffer->space, "index", (int)buffer->index, "base", (int)buffer->base,
                       "code", (int)buffer->dtype.code, "shape",
                       values(buffer->extents, buffer->rank, extents), "strides",
                       values(buffer->strides, buffer->rank, extents), "offset",
                       (long long)sl_expr_value(&buffer->offset, extents), "bytes",
                       (long long)sl_expr_value(&buffer->bytes, extents), "element_bits",
                       (long long)buffer->dtype.bits);
}

static PyObject* statementRow(const sl_statement* statement) {
  const int32_t count = statement->inputs + statement->outputs;
  PyObject* operands = PyTuple_New(count);
  for (int32_t i = 0; operands && i < count; ++i) {
    PyTuple_SetItem(operands, i, PyLong_FromLong(statement->operands[i]));
  }
  return operands ? Py_BuildValue("{sisisisisssssssN}", "kind", (int)statement->kind, "queue",
                                  (int)statement->queue, "phase", (int)statement->phase, "inputs",
                                  (int)statement->inputs, "entry", statement->entry, "op",
                                  statement->op, "source", statement->source, "operands", operands)
                  : NULL;
}

PyObject* slDescribe(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* capsule = NULL;
  PyObject* sizes = NULL;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &sizes)) {
    return NULL;
  }
  const sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  if (!program) {
    return NULL;
  }
  const sl_program_desc* desc = sl_program_description(program);
  int64_t* extents = PyMem_Calloc((size_t)desc->extent_count + 1, sizeof(int64_t));
  PyObject* buffers = PyList_New(0);
  PyObject* statements = PyList_New(0);
  int failed = !extents || !buffers || !statements;
  for (int32_t i = 0; !failed && i < desc->extent_count; ++i) {
    PyObject* size = PyDict_GetItemString(sizes, desc->extents[i].name);
    extents[i] = size ? PyLong_AsLongLong(size) : desc->extents[i].min;
    failed = PyErr_Occurred() != NULL;
  }
  for (int32_t i = 0; !failed && i < desc->buffer_count; ++i) {
    PyObject* row = bufferRow(&desc->buffers[i], extents);
    failed = !row || PyList_Append(buffers, row);
    Py_XDECREF(row);
  }
  for (int32_t i = 0; !failed && i < desc->statement_count; ++i) {
    PyObject* row = statementRow(&desc->statements[i]);
    failed = !row || PyList_Append(statements, row);
    Py_XDECREF(row);
  }
  PyMem_Free(extents);
  PyObject* result = failed ? NULL : PyTuple_Pack(2, buffers, statements);
  Py_XDECREF(buffers);
  Py_XDECREF(statements);
  return result;
}
