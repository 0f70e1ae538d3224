// SPDX-License-Identifier: Apache-2.0
// The compiled function as Python sees it: bind, borrow, guard, allocate, run, hand over.
#include "callable.h"

#include <stddef.h>
#include <string.h>

// ---- scratch

static size_t reserve(size_t* total, size_t count, size_t size) {
  size_t at = *total;
  *total += (count * size + 15) & ~(size_t)15;
  return at;
}

static Scratch* scratchNew(const Callable* self) {
  const size_t inputs = (size_t)self->desc->input_count;
  const size_t outputs = (size_t)self->desc->output_count;
  const size_t results = (size_t)self->desc->result_count;
  size_t total = (sizeof(Scratch) + 15) & ~(size_t)15;
  const size_t tensors = reserve(&total, inputs, sizeof(sl_tensor));
  const size_t borrows = reserve(&total, inputs, sizeof(sl_borrow));
  const size_t input_data = reserve(&total, inputs, sizeof(void*));
  const size_t leaves = reserve(&total, inputs, sizeof(PyObject*));
  const size_t bound = reserve(&total, (size_t)self->signature.count, sizeof(PyObject*));
  const size_t extents = reserve(&total, (size_t)self->desc->extent_count, sizeof(int64_t));
  const size_t fresh = reserve(&total, outputs, sizeof(sl_fresh));
  const size_t output_data = reserve(&total, outputs, sizeof(void*));
  const size_t out_ranges = reserve(&total, outputs, sizeof(sl_range));
  const size_t outs = reserve(&total, results, sizeof(PyObject*));
  const size_t built = reserve(&total, results, sizeof(PyObject*));
  char* memory = PyMem_Calloc(1, total);
  if (!memory) {
    PyErr_NoMemory();
    return NULL;
  }
  Scratch* scratch = (Scratch*)memory;
  scratch->tensors = (sl_tensor*)(memory + tensors);
  scratch->borrows = (sl_borrow*)(memory + borrows);
  scratch->input_data = (void**)(memory + input_data);
  scratch->leaves = (PyObject**)(memory + leaves);
  scratch->bound = (PyObject**)(memory + bound);
  scratch->extents = (int64_t*)(memory + extents);
  scratch->fresh = (sl_fresh*)(memory + fresh);
  scratch->output_data = (void**)(memory + output_data);
  scratch->out_ranges = (sl_range*)(memory + out_ranges);
  scratch->outs = (PyObject**)(memory + outs);
  scratch->results = (PyObject**)(memory + built);
  return scratch;
}

/// The GIL guards the pool.
static Scratch* scratchTake(Callable* self) {
  Scratch* scratch = self->pool;
  if (scratch) {
    self->pool = scratch->next;
    return scratch;
  }
  return scratchNew(self);
}

static void scratchReturn(Callable* self, Scratch* scratch) {
  for (int32_t i = 0; i < scratch->borrowed; ++i) {
    slBorrowEnd(&scratch->borrows[i]);
  }
  scratch->borrowed = 0;
  scratch->record = NULL;
  Py_CLEAR(scratch->weights);
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    Py_CLEAR(scratch->leaves[i]);
  }
  for (int32_t i = 0; i < self->desc->output_count; ++i) {
    slFreshClear(&scratch->fresh[i]);
  }
  for (int32_t i = 0; i < self->desc->result_count; ++i) {
    Py_CLEAR(scratch->outs[i]);
    Py_CLEAR(scratch->results[i]);
  }
  scratch->next = self->pool;
  self->pool = scratch;
}

// ---- inputs

/// Kind and exchange table of the call: those of its tensors, which must agree.
static int callKind(const Callable* self, const Scratch* scratch, sl_kind* kind,
                    const sl_dl_exchange** exchange) {
  *kind = self->kind;
  *exchange = NULL;
  if (self->desc->input_count) {
    *kind = scratch->borrows[0].kind;
    *exchange = scratch->borrows[0].exchange;
  }
  for (int32_t i = 1; i < self->desc->input_count; ++i) {
    if (scratch->borrows[i].kind != *kind || scratch->borrows[i].exchange != *exchange) {
      PyErr_Format(slGuardTypeError, "'%U' is %s but '%U' is %s: give tensors of one kind",
                   self->names[0], slKindName(*kind), self->names[i],
                   slKindName(scratch->borrows[i].kind));
      return -1;
    }
  }
  if (*kind == SL_KIND_DLPACK) {  // there is no way back to such an object
    *kind = self->kind;
  }
  if (*kind == SL_KIND_TORCH && !*exchange) {
    *exchange = slTorchExchange();
    return *exchange ? 0 : -1;
  }
  return 0;
}

static int borrowInputs(Callable* self, Scratch* scratch, sl_grad_mode* mode) {
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    scratch->borrows[i].hold = NULL;
    scratch->borrowed = i + 1;
    if (slBorrow(scratch->leaves[i], self->names[i], mode, &self->seen[i], &scratch->tensors[i],
                 &scratch->borrows[i])) {
      return -1;
    }
    scratch->input_data[i] = scratch->tensors[i].data;
  }
  return 0;
}

static int fixedMatches(const FixedInput* want, const sl_tensor* given) {
  if (given->dtype.code != want->dtype.code || given->dtype.bits != want->dtype.bits ||
      given->dtype.lanes != want->dtype.lanes || given->rank != want->rank ||
      !slOnDevice(given, want->device_type, want->device) || !given->strides) {
    return given->rank == 0 && want->rank == 0 &&
           slOnDevice(given, want->device_type, want->device) &&
           memcmp(&given->dtype, &want->dtype, sizeof(sl_dtype)) == 0;
  }
  for (int32_t d = 0; d < want->rank; ++d) {
    if (given->shape[d] != want->shape[d] ||
        (want->compare[d] && given->strides[d] != want->strides[d])) {
      return 0;
    }
  }
  return 1;
}

int slAllMatch(const Callable* self, const sl_tensor* tensors) {
  int same = self->desc->extent_count == 0;
  for (int32_t i = 0; same && i < self->desc->input_count; ++i) {
    same = fixedMatches(&self->inputs[i], &tensors[i]);
  }
  return same;
}

/// 0, or -1 with an exception. When there are other programs to try (`miss`), tensors of another
/// description set *miss instead, which costs no words.
static int guard(Callable* self, Scratch* scratch, int* miss) {
  const int32_t count = self->desc->input_count;
  // named extents to find, or words for what differs
  if (!slAllMatch(self, scratch->tensors)) {
    if (miss && self->desc->extent_count == 0) {
      *miss = 1;
      return -1;
    }
    sl_message message;
    message.text[0] = '\0';
    int32_t status =
        sl_program_guard(self->program, scratch->tensors, count, scratch->extents, &message);
    if (status != SL_OK) {
      if (status == SL_INVALID_ARGUMENT && miss) {
        *miss = 1;
        return -1;
      }
      if (status == SL_INVALID_ARGUMENT) {
        int dtypes_differ = 0;
        for (int32_t i = 0; i < count; ++i) {
          dtypes_differ |=
              memcmp(&self->inputs[i].dtype, &scratch->tensors[i].dtype, sizeof(sl_dtype)) != 0;
        }
        PyErr_SetString(dtypes_differ ? slGuardTypeError : slGuardError, message.text);
      } else {
        slRaiseStatus(status, message.text);
      }
      return -1;
    }
  }
  return self->any_written ? slCheckWritten(self, scratch) : 0;
}

// ---- outputs

/// Uses the tensor given for result `r` as the storage of its output.
static int takeOut(Callable* self, Scratch* scratch, int32_t r, sl_kind kind, sl_grad_mode* mode) {
  PyObject* object = scratch->outs[r];
  PyObject* name = slLeafName(&self->output, r);
  const sl_result_plan* result = &self->results[r];
  if (result->output < 0) {
    PyErr_Format(slGuardError,
                 "out '%U' cannot be given: this result is a view of '%s' (give None there)", name,
                 result->root_name);
    return -1;
  }
  sl_fresh* fresh = &scratch->fresh[result->output];
  if (fresh->object) {
    if (fresh->object == object) {
      return 0;
    }
    PyErr_Format(slGuardError, "out '%U' is a second tensor for a result that is returned twice",
                 name);
    return -1;
  }
  sl_tensor tensor;
  sl_borrow borrow;
  if (slBorrow(object, name, mode, &self->seen[self->desc->input_count + r], &tensor, &borrow)) {
    return -1;
  }
  const sl_output_plan* plan = &self->outputs[result->output];
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  const int64_t* want_shape = plan->shape;
  const int64_t* want_strides = plan->strides;
  if (!plan->fixed) {
    slOutputShape(plan->buffer, scratch->extents, shape, strides);
    want_shape = shape;
    want_strides = strides;
  }
  int failed = 0;
  if (borrow.kind != kind) {
    PyErr_Format(slGuardTypeError, "out '%U' is %s but this call works with %s", name,
                 slKindName(borrow.kind), slKindName(kind));
    failed = -1;
  }
  failed = failed || slOutCheck(&tensor, &borrow, name, plan, want_shape, want_strides);
  const sl_range range = slTensorRange(&tensor);
  failed = failed || slCheckOutApart(self, scratch, result->output, range, name);
  slBorrowEnd(&borrow);
  if (failed) {
    return -1;
  }
  scratch->out_ranges[result->output] = range;
  Py_INCREF(object);
  fresh->object = object;
  fresh->data = tensor.data;
  return 0;
}

static int prepareOutputs(Callable* self, Scratch* scratch, PyObject* out, sl_kind kind,
                          const sl_dl_exchange* exchange, sl_grad_mode* mode) {
  if (out) {
    memset(scratch->out_ranges, 0, sizeof(sl_range) * (size_t)self->desc->output_count);
    if (slNodeFlatten(&self->output, out, 1, scratch->outs)) {
      return -1;
    }
    for (int32_t r = 0; r < self->desc->result_count; ++r) {
      if (scratch->outs[r] && takeOut(self, scratch, r, kind, mode)) {
        return -1;
      }
    }
  }
  for (int32_t o = 0; o < self->desc->output_count; ++o) {
    sl_fresh* fresh = &scratch->fresh[o];
    if (!fresh->object) {
      sl_output_plan* plan = &self->outputs[o];
      int failed;
      if (plan->reused_name && scratch->order &&
          slKeptTake(plan, fresh, kind, mode, scratch->order, scratch->tensors,
                     self->desc->input_count)) {
        failed = 0;
      } else if (plan->fixed) {
        failed =
            slFreshAllocate(fresh, kind, exchange, plan, plan->bytes, plan->shape, plan->strides);
      } else {
        int64_t shape[SL_MAX_RANK];
        int64_t strides[SL_MAX_RANK];
        int64_t bytes = slOutputShape(plan->buffer, scratch->extents, shape, strides);
        failed = slFreshAllocate(fresh, kind, exchange, plan, bytes, shape, strides);
      }
      if (failed) {
        return -1;
      }
    }
    scratch->output_data[o] = fresh->data;
  }
  return 0;
}

// ---- the run

/// What fast_path() says around calls of this thread: 0, 1, or -1 for nothing.
static _Thread_local int overridden = -1;

PyObject* slOverrideFastPath(PyObject* module, PyObject* value) {
  (void)module;
  const int before = overridden;
  if (value == Py_None) {
    overridden = -1;
  } else {
    const int wanted = PyObject_IsTrue(value);
    if (wanted < 0) {
      return NULL;
    }
    overridden = wanted;
  }
  return before < 0 ? Py_NewRef(Py_None) : PyBool_FromLong(before);
}

/// Where the call runs, and in which order. What a capture of the caller's writes belongs to its
/// graph, which writes it again whenever it is launched, so nothing of it is kept.
static int chooseQueue(Callable* self, Scratch* scratch, const sl_dl_exchange* exchange) {
  const int on_device = self->device_type == SL_DLPACK_CUDA;
  scratch->queue =
      on_device ? slCurrentStream(exchange, sl_program_device(self->program)) : self->queue;
  if (!scratch->queue) {
    return -1;
  }
  scratch->order = self->reuse_outputs ? sl_queue_order(scratch->queue) : 0;
  return 0;
}

static int execute(Callable* self, Scratch* scratch) {
  sl_message message;
  message.text[0] = '\0';
  sl_queue* queue = scratch->queue;
  sl_frame* frame = NULL;
  int32_t status =
      sl_frame_lease_on(self->program, queue, self->launch, scratch->extents, &frame, &message);
  if (status == SL_OK) {
    const int fast = overridden >= 0 ? overridden : self->fast_path;
    if (fast && self->python) {
      return slExecutePython(self, scratch, frame);
    }
    const sl_args args = {sizeof(args),
                          scratch->input_data,
                          scratch->output_data,
                          scratch->extents,
                          fast ? NULL : sl_interpreter(),
                          self->launch};
    sl_ctx context;  // sl_run clears the rest; its text is long
    context.size = sizeof(context);
    const int32_t* cancel = self->has_loops ? slInterruptsBegin() : NULL;
    context.cancel = cancel;
    context.profile = NULL;
    context.profile_user = NULL;
    if (self->release_gil) {
      PyThreadState* state = PyEval_SaveThread();
      status =
          sl_run(self->program, scratch->record->weights, frame, queue, &args, &context, &message);
      PyEval_RestoreThread(state);
    } else {
      status =
          sl_run(self->program, scratch->record->weights, frame, queue, &args, &context, &message);
    }
    sl_frame_return(frame);
    if (slInterruptsEnd(cancel)) {
      return -1;
    }
  }
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return -1;
  }
  return 0;
}

// ---- results

static PyObject* rootObject(const Scratch* scratch, const sl_result_plan* plan) {
  switch (plan->root_role) {
    case SL_ROLE_INPUT:
      return scratch->leaves[plan->root_index];
    case SL_ROLE_OUTPUT:
      return scratch->fresh[plan->root_index].object;
    default:
      return PyList_GetItem(scratch->record->bases, plan->root_index);
  }
}

static PyObject* longTuple(int32_t count, const int64_t* values) {
  PyObject* tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; ++i) {
    PyObject* value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value)) {
      Py_CLEAR(tuple);
    }
  }
  return tuple;
}

/// A view that keeps its root alive: made by the root's own framework, so that its view semantics
/// hold.
static PyObject* viewResult(Callable* self, Scratch* scratch, int32_t r, sl_kind kind) {
  const sl_result_plan* plan = &self->results[r];
  PyObject* root = rootObject(scratch, plan);
  if (!root) {
    return NULL;
  }
  if (plan->identity && plan->root_role == SL_ROLE_INPUT) {
    Py_INCREF(root);  // as eager: the very object
    return root;
  }
  int64_t shape[SL_MAX_RANK];
  int64_t strides[SL_MAX_RANK];
  int64_t offset = 0;
  sl_program_result(self->program, r, scratch->extents, shape, strides, &offset);
  PyObject* sizes = longTuple(plan->rank, shape);
  PyObject* steps = sizes ? longTuple(plan->rank, strides) : NULL;
  PyObject* view = NULL;
  if (steps) {
    view = slSupport("view", "(sOOOL)", kind == SL_KIND_NUMPY ? "numpy" : "torch", root, sizes,
                     steps, (long long)offset);
  }
  Py_XDECREF(sizes);
  Py_XDECREF(steps);
  return view;
}

static PyObject* buildResult(Callable* self, Scratch* scratch, sl_kind kind,
                             const sl_dl_exchange* exchange, const PyObject* out) {
  for (int32_t o = 0; o < self->desc->output_count; ++o) {
    if (slFreshWrap(&scratch->fresh[o], exchange)) {
      return NULL;
    }
    if (self->outputs[o].reused_name && scratch->order && !out) {
      slKeptAdd(&self->outputs[o], &scratch->fresh[o], scratch->order);
    }
  }
  for (int32_t r = 0; r < self->desc->result_count; ++r) {
    PyObject* object = NULL;
    if (self->results[r].output >= 0) {
      object = scratch->fresh[self->results[r].output].object;
      Py_INCREF(object);
    } else {
      object = viewResult(self, scratch, r, kind);
      if (!object) {
        return NULL;
      }
    }
    scratch->results[r] = object;
  }
  return slNodeBuild(&self->output, scratch->results, scratch->extents);
}

PyObject* slExchangeWeights(Callable* self, PyObject* weights, sl_weights_record* record) {
  PyObject* before = self->weights;
  for (Io* io = self->ios; io; io = io->next) {
    Py_CLEAR(io->weights);  // never the last reference: `before` is one
  }
  Py_INCREF(weights);
  self->weights = weights;
  self->record = record;
  return before;
}

/// The set that this call keeps until it is over, whatever is published meanwhile. A live set whose
/// parameters have moved is made anew first.
static int takeWeights(Callable* self, Scratch* scratch) {
  if (self->record->live_count) {
    PyObject* const held = self->weights;
    sl_weights_record* const record = self->record;
    Py_INCREF(held);  // a look at a foreign tensor runs Python code
    const int stays = slWeightsStay(record);
    PyObject* again = stays == 0 ? slWeightsAgain(record) : NULL;
    if (again && self->weights == held) {  // else another thread has published: that one counts
      Py_DECREF(slExchangeWeights(self, again, slWeightsRecord(again)));
    }
    Py_DECREF(held);
    if (stays < 0 || (stays == 0 && !again)) {
      return -1;
    }
    Py_XDECREF(again);
  }
  Py_INCREF(self->weights);
  scratch->weights = self->weights;
  scratch->record = self->record;
  return self->any_written || scratch->record->state_count ? slCheckInputsApart(self, scratch) : 0;
}

/// Binding and borrowing failed: with other programs to try that is a miss, unless it is no matter
/// of the arguments (an interrupt, memory).
static int missed(int* miss) {
  if (miss && PyErr_ExceptionMatches(slGuardError)) {
    PyErr_Clear();
    *miss = 1;
  }
  return -1;
}

PyObject* slCallOne(Callable* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    int* miss, Py_ssize_t* likely) {
  if (!self->signature.slots) {
    PyErr_SetString(slInternalError,
                    "this compiled function was already taken apart by the garbage collector");
    return NULL;
  }
  Scratch* scratch = scratchTake(self);
  if (!scratch) {
    return NULL;
  }
  Py_INCREF((PyObject*)self);  // the last reference may go while the GIL is released
  PyObject* out = NULL;
  PyObject* result = NULL;
  sl_grad_mode mode = {-1};
  sl_kind kind;
  const sl_dl_exchange* exchange = NULL;
  int failed = slSignatureBind(&self->signature, args, nargs, names, scratch->bound,
                               scratch->leaves, &out) ||
               borrowInputs(self, scratch, &mode);
  failed = failed ? missed(miss) : callKind(self, scratch, &kind, &exchange);
  if (!failed) {
    failed = guard(self, scratch, miss);
    if (failed && likely && *miss) {
      *likely = slFindOther(self, scratch);
    }
  }
  if (!failed && takeWeights(self, scratch) == 0 && chooseQueue(self, scratch, exchange) == 0 &&
      prepareOutputs(self, scratch, out, kind, exchange, &mode) == 0 &&
      execute(self, scratch) == 0) {
    result = buildResult(self, scratch, kind, exchange, out);
  }
  if (scratch->looked_at) {
    slKeepLookedAt(self, scratch, exchange);
  }
  scratchReturn(self, scratch);
  Py_DECREF((PyObject*)self);
  return result;
}

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

static int parseOptions(Callable* self, PyObject* options) {
  double estimate = 0;
  double threshold = SL_GIL_THRESHOLD_US;
  const char* kind = NULL;
  const char* launch = NULL;
  int fast_path = 1;
  static char* names[] = {
      "kind", "estimated_us", "gil_threshold_us", "fast_path", "reuse_outputs", "launch", NULL};
  PyObject* none = PyTuple_New(0);
  int parsed =
      none && PyArg_ParseTupleAndKeywords(none, options, "|$sddppz", names, &kind, &estimate,
                                          &threshold, &fast_path, &self->reuse_outputs, &launch);
  Py_XDECREF(none);
  if (!parsed) {
    return -1;
  }
  if (kind && strcmp(kind, "torch") != 0 && strcmp(kind, "numpy") != 0) {
    PyErr_Format(PyExc_ValueError, "kind must be 'torch' or 'numpy' but is '%s'", kind);
    return -1;
  }
  self->kind = kind && strcmp(kind, "numpy") == 0 ? SL_KIND_NUMPY : SL_KIND_TORCH;
  if (launch && strcmp(launch, "stream") != 0 && strcmp(launch, "graph") != 0) {
    PyErr_Format(PyExc_ValueError, "launch must be 'stream' or 'graph' but is '%s'", launch);
    return -1;
  }
  self->launch = launch && strcmp(launch, "graph") == 0 ? SL_LAUNCH_GRAPH : SL_LAUNCH_STREAM;
  self->fast_path = fast_path;
  // A program whose results a device brings to the host waits for it, however little there is to
  // compute. On a stream of the caller's nothing waits.
  self->device_type = SL_DLPACK_CPU;
  for (int32_t i = 1; i < self->desc->queue_count; ++i) {
    self->device_type =
        strcmp(self->desc->queues[i], "cuda") == 0 ? SL_DLPACK_CUDA : self->device_type;
  }
  // How often a `while` goes round is not known before; a short `for` ends by itself.
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
  int32_t status = sl_queue_team(self->desc->threads, &self->queue, &message);
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

/// Types are made on demand and may have subclasses: what they share is how they are called.
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
  Py_VISIT(self->attributes);
  Py_VISIT(self->python);
  for (int32_t o = 0; self->outputs && o < self->desc->output_count; ++o) {
    slKeptTraverse(&self->outputs[o], visit, arg);
  }
  int stop = slSignatureTraverse(&self->signature, visit, arg);
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
  Py_CLEAR(self->attributes);
  Py_CLEAR(self->python);
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
