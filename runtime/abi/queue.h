// SPDX-License-Identifier: Apache-2.0 What emitted text calls on a queue: statements of a program
// on a queue other than the caller's team, and `wait` on the team itself. `queue` is an element of
// sl_bindings.queues. Only thread 0 of the team calls these. On a team of CPU threads every call
// is synchronous: a launch runs at once, a record returns NULL, and waiting for NULL returns at
// once.
#ifndef STRAIGHTLINE_ABI_QUEUE_H
#define STRAIGHTLINE_ABI_QUEUE_H

#include "straightline/abi/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SL_API
#define SL_API __attribute__((visibility("default")))
#endif

/// Enqueues entry(ctx, team of one, pointers, scalars). Both arrays are copied before this returns.
/// The pointers are addresses of the queue's memory space. Returns sl_status; a failure is also
/// written to `ctx`.
SL_API int32_t sl_queue_launch(sl_ctx* ctx, void* queue, sl_thunk_fn entry, void* const* pointers,
                               int32_t pointer_count, const int64_t* scalars, int32_t scalar_count);

/// The same for an entry that cannot be part of a graph (it allocates, or uses a stream that it
/// finds by itself). Where a run is collected into a graph, the part collected so far is launched
/// first; what follows the call is collected as the next part. In prepare, where the entry uses
/// another stream than the queue's, the call waits for the queue before and for the device after.
SL_API int32_t sl_queue_call(sl_ctx* ctx, void* queue, sl_thunk_fn entry, void* const* pointers,
                             int32_t pointer_count, const int64_t* scalars, int32_t scalar_count);

/// Whether a statement on a device's queue calls the entry by sl_queue_call: its backend is neither
/// that device's own nor a library whose work the device's queue takes (sl_backend_desc.runs_on),
/// or it is a user's own function that is called in each run (SL_OWN_OUTSIDE_BACKEND).
SL_API int32_t sl_entry_is_outside_graph(const sl_entry* entry);

/// Enqueues a kernel of the queue's device: an element of sl_bindings.kernels. arguments[i] is the
/// address of its i-th argument. Returns sl_status; a failure is also written to `ctx`.
SL_API int32_t sl_queue_start(sl_ctx* ctx, void* queue, void* kernel, const sl_grid* grid,
                              void* const* arguments);

/// Where a run is collected into a graph: begins step `number` (each once a run), which lasts up to
/// the next such call. Its first work runs after the steps `after`, all begun before it, or at once
/// where there are none. Every other queue, and a device without steps, runs its work in the order
/// of the calls, which is always valid. `after` is copied.
SL_API void sl_queue_step(void* queue, int32_t number, const int32_t* after, int32_t count);

/// Runs entry(ctx, team, pointers, scalars) on every thread of the queue's team and returns when
/// all have returned; `alone`: on the calling thread only. If the team is busy the caller runs
/// alone. Not for a device's queue.
SL_API void sl_queue_run(sl_ctx* ctx, void* queue, sl_thunk_fn entry, void* const* pointers,
                         const int64_t* scalars, int32_t alone);

/// Enqueues a copy of `bytes` between memory spaces. Both ranges must stay valid until the queue
/// has passed it.
SL_API int32_t sl_queue_copy(sl_ctx* ctx, void* queue, void* destination,
                             const char* destination_space, const void* source,
                             const char* source_space, size_t bytes);

/// Returns an event that fires when `queue` has passed everything enqueued so far. Release it with
/// sl_queue_forget.
SL_API void* sl_queue_record(void* queue);

/// Later work of `queue` starts after `event`, which was recorded on `origin`. Where `queue` is a
/// team, the calling thread blocks until the event has fired.
SL_API void sl_queue_wait(void* queue, void* event, void* origin);

/// Releases an event; legal while waits for it are enqueued.
SL_API void sl_queue_forget(void* event, void* origin);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_QUEUE_H
