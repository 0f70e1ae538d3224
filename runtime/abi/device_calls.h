// SPDX-License-Identifier: Apache-2.0
// Memory whose size is known at run time: emitted text calls this beside the calls on queues
// (queue.h). Only thread 0 of the team calls it.
#ifndef STRAIGHTLINE_ABI_DEVICE_CALLS_H
#define STRAIGHTLINE_ABI_DEVICE_CALLS_H

#include "straightline/abi/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Allocates `bytes` of the memory space on device number `device` (sl_ctx.device), aligned to 64;
/// NULL when out of memory. 0 bytes give an address that is not NULL.
SL_API void* sl_alloc(const char* space, int32_t device, size_t bytes);

/// Frees it. No enqueued work may use it any more: the program has waited for it.
SL_API void sl_free(const char* space, int32_t device, void* address, size_t bytes);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_DEVICE_CALLS_H
