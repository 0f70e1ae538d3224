// SPDX-License-Identifier: Apache-2.0
// Ops of torch that are called through Python (door "python" of the backend aten): tensors over the
// program's buffers go in, results are copied into its buffers. This is the way for the plain case:
// memory of the host, fixed sizes, each argument a tensor, a list of tensors or a constant, each
// result one tensor.
// Whatever else there is goes to straightline._aten_calls, which runs any call.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "call_path.h"

typedef int32_t (*RunFn)(int64_t id, int32_t device, const void* const* inputs,
                         void* const* outputs, const int64_t* sizes, char* message,
                         int64_t message_bytes);

typedef struct Layout {
  sl_dtype dtype;
  int32_t rank;
  int64_t bytes;  ///< from the first element to behind the last
  int dense;      ///< row-major, without gaps
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
} Layout;

/// One planned call; immutable but for `kept`. Its address is its number for the backend, so its
/// maker keeps it until the backend forgets it.
typedef struct OpCall {
  PyObject_HEAD PyObject* op;  ///< torch.ops.namespace.name.overload
  PyObject* constants;         ///< tuple: an argument each, None where a tensor goes
  PyObject* keywords;          ///< tuple: names of the last arguments
  PyObject* inference;         ///< says whether the thread is in inference mode
  PyObject* below;             ///< class of a context without autograd's kernels
  PyObject* failed;  ///< exception -> bytes: keeps it for the caller, and says it in words
  PyObject* copy;    ///< (result number, result, tensor): copies, or raises what does not fit
  PyObject* lists;   ///< tuple: a tuple of numbers of operands for each argument that is a list
  /// of each argument: number of an operand; -1: a constant; below: -2 - number of a list
  int32_t* places;
  int32_t* results;  ///< of each result: number of an output, or -1
  Layout* layouts;   ///< inputs, then outputs
  /// Of each operand: a tensor over where it lay in the last call, which nobody else has; NULL
  /// while a call uses it. The GIL is held wherever these change.
  PyObject** kept;
  uint8_t* kept_in_inference;  ///< of each: whether it was made in inference mode
  int32_t skips_autograd;      ///< autograd has a kernel of the op, which is passed over
  int32_t inputs, operands, result_count;
} OpCall;

static PyTypeObject* type_;
/// Runs the calls that are no OpCall, whose numbers are negative; takes the GIL itself.
static RunFn other_;
/// Forgets a call by its number.
static PyObject* forget_;
/// c10::InferenceMode::is_enabled; NULL: this torch lacks it, and its function in Python is asked.
static _Bool (*in_inference_)(void);
/// Of the call that runs on this thread, which takes small results.
static _Thread_local sl_given* taker_;

// ---- tensors over memory of the program

typedef struct Borrowed {
  sl_dl_managed managed;
  int64_t sizes[2 * SL_MAX_RANK];
} Borrowed;

static void freeBorrowed(sl_dl_managed* managed) { free(managed); }

/// A tensor over memory of the program; who has a view of it after the call has memory of another
/// call's.
static PyObject* tensorOver(const Layout* layout, void* data, const sl_dl_exchange* exchange) {
  Borrowed* made = malloc(sizeof(*made));
  if (!made) {
    return PyErr_NoMemory();
  }
  memcpy(made->sizes, layout->shape, sizeof(layout->shape));
  memcpy(made->sizes + SL_MAX_RANK, layout->strides, sizeof(layout->strides));
  made->managed = (sl_dl_managed){
      .version = {SL_DLPACK_MAJOR, SL_DLPACK_MINOR},
      .deleter = freeBorrowed,
      .tensor = {.data = data,
                 .device = {SL_DLPACK_CPU, 0},
                 .rank = layout->rank,
                 .dtype = layout->dtype,
                 .shape = made->sizes,
                 .strides = made->sizes + SL_MAX_RANK},
  };
  void* object = NULL;
  return exchange->wrap(&made->managed, &object) ? NULL : (PyObject*)object;
}

/// Whether a tensor that an op was given is still over that memory in that layout: an op may have
/// given it another shape or storage.
static int isOver(PyObject* tensor, const Layout* layout, const void* data,
                  const sl_dl_exchange* exchange) {
  sl_dl_tensor now;
  if (exchange->borrow(tensor, &now)) {
    PyErr_Clear();
    return 0;
  }
  int same = (char*)now.data + now.byte_offset == data && now.rank == layout->rank &&
             now.dtype.code == layout->dtype.code && now.dtype.bits == layout->dtype.bits;
  for (int32_t d = 0; same && d < layout->rank; ++d) {
    same = now.shape[d] == layout->shape[d] &&
           (layout->shape[d] == 1 || !now.strides || now.strides[d] == layout->strides[d]);
  }
  return same;
}

/// The tensor of an operand: the one of the last call where that is of the same memory, which saves
/// making one, and was made in the same mode: tensors of inference mode are of another kind.
static PyObject* takeTensor(const OpCall* self, int32_t operand, void* data, int inference,
                            const sl_dl_exchange* exchange) {
  PyObject* kept = self->kept[operand];
  self->kept[operand] = NULL;
  if (kept && self->kept_in_inference[operand] == inference && Py_REFCNT(kept) == 1 &&
      isOver(kept, &self->layouts[operand], data, exchange)) {
    return kept;
  }
  Py_XDECREF(kept);
  return tensorOver(&self->layouts[operand], data, exchange);
}

static void* addressOf(const OpCall* self, int32_t operand, const void* const* inputs,
                       void* const* outputs) {
  return operand < self->inputs ? (void*)inputs[operand] : outputs[operand - self->inputs];
}

// ---- one run

/// Whether the thread is in inference mode; -1: an exception.
static int inInferenceMode(const OpCall* self) {
  if (in_inference_) {
    return in_inference_();
  }
  PyObject* inference = PyObject_CallObject(self->inference, NULL);
  const int is_so = inference ? PyObject_IsTrue(inference) : -1;
  Py_XDECREF(inference);
  return is_so;
}

/// The result of the op, called with Autograd's kernels passed over: nothing here records. In
/// inference mode the arguments, which were made in it, have no such kernels, and most ops have
/// none.
static PyObject* callBelow(const OpCall* self, PyObject* positional, PyObject* named,
                           int inference) {
  if (inference || !self->skips_autograd) {
    return PyObject_Call(self->op, positional, named);
  }
  PyObject* context = PyObject_CallObject(self->below, NULL);
  PyObject* entered = context ? PyObject_CallMethod(context, "__enter__", NULL) : NULL;
  if (!entered) {
    Py_XDECREF(context);
    return NULL;
  }
  Py_DECREF(entered);
  PyObject* result = PyObject_Call(self->op, positional, named);
  PyObject *type = NULL, *value = NULL, *trace = NULL;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* left = PyObject_CallMethod(context, "__exit__", "OOO", Py_None, Py_None, Py_None);
  Py_DECREF(context);
  if (!left) {
    Py_CLEAR(result);
  }
  Py_XDECREF(left);
  if (type) {
    PyErr_Restore(type, value, trace);
  }
  return result;
}

/// A tensor or a list of them, as argument `i` wants it.
static PyObject* argumentOf(const OpCall* self, int32_t place, const void* const* inputs,
                            void* const* outputs, int inference, const sl_dl_exchange* exchange) {
  if (place >= 0) {
    return takeTensor(self, place, addressOf(self, place, inputs, outputs), inference, exchange);
  }
  PyObject* numbers = PyTuple_GetItem(self->lists, -2 - place);
  PyObject* list = PyList_New(PyTuple_Size(numbers));
  for (Py_ssize_t i = 0; list && i < PyTuple_Size(numbers); ++i) {
    const int32_t operand = (int32_t)PyLong_AsLong(PyTuple_GetItem(numbers, i));
    PyObject* tensor =
        takeTensor(self, operand, addressOf(self, operand, inputs, outputs), inference, exchange);
    if (!tensor || PyList_SetItem(list, i, tensor)) {
      Py_CLEAR(list);
    }
  }
  return list;
}

/// Keeps the tensors of the arguments, which the call is done with.
static void putArguments(const OpCall* self, PyObject* positional, PyObject* named, int inference) {
  const Py_ssize_t count = PyTuple_Size(self->constants);
  const Py_ssize_t named_count = PyTuple_Size(self->keywords);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int32_t place = self->places[i];
    PyObject* value =
        i < count - named_count
            ? PyTuple_GetItem(positional, i)
            : PyDict_GetItem(named, PyTuple_GetItem(self->keywords, i - (count - named_count)));
    if (!value || place == -1) {
      continue;
    }
    PyObject* numbers = place < 0 ? PyTuple_GetItem(self->lists, -2 - place) : NULL;
    for (Py_ssize_t k = 0; k < (numbers ? PyTuple_Size(numbers) : 1); ++k) {
      PyObject* tensor = numbers ? PyList_GetItem(value, k) : value;
      if (!tensor) {  // the op has taken elements out of its list
        PyErr_Clear();
        break;
      }
      const int32_t operand = numbers ? (int32_t)PyLong_AsLong(PyTuple_GetItem(numbers, k)) : place;
      // The tuple, dict or list has one reference, and this one more.
      if (Py_REFCNT(tensor) == 1 && !self->kept[operand]) {
        Py_INCREF(tensor);
        self->kept[operand] = tensor;
        self->kept_in_inference[operand] = (uint8_t)inference;
      }
    }
  }
}

static PyObject* called(const OpCall* self, const void* const* inputs, void* const* outputs,
                        const sl_dl_exchange* exchange) {
  const int inference = inInferenceMode(self);
  if (inference < 0) {
    return NULL;
  }
  const Py_ssize_t count = PyTuple_Size(self->constants);
  const Py_ssize_t named_count = PyTuple_Size(self->keywords);
  PyObject* positional = PyTuple_New(count - named_count);
  PyObject* named = named_count ? PyDict_New() : NULL;
  PyObject* result = NULL;
  for (Py_ssize_t i = 0; positional && i < count; ++i) {
    const int32_t place = self->places[i];
    PyObject* value = NULL;
    if (place == -1) {
      value = PyTuple_GetItem(self->constants, i);
      Py_INCREF(value);
    } else {
      value = argumentOf(self, place, inputs, outputs, inference, exchange);
    }
    if (!value) {
      goto done;
    }
    if (i < count - named_count) {
      PyTuple_SetItem(positional, i, value);
      continue;
    }
    PyObject* name = PyTuple_GetItem(self->keywords, i - (count - named_count));
    const int failed = !named || PyDict_SetItem(named, name, value);
    Py_DECREF(value);
    if (failed) {
      goto done;
    }
  }
  result = positional ? callBelow(self, positional, named, inference) : NULL;
  if (result) {
    putArguments(self, positional, named, inference);
  }
done:
  Py_XDECREF(positional);
  Py_XDECREF(named);
  return result;
}

/// Whether the result's bytes are the output's: a plain tensor of the host of the same type and
/// sizes, dense as the output is, without a negation that is still to be done. -1: an exception.
static int isSameBytes(PyObject* result, const Layout* layout, PyTypeObject* plain,
                       const sl_dl_exchange* exchange, sl_dl_tensor* tensor) {
  if (!layout->dense || Py_TYPE(result) != plain) {
    return 0;
  }
  const int is_negated = slTorchIsNegated(result);
  if (is_negated) {
    return is_negated < 0 ? -1 : 0;
  }
  if (exchange->borrow(result, tensor)) {
    PyErr_Clear();  // copied by torch, which says what is wrong with it
    return 0;
  }
  int same = tensor->device.type == SL_DLPACK_CPU && tensor->rank == layout->rank &&
             tensor->dtype.code == layout->dtype.code && tensor->dtype.bits == layout->dtype.bits;
  for (int32_t d = 0; same && d < layout->rank; ++d) {
    same = tensor->shape[d] == layout->shape[d] &&
           (layout->shape[d] == 1 || !tensor->strides || tensor->strides[d] == layout->strides[d]);
  }
  return same;
}

sl_given* slOpGiveTo(sl_given* given) {
  sl_given* before = taker_;
  taker_ = given;
  return before;
}

/// Small results: to copy one takes less than to make a tensor of the program's own.
enum { kMostBytes = 1024 };

void slGivenClear(sl_given* given) {
  Py_CLEAR(given->object);
  if (given->handle) {
    slTorchDrop(given->handle);
    given->handle = NULL;
  }
}

void slGivenOpen(sl_given* given) {
  const sl_dl_exchange* exchange = slTorchExchange();
  PyObject* object = slTorchObjectOf(given->handle);
  given->handle = NULL;
  if (!object || !exchange || Py_TYPE(object) != slTorchTensorType() || Py_REFCNT(object) != 1 ||
      slTorchRequiresGrad(object) || exchange->borrow(object, &given->tensor)) {
    PyErr_Clear();  // the output is the result then
    Py_XDECREF(object);
    return;
  }
  given->object = object;
}

/// sl_aten_python.give.
static int32_t giveHandle(void* tensor, int64_t bytes, const void* to) {
  if (!taker_ || taker_->object || bytes > kMostBytes) {
    return 0;
  }
  if (taker_->handle) {
    slTorchDrop(taker_->handle);
  }
  taker_->handle = tensor;
  taker_->data = to;
  return 1;
}

/// Keeps the result that was copied to `to`, for who called the program: nobody else has it, it
/// lies in no memory of the program, and has no gradient. A tensor of the program's own would take
/// longer to make than these questions, and than small results to copy. 0, or -1: an exception.
static int give(const OpCall* self, PyObject* result, const sl_dl_tensor* tensor, int64_t bytes,
                const void* const* inputs, void* const* outputs, const void* to) {
  if (!taker_ || self->result_count != 1 || bytes > kMostBytes || Py_REFCNT(result) != 1) {
    return 0;
  }
  const uintptr_t low = (uintptr_t)tensor->data + tensor->byte_offset;
  for (int32_t operand = 0; operand < self->operands; ++operand) {
    const uintptr_t other = (uintptr_t)addressOf(self, operand, inputs, outputs);
    const sl_range range = {other, other + (uintptr_t)self->layouts[operand].bytes};
    if (slRangesOverlap((sl_range){low, low + (uintptr_t)bytes}, range)) {
      return 0;
    }
  }
  const int has_gradient = slTorchRequiresGrad(result);
  if (has_gradient == 0) {
    sl_given before = *taker_;
    Py_INCREF(result);
    *taker_ = (sl_given){.object = result, .data = to, .tensor = *tensor};
    slGivenClear(&before);
  }
  return has_gradient < 0 ? -1 : 0;
}

static int take(const OpCall* self, int32_t i, PyObject* result, const void* const* inputs,
                void* const* outputs, PyTypeObject* plain, const sl_dl_exchange* exchange) {
  const int32_t output = self->results[i];
  if (output < 0) {
    return 0;
  }
  const Layout* layout = &self->layouts[self->inputs + output];
  sl_dl_tensor tensor;
  const int same = isSameBytes(result, layout, plain, exchange, &tensor);
  if (same > 0) {
    memcpy(outputs[output], (char*)tensor.data + tensor.byte_offset, (size_t)layout->bytes);
    return give(self, result, &tensor, layout->bytes, inputs, outputs, outputs[output]);
  }
  if (same < 0) {
    return -1;
  }
  PyObject* to = tensorOver(layout, outputs[output], exchange);
  PyObject* done = to ? PyObject_CallFunction(self->copy, "OO", result, to) : NULL;
  Py_XDECREF(to);
  Py_XDECREF(done);
  return done ? 0 : -1;
}

static int runCall(const OpCall* self, const void* const* inputs, void* const* outputs) {
  const sl_dl_exchange* exchange = slTorchExchange();
  PyObject* returned = exchange ? called(self, inputs, outputs, exchange) : NULL;
  if (!returned) {
    return -1;
  }
  PyTypeObject* plain = slTorchTensorType();
  int status = 0;
  if (self->result_count == 1) {
    status = take(self, 0, returned, inputs, outputs, plain, exchange);
  }
  for (int32_t i = 0; self->result_count > 1 && !status && i < self->result_count; ++i) {
    PyObject* item = PySequence_GetItem(returned, i);
    status = item ? take(self, i, item, inputs, outputs, plain, exchange) : -1;
    Py_XDECREF(item);
  }
  Py_DECREF(returned);
  return status;
}

/// Keeps the exception for the caller, and writes its text.
static void fail(const OpCall* self, char* message, int64_t bytes) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) {
    PyException_SetTraceback(value, trace);
  }
  PyObject* words = PyObject_CallFunction(self->failed, "O", value);
  char* text = NULL;
  Py_ssize_t size = 0;
  if (!words || PyBytes_AsStringAndSize(words, &text, &size)) {
    PyErr_Clear();
    text = "an exception that cannot be said in words";
    size = (Py_ssize_t)strlen(text);
  }
  const size_t most = (size_t)bytes - 1;
  const size_t count = (size_t)size < most ? (size_t)size : most;
  memcpy(message, text, count);
  message[count] = '\0';
  Py_XDECREF(words);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

/// sl_aten_python.run for calls whose number is the address of an OpCall.
static int32_t run(int64_t id, int32_t device, const void* const* inputs, void* const* outputs,
                   const int64_t* sizes, char* message, int64_t message_bytes) {
  if (id < 0) {
    return other_(id, device, inputs, outputs, sizes, message, message_bytes);
  }
  const PyGILState_STATE state = PyGILState_Ensure();
  const OpCall* self = (const OpCall*)(intptr_t)id;
  const int status = runCall(self, inputs, outputs);
  if (status) {
    fail(self, message, message_bytes);
  }
  PyGILState_Release(state);
  return status ? 1 : 0;
}

/// sl_aten_python.forget. A program may be released while an exception propagates.
static void forget(int64_t id) {
  const PyGILState_STATE state = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* done = PyObject_CallFunction(forget_, "L", (long long)id);
  if (!done) {
    PyErr_WriteUnraisable(forget_);
  }
  Py_XDECREF(done);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
}

PyObject* slOpCallFunctions(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *other, *forgets;
  if (!PyArg_ParseTuple(args, "OO", &other, &forgets)) {
    return NULL;
  }
  void* address = PyLong_AsVoidPtr(other);
  if (!address) {
    return NULL;
  }
  other_ = (RunFn)address;
  void* library = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  if (library) {
    *(void**)&in_inference_ = dlsym(library, "_ZN3c1013InferenceMode10is_enabledEv");
  }
  Py_INCREF(forgets);
  Py_XDECREF(forget_);
  forget_ = forgets;
  return Py_BuildValue("NNN", PyLong_FromVoidPtr((void*)run), PyLong_FromVoidPtr((void*)forget),
                       PyLong_FromVoidPtr(slTorchHasHandles() ? (void*)giveHandle : NULL));
}

// ---- making one

static int readLayout(PyObject* row, Layout* layout) {
  int code, bits;
  PyObject *shape, *strides;
  if (!PyArg_ParseTuple(row, "iiO!O!", &code, &bits, &PyTuple_Type, &shape, &PyTuple_Type,
                        &strides)) {
    return -1;
  }
  layout->dtype = (sl_dtype){(uint8_t)code, (uint8_t)bits, 1};
  layout->rank = (int32_t)PyTuple_Size(shape);
  if (layout->rank > SL_MAX_RANK || PyTuple_Size(strides) != layout->rank) {
    PyErr_SetString(slInternalError, "an operand of a call has too many dims");
    return -1;
  }
  int64_t count = 1, row_major = 1;
  layout->dense = 1;
  for (int32_t d = layout->rank - 1; d >= 0; --d) {
    layout->shape[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
    layout->strides[d] = PyLong_AsLongLong(PyTuple_GetItem(strides, d));
    layout->dense &= layout->shape[d] == 1 || layout->strides[d] == row_major;
    row_major *= layout->shape[d];
    count += (layout->shape[d] - 1) * layout->strides[d];
  }
  layout->bytes = count * ((bits + 7) / 8);
  return PyErr_Occurred() ? -1 : 0;
}

static int readNumbers(PyObject* tuple, int32_t** out) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  *out = malloc((size_t)(count + 1) * sizeof(**out));
  if (!*out) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    (*out)[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(tuple, i));
  }
  return PyErr_Occurred() ? -1 : 0;
}

PyObject* slOpCall(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *op, *constants, *keywords, *inference, *below, *failed, *copy;
  PyObject *places, *results, *layouts, *lists;
  int inputs, skips_autograd;
  if (!PyArg_ParseTuple(args, "OO!O!OOOOO!O!O!iO!p", &op, &PyTuple_Type, &constants, &PyTuple_Type,
                        &keywords, &inference, &below, &failed, &copy, &PyTuple_Type, &places,
                        &PyTuple_Type, &results, &PyTuple_Type, &layouts, &inputs, &PyTuple_Type,
                        &lists, &skips_autograd)) {
    return NULL;
  }
  OpCall* self = (OpCall*)PyType_GenericAlloc(type_, 0);
  if (!self) {
    return NULL;
  }
  PyObject* const held[] = {op, constants, keywords, inference, below, failed, copy, lists};
  PyObject** const to[] = {&self->op,    &self->constants, &self->keywords, &self->inference,
                           &self->below, &self->failed,    &self->copy,     &self->lists};
  for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); ++i) {
    Py_INCREF(held[i]);
    *to[i] = held[i];
  }
  self->inputs = inputs;
  self->skips_autograd = skips_autograd;
  self->result_count = (int32_t)PyTuple_Size(results);
  const Py_ssize_t count = PyTuple_Size(layouts);
  self->layouts = calloc((size_t)count + 1, sizeof(Layout));
  self->kept = calloc((size_t)count + 1, sizeof(*self->kept));
  self->kept_in_inference = calloc((size_t)count + 1, 1);
  self->operands = (int32_t)count;
  int status = self->layouts && self->kept && self->kept_in_inference ? 0 : -1;
  if (status) {
    PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; !status && i < count; ++i) {
    status = readLayout(PyTuple_GetItem(layouts, i), &self->layouts[i]);
  }
  if (status || readNumbers(places, &self->places) || readNumbers(results, &self->results)) {
    Py_DECREF(self);
    return NULL;
  }
  return (PyObject*)self;
}

static void dealloc(PyObject* object) {
  OpCall* self = (OpCall*)object;
  PyTypeObject* type = Py_TYPE(object);
  PyObject* const held[] = {self->op,    self->constants, self->keywords, self->inference,
                            self->below, self->failed,    self->copy,     self->lists};
  for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); ++i) {
    Py_XDECREF(held[i]);
  }
  for (int32_t i = 0; self->kept && i < self->operands; ++i) {
    Py_XDECREF(self->kept[i]);
  }
  free(self->kept);
  free(self->kept_in_inference);
  free(self->places);
  free(self->results);
  free(self->layouts);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF((PyObject*)type);
}

int slOpCallsInit(void) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void*)dealloc},
      {Py_tp_doc, (void*)"A call of an op of torch through Python, as it was planned."},
      {0, NULL}};
  static PyType_Spec spec = {"straightline._call.OpCall", sizeof(OpCall), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  type_ = (PyTypeObject*)PyType_FromSpec(&spec);
  return type_ ? 0 : -1;
}
