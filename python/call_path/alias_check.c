// SPDX-License-Identifier: Apache-2.0
// Checks that memory which a program writes is no other operand's: refuses tensors of a call that
// overlap where eager would read what was just written.
#include "callable.h"

int slCheckWritten(Callable* self, const Scratch* scratch) {
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    if (!self->inputs[i].written) {
      continue;
    }
    const sl_range range = slTensorRange(&scratch->tensors[i]);
    int32_t other = -1;
    for (int32_t j = 0; j < self->desc->input_count && other < 0; ++j) {
      other = j != i && slRangesOverlap(range, slTensorRange(&scratch->tensors[j])) ? j : -1;
    }
    // A program of JAX writes to what it was told is donated.
    const int donated = self->kind == SL_KIND_JAX && scratch->borrows[i].kind == SL_KIND_JAX;
    if ((!scratch->borrows[i].read_only || donated) && other < 0) {
      continue;
    }
    if (other >= 0) {
      PyErr_Format(slGuardError,
                   "'%U' is updated in place by the program but shares memory with '%U'",
                   self->names[i], self->names[other]);
    } else {
      PyErr_Format(slGuardError, "'%U' is updated in place by the program but is read-only",
                   self->names[i]);
    }
    return -1;
  }
  return 0;
}

int slCheckInputAliases(Callable* self, const Scratch* scratch) {
  const sl_weights_record* record = scratch->record;
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    const sl_range range = slTensorRange(&scratch->tensors[i]);
    if (slRangesTouch(record->states, record->state_count, range)) {
      PyErr_Format(slGuardError,
                   "'%U' shares memory with a buffer of the module that the program updates: give "
                   "a copy",
                   self->names[i]);
      return -1;
    }
    if (self->inputs[i].written && slRangesTouch(record->ranges, record->range_count, range)) {
      PyErr_Format(slGuardError,
                   "'%U' is updated in place by the program but shares memory with a parameter or "
                   "buffer of the module",
                   self->names[i]);
      return -1;
    }
  }
  return 0;
}

int slCheckOutAliases(Callable* self, Scratch* scratch, int32_t output, sl_range range,
                      PyObject* name) {
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    if (slRangesOverlap(range, slTensorRange(&scratch->tensors[i]))) {
      PyErr_Format(slGuardError, "out '%U' shares memory with the input '%U'", name,
                   self->names[i]);
      return -1;
    }
  }
  for (int32_t o = 0; o < self->desc->output_count; ++o) {
    if (o != output && slRangesOverlap(range, scratch->out_ranges[o])) {
      PyErr_Format(slGuardError, "out '%U' shares memory with the out tensor of result '%s'", name,
                   self->outputs[o].buffer->source);
      return -1;
    }
  }
  if (slRangesTouch(scratch->record->ranges, scratch->record->range_count, range)) {
    PyErr_Format(slGuardError, "out '%U' shares memory with a parameter or buffer of the module",
                 name);
    return -1;
  }
  return 0;
}
