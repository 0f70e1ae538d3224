// SPDX-License-Identifier: Apache-2.0
// A call of one program: bind, borrow, guard, allocate, run, hand over.
#include <string.h>

#include "callable.h"

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

/// Accessed with the GIL held.
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
  slGivenClear(&scratch->given);
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
    const sl_kind other = scratch->borrows[i].kind;
    if ((other == SL_KIND_JAX && *kind == SL_KIND_NUMPY) ||
        (other == SL_KIND_NUMPY && *kind == SL_KIND_JAX)) {
      *kind = SL_KIND_JAX;  // as JAX: numpy's arrays become its own
      continue;
    }
    if (other != *kind || scratch->borrows[i].exchange != *exchange) {
      PyErr_Format(slGuardTypeError, "'%U' is %s but '%U' is %s: give tensors of one kind",
                   self->names[0], slKindName(*kind), self->names[i], slKindName(other));
      return -1;
    }
  }
  if (*kind == SL_KIND_DLPACK) {  // a result cannot become an object of that framework
    *kind = self->kind;
  }
  if (*kind == SL_KIND_JAX) {
    *exchange = slJaxExchange();
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
  if (self->outputs[result->output].computed) {
    PyErr_Format(
        slGuardError,
        "out '%U' cannot be given: the size of this result depends on data (give None there)",
        name);
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
  failed = failed || slCheckOutAliases(self, scratch, result->output, range, name);
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
      if (plan->reused_name && scratch->order && kind != SL_KIND_JAX &&
          slKeptTake(plan, fresh, kind, mode, scratch->order, scratch->tensors,
                     self->desc->input_count)) {
        failed = 0;
      } else if (plan->fixed) {
        failed =
            slFreshAllocate(fresh, kind, exchange, plan, plan->bytes, plan->shape, plan->strides);
      } else {
        int64_t shape[SL_MAX_RANK];
        int64_t strides[SL_MAX_RANK];
        int64_t bytes = plan->computed
                            ? slOutputRoom(plan->buffer, scratch->extents, shape, strides)
                            : slOutputShape(plan->buffer, scratch->extents, shape, strides);
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

/// The value of fast_path() for calls of this thread: 0, 1, or -1 if it is not set.
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

/// The queue of the call. What a caller's capture writes belongs to that graph, which writes it
/// again at each launch, so no result is kept.
static int chooseQueue(Callable* self, Scratch* scratch, const sl_dl_exchange* exchange) {
  const int32_t device = sl_program_device(self->program);
  scratch->queue = self->device_type == SL_DLPACK_CUDA ? slCurrentStream(exchange, device)
                   : self->device_type == SL_DLPACK_EXTENSION
                       ? slCurrentQueue(self->desc->queues[1], device)
                       : self->queue;
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
    context.profile = self->profile.hook;
    context.profile_user = &self->profile;
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

/// The run; with `takes`, small results of ops in Python become results of the call.
static int executeTaking(Callable* self, Scratch* scratch, int takes) {
  sl_given* before = slOpGiveTo(takes ? &scratch->given : NULL);
  const int failed = execute(self, scratch);
  slOpGiveTo(before);
  return failed;
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

/// A view that keeps its root alive. The root's own framework makes it, so that it is a view for
/// that framework too.
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
  PyObject* sizes = slSizeTuple(plan->rank, shape);
  PyObject* steps = sizes ? slSizeTuple(plan->rank, strides) : NULL;
  PyObject* view = NULL;
  if (steps) {
    const char* of = kind == SL_KIND_NUMPY ? "numpy" : kind == SL_KIND_JAX ? "jax" : "torch";
    view = slSupport("view", "(sOOOL)", of, root, sizes, steps, (long long)offset);
  }
  Py_XDECREF(sizes);
  Py_XDECREF(steps);
  return view;
}

static PyObject* buildResult(Callable* self, Scratch* scratch, sl_kind kind,
                             const sl_dl_exchange* exchange, const PyObject* out) {
  for (int32_t o = 0; o < self->desc->output_count; ++o) {
    if (self->outputs[o].computed &&
        slFreshTrim(&scratch->fresh[o], kind, &self->outputs[o], scratch->extents)) {
      return NULL;
    }
    if ((scratch->given.object || scratch->given.handle) && !self->outputs[o].reused_name) {
      slFreshTakeGiven(&scratch->fresh[o], &self->outputs[o], &scratch->given);
    }
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
    Py_CLEAR(io->weights);  // not the last reference: `before` is another one
  }
  Py_INCREF(weights);
  self->weights = weights;
  self->record = record;
  return before;
}

/// The set that this call uses until it ends, even if another set is published meanwhile. Makes a
/// live set anew first if its parameters have moved.
static int takeWeights(Callable* self, Scratch* scratch) {
  if (self->record->live_count) {
    PyObject* const held = self->weights;
    sl_weights_record* const record = self->record;
    Py_INCREF(held);  // inspecting a foreign tensor may run Python code
    const int stays = slWeightsStay(record);
    PyObject* again = stays == 0 ? slWeightsAgain(record) : NULL;
    if (again && self->weights == held) {  // else another thread has published a set
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
  if (!self->any_written && !scratch->record->state_count) {
    return 0;
  }
  return slCheckInputAliases(self, scratch) || slCountWrites(self, scratch) ? -1 : 0;
}

/// Binding or borrowing failed: if there are other programs to try this is a miss, unless the cause
/// is not in the arguments (an interrupt, memory).
static int missed(int* miss) {
  if (miss && PyErr_ExceptionMatches(slGuardError)) {
    PyErr_Clear();
    *miss = 1;
  }
  return -1;
}

PyObject* slCallOne(Callable* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                    int* miss, sl_likely* likely) {
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
    failed = slGuard(self, scratch, miss);
    if (failed && likely && *miss) {
      slFindAmong(likely, self, scratch);
    }
    if (!failed && self->hot) {
      slHotSizesCount(self, scratch->extents);
    }
  }
  if (!failed && takeWeights(self, scratch) == 0 && chooseQueue(self, scratch, exchange) == 0 &&
      prepareOutputs(self, scratch, out, kind, exchange, &mode) == 0 &&
      executeTaking(self, scratch, kind == SL_KIND_TORCH && !out) == 0 &&
      (kind != SL_KIND_JAX || self->device_type != SL_DLPACK_CUDA ||
       slJaxFinish(sl_program_device(self->program)) == 0)) {
    result = buildResult(self, scratch, kind, exchange, out);
  }
  if (scratch->looked_at) {
    slKeepLookedAt(self, scratch, exchange);
  }
  scratchReturn(self, scratch);
  Py_DECREF((PyObject*)self);
  return result;
}
