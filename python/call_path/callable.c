// SPDX-License-Identifier: Apache-2.0
// The compiled function as Python sees it: a type, and how an object of it is made.
#include "callable.h"

#include <stddef.h>
#include <string.h>

static PyObject* callVector(PyObject* self, PyObject* const* args, size_t nargs, PyObject* names) {
  return slCallAny((Callable*)self, args, (Py_ssize_t)(nargs & ~SL_VECTORCALL_OFFSET_FLAG), names);
}

/// tp_call, for Python subclasses before 3.12 and for f(*args, **kwargs).
static PyObject* callTuple(PyObject* self, PyObject* args, PyObject* keywords) {
  enum { kInline = 24 };
  PyObject* inline_values[kInline];
  const Py_ssize_t positional = PyTuple_Size(args);
  const Py_ssize_t named = keywords ? PyDict_Size(keywords) : 0;
  PyObject** values = inline_values;
  if (positional + named > kInline) {
    values = PyMem_Malloc((size_t)(positional + named) * sizeof(PyObject*));
    if (!values) {
      return PyErr_NoMemory();
    }
  }
  for (Py_ssize_t i = 0; i < positional; ++i) {
    values[i] = PyTuple_GetItem(args, i);
  }
  PyObject* names = named ? PyTuple_New(named) : NULL;
  PyObject* result = NULL;
  if (!named || names) {
    Py_ssize_t position = 0;
    Py_ssize_t i = 0;
    PyObject* key;
    PyObject* value;
    while (named && PyDict_Next(keywords, &position, &key, &value)) {
      Py_INCREF(key);
      PyTuple_SetItem(names, i, key);
      values[positional + i++] = value;
    }
    result = slCallAny((Callable*)self, values, positional, names);
  }
  Py_XDECREF(names);
  if (values != inline_values) {
    PyMem_Free(values);
  }
  return result;
}

// ---- making one

/// Where the caller's tensors are: a program for a device may take them from the host by copies of
/// its own.
static int32_t callersDevice(const sl_program_desc* desc) {
  for (int32_t i = 0; i < desc->buffer_count; ++i) {
    const sl_buffer* buffer = &desc->buffers[i];
    if (buffer->role == SL_ROLE_INPUT || buffer->role == SL_ROLE_OUTPUT ||
        buffer->role == SL_ROLE_PARAMETER || buffer->role == SL_ROLE_STATE) {
      return slDeviceType(desc, buffer);
    }
  }
  return SL_DLPACK_CPU;
}

static int parseOptions(Callable* self, PyObject* options) {
  double estimate = 0;
  double threshold = SL_GIL_THRESHOLD_US;
  const char* kind = NULL;
  const char* launch = NULL;
  int fast_path = 1;
  static char* names[] = {"kind",      "estimated_us",  "gil_threshold_us",
                          "fast_path", "reuse_outputs", "launch",
                          "threads",   "profile",       NULL};
  PyObject* profile = NULL;
  PyObject* none = PyTuple_New(0);
  int parsed = none && PyArg_ParseTupleAndKeywords(
                           none, options, "|$sddppziO", names, &kind, &estimate, &threshold,
                           &fast_path, &self->reuse_outputs, &launch, &self->threads, &profile);
  Py_XDECREF(none);
  parsed = parsed && slProfileParse(profile, &self->profile) == 0;
  if (!parsed) {
    return -1;
  }
  self->kind = !kind || strcmp(kind, "torch") == 0 ? SL_KIND_TORCH
               : strcmp(kind, "numpy") == 0        ? SL_KIND_NUMPY
               : strcmp(kind, "jax") == 0          ? SL_KIND_JAX
                                                   : SL_KIND_NONE;
  if (self->kind == SL_KIND_NONE) {
    PyErr_Format(PyExc_ValueError, "kind must be 'torch', 'numpy' or 'jax' but is '%s'", kind);
    return -1;
  }
  if (launch && strcmp(launch, "stream") != 0 && strcmp(launch, "graph") != 0) {
    PyErr_Format(PyExc_ValueError, "launch must be 'stream' or 'graph' but is '%s'", launch);
    return -1;
  }
  self->launch = launch && strcmp(launch, "graph") == 0 ? SL_LAUNCH_GRAPH : SL_LAUNCH_STREAM;
  self->fast_path = fast_path;
  // A program that copies results from a device to the host waits for the device, however little it
  // computes. On a stream of the caller's nothing waits.
  self->device_type = callersDevice(self->desc);
  // The number of iterations of a `while` is unknown; a short `for` ends by itself.
  int unbounded = 0;
  for (int32_t i = 0; i < self->desc->statement_count; ++i) {
    unbounded |= self->desc->statements[i].kind == SL_STATEMENT_WHILE;
    self->has_loops |= self->desc->statements[i].kind == SL_STATEMENT_FOR;
  }
  self->release_gil = self->device_type == SL_DLPACK_CPU &&
                      (estimate >= threshold || self->desc->queue_count > 1 || unbounded);
  self->has_loops = unbounded || (self->has_loops && self->release_gil);
  return 0;
}

static int initialise(Callable* self, PyObject* program, PyObject* weights, PyObject* inputs,
                      PyObject* output, PyObject* options) {
  self->vectorcall = callVector;
  sl_program* handle = PyCapsule_GetPointer(program, SL_PROGRAM_CAPSULE);
  if (!handle) {
    return -1;
  }
  sl_program_retain(handle);
  self->program = handle;
  self->desc = sl_program_description(handle);
  self->record = slWeightsRecord(weights);
  if (!self->record) {
    return -1;
  }
  Py_INCREF(weights);
  self->weights = weights;
  if (self->record->program != handle) {
    PyErr_SetString(slUserError, "these weights were prepared for another program");
    return -1;
  }
  if (parseOptions(self, options) || slPlanInputs(self) || slPlanOutputs(self) ||
      slPlanResults(self) || slSignatureParse(inputs, self->desc->input_count, &self->signature) ||
      slNameInputs(self) || slNodeParse(output, self->desc->result_count, &self->output) ||
      slCheckExtents(&self->output, self->desc->extent_count)) {
    return -1;
  }
  slPlanReuse(self);
  sl_message message;
  message.text[0] = '\0';
  const int32_t planned = self->desc->threads;
  const int32_t threads = self->threads > 0 && self->threads < planned ? self->threads : planned;
  int32_t status = sl_queue_team(threads, &self->queue, &message);
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return -1;
  }
  return 0;
}

static PyObject* newCallable(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static char* names[] = {"program", "weights", "input_spec", "output_spec", "options", NULL};
  PyObject *program, *weights, *inputs, *output, *options;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOOO!", names, &program, &weights, &inputs,
                                   &output, &PyDict_Type, &options)) {
    return NULL;
  }
  Callable* self = (Callable*)PyType_GenericAlloc(type, 0);
  if (self && initialise(self, program, weights, inputs, output, options)) {
    Py_CLEAR(self);
  }
  return (PyObject*)self;
}

/// Types are made on demand, and may have subclasses. All have the same call function.
int slIsCallable(PyObject* object) {
  const int is = PyType_GetSlot(Py_TYPE(object), Py_tp_call) == (void*)callTuple;
  if (!is) {
    PyErr_Format(PyExc_TypeError, "%R is no callable of straightline._call", object);
  }
  return is;
}

static int traverse(PyObject* object, visitproc visit, void* arg) {
  Callable* self = (Callable*)object;
  Py_VISIT((PyObject*)Py_TYPE(object));
  Py_VISIT(self->weights);
  Py_VISIT(self->others);
  Py_VISIT(self->special);
  Py_VISIT(self->attributes);
  Py_VISIT(self->python);
  for (int32_t o = 0; self->outputs && o < self->desc->output_count; ++o) {
    slKeptTraverse(&self->outputs[o], visit, arg);
  }
  int stop = slHotSizesTraverse(self, visit, arg);
  stop = stop ? stop : slSlotsTraverse(self, visit, arg);
  stop = stop ? stop : slSignatureTraverse(&self->signature, visit, arg);
  return stop ? stop : slNodeTraverse(&self->output, visit, arg);
}

/// Breaks cycles; a call that still comes afterwards is refused.
static int clear(PyObject* object) {
  Callable* self = (Callable*)object;
  for (int32_t o = 0; self->outputs && o < self->desc->output_count; ++o) {
    self->outputs[o].reused_name = NULL;
    slKeptClear(&self->outputs[o]);
  }
  slSignatureClear(&self->signature);
  slNodeClear(&self->output);
  Py_CLEAR(self->others);
  Py_CLEAR(self->special);
  slHotSizesEnd(self);
  slSlotsClear(self);
  Py_CLEAR(self->attributes);
  Py_CLEAR(self->python);
  slProfileClear(&self->profile);
  return 0;
}

static void dealloc(PyObject* object) {
  Callable* self = (Callable*)object;
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references) {
    PyObject_ClearWeakRefs(object);
  }
  clear(object);
  while (self->pool) {
    Scratch* scratch = self->pool;
    self->pool = scratch->next;
    PyMem_Free(scratch);
  }
  while (self->ios) {
    Io* io = self->ios;
    self->ios = io->next;
    slIoDismantle(io);
    Py_DECREF((PyObject*)io);
  }
  if (self->desc && self->outputs) {
    for (int32_t o = 0; o < self->desc->output_count; ++o) {
      slOutputPlanClear(&self->outputs[o]);
    }
  }
  for (int32_t i = 0; self->seen && i < self->desc->input_count + self->desc->result_count; ++i) {
    slSeenClear(&self->seen[i]);
  }
  PyMem_Free(self->seen);
  PyMem_Free(self->inputs);
  PyMem_Free(self->names);
  PyMem_Free(self->outputs);
  PyMem_Free(self->results);
  if (self->queue) {
    sl_queue_release(self->queue);
  }
  Py_CLEAR(self->weights);
  if (self->program) {
    sl_program_release(self->program);
  }
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, vectorcall), READONLY, NULL},
    {"_python", T_OBJECT, offsetof(Callable, python), 0, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Callable, attributes), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Callable, weak_references), READONLY, NULL},
    {"_releases_gil", T_INT, offsetof(Callable, release_gil), READONLY,
     "Whether a call takes long enough to let other threads of Python run."},
    {"_weights", T_OBJECT_EX, offsetof(Callable, weights), READONLY,
     "The set that the next call takes."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A program with its weights, bound to a signature: call it like the function that was "
     "compiled."},
    {Py_tp_new, newCallable},
    {Py_tp_call, callTuple},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {Py_tp_members, members},
    {0, NULL},
};

PyObject* slCallableType(const char* name, PyObject* base) {
  PyType_Spec spec = {
      .name = name,
      .basicsize = sizeof(Callable),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | SL_HAVE_VECTORCALL,
      .slots = slots,
  };
  PyObject* bases = base ? PyTuple_Pack(1, base) : NULL;
  PyObject* type = base && !bases ? NULL : PyType_FromSpecWithBases(&spec, bases);
  Py_XDECREF(bases);
  return type;
}
