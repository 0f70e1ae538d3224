// SPDX-License-Identifier: Apache-2.0
// Version counters of torch's tensors that a program updates. Autograd compares them with what it
// saved: a backward that needs what was overwritten is refused, and never a wrong gradient.
#include "callable.h"

/// Adds one to the version of each tensor of a list or tuple, which is taken over. 0 or -1.
static int countAll(PyObject* written) {
  const int failed = !written || (PyObject_Size(written) > 0 && slTorchWritten(written));
  Py_XDECREF(written);
  return failed ? -1 : 0;
}

int slCountWrites(const Callable* self, const Scratch* scratch) {
  PyObject* const updated = scratch->record->updated;
  if (PyList_Size(updated) > 0 && slTorchWritten(updated)) {
    return -1;
  }
  if (!self->any_written) {
    return 0;
  }
  PyObject* written = PyList_New(0);
  for (int32_t i = 0; written && i < self->desc->input_count; ++i) {
    if (self->inputs[i].written && scratch->borrows[i].kind == SL_KIND_TORCH &&
        PyList_Append(written, scratch->leaves[i])) {
      Py_CLEAR(written);
    }
  }
  return countAll(written);
}
