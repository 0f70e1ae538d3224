// SPDX-License-Identifier: Apache-2.0
// Memory of run-time size, beside the calls on queues (queue.h): what emitted text calls in the
// runtime. Called by thread 0 of the team alone.
#ifndef STRAIGHTLINE_ABI_DEVICE_CALLS_H
#define STRAIGHTLINE_ABI_DEVICE_CALLS_H

#include "straightline/abi/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/// `bytes` of the memory space on device number `device` (sl_ctx.device), aligned to 64; NULL when
/// there is none. 0 bytes give an address that is not NULL.
SL_API void* sl_alloc(const char* space, int32_t device, size_t bytes);

/// Gives it back. Nothing that is enqueued may still use it: the program has waited for it.
SL_API void sl_free(const char* space, int32_t device, void* address, size_t bytes);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_DEVICE_CALLS_H
