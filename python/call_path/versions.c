// SPDX-License-Identifier: Apache-2.0
// Version counters of torch's tensors that a program updates. Autograd compares them with what it
// saved: a backward that needs what was overwritten is refused, and never a wrong gradient.
#include "callable.h"

int slCountWrites(const Callable* self, const Scratch* scratch) {
  PyObject* const updated = scratch->record->updated;
  if (PyList_Size(updated) > 0 && slTorchWritten(updated)) {
    return -1;
  }
  if (!self->any_written) {
    return 0;
  }
  PyObject* written = PyList_New(0);
  int failed = !written;
  for (int32_t i = 0; !failed && i < self->desc->input_count; ++i) {
    if (self->inputs[i].written && scratch->borrows[i].kind == SL_KIND_TORCH) {
      failed = PyList_Append(written, scratch->leaves[i]);
    }
  }
  failed = failed || (PyList_Size(written) > 0 && slTorchWritten(written));
  Py_XDECREF(written);
  return failed ? -1 : 0;
}
