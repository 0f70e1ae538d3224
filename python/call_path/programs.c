// SPDX-License-Identifier: Apache-2.0
// Several callables as one, and new weights for all of them at once.
#include "callable.h"

/// (callable, tuple of callables) of the arguments; borrowed. 0, or -1 with an exception.
static int parseCallables(PyObject* args, Callable** one, PyObject** several) {
  PyObject* callable = NULL;
  if (!PyArg_ParseTuple(args, "OO!", &callable, &PyTuple_Type, several) ||
      !slIsCallable(callable)) {
    return -1;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(*several); ++i) {
    if (!slIsCallable(PyTuple_GetItem(*several, i))) {
      return -1;
    }
  }
  *one = (Callable*)callable;
  return 0;
}

static void replace(PyObject** place, PyObject* value) {
  PyObject* before = *place;
  *place = Py_NewRef(value);
  Py_XDECREF(before);
}

/// group(first, others): calls of `first` that do not fit its own program go to those of the
/// others.
PyObject* slGroup(PyObject* module, PyObject* args) {
  (void)module;
  Callable* first = NULL;
  PyObject* others = NULL;
  if (parseCallables(args, &first, &others)) {
    return NULL;
  }
  replace(&first->others, others);
  Py_RETURN_NONE;
}

/// specialize(callable, programs): calls whose sizes are exactly those of one of the programs go to
/// that; there is at least one.
PyObject* slSpecialize(PyObject* module, PyObject* args) {
  (void)module;
  Callable* self = NULL;
  PyObject* programs = NULL;
  if (parseCallables(args, &self, &programs)) {
    return NULL;
  }
  if (PyTuple_Size(programs) == 0) {
    PyErr_SetString(PyExc_ValueError, "specialize needs at least one program");
    return NULL;
  }
  self->last_special = 0;
  replace(&self->special, programs);
  Py_RETURN_NONE;
}

/// slots(callable, programs, place): where slot() has chosen something for the calling thread,
/// `place(choice)` is the number of the program that takes the call, counted from 1; 0: the
/// callable's own.
PyObject* slSlots(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *callable = NULL, *programs = NULL, *place = NULL;
  if (!PyArg_ParseTuple(args, "OO!O", &callable, &PyTuple_Type, &programs, &place) ||
      !slIsCallable(callable)) {
    return NULL;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(programs); ++i) {
    if (!slIsCallable(PyTuple_GetItem(programs, i))) {
      return NULL;
    }
  }
  Callable* self = (Callable*)callable;
  Py_CLEAR(self->slot_choice);
  replace(&self->slot_place, place);
  replace(&self->slotted, programs);
  Py_RETURN_NONE;
}

/// count_sizes(callable, enough, told): `told({name: size})` is called once a callable's named
/// sizes came so often; enough 0: no longer.
PyObject* slCountSizes(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* callable = NULL;
  PyObject* told = NULL;
  unsigned int enough = 0;
  if (!PyArg_ParseTuple(args, "OIO", &callable, &enough, &told) || !slIsCallable(callable)) {
    return NULL;
  }
  slHotSizesEnd((Callable*)callable);
  if (enough && slHotSizesBegin((Callable*)callable, enough, told)) {
    return NULL;
  }
  Py_RETURN_NONE;
}

/// handles(callable): addresses of its program and of its present set of weights, for callers that
/// go by the runtime's C ABI. Both live as long as the callable, if no set is published for it.
PyObject* slHandles(PyObject* module, PyObject* callable) {
  (void)module;
  if (!slIsCallable(callable)) {
    return NULL;
  }
  const Callable* self = (const Callable*)callable;
  return Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)self->program,
                       (unsigned long long)(uintptr_t)self->record->weights);
}

/// publish(callables, weights): one exchange of pointers for each, with nothing between them that
/// could let another thread in. Sets that were replaced go when the last call that began with them
/// is over.
PyObject* slPublish(PyObject* module, PyObject* args) {
  (void)module;
  PyObject* callables = NULL;
  PyObject* capsules = NULL;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &callables, &PyTuple_Type, &capsules)) {
    return NULL;
  }
  const Py_ssize_t count = PyTuple_Size(callables);
  if (count != PyTuple_Size(capsules)) {
    PyErr_SetString(PyExc_ValueError, "publish needs one set of weights for each callable");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* callable = PyTuple_GetItem(callables, i);
    if (!slIsCallable(callable)) {
      return NULL;
    }
    sl_weights_record* record = slWeightsRecord(PyTuple_GetItem(capsules, i));
    if (!record) {
      return NULL;
    }
    if (record->program != ((Callable*)callable)->program) {
      PyErr_SetString(slUserError, "these weights were prepared for another program");
      return NULL;
    }
  }
  PyObject** before = PyMem_Calloc((size_t)count + 1, sizeof(PyObject*));
  if (!before) {
    return PyErr_NoMemory();
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* capsule = PyTuple_GetItem(capsules, i);
    before[i] = slExchangeWeights((Callable*)PyTuple_GetItem(callables, i), capsule,
                                  PyCapsule_GetPointer(capsule, SL_WEIGHTS_CAPSULE));
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_DECREF(before[i]);
  }
  PyMem_Free(before);
  Py_RETURN_NONE;
}
