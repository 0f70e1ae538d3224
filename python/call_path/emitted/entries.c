// SPDX-License-Identifier: Apache-2.0
// What statements call, as Python callables: one vector call, pointers out of buffers, a jump
// through the thunk.
#include <stddef.h>
#include <string.h>

#include "emitted/emitted.h"
#include "straightline/abi/start_entry.h"

typedef struct Entry {
  PyObject_HEAD sl_vectorcall vectorcall;
  sl_program* program;  ///< one reference: the code
  const sl_entry* entry;
  int release_gil;
  int outside_graph;  ///< called by sl_queue_call (see sl_entry_is_outside_graph)
} Entry;

static PyTypeObject* entry_type_;

enum { kInlineArguments = 48 };

static PyObject* raiseArguments(const Entry* self, Py_ssize_t given, const char* why) {
  const sl_entry* entry = self->entry;
  const int queues = entry->kind != SL_ENTRY_SCALAR;
  const int results = entry->kind == SL_ENTRY_SCALAR;
  PyErr_Format(slUserError,
               "%s.%s takes %d arguments (%s%d buffers or values, %d sizes) but got %zd%s",
               entry->backend, entry->name,
               (int)(queues + entry->argument_count - results + entry->scalar_count),
               queues ? "a queue, " : "", (int)(entry->argument_count - results),
               (int)entry->scalar_count, given, why);
  return NULL;
}

/// Grid and block of a kernel of a device as the call names them: `grid=16, block=256`, the values
/// behind the others.
static int readGrid(const Entry* self, PyObject* const* values, PyObject* names, sl_grid* grid) {
  const sl_entry* entry = self->entry;
  PyObject* wanted = Py_BuildValue("(ss)", "grid", "block");
  const int same = wanted && names ? PyObject_RichCompareBool(names, wanted, Py_EQ) : 0;
  Py_XDECREF(wanted);
  if (same <= 0) {
    if (!PyErr_Occurred()) {
      PyErr_Format(slUserError, "%s.%s runs on a device: say grid= and block= behind its arguments",
                   entry->backend, entry->name);
    }
    return -1;
  }
  const long long blocks = PyLong_AsLongLong(values[0]);
  const long long threads = blocks == -1 && PyErr_Occurred() ? -1 : PyLong_AsLongLong(values[1]);
  if (PyErr_Occurred()) {
    return -1;
  }
  if (blocks < 0 || threads != entry->code->threads) {
    PyErr_Format(slUserError,
                 "%s.%s got grid=%lld, block=%lld but takes grid >= 0 and block=%d, which it was "
                 "compiled for",
                 entry->backend, entry->name, blocks, threads, (int)entry->code->threads);
    return -1;
  }
  *grid = (sl_grid){
      .size = sizeof(sl_grid), .blocks = blocks, .threads = (int32_t)threads, .shared_bytes = 0};
  return 0;
}

/// Arguments of a kernel of a device are 8 bytes each, the addresses first.
static void start(const Entry* self, const Queue* queue, void* const* pointers,
                  const int64_t* scalars, const sl_grid* grid) {
  const sl_entry* entry = self->entry;
  Io* io = queue->io;
  void* places[2 * kInlineArguments];
  for (int32_t i = 0; i < entry->argument_count; ++i) {
    places[i] = (void*)&pointers[i];
  }
  for (int32_t i = 0; i < entry->scalar_count; ++i) {
    places[entry->argument_count + i] = (void*)&scalars[i];
  }
  sl_queue_start(io->ctx, io->bindings->queues[queue->number],
                 io->bindings->kernels[entry - io->desc->entries], grid, places);
}

static void launch(const Entry* self, const Queue* queue, void* const* pointers,
                   const int64_t* scalars, const sl_grid* grid) {
  const sl_entry* entry = self->entry;
  Io* io = queue->io;
  if (entry->code) {
    start(self, queue, pointers, scalars, grid);
  } else if (!queue->is_team) {
    (self->outside_graph ? sl_queue_call : sl_queue_launch)(
        io->ctx, io->bindings->queues[queue->number], entry->thunk, pointers, entry->argument_count,
        scalars, entry->scalar_count);
  } else if (queue->alone || io->desc->threads == 1) {
    entry->thunk(io->ctx, (sl_team){NULL, 0, 1}, pointers, scalars);
  } else {
    sl_queue_run(io->ctx, io->bindings->queues[0], entry->thunk, pointers, scalars, 0);
  }
}

/// entry(queue, buffers..., sizes...).
static PyObject* callKernel(PyObject* object, PyObject* const* args, size_t nargs,
                            PyObject* names) {
  const Entry* self = (Entry*)object;
  const sl_entry* entry = self->entry;
  const Py_ssize_t given = (Py_ssize_t)(nargs & ~SL_VECTORCALL_OFFSET_FLAG);
  const int32_t pointer_count = entry->argument_count;
  const int32_t scalar_count = entry->scalar_count;
  if (given != 1 + pointer_count + scalar_count || (names && !entry->code)) {
    return raiseArguments(self, given, names ? " and names" : "");
  }
  if (Py_TYPE(args[0]) != slQueueType) {
    return raiseArguments(self, given, ", the first of which is no queue");
  }
  const Queue* queue = (Queue*)args[0];
  Io* io = queue->io;
  sl_grid grid = {.size = sizeof(sl_grid)};
  if (entry->code && queue->is_team) {
    return raiseArguments(self, given, ", the first of which is no queue of its device");
  }
  if (entry->code && sl_program_description(self->program) != io->desc) {
    return raiseArguments(
        self, given,
        ", and is a device's kernel of another program, which this call has not loaded");
  }
  if (entry->code && readGrid(self, args + given, names, &grid)) {
    return NULL;
  }
  if (entry->code && pointer_count + scalar_count > 2 * kInlineArguments) {
    return raiseArguments(self, given, ", more than a device's kernel is given here");
  }
  if (slIoActive(io, "the queue")) {
    return NULL;
  }
  void* inline_pointers[kInlineArguments];
  int64_t inline_scalars[kInlineArguments];
  void** pointers = inline_pointers;
  int64_t* scalars = inline_scalars;
  void* memory = NULL;
  if (pointer_count > kInlineArguments || scalar_count > kInlineArguments) {
    memory = PyMem_Malloc(8 * ((size_t)pointer_count + (size_t)scalar_count));
    if (!memory) {
      return PyErr_NoMemory();
    }
    pointers = memory;
    scalars = (int64_t*)memory + pointer_count;
  }
  PyObject* result = NULL;
  for (int32_t i = 0; i < pointer_count; ++i) {
    const Buffer* buffer = (Buffer*)args[1 + i];
    if (Py_TYPE((PyObject*)buffer) != slBufferType || buffer->io != io) {
      raiseArguments(self, given, ", one of which is no buffer of this call");
      goto done;
    }
    pointers[i] = buffer->data;
  }
  if (io->phase == 0 && entry->kind == SL_ENTRY_EXTERNAL && pointer_count &&
      entry->arguments[0].role == SL_ARGUMENT_HANDLE) {
    pointers[0] = *(void**)pointers[0];  // in prepare: the place that its plan has written
  }
  for (int32_t i = 0; i < scalar_count; ++i) {
    scalars[i] = PyLong_AsLongLong(args[1 + pointer_count + i]);
    if (scalars[i] == -1 && PyErr_Occurred()) {
      goto done;
    }
  }
  if (self->release_gil) {
    PyThreadState* state = PyEval_SaveThread();
    launch(self, queue, pointers, scalars, &grid);
    PyEval_RestoreThread(state);
  } else {
    launch(self, queue, pointers, scalars, &grid);
  }
  Py_INCREF(Py_None);
  result = Py_None;
done:
  PyMem_Free(memory);
  return result;
}

/// entry(operands...): arithmetic between statements.
static PyObject* callScalar(PyObject* object, PyObject* const* args, size_t nargs,
                            PyObject* names) {
  const Entry* self = (Entry*)object;
  const sl_entry* entry = self->entry;
  const Py_ssize_t given = (Py_ssize_t)(nargs & ~SL_VECTORCALL_OFFSET_FLAG);
  const int32_t operands = entry->argument_count - 1;
  int64_t scalars[kInlineArguments];
  if (given != operands || names || operands > kInlineArguments) {
    return raiseArguments(self, given, names ? " and names" : "");
  }
  for (int32_t i = 0; i < operands; ++i) {
    if (slScalarToBits(entry->arguments[1 + i].dtype, args[i], &scalars[i])) {
      return NULL;
    }
  }
  sl_ctx context = {.size = sizeof(context), .status = SL_OK, .statement = -1};
  int64_t made = 0;
  void* place = &made;
  entry->thunk(&context, (sl_team){NULL, 0, 1}, &place, scalars);
  return slScalarFromBits(entry->arguments[0].dtype, made);
}

// ---- facts

static PyObject* getName(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((Entry*)self)->entry->name);
}

static PyObject* getBackend(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((Entry*)self)->entry->backend);
}

static PyObject* getKind(PyObject* self, void* unused) {
  (void)unused;
  static const char* const names[] = {"kernel", "external", "plan", "scalar"};
  return PyUnicode_FromString(names[((Entry*)self)->entry->kind]);
}

static PyObject* getCanFail(PyObject* self, void* unused) {
  (void)unused;
  return PyBool_FromLong(((Entry*)self)->entry->can_fail);
}

static PyObject* getCost(PyObject* self, void* unused) {
  (void)unused;
  return PyFloat_FromDouble(((Entry*)self)->entry->cost_us);
}

static PyObject* getScalars(PyObject* self, void* unused) {
  (void)unused;
  const sl_entry* entry = ((Entry*)self)->entry;
  PyObject* tuple = PyTuple_New(entry->scalar_count);
  for (int32_t i = 0; tuple && i < entry->scalar_count; ++i) {
    PyObject* name = PyUnicode_FromString(entry->scalars[i]);
    if (!name || PyTuple_SetItem(tuple, i, name)) {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

/// An extent: an int where it is fixed, else its postfix steps as a tuple, which _call_support
/// spells.
static PyObject* extentObject(const sl_expr* value) {
  int fixed = 1;
  for (int64_t i = 0; i < value->count; ++i) {
    fixed &= value->steps[i].op != 's';
  }
  if (fixed) {
    return PyLong_FromLongLong(sl_expr_value(value, NULL));
  }
  PyObject* steps = PyTuple_New((Py_ssize_t)value->count);
  for (int64_t i = 0; steps && i < value->count; ++i) {
    PyObject* step =
        Py_BuildValue("(CL)", (int)value->steps[i].op, (long long)value->steps[i].value);
    if (!step || PyTuple_SetItem(steps, (Py_ssize_t)i, step)) {
      Py_CLEAR(steps);
    }
  }
  return steps;
}

/// None for an argument of any sizes.
static PyObject* extentTuple(const sl_expr* values, int32_t rank) {
  if (rank < 0) {
    Py_INCREF(Py_None);
    return Py_None;
  }
  PyObject* tuple = PyTuple_New(rank);
  for (int32_t d = 0; tuple && d < rank; ++d) {
    PyObject* value = extentObject(&values[d]);
    if (!value || PyTuple_SetItem(tuple, d, value)) {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

static PyObject* extentNames(const sl_program_desc* desc) {
  PyObject* names = PyTuple_New(desc->extent_count);
  for (int32_t e = 0; names && e < desc->extent_count; ++e) {
    PyObject* name = PyUnicode_FromString(desc->extents[e].name);
    if (!name || PyTuple_SetItem(names, e, name)) {
      Py_CLEAR(names);
    }
  }
  return names;
}

static PyObject* getArguments(PyObject* self, void* unused) {
  (void)unused;
  static const char* const roles[] = {"input",     "output", "readwrite",
                                      "workspace", "handle", "value"};
  const sl_entry* entry = ((Entry*)self)->entry;
  const sl_program_desc* desc = sl_program_description(((Entry*)self)->program);
  PyObject* list = PyList_New(0);
  for (int32_t i = 0; list && i < entry->argument_count; ++i) {
    const sl_argument* argument = &entry->arguments[i];
    PyObject* row =
        Py_BuildValue("(ssiisNN)", argument->name, roles[argument->role], (int)argument->dtype.code,
                      (int)argument->dtype.bits, desc->spaces[argument->space],
                      extentTuple(argument->extents, argument->rank),
                      extentTuple(argument->strides, argument->rank));
    if (!row || PyList_Append(list, row)) {
      Py_CLEAR(list);
    }
    Py_XDECREF(row);
  }
  PyObject* names = list ? extentNames(desc) : NULL;
  PyObject* arguments = names ? slSupport("entry_arguments", "(OO)", list, names) : NULL;
  Py_XDECREF(list);
  Py_XDECREF(names);
  return arguments;
}

static PyObject* getExtents(PyObject* self, void* unused) {
  (void)unused;
  return extentNames(sl_program_description(((Entry*)self)->program));
}

static PyObject* getGridSizes(PyObject* self, void* unused) {
  (void)unused;
  const sl_program_desc* desc = sl_program_description(((Entry*)self)->program);
  const sl_device_code* code = ((Entry*)self)->entry->code;
  PyObject* names = PyList_New(0);
  for (int64_t i = 0; names && code && i < code->blocks.count; ++i) {
    const sl_expr_step* step = &code->blocks.steps[i];
    PyObject* name = step->op == 's' ? PyUnicode_FromString(desc->extents[step->value].name) : NULL;
    if (step->op == 's' && (!name || PyList_Append(names, name))) {
      Py_CLEAR(names);
    }
    Py_XDECREF(name);
  }
  PyObject* tuple = names ? PyList_AsTuple(names) : NULL;
  Py_XDECREF(names);
  return tuple;
}

static PyObject* getDevice(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromLong(sl_program_device(((Entry*)self)->program));
}

static PyObject* repr(PyObject* self) {
  const sl_entry* entry = ((Entry*)self)->entry;
  PyObject* kind = getKind(self, NULL);
  PyObject* text =
      kind ? PyUnicode_FromFormat("<%U %s.%s>", kind, entry->backend, entry->name) : NULL;
  Py_XDECREF(kind);
  return text;
}

static void dealloc(PyObject* object) {
  Entry* self = (Entry*)object;
  PyTypeObject* type = Py_TYPE(object);
  if (self->program) {
    sl_program_release(self->program);
  }
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

PyObject* slEntries(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  PyObject* list = program ? PyList_New(0) : NULL;
  const sl_program_desc* desc = program ? sl_program_description(program) : NULL;
  for (int32_t i = 0; list && i < desc->entry_count; ++i) {
    Entry* made = (Entry*)PyType_GenericAlloc(entry_type_, 0);
    if (made) {
      sl_program_retain(program);
      made->program = program;
      made->entry = &desc->entries[i];
      made->vectorcall = made->entry->kind == SL_ENTRY_SCALAR ? callScalar : callKernel;
      made->outside_graph = sl_entry_is_outside_graph(made->entry);
      made->release_gil = made->entry->cost_us >= SL_GIL_THRESHOLD_US;
    }
    if (!made || PyList_Append(list, (PyObject*)made)) {
      Py_CLEAR(list);
    }
    Py_XDECREF((PyObject*)made);
  }
  return list;
}

/// Items of a tuple of integers; NULL with an exception. PyMem_Free frees it.
static int64_t* integersOf(PyObject* tuple) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  int64_t* values = PyMem_Malloc(8 * (size_t)(count + 1));
  if (!values) {
    PyErr_NoMemory();
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    // an address may have its highest bit set
    values[i] = (int64_t)PyLong_AsUnsignedLongLongMask(PyTuple_GetItem(tuple, i));
  }
  if (PyErr_Occurred()) {
    PyMem_Free(values);
    return NULL;
  }
  return values;
}

/// Raises an internal error where an entry is run by itself that cannot be, or over something else
/// than its arguments.
static int checkAlone(const Entry* self, PyObject* addresses, PyObject* sizes, int is_possible) {
  const sl_entry* entry = self->entry;
  const Py_ssize_t count = PyTuple_Size(addresses), size_count = PyTuple_Size(sizes);
  if (!is_possible || entry->kind == SL_ENTRY_PLAN || entry->kind == SL_ENTRY_SCALAR ||
      count != entry->argument_count || size_count != entry->scalar_count) {
    PyErr_Format(slInternalError, "%s.%s is run with %zd addresses and %zd sizes", entry->backend,
                 entry->name, count, size_count);
    return -1;
  }
  return 0;
}

/// entry.run(addresses, sizes): the kernel by itself, on this thread, outside of any call. Whoever
/// calls it has compared what lies there with `arguments`.
static PyObject* runAlone(PyObject* object, PyObject* args) {
  const Entry* self = (Entry*)object;
  PyObject *addresses, *sizes;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &addresses, &PyTuple_Type, &sizes) ||
      checkAlone(self, addresses, sizes, !self->entry->code)) {
    return NULL;
  }
  int64_t* pointers = integersOf(addresses);
  int64_t* scalars = pointers ? integersOf(sizes) : NULL;
  sl_ctx context = {.size = sizeof(context), .status = SL_OK, .statement = -1};
  if (scalars) {
    PyThreadState* state = PyEval_SaveThread();
    self->entry->thunk(&context, (sl_team){NULL, 0, 1}, (void**)pointers, scalars);
    PyEval_RestoreThread(state);
  }
  PyMem_Free(pointers);
  PyMem_Free(scalars);
  if (!PyErr_Occurred() && context.status == SL_INDEX_ERROR) {
    char text[160];
    PyOS_snprintf(text, sizeof(text), "index %lld is out of range [%lld, %lld)",
                  (long long)context.detail[0], (long long)context.detail[1],
                  (long long)context.detail[2] + 1);
    slRaiseStatus(context.status, text);
  } else if (!PyErr_Occurred() && context.status != SL_OK) {
    slRaiseStatus(context.status, context.text);
  }
  if (PyErr_Occurred()) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/// entry.start(addresses, sizes, extents, stream): the kernel by itself on a stream of the
/// program's CUDA device. `extents` has a value for each of `extents`.
static PyObject* startAlone(PyObject* object, PyObject* args) {
  const Entry* self = (Entry*)object;
  const sl_program_desc* desc = sl_program_description(self->program);
  PyObject *addresses, *sizes, *extents;
  unsigned long long stream;
  if (!PyArg_ParseTuple(args, "O!O!O!K", &PyTuple_Type, &addresses, &PyTuple_Type, &sizes,
                        &PyTuple_Type, &extents, &stream) ||
      checkAlone(self, addresses, sizes, PyTuple_Size(extents) == desc->extent_count)) {
    return NULL;
  }
  sl_queue* queue = slQueueOfStream((void*)(uintptr_t)stream, sl_program_device(self->program));
  int64_t* pointers = queue ? integersOf(addresses) : NULL;
  int64_t* scalars = pointers ? integersOf(sizes) : NULL;
  int64_t* values = scalars ? integersOf(extents) : NULL;
  if (values) {
    sl_message message;
    message.text[0] = '\0';
    PyThreadState* state = PyEval_SaveThread();
    const int32_t status =
        sl_program_start(self->program, (int32_t)(self->entry - desc->entries), queue,
                         (void* const*)pointers, scalars, values, &message);
    PyEval_RestoreThread(state);
    if (status != SL_OK) {
      slRaiseStatus(status, message.text);
    }
  }
  PyMem_Free(pointers);
  PyMem_Free(scalars);
  PyMem_Free(values);
  if (PyErr_Occurred()) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/// For f(*args), which calls tp_call where the interpreter does not know of the vector call.
static PyObject* callTuple(PyObject* self, PyObject* args, PyObject* keywords) {
  enum { kMost = 2 * kInlineArguments };
  PyObject* values[kMost];
  const Py_ssize_t count = PyTuple_Size(args);
  if ((keywords && PyDict_Size(keywords) > 0) || count > kMost) {
    return raiseArguments((Entry*)self, count, keywords ? " and names" : "");
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    values[i] = PyTuple_GetItem(args, i);
  }
  return ((Entry*)self)->vectorcall(self, values, (size_t)count, NULL);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Entry, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef methods[] = {
    {"run", runAlone, METH_VARARGS, "The kernel by itself, over addresses that fit its arguments."},
    {"start", startAlone, METH_VARARGS, "The same for one of a device, on a stream of it."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef facts[] = {
    {"name", getName, NULL, "Its symbol.", NULL},
    {"backend", getBackend, NULL, "Who provides it: native, onednn, scalar, ...", NULL},
    {"kind", getKind, NULL, "kernel, external, plan or scalar.", NULL},
    {"can_fail", getCanFail, NULL, "Whether the program tests for a failure after it.", NULL},
    {"cost_us", getCost, NULL, "Estimated microseconds of its slowest call, 0 when unknown.", NULL},
    {"arguments", getArguments, NULL, "Names, roles, dtypes, sizes and strides, in order.", NULL},
    {"scalars", getScalars, NULL, "Names of the sizes that come last.", NULL},
    {"extents", getExtents, NULL, "Names of all named sizes of its program.", NULL},
    {"grid_sizes", getGridSizes, NULL, "Names of those that its number of blocks depends on.",
     NULL},
    {"device", getDevice, NULL, "The number of its program's device, 0 on the host.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int slEntryTypeInit(void) {
  static PyType_Slot slots[] = {
      {Py_tp_doc,
       "What a statement calls: a compiled kernel, a library's entry, a scalar operation."},
      {Py_tp_call, callTuple},
      {Py_tp_members, members},
      {Py_tp_getset, facts},
      {Py_tp_methods, methods},
      {Py_tp_repr, repr},
      {Py_tp_dealloc, dealloc},
      {0, NULL},
  };
  PyType_Spec spec = {"straightline._call.Entry", sizeof(Entry), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | SL_HAVE_VECTORCALL,
                      slots};
  entry_type_ = (PyTypeObject*)PyType_FromSpec(&spec);
  return entry_type_ ? 0 : -1;
}
