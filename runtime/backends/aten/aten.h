// SPDX-License-Identifier: Apache-2.0
// Backend "aten": any op that the torch in this process has, by its name. Problem "aten"
// (call_text.h says what its text is): any operands; results are copied into the planned buffers.
// It knows no framework beyond names: torch is found at run time, and what cannot be said in C goes
// through the functions that the Python package gives.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_ATEN_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_ATEN_H

#include "straightline/abi/straightline.h"

extern "C" {

/// What the Python package supplies. Each takes the GIL itself, may be called from any thread, and
/// gives 0, or writes words to `message` (terminated) and gives another number.
typedef struct sl_aten_python {
  uint64_t size;
  /// Checks that the op still has the schema that was captured. For the door "python" also keeps
  /// what `run` needs, as `id`.
  int32_t (*plan)(const sl_problem* problem, int64_t* id, char* message, int64_t message_bytes);
  /// `device`: the number of that on which the program is.
  int32_t (*run)(int64_t id, int32_t device, const void* const* inputs, void* const* outputs,
                 const int64_t* sizes, char* message, int64_t message_bytes);
  void (*forget)(int64_t id);
  /// Offers the only result of an op, a handle of torch's stable ABI whose `bytes` were copied to
  /// `to`, to who called the program. 1: it was taken over; 0. Takes no GIL; nullable.
  int32_t (*give)(void* tensor, int64_t bytes, const void* to);
} sl_aten_python;

/// Sets them; NULL takes them back (the interpreter ends). The table must live until then.
SL_API void sl_aten_set_python(const sl_aten_python* functions);

SL_API int32_t sl_aten_call_plan(sl_ctx* ctx, const sl_problem* problem,
                                 const void* const* constants, void** handle);
SL_API int32_t sl_aten_call_run(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs,
                                void* const* outputs, void* workspace);
SL_API void sl_aten_call_plan_destroy(void* handle);
}

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_ATEN_H
