// SPDX-License-Identifier: Apache-2.0
// Version counters of torch's tensors that a program updates. Autograd compares them with what it
// saved: a backward that needs what was overwritten is refused, and never a wrong gradient.
#include "callable.h"

static int isWritten(const Callable* self, const Scratch* scratch, int32_t input) {
  return self->inputs[input].written && scratch->borrows[input].kind == SL_KIND_TORCH;
}

int slCountWrites(const Callable* self, const Scratch* scratch) {
  PyObject* const updated = scratch->record->updated;
  if (PyList_Size(updated) > 0 && slTorchWritten(updated)) {
    return -1;
  }
  if (!self->any_written) {
    return 0;
  }
  Py_ssize_t count = 0;
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    count += isWritten(self, scratch, i);
  }
  PyObject* written = count ? PyTuple_New(count) : NULL;
  if (!written) {
    return count ? -1 : 0;
  }
  Py_ssize_t next = 0;
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    if (isWritten(self, scratch, i)) {
      Py_INCREF(scratch->leaves[i]);
      PyTuple_SetItem(written, next++, scratch->leaves[i]);
    }
  }
  const int failed = slTorchWritten(written);
  Py_DECREF(written);
  return failed;
}
