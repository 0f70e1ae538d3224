// SPDX-License-Identifier: Apache-2.0
// Whether the tensors of a call are what a program was compiled for.
#include <string.h>

#include "callable.h"

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

static int sizesMatch(const Callable* self, const sl_tensor* tensors) {
  int same = 1;
  for (int32_t i = 0; same && i < self->desc->input_count; ++i) {
    same = fixedMatches(&self->inputs[i], &tensors[i]);
  }
  return same;
}

int slAllMatch(const Callable* self, const sl_tensor* tensors) {
  return self->desc->extent_count == 0 && sizesMatch(self, tensors);
}

/// The runtime's words, "input 'a_0': ..", with the argument as the caller knows it: 'a[0]'.
/// New reference, NULL with an exception.
static PyObject* withArgumentName(const Callable* self, const char* text) {
  static const char begin[] = "input '";
  const size_t begin_bytes = sizeof(begin) - 1;
  const int names_input = strncmp(text, begin, begin_bytes) == 0;
  for (int32_t b = 0; names_input && b < self->desc->buffer_count; ++b) {
    const sl_buffer* buffer = &self->desc->buffers[b];
    const char* name = buffer->source && buffer->source[0] ? buffer->source : buffer->name;
    const size_t name_bytes = strlen(name);
    const char* rest = text + begin_bytes + name_bytes;
    if (buffer->role == SL_ROLE_INPUT && strncmp(text + begin_bytes, name, name_bytes) == 0 &&
        rest[0] == '\'') {
      return PyUnicode_FromFormat("%s%U%s", begin, self->names[buffer->index], rest);
    }
  }
  return PyUnicode_FromString(text);
}

int slGuard(Callable* self, Scratch* scratch, int* miss) {
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
        PyObject* text = withArgumentName(self, message.text);
        if (text) {
          PyErr_SetObject(dtypes_differ ? slGuardTypeError : slGuardError, text);
          Py_DECREF(text);
        }
      } else {
        slRaiseStatus(status, message.text);
      }
      return -1;
    }
  }
  return self->any_written ? slCheckWritten(self, scratch) : 0;
}

void slFindAmong(sl_likely* likely, const Callable* self, const Scratch* scratch) {
  likely->at = -1;
  for (Py_ssize_t i = 0; i < PyTuple_Size(likely->among); ++i) {
    const Callable* other = (const Callable*)PyTuple_GetItem(likely->among, i);
    if (other->desc->input_count == self->desc->input_count && other->has_fixed_inputs &&
        sizesMatch(other, scratch->tensors)) {
      likely->at = i;
      return;
    }
  }
}
