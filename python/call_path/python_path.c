// SPDX-License-Identifier: Apache-2.0
// A call of a compiled function by emitted Python, in place of the straight line.
#include "callable.h"

/// Accessed with the GIL held.
static Io* takeIo(Callable* self) {
  Io* io = self->ios;
  if (io) {
    self->ios = io->next;
    io->next = NULL;
    return io;
  }
  return slIoNew(self->program);
}

int slExecutePython(Callable* self, Scratch* scratch, sl_frame* frame) {
  Io* io = takeIo(self);
  if (!io) {
    sl_frame_return(frame);
    return -1;
  }
  PyObject* function = self->python;  // another thread may replace it
  Py_INCREF(function);
  SlPythonCall python = {io, function, scratch->weights};
  const sl_executor executor = {sizeof(executor), slIoExecute, &python};
  const sl_args args = {sizeof(args),     scratch->input_data, scratch->output_data,
                        scratch->extents, &executor,           self->launch};
  sl_ctx context = {.size = sizeof(context), .status = SL_OK, .statement = -1};
  sl_message message;
  message.text[0] = '\0';
  const int32_t status = sl_run(self->program, scratch->record->weights, frame, scratch->queue,
                                &args, &context, &message);
  Py_DECREF(function);
  if (io->looked_at) {
    io->frame = frame;
    scratch->looked_at = io;
    slIoDismantle(io);
  } else {
    sl_frame_return(frame);
    if (io->weights != self->weights) {
      // another set was published meanwhile: the pooled call drops the old one
      Py_CLEAR(io->weights);
    }
    io->next = self->ios;
    self->ios = io;
  }
  if (PyErr_Occurred()) {
    return -1;
  }
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return -1;
  }
  return 0;
}

void slKeepLookedAt(Callable* self, Scratch* scratch, const sl_dl_exchange* exchange) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Io* io = scratch->looked_at;
  scratch->looked_at = NULL;
  io->keep = PyList_New(0);
  for (int32_t i = 0; io->keep && i < self->desc->input_count; ++i) {
    PyList_Append(io->keep, scratch->leaves[i]);
  }
  for (int32_t o = 0; io->keep && o < self->desc->output_count; ++o) {
    if (slFreshWrap(&scratch->fresh[o], exchange) == 0) {
      PyList_Append(io->keep, scratch->fresh[o].object);
    }
  }
  PyErr_Clear();
  Py_DECREF((PyObject*)io);
  PyErr_Restore(type, value, trace);
}
