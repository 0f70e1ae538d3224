// SPDX-License-Identifier: Apache-2.0
// Counts of the runtime's calls to NVIDIA's driver so far: for tests, and for `explain`.
#ifndef STRAIGHTLINE_ABI_CUDA_CALLS_H
#define STRAIGHTLINE_ABI_CUDA_CALLS_H

#include "straightline/abi/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_cuda_calls {
  uint64_t size;
  int64_t launches, copies, allocations, events, synchronizations, loads, others;
  int64_t graph_launches, node_updates, instantiations;
  int64_t captures;  ///< of a library's work as part of a graph
} sl_cuda_calls;

/// Fills the counts of this process for which calls->size has room.
SL_API void sl_cuda_count(sl_cuda_calls* calls);

/// The stream (CUstream) on which a library's entry enqueues its work. Valid only while a queue of
/// the device calls that entry, and on the calling thread only. Null is the default stream.
SL_API void* sl_cuda_stream(void);

/// Why there is no device: "" when there is one. Opens the driver. The text lives as long as the
/// process.
SL_API const char* sl_cuda_missing(void);

/// Waits until `stream` (CUstream; null: the default one) of a device has run what was enqueued.
/// Returns sl_status; a failure is written to `text`, cut to `bytes` with the end.
SL_API int32_t sl_cuda_finish_stream(int32_t device, void* stream, char* text, size_t bytes);

/// Waits until a device has run all work of this process, of every framework. As above.
SL_API int32_t sl_cuda_finish(int32_t device, char* text, size_t bytes);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_CUDA_CALLS_H
