// SPDX-License-Identifier: Apache-2.0
// The caller's current stream as a queue of the runtime.
#include "call_path.h"
#include "straightline/abi/cuda_calls.h"

/// Queues of the streams seen so far; frameworks take streams from a small pool. A queue holds only
/// the handle of its stream, so it stays valid when a stream is destroyed and another gets the same
/// handle.
typedef struct Known {
  struct Known* next;
  void* stream;
  int32_t device;
  sl_queue* queue;
} Known;
static Known* known_;  // the GIL guards it

sl_queue* slCurrentStream(const sl_dl_exchange* exchange, int32_t device) {
  if (!exchange || !exchange->stream) {
    PyErr_SetString(slUnsupportedError,
                    "a program on a device needs a framework that tells its current stream by "
                    "dlpack, such as torch");
    return NULL;
  }
  void* stream = NULL;
  if (exchange->stream(SL_DLPACK_CUDA, device, &stream)) {
    return NULL;
  }
  return slQueueOfStream(stream, device);
}

sl_queue* slQueueOfStream(void* stream, int32_t device) {
  for (Known* known = known_; known; known = known->next) {
    if (known->stream == stream && known->device == device) {
      return known->queue;
    }
  }
  sl_message message;
  message.text[0] = '\0';
  Known* known = PyMem_Calloc(1, sizeof(*known));
  if (!known) {
    PyErr_NoMemory();
    return NULL;
  }
  const int32_t status = sl_queue_adopt("cuda", device, stream, &known->queue, &message);
  if (status != SL_OK) {
    PyMem_Free(known);
    slRaiseStatus(status, message.text);
    return NULL;
  }
  known->stream = stream;
  known->device = device;
  known->next = known_;
  known_ = known;
  return known->queue;
}

sl_queue* slCurrentQueue(const char* backend, int32_t device) {
  sl_message message;
  message.text[0] = '\0';
  sl_queue* queue = NULL;
  const int32_t status = sl_queue_current(backend, device, &queue, &message);
  if (status != SL_OK) {
    slRaiseStatus(status, message.text);
    return NULL;
  }
  return queue;
}

PyObject* slCudaCalls(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  sl_cuda_calls calls = {.size = sizeof(calls)};
  sl_cuda_count(&calls);
  return Py_BuildValue("{sLsLsLsLsLsLsLsLsLsLsL}", "launches", (long long)calls.launches, "copies",
                       (long long)calls.copies, "allocations", (long long)calls.allocations,
                       "events", (long long)calls.events, "synchronizations",
                       (long long)calls.synchronizations, "loads", (long long)calls.loads, "others",
                       (long long)calls.others, "graph_launches", (long long)calls.graph_launches,
                       "node_updates", (long long)calls.node_updates, "instantiations",
                       (long long)calls.instantiations, "captures", (long long)calls.captures);
}

PyObject* slGraphNodes(PyObject* module, PyObject* capsule) {
  (void)module;
  sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  if (!program) {
    return NULL;
  }
  sl_message message;
  message.text[0] = '\0';
  const int32_t nodes = sl_program_graph_nodes(program, &message);
  return Py_BuildValue("is", (int)nodes, message.text);
}

PyObject* slGraphParts(PyObject* module, PyObject* capsule) {
  (void)module;
  const sl_program* program = PyCapsule_GetPointer(capsule, SL_PROGRAM_CAPSULE);
  return program ? PyLong_FromLong(sl_program_graph_parts(program)) : NULL;
}

PyObject* slCudaMissing(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  return PyUnicode_FromString(sl_cuda_missing());
}
