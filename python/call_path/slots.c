// SPDX-License-Identifier: Apache-2.0
// Programs with other kernels for the same arguments: `with sl.slot(linear="onednn")` chooses one.
#include "callable.h"

/// What slot() chose for calls of this thread: a dict that nobody changes, or NULL.
static _Thread_local PyObject* chosen = NULL;

PyObject* slChooseSlots(PyObject* module, PyObject* value) {
  (void)module;
  PyObject* before = chosen;
  chosen = value == Py_None ? NULL : Py_NewRef(value);
  return before ? before : Py_NewRef(Py_None);
}

/// Asks Python which program a choice means, and remembers it: 0, or -1 with an exception.
static int find(Callable* self, PyObject* choice) {
  PyObject* place = PyObject_CallFunctionObjArgs(self->slot_place, choice, NULL);
  const Py_ssize_t index = place ? PyLong_AsSsize_t(place) : -1;
  Py_XDECREF(place);
  if (index < 0 || index > PyTuple_Size(self->slotted)) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_IndexError, "there is no program %zd", index);
    }
    return -1;
  }
  PyObject* before = self->slot_choice;
  self->slot_choice = Py_NewRef(choice);
  self->slot_index = index;
  Py_XDECREF(before);
  return 0;
}

Callable* slSlotted(Callable* self) {
  PyObject* choice = chosen;
  if (!choice) {
    return self;
  }
  if (choice != self->slot_choice && find(self, choice)) {
    return NULL;
  }
  return self->slot_index == 0 ? self
                               : (Callable*)PyTuple_GetItem(self->slotted, self->slot_index - 1);
}

int slSlotsTraverse(Callable* self, visitproc visit, void* arg) {
  Py_VISIT(self->slotted);
  Py_VISIT(self->slot_choice);
  Py_VISIT(self->slot_place);
  return 0;
}

void slSlotsClear(Callable* self) {
  Py_CLEAR(self->slotted);
  Py_CLEAR(self->slot_choice);
  Py_CLEAR(self->slot_place);
}
