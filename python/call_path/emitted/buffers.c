// SPDX-License-Identifier: Apache-2.0
// Buffers of emitted Python: an address and a line of the program's buffer table.
#include <stdlib.h>
#include <string.h>

#include "emitted/emitted.h"

PyTypeObject* slBufferType;

PyObject* slBufferNew(Io* io, int32_t number, void* data) {
  Buffer* buffer = (Buffer*)PyType_GenericAlloc(slBufferType, 0);
  if (buffer) {
    Py_INCREF((PyObject*)io);
    buffer->io = io;
    buffer->line = &io->desc->buffers[number];
    buffer->data = data;
  }
  return (PyObject*)buffer;
}

static void dealloc(PyObject* object) {
  Buffer* buffer = (Buffer*)object;
  PyTypeObject* type = Py_TYPE(object);
  if (buffer->owned_bytes) {
    sl_free(buffer->io->desc->spaces[buffer->line->space], sl_program_device(buffer->io->program),
            buffer->data, buffer->owned_bytes);
  }
  Py_XDECREF((PyObject*)buffer->io);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

// ---- scalars

static float halfToFloat(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  uint32_t bits;
  if (magnitude >= 0x7c00u) {
    bits = sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13);
  } else if (magnitude < 0x400u) {
    const float value = (float)magnitude * 0x1p-24f;
    return sign ? -value : value;
  } else {
    bits = sign | ((magnitude << 13) + 0x38000000u);
  }
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// The half with this value; it came from a half, so there is one.
static uint16_t halfFromFloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    return (uint16_t)(sign | 0x7c00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude < 0x38800000u) {  // below the smallest normal half
    float positive;
    memcpy(&positive, &magnitude, sizeof(positive));
    return (uint16_t)(sign | (uint32_t)(positive * 0x1p24f));
  }
  return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

PyObject* slScalarFromBits(sl_dtype dtype, int64_t bits) {
  if (dtype.code == 6) {
    return PyBool_FromLong(bits != 0);
  }
  if (dtype.code == 2 && dtype.bits == 64) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return PyFloat_FromDouble(value);
  }
  if (dtype.code == 2 || dtype.code == 4) {
    float value = halfToFloat((uint16_t)bits);
    const uint32_t word = dtype.bits == 32 ? (uint32_t)bits : (uint32_t)bits << 16;
    if (dtype.bits == 32 || dtype.code == 4) {
      memcpy(&value, &word, sizeof(value));
    }
    return PyFloat_FromDouble(value);
  }
  const int shift = 64 - dtype.bits;
  if (dtype.code == 1) {
    return PyLong_FromUnsignedLongLong((uint64_t)bits << shift >> shift);
  }
  return PyLong_FromLongLong((int64_t)((uint64_t)bits << shift) >> shift);
}

int slScalarToBits(sl_dtype dtype, PyObject* value, int64_t* bits) {
  *bits = 0;
  if (dtype.code == 2 || dtype.code == 4) {
    const double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred()) {
      return -1;
    }
    const float narrow = (float)number;
    uint32_t word;
    memcpy(&word, &narrow, sizeof(word));
    if (dtype.bits == 64) {
      memcpy(bits, &number, sizeof(number));
    } else {
      *bits = dtype.bits == 32 ? word : dtype.code == 4 ? word >> 16 : halfFromFloat(narrow);
    }
    return 0;
  }
  if (dtype.code == 6) {
    const int truth = PyObject_IsTrue(value);
    *bits = truth;
    return truth < 0 ? -1 : 0;
  }
  *bits = (int64_t)PyLong_AsUnsignedLongLongMask(value);
  return PyErr_Occurred() ? -1 : 0;
}

/// buffer[i]: element i, counted from element 0 without regard to the shape, as a scalar.
static PyObject* load(PyObject* self, PyObject* index) {
  const Buffer* buffer = (Buffer*)self;
  const long long i = PyLong_AsLongLong(index);
  if ((i == -1 && PyErr_Occurred()) || slIoActive(buffer->io, "the buffer")) {
    return NULL;
  }
  if (!buffer->data || buffer->line->space != 0) {
    PyErr_Format(slUserError, "buffer '%s' cannot be read by the host here", buffer->line->name);
    return NULL;
  }
  const size_t bytes = buffer->line->dtype.bits / 8;
  int64_t bits = 0;
  memcpy(&bits, (const char*)buffer->data + i * (long long)bytes, bytes);
  return slScalarFromBits(buffer->line->dtype, bits);
}

// ---- views

/// view(number, elements): line `number` of the table, that many elements of this buffer on.
static PyObject* view(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  const Buffer* base = (Buffer*)self;
  if (count != 2) {
    PyErr_SetString(slUserError, "view takes the number of a buffer and an offset in elements");
    return NULL;
  }
  const long long number = PyLong_AsLongLong(args[0]);
  const long long elements = number == -1 && PyErr_Occurred() ? -1 : PyLong_AsLongLong(args[1]);
  if (PyErr_Occurred() || slIoActive(base->io, "the buffer")) {
    return NULL;
  }
  if (number < 0 || number >= base->io->desc->buffer_count) {
    PyErr_Format(slUserError, "there is no buffer %lld: the program has %d", number,
                 (int)base->io->desc->buffer_count);
    return NULL;
  }
  const long long bytes = elements * (base->line->dtype.bits / 8);
  return slBufferNew(base->io, (int32_t)number, base->data ? (char*)base->data + bytes : NULL);
}

// ---- facts

static PyObject* longTuple(const Buffer* buffer, const sl_expr* values, int32_t scale) {
  PyObject* tuple = PyTuple_New(buffer->line->rank);
  for (int32_t d = 0; tuple && d < buffer->line->rank; ++d) {
    PyObject* value =
        PyLong_FromLongLong(sl_expr_value(&values[d], buffer->io->extent_values) * scale);
    if (!value || PyTuple_SetItem(tuple, d, value)) {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

static PyObject* getShape(PyObject* self, void* unused) {
  (void)unused;
  return longTuple((Buffer*)self, ((Buffer*)self)->line->extents, 1);
}

static PyObject* getStrides(PyObject* self, void* unused) {
  (void)unused;
  return longTuple((Buffer*)self, ((Buffer*)self)->line->strides, 1);
}

static PyObject* getName(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((Buffer*)self)->line->name);
}

static PyObject* getSource(PyObject* self, void* unused) {
  (void)unused;
  return PyUnicode_FromString(((Buffer*)self)->line->source);
}

static PyObject* getDtype(PyObject* self, void* unused) {
  (void)unused;
  const sl_dtype dtype = ((Buffer*)self)->line->dtype;
  return slSupport("dtype_name", "(ii)", (int)dtype.code, (int)dtype.bits);
}

static PyObject* getSpace(PyObject* self, void* unused) {
  (void)unused;
  const Buffer* buffer = (Buffer*)self;
  return PyUnicode_FromString(buffer->io->desc->spaces[buffer->line->space]);
}

static PyObject* getRole(PyObject* self, void* unused) {
  (void)unused;
  static const char* const names[] = {"parameter", "state", "prepared", "handle",   "input",
                                      "output",    "arena", "view",     "constant", "allocated"};
  return PyUnicode_FromString(names[((Buffer*)self)->line->role]);
}

static PyObject* getAddress(PyObject* self, void* unused) {
  (void)unused;
  return PyLong_FromVoidPtr(((Buffer*)self)->data);
}

static PyObject* repr(PyObject* self) {
  const Buffer* buffer = (Buffer*)self;
  PyObject* dtype = getDtype(self, NULL);
  PyObject* shape = dtype ? getShape(self, NULL) : NULL;
  PyObject* role = shape ? getRole(self, NULL) : NULL;
  PyObject* text =
      role ? PyUnicode_FromFormat("<buffer %s: %U %R, %U>", buffer->line->name, dtype, shape, role)
           : NULL;
  Py_XDECREF(dtype);
  Py_XDECREF(shape);
  Py_XDECREF(role);
  return text;
}

/// Whether the program writes it (so that a person may as well).
static int isReadOnly(const Buffer* buffer) {
  const sl_program_desc* desc = buffer->io->desc;
  const sl_buffer* root = buffer->line;
  while (root->base >= 0) {
    root = &desc->buffers[root->base];
  }
  if (root->role == SL_ROLE_PARAMETER || root->role == SL_ROLE_CONSTANT ||
      root->role == SL_ROLE_PREPARED) {
    return 1;
  }
  return root->role == SL_ROLE_INPUT;
}

/// Bytes from element 0 to behind the last one.
static size_t spanBytes(const Buffer* buffer) {
  int64_t last = 0;
  for (int32_t d = 0; d < buffer->line->rank; ++d) {
    const int64_t extent = sl_expr_value(&buffer->line->extents[d], buffer->io->extent_values);
    if (extent == 0) {
      return 0;
    }
    last += (extent - 1) * sl_expr_value(&buffer->line->strides[d], buffer->io->extent_values);
  }
  return (size_t)(last + 1) * ((buffer->line->dtype.bits + 7u) / 8);
}

/// Copies a device's memory to a new block, which the caller frees, after everything enqueued so
/// far has run. NULL with an exception. Launches the graph gathered so far; the rest of the call is
/// launched statement by statement.
static void* copiedToHost(const Buffer* buffer) {
  const Io* io = buffer->io;
  const char* space = io->desc->spaces[buffer->line->space];
  void* queue = NULL;
  for (int32_t q = 0; q < io->desc->queue_count && !queue; ++q) {
    queue = strcmp(io->desc->queues[q], space) == 0 ? io->bindings->queues[q] : NULL;
  }
  if (queue && sl_queue_captured(queue)) {
    PyErr_Format(
        slUnsupportedError,
        "buffer '%s' cannot be read while a graph is captured: nothing runs before it is launched",
        buffer->line->name);
    return NULL;
  }
  const size_t bytes = spanBytes(buffer);
  void* host = queue ? malloc(bytes ? bytes : 1) : NULL;
  if (!host) {
    PyErr_Format(slUnsupportedError,
                 "buffer '%s' lies in the memory '%s', which the host cannot read now",
                 buffer->line->name, space);
    return NULL;
  }
  int32_t status = SL_OK;
  Py_BEGIN_ALLOW_THREADS if (bytes) {
    status = sl_queue_copy(io->ctx, queue, host, io->desc->spaces[0], buffer->data, space, bytes);
    if (status == SL_OK) {
      void* event = sl_queue_record(queue);
      sl_queue_wait(io->bindings->queues[0], event, queue);
      sl_queue_forget(event, queue);
      status = __atomic_load_n(&io->ctx->status, __ATOMIC_ACQUIRE);
    }
  }
  Py_END_ALLOW_THREADS if (status != SL_OK) {
    free(host);
    sl_message message;
    PyOS_snprintf(message.text, sizeof(message.text),
                  "%s: buffer '%s' could not be copied to the host",
                  io->ctx->text[0] ? io->ctx->text : "the device failed", buffer->line->name);
    slRaiseStatus(status, message.text);
    return NULL;
  }
  return host;
}

/// An array over `data`, which has the buffer's layout.
static PyObject* arrayOver(PyObject* self, void* data, int copy) {
  const Buffer* buffer = (Buffer*)self;
  PyObject* shape = getShape(self, NULL);
  PyObject* strides =
      shape ? longTuple(buffer, buffer->line->strides, (buffer->line->dtype.bits + 7) / 8) : NULL;
  PyObject* array = NULL;
  if (strides) {
    array = slSupport("buffer_array", "(ONOOiiOO)", self, PyLong_FromVoidPtr(data), shape, strides,
                      (int)buffer->line->dtype.code, (int)buffer->line->dtype.bits,
                      isReadOnly(buffer) ? Py_True : Py_False, copy ? Py_True : Py_False);
  }
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return array;
}

/// numpy(): the memory as an array. The array stays valid after the call, which then keeps its
/// frame and arguments. It is a copy for bfloat16 (as float32), in prepare, whose scratch memory is
/// released, and for a device's memory, after waiting for it.
static PyObject* asNumpy(PyObject* self, PyObject* unused) {
  (void)unused;
  Buffer* buffer = (Buffer*)self;
  Io* io = buffer->io;
  const int is_there = buffer->line->space != 0;
  if ((is_there || !io->looked_at) && slIoActive(io, "the buffer")) {
    return NULL;
  }
  if (buffer->line->role == SL_ROLE_HANDLE) {
    PyErr_Format(slUnsupportedError, "buffer '%s' is a library's handle, not an array",
                 buffer->line->name);
    return NULL;
  }
  if (is_there) {
    void* data = copiedToHost(buffer);
    PyObject* array = data ? arrayOver(self, data, 1) : NULL;
    free(data);
    return array;
  }
  const int copy = io->phase == 0;
  PyObject* array = arrayOver(self, buffer->data, copy);
  if (array && !copy) {
    io->looked_at = 1;
  }
  return array;
}

static PyMethodDef methods[] = {
    {"numpy", asNumpy, METH_NOARGS,
     "numpy()\n--\n\nThe memory as a numpy array; bfloat16 as float32, copied; of a device a copy, "
     "for which it waits."},
    {"view", (PyCFunction)(void (*)(void))view, METH_FASTCALL,
     "view(number, elements)\n--\n\nBuffer `number` of the program, `elements` elements on."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef facts[] = {
    {"name", getName, NULL, "Its name in the emitted text.", NULL},
    {"source", getSource, NULL, "Its name in the model, or ''.", NULL},
    {"role", getRole, NULL,
     "parameter, state, prepared, handle, input, output, arena, view, constant or allocated.",
     NULL},
    {"dtype", getDtype, NULL, "Name of the element type.", NULL},
    {"shape", getShape, NULL, "Sizes.", NULL},
    {"strides", getStrides, NULL, "Strides, in elements.", NULL},
    {"space", getSpace, NULL, "Name of the memory space.", NULL},
    {"address", getAddress, NULL, "Address of element 0.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int slBufferTypeInit(void) {
  static PyType_Slot slots[] = {
      {Py_tp_doc, "Memory of one call: an address, a dtype and a layout."},
      {Py_tp_methods, methods},
      {Py_tp_getset, facts},
      {Py_tp_repr, repr},
      {Py_tp_dealloc, dealloc},
      {Py_mp_subscript, load},
      {0, NULL},
  };
  PyType_Spec spec = {"straightline._call.Buffer", sizeof(Buffer), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  slBufferType = (PyTypeObject*)PyType_FromSpec(&spec);
  return slBufferType ? 0 : -1;
}
