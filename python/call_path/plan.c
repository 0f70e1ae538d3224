// SPDX-License-Identifier: Apache-2.0
// What a callable knows about its program before the first call, read from the description.
#include "callable.h"

PyObject* slLeafName(const sl_node* node, int32_t index) {
  if (node->kind == SL_NODE_TENSOR) {
    return node->index == index ? node->name : NULL;
  }
  PyObject* name = NULL;
  for (int32_t i = 0; i < node->count && !name; ++i) {
    name = slLeafName(&node->children[i], index);
  }
  return name;
}

void slFindWritten(const sl_program_desc* desc, void (*found)(void* user, int32_t input),
                   void* user) {
  for (int32_t i = 0; i < desc->statement_count; ++i) {
    const sl_statement* statement = &desc->statements[i];
    if (statement->kind == SL_STATEMENT_VIEW) {
      continue;  // it says where a part lies and writes nothing
    }
    for (int32_t k = 0; k < statement->outputs; ++k) {
      int32_t b = statement->operands[statement->inputs + k];
      while (b >= 0 && desc->buffers[b].role == SL_ROLE_VIEW) {
        b = desc->buffers[b].base;
      }
      if (b >= 0 && desc->buffers[b].role == SL_ROLE_INPUT) {
        found(user, desc->buffers[b].index);
      }
    }
  }
}

static void noteWritten(void* user, int32_t input) {
  Callable* self = user;
  self->inputs[input].written = self->any_written = 1;
}

int slPlanInputs(Callable* self) {
  const sl_program_desc* desc = self->desc;
  self->inputs = PyMem_Calloc((size_t)desc->input_count + 1, sizeof(FixedInput));
  if (!self->inputs) {
    PyErr_NoMemory();
    return -1;
  }
  self->has_fixed_inputs = 1;
  for (int32_t i = 0; i < desc->extent_count; ++i) {
    self->has_fixed_inputs &= desc->extents[i].bound.count > 0;
  }
  for (int32_t b = 0; b < desc->buffer_count; ++b) {
    const sl_buffer* buffer = &desc->buffers[b];
    if (buffer->role != SL_ROLE_INPUT) {
      continue;
    }
    if (buffer->rank > SL_MAX_RANK || buffer->index < 0 || buffer->index >= desc->input_count) {
      PyErr_Format(slInternalError, "input '%s' has rank %d and number %d of %d", buffer->source,
                   (int)buffer->rank, (int)buffer->index, (int)desc->input_count);
      return -1;
    }
    FixedInput* input = &self->inputs[buffer->index];
    input->dtype = buffer->dtype;
    input->rank = buffer->rank;
    input->device_type = slDeviceType(desc, buffer);
    input->device = sl_program_device(self->program);
    int empty = 0;
    for (int32_t d = 0; self->has_fixed_inputs && d < buffer->rank; ++d) {
      input->shape[d] = sl_expr_value(&buffer->extents[d], NULL);
      input->strides[d] = sl_expr_value(&buffer->strides[d], NULL);
      empty |= input->shape[d] == 0;
    }
    for (int32_t d = 0; d < buffer->rank; ++d) {
      input->compare[d] = !empty && input->shape[d] != 1;
    }
  }
  slFindWritten(desc, noteWritten, self);
  return 0;
}

int slPlanOutputs(Callable* self) {
  const sl_program_desc* desc = self->desc;
  self->outputs = PyMem_Calloc((size_t)desc->output_count + 1, sizeof(sl_output_plan));
  if (!self->outputs) {
    PyErr_NoMemory();
    return -1;
  }
  for (int32_t b = 0; b < desc->buffer_count; ++b) {
    const sl_buffer* buffer = &desc->buffers[b];
    if (buffer->role != SL_ROLE_OUTPUT) {
      continue;
    }
    if (buffer->rank > SL_MAX_RANK || buffer->index < 0 || buffer->index >= desc->output_count) {
      PyErr_Format(slInternalError, "output '%s' has rank %d and number %d of %d", buffer->source,
                   (int)buffer->rank, (int)buffer->index, (int)desc->output_count);
      return -1;
    }
    sl_output_plan* plan = &self->outputs[buffer->index];
    plan->buffer = buffer;
    plan->device_type = slDeviceType(desc, buffer);
    plan->device = sl_program_device(self->program);
    plan->fixed = desc->extent_count == 0;
    for (int32_t d = 0; d < buffer->rank; ++d) {
      const sl_expr* size = &buffer->extents[d];
      for (int64_t s = 0; s < size->count; ++s) {
        plan->computed |=
            size->steps[s].op == 's' && desc->extents[size->steps[s].value].bound.count > 0;
      }
    }
    if (plan->fixed) {
      plan->bytes = slOutputShape(buffer, NULL, plan->shape, plan->strides);
    }
  }
  for (int32_t o = 0; o < desc->output_count; ++o) {
    if (!self->outputs[o].buffer) {
      PyErr_Format(slInternalError, "the program has %d outputs but describes none with number %d",
                   (int)desc->output_count, (int)o);
      return -1;
    }
  }
  return 0;
}

int slPlanResults(Callable* self) {
  const sl_program_desc* desc = self->desc;
  self->results = PyMem_Calloc((size_t)desc->result_count + 1, sizeof(sl_result_plan));
  if (!self->results) {
    PyErr_NoMemory();
    return -1;
  }
  for (int32_t r = 0; r < desc->result_count; ++r) {
    const sl_buffer* buffer = &desc->buffers[desc->results[r].buffer];
    sl_result_plan* plan = &self->results[r];
    plan->rank = buffer->rank;
    plan->output = -1;
    if (buffer->role == SL_ROLE_OUTPUT) {
      plan->output = buffer->index;
      continue;
    }
    const sl_buffer* root = &desc->buffers[desc->results[r].root];
    if (root->role != SL_ROLE_INPUT && root->role != SL_ROLE_PARAMETER &&
        root->role != SL_ROLE_STATE && root->role != SL_ROLE_OUTPUT) {
      PyErr_Format(slInternalError,
                   "result %d is a view of '%s', whose storage (role %d) does not outlive a call",
                   (int)r, root->name, (int)root->role);
      return -1;
    }
    plan->root_role = root->role;
    plan->root_index = root->index;
    plan->root_name = root->source;
    plan->identity = buffer == root;
  }
  return 0;
}

void slPlanReuse(Callable* self) {
  const int32_t count = self->reuse_outputs ? self->desc->result_count : 0;
  for (int32_t r = 0; r < count; ++r) {
    const int32_t o = self->results[r].output;
    if (o >= 0 && self->outputs[o].fixed) {
      self->outputs[o].reused_name = slLeafName(&self->output, r);
    }
  }
  // a result that is a view holds no reference to the result whose memory it shows
  for (int32_t r = 0; r < count; ++r) {
    if (self->results[r].output < 0 && self->results[r].root_role == SL_ROLE_OUTPUT) {
      self->outputs[self->results[r].root_index].reused_name = NULL;
    }
  }
}

int slNameInputs(Callable* self) {
  self->names = PyMem_Calloc((size_t)self->desc->input_count + 1, sizeof(PyObject*));
  self->seen = PyMem_Calloc((size_t)self->desc->input_count + (size_t)self->desc->result_count + 1,
                            sizeof(sl_seen));
  if (!self->names || !self->seen) {
    PyErr_NoMemory();
    return -1;
  }
  for (int32_t i = 0; i < self->desc->input_count; ++i) {
    for (int32_t k = 0; k < self->signature.count && !self->names[i]; ++k) {
      self->names[i] = slLeafName(&self->signature.slots[k].node, i);
    }
    if (!self->names[i]) {
      PyErr_Format(slInternalError,
                   "input %d of the program is no tensor of the compiled arguments", (int)i);
      return -1;
    }
  }
  return 0;
}

int slCheckExtents(const sl_node* node, int32_t extent_count) {
  for (int32_t i = 0; node->kind == SL_NODE_EXTENT && i < node->index; ++i) {
    const sl_expr_step step = node->steps[i];
    if (step.op == 's' && (step.value < 0 || step.value >= extent_count)) {
      PyErr_Format(PyExc_ValueError, "'%U' uses extent %lld but there are %d", node->name,
                   (long long)step.value, (int)extent_count);
      return -1;
    }
  }
  for (int32_t i = 0; i < node->count; ++i) {
    if (slCheckExtents(&node->children[i], extent_count)) {
      return -1;
    }
  }
  return 0;
}

void slOutputPlanClear(sl_output_plan* plan) {
  Py_CLEAR(plan->numpy_dtype);
  Py_CLEAR(plan->numpy_shape);
  slKeptClear(plan);
  if (plan->spare) {
    plan->spare->deleter(plan->spare);
    plan->spare = NULL;
  }
}
