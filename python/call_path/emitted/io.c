// SPDX-License-Identifier: Apache-2.0
// One call of emitted Python: what `io` is, and its queues.
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "emitted/emitted.h"

PyTypeObject* slQueueType;
static PyTypeObject* io_type_;
static PyTypeObject* event_type_;

/// A point in the order of a queue; the call holds the event itself.
typedef struct Event {
  PyObject_HEAD Io* io;
  int32_t number;
} Event;

// ---- making one

static PyObject* newQueue(Io* io, int32_t number, int alone) {
  Queue* queue = (Queue*)PyType_GenericAlloc(slQueueType, 0);
  if (queue) {
    Py_INCREF((PyObject*)io);
    queue->io = io;
    queue->number = number;
    queue->is_team = strcmp(io->desc->queues[number], "cpu") == 0;
    queue->alone = alone;
  }
  return (PyObject*)queue;
}

static int makeQueues(Io* io) {
  const int32_t count = io->desc->queue_count;
  io->queues = PyTuple_New(count);
  for (int32_t q = 0; io->queues && q < count; ++q) {
    PyObject* queue = newQueue(io, q, 0);
    if (!queue || PyTuple_SetItem(io->queues, q, queue)) {
      return -1;
    }
  }
  io->alone = newQueue(io, 0, 1);
  if (!io->queues || !io->alone) {
    return -1;
  }
  io->team = PyTuple_GetItem(io->queues, 0);
  Py_INCREF(io->team);
  return 0;
}

/// Buffers whose address changes from call to call.
static void findMoving(Io* io) {
  for (int32_t b = 0; b < io->desc->buffer_count; ++b) {
    int32_t root = b;
    while (io->desc->buffers[root].base >= 0) {
      root = io->desc->buffers[root].base;
    }
    const int32_t role = io->desc->buffers[root].role;
    if (role == SL_ROLE_INPUT || role == SL_ROLE_OUTPUT) {
      io->moving[io->moving_count++] = b;
    }
  }
}

static int makeBuffers(Io* io) {
  const int32_t count = io->desc->buffer_count;
  io->buffers = PyTuple_New(count);
  for (int32_t b = 0; io->buffers && b < count; ++b) {
    PyObject* buffer = slBufferNew(io, b, NULL);
    if (!buffer || PyTuple_SetItem(io->buffers, b, buffer)) {
      return -1;
    }
  }
  return io->buffers ? 0 : -1;
}

Io* slIoNew(sl_program* program) {
  Io* io = (Io*)PyType_GenericAlloc(io_type_, 0);
  if (!io) {
    return NULL;
  }
  sl_program_retain(program);
  io->program = program;
  io->desc = sl_program_description(program);
  io->extent_values = PyMem_Calloc((size_t)io->desc->extent_count + 1, sizeof(int64_t));
  io->arenas = PyMem_Calloc((size_t)io->desc->space_count, sizeof(void*));
  io->addresses = PyMem_Calloc((size_t)io->desc->buffer_count + 1, sizeof(void*));
  io->moving = PyMem_Calloc((size_t)io->desc->buffer_count + 1, sizeof(int32_t));
  if (!io->extent_values || !io->arenas || !io->addresses || !io->moving) {
    PyErr_NoMemory();
  } else {
    findMoving(io);
    if (makeBuffers(io) == 0 && makeQueues(io) == 0) {
      return io;
    }
  }
  slIoDismantle(io);
  Py_DECREF((PyObject*)io);
  return NULL;
}

void slIoDismantle(Io* io) {
  Py_CLEAR(io->buffers);
  Py_CLEAR(io->queues);
  Py_CLEAR(io->team);
  Py_CLEAR(io->alone);
}

// ---- execution

static void setAddress(Io* io, int32_t number, void* address) {
  ((Buffer*)PyTuple_GetItem(io->buffers, number))->data = address;
}

/// Whether frame and weights are those of the last call and no size can have changed.
static int isBound(const Io* io, const SlPythonCall* call, const sl_bindings* bindings) {
  return io->weights && io->weights == call->weights && io->desc->extent_count == 0 &&
         memcmp(io->arenas, bindings->arenas, sizeof(void*) * (size_t)io->desc->space_count) == 0;
}

static int bindExtents(Io* io, const sl_bindings* bindings) {
  const int32_t count = io->desc->extent_count;
  if (count == 0 && io->extents) {
    return 0;
  }
  Py_CLEAR(io->extents);
  io->extents = PyTuple_New(count);
  for (int32_t e = 0; io->extents && e < count; ++e) {
    io->extent_values[e] = bindings->extents[e];
    PyObject* value = PyLong_FromLongLong(bindings->extents[e]);
    if (!value || PyTuple_SetItem(io->extents, e, value)) {
      return -1;
    }
  }
  return io->extents ? 0 : -1;
}

static int bind(Io* io, const SlPythonCall* call, int32_t phase, const sl_bindings* bindings) {
  io->phase = phase;
  if (isBound(io, call, bindings)) {
    sl_program_addresses(io->program, phase, bindings, io->moving, io->moving_count, io->addresses);
    for (int32_t i = 0; i < io->moving_count; ++i) {
      setAddress(io, io->moving[i], io->addresses[i]);
    }
    return 0;
  }
  if (bindExtents(io, bindings)) {
    return -1;
  }
  sl_program_addresses(io->program, phase, bindings, NULL, io->desc->buffer_count, io->addresses);
  for (int32_t b = 0; b < io->desc->buffer_count; ++b) {
    setAddress(io, b, io->addresses[b]);
  }
  memcpy(io->arenas, bindings->arenas, sizeof(void*) * (size_t)io->desc->space_count);
  Py_XINCREF(call->weights);
  Py_XDECREF(io->weights);
  io->weights = call->weights;
  return 0;
}

/// Python before 3.14 ends (pthread_exit) a thread that comes back to it while the process ends.
/// That may not unwind through the runtime, which promises not to throw: such a thread stops here,
/// and ends with the process.
static void stopWhenEnded(int* inside) {
  while (*inside) {
    pause();
  }
}

static PyObject* callFunction(PyObject* function, PyObject* io) {
  __attribute__((cleanup(stopWhenEnded))) int inside = 1;
  PyObject* result = PyObject_CallFunctionObjArgs(function, io, NULL);
  inside = 0;
  return result;
}

int32_t slIoExecute(void* user, const sl_program* program, int32_t phase, sl_ctx* ctx,
                    const sl_bindings* bindings) {
  (void)program;
  const SlPythonCall* call = user;
  Io* io = call->io;
  io->ctx = ctx;
  io->bindings = bindings;
  PyObject* result = NULL;
  if (bind(io, call, phase, bindings) == 0) {
    result = callFunction(call->function, (PyObject*)io);
  }
  for (int32_t e = 0; e < io->event_count; ++e) {
    sl_queue_forget(io->events[2 * e], io->events[2 * e + 1]);
  }
  io->event_count = 0;
  io->ctx = NULL;
  io->bindings = NULL;
  const int32_t status = __atomic_load_n(&ctx->status, __ATOMIC_ACQUIRE);
  if (!result) {
    return status != SL_OK ? status : SL_INTERNAL;  // the exception stays set
  }
  Py_DECREF(result);
  return status;
}

// ---- what emitted text calls on `io`

static int statementNumber(const Io* io, PyObject* value, int32_t* number) {
  const long long given = PyLong_AsLongLong(value);
  if (given == -1 && PyErr_Occurred()) {
    return -1;
  }
  if (given < 0 || given >= io->desc->statement_count) {
    PyErr_Format(slUserError, "statement %lld is outside [0, %d)", given,
                 (int)io->desc->statement_count);
    return -1;
  }
  *number = (int32_t)given;
  return slIoActive(io, "io");
}

static PyObject* raiseFailure(Io* io, int32_t statement) {
  sl_message message;
  message.text[0] = '\0';
  io->ctx->statement = statement;
  size_t used = 0;
  if (io->phase == 0) {  // as sl_weights_create says it
    static const char prefix[] = "while preparing weights: ";
    used = sizeof(prefix) - 1;
    memcpy(message.text, prefix, used);
  }
  sl_message words;
  sl_failure_message_of_sizes(io->program, io->ctx, io->phase == 0 ? NULL : io->extent_values,
                              &words);
  strncpy(message.text + used, words.text, sizeof(message.text) - used - 1);
  message.text[sizeof(message.text) - 1] = '\0';
  slRaiseStatus(__atomic_load_n(&io->ctx->status, __ATOMIC_ACQUIRE), message.text);
  return NULL;
}

static PyObject* stopIfFailed(PyObject* self, PyObject* value) {
  Io* io = (Io*)self;
  int32_t statement = 0;
  if (statementNumber(io, value, &statement)) {
    return NULL;
  }
  if (__atomic_load_n(&io->ctx->status, __ATOMIC_ACQUIRE) != SL_OK) {
    return raiseFailure(io, statement);
  }
  Py_RETURN_NONE;
}

static PyObject* checkFailed(PyObject* self, PyObject* value) {
  Io* io = (Io*)self;
  int32_t statement = 0;
  if (statementNumber(io, value, &statement)) {
    return NULL;
  }
  sl_fail(io->ctx, SL_CHECK_FAILED, 0, 0, 0);
  return raiseFailure(io, statement);
}

/// set_extent(statement, value): the value of a computed extent, for what follows.
static PyObject* setExtent(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Io* io = (Io*)self;
  int32_t statement = 0;
  if (count != 2) {
    PyErr_SetString(slUserError, "set_extent takes the number of a statement and a value");
    return NULL;
  }
  const long long value = PyLong_AsLongLong(args[1]);
  if ((value == -1 && PyErr_Occurred()) || statementNumber(io, args[0], &statement)) {
    return NULL;
  }
  if (io->desc->statements[statement].kind != SL_STATEMENT_EXTENT) {
    PyErr_Format(slUserError, "statement %d sets no extent", (int)statement);
    return NULL;
  }
  if (sl_program_set_extent(io->program, io->ctx, io->bindings, statement, value) != SL_OK) {
    return raiseFailure(io, statement);
  }
  for (int32_t e = 0; e < io->desc->extent_count; ++e) {
    io->extent_values[e] = io->bindings->extents[e];
  }
  Py_INCREF(args[1]);
  return args[1];
}

static PyObject* backEdge(PyObject* self, PyObject* value) {
  Io* io = (Io*)self;
  if (io->ctx && io->ctx->cancel && __atomic_load_n(io->ctx->cancel, __ATOMIC_RELAXED) != 0) {
    sl_fail(io->ctx, SL_CANCELLED, 0, 0, 0);
  }
  return stopIfFailed(self, value);
}

/// alloc(number, bytes). Out of memory is a failure of the call, told by the stop_if_failed that
/// follows.
static PyObject* allocate(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Io* io = (Io*)self;
  if (count != 2) {
    PyErr_SetString(slUserError, "alloc takes the number of a buffer and its size in bytes");
    return NULL;
  }
  const long long number = PyLong_AsLongLong(args[0]);
  const long long bytes = number == -1 && PyErr_Occurred() ? -1 : PyLong_AsLongLong(args[1]);
  if (PyErr_Occurred() || slIoActive(io, "io")) {
    return NULL;
  }
  if (number < 0 || number >= io->desc->buffer_count || bytes < 0) {
    PyErr_Format(slUserError, "alloc of %lld bytes for buffer %lld of %d", bytes, number,
                 (int)io->desc->buffer_count);
    return NULL;
  }
  const char* space = io->desc->spaces[io->desc->buffers[number].space];
  void* memory = sl_alloc(space, sl_program_device(io->program), (size_t)bytes);
  if (!memory) {
    sl_fail(io->ctx, SL_OUT_OF_MEMORY, bytes, 0, 0);
  }
  PyObject* buffer = slBufferNew(io, (int32_t)number, memory);
  if (buffer && memory) {
    ((Buffer*)buffer)->owned_bytes = bytes > 0 ? (size_t)bytes : 1;
  } else if (memory) {
    sl_free(space, sl_program_device(io->program), memory, (size_t)bytes);
  }
  return buffer;
}

static void ioDealloc(PyObject* object) {
  Io* io = (Io*)object;
  PyTypeObject* type = Py_TYPE(object);
  slIoDismantle(io);
  Py_CLEAR(io->extents);
  if (io->frame) {
    sl_frame_return(io->frame);
  }
  Py_CLEAR(io->keep);
  Py_CLEAR(io->weights);
  PyMem_Free(io->extent_values);
  PyMem_Free(io->arenas);
  PyMem_Free(io->addresses);
  PyMem_Free(io->moving);
  PyMem_Free(io->events);
  if (io->program) {
    sl_program_release(io->program);
  }
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

// ---- queues

static Buffer* asBuffer(const Io* io, PyObject* object) {
  if (Py_TYPE(object) != slBufferType || ((Buffer*)object)->io != io) {
    PyErr_SetString(slUserError, "copy takes buffers of its own call");
    return NULL;
  }
  return (Buffer*)object;
}

/// copy(destination, source, bytes).
static PyObject* queueCopy(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  Queue* queue = (Queue*)self;
  Io* io = queue->io;
  if (count != 3) {
    PyErr_SetString(slUserError, "copy takes a destination, a source and a size in bytes");
    return NULL;
  }
  const Buffer* to = asBuffer(io, args[0]);
  const Buffer* from = to ? asBuffer(io, args[1]) : NULL;
  const long long bytes = from ? PyLong_AsLongLong(args[2]) : -1;
  if (!from || (bytes == -1 && PyErr_Occurred()) || slIoActive(io, "the queue")) {
    return NULL;
  }
  if (queue->is_team) {
    memcpy(to->data, from->data, (size_t)bytes);
  } else {
    sl_queue_copy(io->ctx, io->bindings->queues[queue->number], to->data,
                  io->desc->spaces[to->line->space], from->data,
                  io->desc->spaces[from->line->space], (size_t)bytes);
  }
  Py_RETURN_NONE;
}

static PyObject* queueRecord(PyObject* self, PyObject* unused) {
  (void)unused;
  Queue* queue = (Queue*)self;
  Io* io = queue->io;
  if (slIoActive(io, "the queue")) {
    return NULL;
  }
  if (io->event_count == io->event_room) {
    const int32_t room = io->event_room ? 2 * io->event_room : 8;
    void** grown = PyMem_Realloc(io->events, sizeof(void*) * 2 * (size_t)room);
    if (!grown) {
      return PyErr_NoMemory();
    }
    io->events = grown;
    io->event_room = room;
  }
  Event* event = (Event*)PyType_GenericAlloc(event_type_, 0);
  if (!event) {
    return NULL;
  }
  void* origin = io->bindings->queues[queue->number];
  Py_INCREF((PyObject*)io);
  event->io = io;
  event->number = io->event_count;
  io->events[2 * io->event_count] = sl_queue_record(origin);
  io->events[2 * io->event_count + 1] = origin;
  ++io->event_count;
  return (PyObject*)event;
}

static PyObject* queueWait(PyObject* self, PyObject* value) {
  Queue* queue = (Queue*)self;
  Io* io = queue->io;
  if (Py_TYPE(value) != event_type_ || ((Event*)value)->io != io || slIoActive(io, "the queue") ||
      ((Event*)value)->number >= io->event_count) {
    if (!PyErr_Occurred()) {
      PyErr_SetString(slUserError, "wait takes an event that this call has recorded");
    }
    return NULL;
  }
  const int32_t number = ((Event*)value)->number;
  void* target = io->bindings->queues[queue->number];
  void* event = io->events[2 * number];
  void* origin = io->events[2 * number + 1];
  Py_BEGIN_ALLOW_THREADS sl_queue_wait(target, event, origin);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject* queueRepr(PyObject* self) {
  const Queue* queue = (Queue*)self;
  if (queue->alone) {
    return PyUnicode_FromString("<the calling thread alone>");
  }
  return PyUnicode_FromFormat("<queue %d: %s>", (int)queue->number,
                              queue->io->desc->queues[queue->number]);
}

/// Queue and Event both begin with their call.
static void partDealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF((PyObject*)((Queue*)object)->io);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

// ---- types

static PyMethodDef io_methods[] = {
    {"stop_if_failed", stopIfFailed, METH_O,
     "stop_if_failed(statement)\n--\n\nRaises what a statement before has reported."},
    {"check_failed", checkFailed, METH_O,
     "check_failed(statement)\n--\n\nRaises the failure of a check."},
    {"back_edge", backEdge, METH_O,
     "back_edge(statement)\n--\n\nThe end of an iteration: raises when the call was asked to stop "
     "or something has failed."},
    {"set_extent", (PyCFunction)(void (*)(void))setExtent, METH_FASTCALL,
     "set_extent(statement, value)\n--\n\nGives a computed extent its value; raises when it is "
     "outside of its bounds."},
    {"alloc", (PyCFunction)(void (*)(void))allocate, METH_FASTCALL,
     "alloc(number, bytes)\n--\n\nMemory of run-time size; freed with the buffer."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef io_members[] = {
    {"buffers", T_OBJECT_EX, offsetof(Io, buffers), READONLY, "Buffers by number."},
    {"extents", T_OBJECT_EX, offsetof(Io, extents), READONLY, "Values of the named extents."},
    {"queues", T_OBJECT_EX, offsetof(Io, queues), READONLY, "Queues by number."},
    {"team", T_OBJECT_EX, offsetof(Io, team), READONLY, "The caller's team, queue 0."},
    {"alone", T_OBJECT_EX, offsetof(Io, alone), READONLY, "The calling thread alone."},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef queue_methods[] = {
    {"copy", (PyCFunction)(void (*)(void))queueCopy, METH_FASTCALL,
     "copy(destination, source, bytes)\n--\n\nCopies between two buffers of one layout."},
    {"record", queueRecord, METH_NOARGS,
     "record()\n--\n\nAn event that fires when the queue has passed this point."},
    {"wait", queueWait, METH_O,
     "wait(event)\n--\n\nLater work of the queue starts after the event; a team blocks."},
    {NULL, NULL, 0, NULL},
};

int slIoTypesInit(void) {
  static PyType_Slot io_slots[] = {
      {Py_tp_doc, "One call of an emitted program."},
      {Py_tp_methods, io_methods},
      {Py_tp_members, io_members},
      {Py_tp_dealloc, ioDealloc},
      {0, NULL},
  };
  static PyType_Slot queue_slots[] = {
      {Py_tp_doc, "Where a statement runs: the caller's team, its thread alone, or a device."},
      {Py_tp_methods, queue_methods},
      {Py_tp_repr, queueRepr},
      {Py_tp_dealloc, partDealloc},
      {0, NULL},
  };
  static PyType_Slot event_slots[] = {
      {Py_tp_doc, "A point in the order of a queue."},
      {Py_tp_dealloc, partDealloc},
      {0, NULL},
  };
  PyType_Spec specs[] = {
      {"straightline._call.Io", sizeof(Io), 0,
       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, io_slots},
      {"straightline._call.Queue", sizeof(Queue), 0,
       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, queue_slots},
      {"straightline._call.Event", sizeof(Event), 0,
       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, event_slots},
  };
  io_type_ = (PyTypeObject*)PyType_FromSpec(&specs[0]);
  slQueueType = (PyTypeObject*)PyType_FromSpec(&specs[1]);
  event_type_ = (PyTypeObject*)PyType_FromSpec(&specs[2]);
  return io_type_ && slQueueType && event_type_ ? 0 : -1;
}
