// SPDX-License-Identifier: Apache-2.0
// What emitted Python works with: one call (`io`), its queues and buffers, and the entries that
// statements name.
//
// None of these objects is known to the garbage collector: slIoDismantle takes the only circles
// apart, and a call's owner (a Callable, or the weights in the making) always calls it.
#ifndef STRAIGHTLINE_PYTHON_EMITTED_H
#define STRAIGHTLINE_PYTHON_EMITTED_H

#include "call_path.h"
#include "straightline/abi/device_calls.h"
#include "straightline/abi/queue.h"

#pragma GCC visibility push(hidden)

// Vector calls: part of the stable ABI from 3.12 on, with the same meaning and layout in 3.10 and
// 3.11 (which no longer change). Without it every call would pack its arguments into a tuple first
// (20 ns of 60).
#define SL_HAVE_VECTORCALL (1UL << 11)
#define SL_VECTORCALL_OFFSET_FLAG ((size_t)1 << (8 * sizeof(size_t) - 1))
typedef PyObject* (*sl_vectorcall)(PyObject* self, PyObject* const* args, size_t nargs,
                                   PyObject* names);

/// Releasing and acquiring the GIL costs 0.05 to 0.1 us if no other thread wants it, and far more
/// otherwise.
#define SL_GIL_THRESHOLD_US 20.0

/// One call, used again by the next. Its objects are made once.
typedef struct Io {
  PyObject_HEAD struct Io* next;  ///< in the pool of its owner
  sl_program* program;            ///< one reference
  const sl_program_desc* desc;
  PyObject* weights;            ///< capsule that addresses were bound to; nullable
  sl_ctx* ctx;                  ///< NULL outside of a call
  const sl_bindings* bindings;  ///< NULL outside of a call
  int32_t phase;
  /// arrays show its memory: it keeps frame and objects when the call is over
  int looked_at;
  int64_t* extent_values;  ///< [extents], of the last call
  void** arenas;           ///< [spaces], that addresses were bound to
  void** addresses;        ///< [buffers]
  int32_t* moving;         ///< buffers of arguments and views of them
  int32_t moving_count;
  void** events;  ///< recorded by this call: pairs of event and origin
  int32_t event_count, event_room;
  PyObject* buffers;  ///< tuple, by number in the table
  PyObject* queues;   ///< tuple
  PyObject* team;
  PyObject* alone;
  PyObject* extents;  ///< tuple of int
  sl_frame* frame;    ///< nullable: kept because it was looked at
  PyObject* keep;     ///< nullable: objects whose memory was looked at
} Io;

typedef struct Buffer {
  PyObject_HEAD Io* io;  ///< owned
  const sl_buffer* line;
  void* data;          ///< of element 0
  size_t owned_bytes;  ///< memory of an `alloc`: goes with this object
} Buffer;

typedef struct Queue {
  PyObject_HEAD Io* io;  ///< owned
  int32_t number;
  int is_team;
  int alone;
} Queue;

extern PyTypeObject* slBufferType;
extern PyTypeObject* slQueueType;

/// A new reference to a call of `program` that is bound to nothing.
Io* slIoNew(sl_program* program);
/// Executes `function(io)` in place of a phase; an sl_executor's user is an SlPythonCall. The GIL
/// is held.
typedef struct SlPythonCall {
  Io* io;
  PyObject* function;
  PyObject* weights;  ///< nullable
} SlPythonCall;
int32_t slIoExecute(void* user, const sl_program* program, int32_t phase, sl_ctx* ctx,
                    const sl_bindings* bindings);
/// Takes the circles apart; what others still hold stays valid.
void slIoDismantle(Io* io);
PyObject* slBufferNew(Io* io, int32_t number, void* data);
/// Raises unless a call is under way; what it belongs to is for the message.
static inline int slIoActive(const Io* io, const char* what) {
  if (io->ctx) {
    return 0;
  }
  PyErr_Format(slUserError, "%s belongs to a call of '%s' that is over", what, io->desc->name);
  return -1;
}

/// entries(program): list of all that the program's statements name.
PyObject* slEntries(PyObject* module, PyObject* program);

/// A scalar of the statement table as int, float or bool, and back. -1 with an exception when it is
/// of another kind.
PyObject* slScalarFromBits(sl_dtype dtype, int64_t bits);
int slScalarToBits(sl_dtype dtype, PyObject* value, int64_t* bits);

int slBufferTypeInit(void);
int slIoTypesInit(void);
int slEntryTypeInit(void);

#pragma GCC visibility pop

#endif  // STRAIGHTLINE_PYTHON_EMITTED_H
