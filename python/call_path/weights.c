// SPDX-License-Identifier: Apache-2.0
// Parameters of a program: their storage is borrowed and kept alive, never copied here.
#include <stdlib.h>
#include <string.h>

#include "emitted/emitted.h"

static int byLow(const void* a, const void* b) {
  uintptr_t x = ((const sl_range*)a)->low;
  uintptr_t y = ((const sl_range*)b)->low;
  return x < y ? -1 : x > y;
}

static int32_t sortAndMerge(sl_range* ranges, int32_t count) {
  qsort(ranges, (size_t)count, sizeof(sl_range), byLow);
  int32_t kept = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (kept && ranges[i].low <= ranges[kept - 1].high) {
      ranges[kept - 1].high =
          ranges[i].high > ranges[kept - 1].high ? ranges[i].high : ranges[kept - 1].high;
    } else {
      ranges[kept++] = ranges[i];
    }
  }
  return kept;
}

/// The runtime no longer uses the parameters; called from any thread.
static void releaseBases(void* bases) {
  if (!Py_IsInitialized()) {
    return;  // the process ends with its interpreter, and the storage with the process
  }
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject*)bases);
  PyGILState_Release(state);
}

static void destroyRecord(sl_weights_record* record) {
  sl_weights* weights = record->weights;
  sl_program* program = record->program;
  if (weights) {
    sl_weights_release(weights);
  }
  if (program) {
    sl_program_release(program);
  }
  Py_XDECREF(record->bases);
  Py_XDECREF(record->updated);
  Py_XDECREF(record->prepare);
  for (int32_t i = 0; i < record->live_count; ++i) {
    Py_XDECREF(record->live[i].object);
    Py_XDECREF(record->live[i].name);
    slSeenClear(&record->live[i].seen);
  }
  PyMem_Free(record->live);
  PyMem_Free(record->ranges);
  PyMem_Free(record->states);
  PyMem_Free(record);
}

static void destroyCapsule(PyObject* capsule) {
  destroyRecord(PyCapsule_GetPointer(capsule, SL_WEIGHTS_CAPSULE));
}

sl_weights_record* slWeightsRecord(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, SL_WEIGHTS_CAPSULE)) {
    PyErr_SetString(PyExc_TypeError,
                    "weights must be a capsule made by straightline._call.weights");
    return NULL;
  }
  return PyCapsule_GetPointer(capsule, SL_WEIGHTS_CAPSULE);
}

static const sl_buffer* parameterBuffer(const sl_program_desc* desc, int32_t index) {
  for (int32_t i = 0; i < desc->buffer_count; ++i) {
    const sl_buffer* buffer = &desc->buffers[i];
    if ((buffer->role == SL_ROLE_PARAMETER || buffer->role == SL_ROLE_STATE) &&
        buffer->index == index) {
      return buffer;
    }
  }
  return NULL;
}

/// Parameters have no named extents, so their expressions need no values.
static int checkParameter(const sl_program* program, const sl_buffer* buffer,
                          const sl_tensor* tensor, const sl_borrow* borrow) {
  const sl_dtype want = buffer->dtype;
  const int32_t device_type = slDeviceType(sl_program_description(program), buffer);
  if (!slOnDevice(tensor, device_type, sl_program_device(program))) {
    PyObject* given = slDeviceName(tensor->device_type, tensor->device_id);
    PyObject* wanted = slDeviceName(device_type, sl_program_device(program));
    if (given && wanted) {
      PyErr_Format(slUserError, "parameter '%s' is on %U but the program runs on %U",
                   buffer->source, given, wanted);
    }
    Py_XDECREF(given);
    Py_XDECREF(wanted);
    return -1;
  }
  if (tensor->dtype.code != want.code || tensor->dtype.bits != want.bits ||
      tensor->dtype.lanes != want.lanes) {
    PyObject* words = slSupport("dtype_pair", "(iiii)", (int)tensor->dtype.code,
                                (int)tensor->dtype.bits, (int)want.code, (int)want.bits);
    if (words) {
      PyErr_Format(slUserError, "parameter '%s' has dtype %U was compiled", buffer->source, words);
      Py_DECREF(words);
    }
    return -1;
  }
  if (tensor->rank != buffer->rank) {
    PyErr_Format(slUserError, "parameter '%s' has rank %d but %d was compiled", buffer->source,
                 (int)tensor->rank, (int)buffer->rank);
    return -1;
  }
  if (borrow->read_only && buffer->role == SL_ROLE_STATE) {
    PyErr_Format(slUserError, "buffer '%s' is updated by the program but is read-only",
                 buffer->source);
    return -1;
  }
  int empty = 0;
  for (int32_t d = 0; d < tensor->rank; ++d) {
    long long want_size = (long long)sl_expr_value(&buffer->extents[d], NULL);
    empty |= want_size == 0;
    if (tensor->shape[d] != want_size) {
      PyErr_Format(slUserError, "parameter '%s' has size %lld in dim %d but %lld was compiled",
                   buffer->source, (long long)tensor->shape[d], (int)d, want_size);
      return -1;
    }
  }
  int64_t contiguous = 1;
  for (int32_t d = tensor->rank - 1; d >= 0 && !empty; --d) {
    long long stride = (long long)(tensor->strides ? tensor->strides[d] : contiguous);
    long long want_stride = (long long)sl_expr_value(&buffer->strides[d], NULL);
    contiguous *= tensor->shape[d];
    if (tensor->shape[d] != 1 && stride != want_stride) {
      PyErr_Format(slUserError, "parameter '%s' has stride %lld in dim %d but %lld was compiled",
                   buffer->source, stride, (int)d, want_stride);
      return -1;
    }
  }
  return 0;
}

/// Remembers where a parameter of a live set is.
static void keepLive(sl_live* live, PyObject* object, PyObject* name, const sl_tensor* tensor) {
  Py_INCREF(object);
  Py_INCREF(name);
  live->object = object;
  live->name = name;
  live->data = tensor->data;
  live->rank = tensor->rank;
  live->dtype = tensor->dtype;
  for (int32_t d = 0; d < tensor->rank; ++d) {
    live->shape[d] = tensor->shape[d];
    live->strides[d] = tensor->strides ? tensor->strides[d] : 0;
  }
}

/// Takes a parameter that lies in an artifact, row-major, read-only: (owner, address, bytes). The
/// caller compared dtype and shape.
static int takeStored(const sl_buffer* buffer, PyObject* stored, sl_weights_record* record,
                      void** pointer) {
  PyObject* owner = NULL;
  PyObject* address = NULL;
  Py_ssize_t bytes = 0;
  if (!PyArg_ParseTuple(stored, "OOn", &owner, &address, &bytes)) {
    return -1;
  }
  int64_t wanted = buffer->dtype.bits / 8;
  for (int32_t d = 0; d < buffer->rank; ++d) {
    wanted *= sl_expr_value(&buffer->extents[d], NULL);
  }
  if (wanted != (int64_t)bytes || buffer->role == SL_ROLE_STATE) {
    PyErr_Format(slInternalError, "parameter '%s' cannot be read where it is stored",
                 buffer->source);
    return -1;
  }
  *pointer = PyLong_AsVoidPtr(address);
  if (bytes > 0) {
    sl_range range = {(uintptr_t)*pointer, (uintptr_t)*pointer + (uintptr_t)bytes};
    record->ranges[record->range_count++] = range;
  }
  return PyErr_Occurred() ? -1 : PyList_Append(record->bases, owner);
}

/// Borrows parameter i. What is kept alive is not the given object but something that owns its
/// storage alone (a detached tensor): assigning to `parameter.data` later must not free what the
/// program reads.
static int takeParameter(const sl_program* program, int32_t i, PyObject* object,
                         sl_weights_record* record, void** pointers) {
  const sl_program_desc* desc = sl_program_description(program);
  const sl_buffer* buffer = parameterBuffer(desc, i);
  if (!buffer) {
    PyErr_Format(slInternalError, "the program has %d parameters but describes none with number %d",
                 (int)desc->parameter_count, (int)i);
    return -1;
  }
  PyObject* name = PyUnicode_FromFormat("parameter %s", buffer->source);
  if (!name) {
    return -1;
  }
  if (PyTuple_Check(object)) {
    Py_DECREF(name);
    return takeStored(buffer, object, record, &pointers[i]);
  }
  sl_tensor tensor;
  sl_borrow borrow;
  int failed = slBorrow(object, name, NULL, NULL, &tensor, &borrow);
  if (!failed && record->live) {
    keepLive(&record->live[record->live_count++], object, name, &tensor);
  }
  Py_DECREF(name);
  if (failed) {
    return -1;
  }
  failed = checkParameter(program, buffer, &tensor, &borrow);
  PyObject* base = NULL;
  if (!failed) {
    base = slSupport("storage_owner", "(O)", object);
    failed = !base || PyList_Append(record->bases, base);
    if (!failed && buffer->role == SL_ROLE_STATE && borrow.kind == SL_KIND_TORCH) {
      failed = PyList_Append(record->updated, base);
    }
    Py_XDECREF(base);
  }
  if (!failed && borrow.hold) {  // a __dlpack__ capsule: it owns the storage
    failed = PyList_SetItem(record->bases, i, borrow.hold);
    borrow.hold = NULL;
  }
  slBorrowEnd(&borrow);
  pointers[i] = tensor.data;
  sl_range range = slTensorRange(&tensor);
  if (range.low != range.high) {
    record->ranges[record->range_count++] = range;
    if (buffer->role == SL_ROLE_STATE) {
      record->states[record->state_count++] = range;
    }
  }
  return failed ? -1 : 0;
}

/// By emitted Python, `prepare(io)`, under the GIL.
static int32_t createByPython(sl_program* program, sl_weights_record* record, void** pointers,
                              PyObject* prepare, const sl_shared_weights* shared,
                              sl_message* message) {
  Io* io = slIoNew(program);
  if (!io) {
    return SL_OUT_OF_MEMORY;
  }
  SlPythonCall python = {io, prepare, NULL};
  const sl_executor executor = {sizeof(executor), slIoExecute, &python};
  const int32_t status = sl_weights_create_shared(
      program, pointers, &executor, shared, releaseBases, record->bases, &record->weights, message);
  slIoDismantle(io);
  Py_DECREF((PyObject*)io);
  return status;
}

/// From data that another set had: `prepared` is (artifact, program, variant).
static int32_t createPrepared(sl_program* program, sl_weights_record* record, void** pointers,
                              PyObject* prepared, sl_message* message) {
  const size_t spaces = (size_t)sl_program_description(program)->space_count;
  const void** data = PyMem_Calloc(spaces, sizeof(void*));
  size_t* bytes = PyMem_Calloc(spaces, sizeof(size_t));
  int32_t status = SL_OUT_OF_MEMORY;
  if (!data || !bytes) {
    PyErr_NoMemory();
  } else if (slPreparedOf(prepared, program, data, bytes) == 0) {
    Py_BEGIN_ALLOW_THREADS status = sl_weights_create_prepared(
        program, pointers, data, bytes, releaseBases, record->bases, &record->weights, message);
    Py_END_ALLOW_THREADS
  }
  PyMem_Free((void*)data);
  PyMem_Free(bytes);
  return status;
}

/// sl_shared_weights of (weights of the program before or None, list of program capsules), or NULL
/// of None: 0. The list of programs is the caller's to free with PyMem_Free.
static int readShared(PyObject* given, sl_shared_weights* own, const sl_shared_weights** shared) {
  memset(own, 0, sizeof *own);
  *shared = NULL;
  if (given == Py_None) {
    return 0;
  }
  PyObject *before, *list;
  if (!PyArg_ParseTuple(given, "OO!", &before, &PyList_Type, &list)) {
    return -1;
  }
  own->size = sizeof *own;
  if (before != Py_None) {
    sl_weights_record* record = slWeightsRecord(before);
    if (!record) {
      return -1;
    }
    own->before = record->weights;
  }
  const Py_ssize_t count = PyList_Size(list);
  sl_program** programs = PyMem_Calloc((size_t)count + 1, sizeof(sl_program*));
  own->programs = programs;
  own->program_count = (int32_t)count;
  if (!programs) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    programs[i] = PyCapsule_GetPointer(PyList_GetItem(list, i), SL_PROGRAM_CAPSULE);
    if (!programs[i]) {
      return -1;
    }
  }
  *shared = own;
  return 0;
}

static int createWeights(sl_program* program, sl_weights_record* record, void** pointers,
                         PyObject* prepare, const sl_shared_weights* shared) {
  sl_message message;
  message.text[0] = '\0';
  Py_INCREF(record->bases);  // for the runtime, dropped by releaseBases
  int32_t status;
  if (PyTuple_Check(prepare)) {
    status = createPrepared(program, record, pointers, prepare, &message);
  } else if (prepare != Py_None) {
    status = createByPython(program, record, pointers, prepare, shared, &message);
  } else {
    Py_BEGIN_ALLOW_THREADS status = sl_weights_create_shared(
        program, pointers, NULL, shared, releaseBases, record->bases, &record->weights, &message);
    Py_END_ALLOW_THREADS
  }
  if (status != SL_OK) {
    Py_DECREF(record->bases);
    record->weights = NULL;
    if (!PyErr_Occurred()) {
      slRaiseStatus(status, message.text);
    }
    return -1;
  }
  return 0;
}

/// A capsule with a new set over `list`, which has an object for each parameter. `prepare`: emitted
/// Python, the place of prepared data in an artifact (artifact, program, variant), or None;
/// `shared`: as readShared takes it.
static PyObject* makeWeights(sl_program* program, PyObject* list, int live, PyObject* prepare,
                             PyObject* shared) {
  const sl_program_desc* desc = sl_program_description(program);
  const Py_ssize_t count = PyList_Size(list);
  sl_weights_record* record = PyMem_Calloc(1, sizeof(*record));
  void** pointers = PyMem_Calloc((size_t)count + 1, sizeof(void*));
  PyObject* result = NULL;
  sl_shared_weights own;
  const sl_shared_weights* with = NULL;
  if (readShared(shared, &own, &with)) {
    goto done;
  }
  if (!record || !pointers) {
    PyErr_NoMemory();
    goto done;
  }
  record->ranges = PyMem_Calloc((size_t)count + 1, sizeof(sl_range));
  record->states = PyMem_Calloc((size_t)count + 1, sizeof(sl_range));
  record->live = live ? PyMem_Calloc((size_t)count + 1, sizeof(sl_live)) : NULL;
  record->bases = PyList_New(0);
  record->updated = PyList_New(0);
  if (!record->ranges || !record->states || (live && !record->live) || !record->bases ||
      !record->updated) {
    PyErr_NoMemory();
    goto done;
  }
  if (count != desc->parameter_count) {
    PyErr_Format(slUserError, "%zd parameters are given but the program has %d", count,
                 (int)desc->parameter_count);
    goto done;
  }
  for (int32_t i = 0; i < (int32_t)count; ++i) {
    if (takeParameter(program, i, PyList_GetItem(list, i), record, pointers)) {
      goto done;
    }
  }
  record->range_count = sortAndMerge(record->ranges, record->range_count);
  record->state_count = sortAndMerge(record->states, record->state_count);
  sl_program_retain(program);
  record->program = program;
  Py_INCREF(prepare);
  record->prepare = prepare;
  if (createWeights(program, record, pointers, prepare, with) == 0) {
    result = PyCapsule_New(record, SL_WEIGHTS_CAPSULE, destroyCapsule);
  }
done:
  if (!result && record) {
    destroyRecord(record);
  }
  PyMem_Free(pointers);
  PyMem_Free((void*)own.programs);
  return result;
}

PyObject* slWeightsNew(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* capsule = NULL;
  PyObject* objects = NULL;
  PyObject* prepare = Py_None;
  PyObject* shared = Py_None;
  int live = 0;
  if (!PyArg_ParseTuple(args, "OO|pOO", &capsule, &objects, &live, &prepare, &shared)) {
    return NULL;
  }
  sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  PyObject* list = program ? PySequence_List(objects) : NULL;
  PyObject* result = list ? makeWeights(program, list, live, prepare, shared) : NULL;
  Py_XDECREF(list);
  return result;
}

static PyObject* liveObjects(const sl_weights_record* record) {
  PyObject* list = PyList_New(0);
  for (int32_t i = 0; list && i < record->live_count; ++i) {
    if (PyList_Append(list, record->live[i].object)) {
      Py_CLEAR(list);
    }
  }
  return list;
}

PyObject* slWeightsPreparedBytes(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_weights_record* record = slWeightsRecord(capsule);
  return record ? PyLong_FromSize_t(sl_weights_prepared_bytes(record->weights)) : NULL;
}

PyObject* slWeightsPrepared(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_weights_record* record = slWeightsRecord(capsule);
  if (!record) {
    return NULL;
  }
  const sl_program_desc* desc = sl_program_description(record->program);
  PyObject* list = PyList_New(0);
  for (int32_t i = 0; list && i < desc->space_count; ++i) {
    const int64_t size = sl_expr_value(&desc->prepared_bytes[i], NULL);
    PyObject* bytes = PyBytes_FromStringAndSize(NULL, size > 0 ? (Py_ssize_t)size : 0);
    sl_message message;
    int32_t status = SL_OK;
    if (bytes) {
      char* to = PyBytes_AsString(bytes);
      Py_BEGIN_ALLOW_THREADS status = sl_weights_read_prepared(record->weights, i, to, &message);
      Py_END_ALLOW_THREADS
    }
    if (!bytes || status != SL_OK || PyList_Append(list, bytes)) {
      Py_CLEAR(list);
      if (status != SL_OK) {
        slRaiseStatus(status, message.text);
      }
    }
    Py_XDECREF(bytes);
  }
  return list;
}

PyObject* slWeightsParameters(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* capsule = NULL;
  if (!PyArg_ParseTuple(args, "O", &capsule)) {
    return NULL;
  }
  sl_weights_record* record = slWeightsRecord(capsule);
  if (!record) {
    return NULL;
  }
  return record->live ? liveObjects(record)
                      : PyList_GetSlice(record->bases, 0, PyList_Size(record->bases));
}

int slWeightsStay(sl_weights_record* record) {
  for (int32_t i = 0; i < record->live_count; ++i) {
    sl_live* live = &record->live[i];
    sl_tensor tensor;
    sl_borrow borrow;
    if (slBorrow(live->object, live->name, NULL, &live->seen, &tensor, &borrow)) {
      return -1;
    }
    int same = tensor.data == live->data && tensor.rank == live->rank &&
               memcmp(&tensor.dtype, &live->dtype, sizeof(sl_dtype)) == 0;
    for (int32_t d = 0; same && d < tensor.rank; ++d) {
      same = tensor.shape[d] == live->shape[d] &&
             (!tensor.strides || tensor.strides[d] == live->strides[d]);
    }
    slBorrowEnd(&borrow);
    if (!same) {
      return 0;
    }
  }
  return 1;
}

PyObject* slWeightsAgain(sl_weights_record* record) {
  PyObject* list = liveObjects(record);
  PyObject* result = !list ? NULL : makeWeights(record->program, list, 1, record->prepare, Py_None);
  Py_XDECREF(list);
  return result;
}
