// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <cstring>

#include "boundary.h"
#include "message_writer.h"
#include "registry.h"

namespace straightline {
namespace {

/// Shared queues, one for each team; reused and never freed.
struct TeamQueue {
  std::atomic<int32_t> state{0};  ///< 0 empty, 1 being written, 2 ready
  sl_queue queue;
};
TeamQueue teamQueues[kMaxThreads + 1];

sl_queue* asQueue(void* queue) { return static_cast<sl_queue*>(queue); }

/// One entry as a job of a team. The team passes its bindings to every thread; the job's other
/// fields follow them in memory.
struct EntryJob {
  sl_bindings bindings;
  sl_thunk_fn entry;
  void* const* pointers;
  const int64_t* scalars;
};

int32_t runEntry(sl_ctx* ctx, sl_team team, const sl_bindings* bindings) {
  const auto* job = reinterpret_cast<const EntryJob*>(bindings);  // its first member
  job->entry(ctx, team, job->pointers, job->scalars);
  return SL_OK;
}

}  // namespace

bool openDeviceQueue(const sl_device_desc* device, int32_t number, sl_queue* queue) {
  queue->team = nullptr;
  queue->device = device;
  queue->number = number;
  queue->handle = device->queue_create(number);
  return queue->handle != nullptr;
}

int32_t beginPart(sl_queue* queue, size_t part, sl_ctx* ctx) {
  if (part == queue->parts.size()) {
    queue->parts.push_back(queue->device->graph_create(queue->number));
    if (!queue->parts.back()) {
      queue->parts.pop_back();
      sl_fail_text(ctx, SL_DEVICE_ERROR, "no graph could be made");
      return SL_DEVICE_ERROR;
    }
  }
  queue->part = part;
  queue->handle = queue->parts[part];
  return queue->device->graph_begin(queue->handle, ctx, queue->target);
}

void waitForQueue(const sl_queue& queue) {
  void* event = queue.device->record(queue.handle);
  queue.device->synchronize(event);
  queue.device->event_destroy(event);
}

void closeDeviceQueue(sl_queue* queue) {
  for (void* part : queue->parts) {
    queue->device->queue_destroy(part);
  }
  if (queue->handle && queue->parts.empty()) {
    queue->device->queue_destroy(queue->handle);
  }
  queue->parts.clear();
  queue->handle = nullptr;
}

}  // namespace straightline

int32_t sl_queue_team(int32_t threads, sl_queue** out, sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    if (threads < 1 || threads > kMaxThreads) {
      MessageWriter(message)
          .text("a team of ")
          .number(threads)
          .text(" threads was asked for, but it must have 1 to ")
          .number(kMaxThreads);
      return SL_INVALID_ARGUMENT;
    }
    Team* team = sharedTeam(threads);
    if (!team) {
      MessageWriter(message)
          .text("the system refuses to start the ")
          .number(threads - 1)
          .text(" worker threads of a team of ")
          .number(threads);
      return SL_OUT_OF_MEMORY;
    }
    TeamQueue& slot = teamQueues[threads];
    int32_t empty = 0;
    if (slot.state.compare_exchange_strong(empty, 1, std::memory_order_acq_rel)) {
      slot.queue.team = team;
      slot.state.store(2, std::memory_order_release);
    }
    while (slot.state.load(std::memory_order_acquire) != 2) {
      sched_yield();
    }
    *out = &slot.queue;
    return SL_OK;
  });
}

int32_t sl_queue_create(const char* backend, int32_t device, sl_queue** out, sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    const sl_backend_desc* found = findBackend(backend);
    if (!found || !found->device) {
      MessageWriter(message)
          .text(found ? "backend '" : "no backend '")
          .text(backend)
          .text(found ? "' has no queues of its own: it runs on the caller's team"
                      : "' is registered");
      return SL_UNSUPPORTED;
    }
    auto queue = std::make_unique<sl_queue>();
    if (!openDeviceQueue(found->device, device, queue.get())) {
      MessageWriter(message)
          .text("backend '")
          .text(backend)
          .text("' could not make a queue on its device ")
          .number(device);
      return SL_OUT_OF_MEMORY;
    }
    *out = queue.release();
    return SL_OK;
  });
}

int32_t sl_queue_adopt(const char* backend, int32_t device, void* native, sl_queue** out,
                       sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    const sl_backend_desc* found = findBackend(backend);
    if (!found || !found->device || !found->device->queue_adopt) {
      MessageWriter(message)
          .text(found ? "backend '" : "no backend '")
          .text(backend)
          .text(found ? "' takes no queue of its caller" : "' is registered");
      return SL_UNSUPPORTED;
    }
    auto queue = std::make_unique<sl_queue>();
    queue->device = found->device;
    queue->number = device;
    queue->handle = found->device->queue_adopt(device, native);
    if (!queue->handle) {
      MessageWriter(message)
          .text("backend '")
          .text(backend)
          .text("' refuses a queue of its device ")
          .number(device);
      return SL_DEVICE_ERROR;
    }
    *out = queue.release();
    return SL_OK;
  });
}

void sl_queue_release(sl_queue* queue) {
  if (!queue || queue->team) {
    return;  // teams are shared for the life of the process
  }
  straightline::closeDeviceQueue(queue);
  delete queue;
}

uint64_t sl_queue_order(const sl_queue* queue) {
  if (queue->team) {
    return 1;  // a call returns before the next one begins
  }
  const sl_device_desc* device = queue->device;
  return sl_queue_captured(queue) || !device->queue_order ? 0 : device->queue_order(queue->handle);
}

int32_t sl_queue_captured(const sl_queue* queue) {
  const sl_device_desc* device = queue->device;
  return device && device->queue_captured ? device->queue_captured(queue->handle) : 0;
}

int32_t sl_queue_launch(sl_ctx* ctx, void* queue, sl_thunk_fn entry, void* const* pointers,
                        int32_t pointer_count, const int64_t* scalars, int32_t scalar_count) {
  const sl_queue* q = straightline::asQueue(queue);
  if (q->device) {
    return q->device->launch(q->handle, ctx, reinterpret_cast<void*>(entry), pointers,
                             pointer_count, scalars, scalar_count);
  }
  entry(ctx, sl_team{nullptr, 0, 1}, pointers, scalars);
  return __atomic_load_n(&ctx->status, __ATOMIC_ACQUIRE);
}

int32_t sl_queue_call(sl_ctx* ctx, void* queue, sl_thunk_fn entry, void* const* pointers,
                      int32_t pointer_count, const int64_t* scalars, int32_t scalar_count) {
  auto* q = static_cast<sl_queue*>(queue);
  const sl_device_desc* device = q->device;
  if (q->prepares) {
    straightline::waitForQueue(*q);
    const int32_t status =
        sl_queue_launch(ctx, queue, entry, pointers, pointer_count, scalars, scalar_count);
    if (device->finish) {  // a device without it does its work at once
      device->finish(q->number);
    }
    return status;
  }
  if (!q->gathers) {
    return sl_queue_launch(ctx, queue, entry, pointers, pointer_count, scalars, scalar_count);
  }
  int32_t status = device->graph_launch(q->handle, ctx);
  if (status == SL_OK) {
    status = device->launch(q->target, ctx, reinterpret_cast<void*>(entry), pointers, pointer_count,
                            scalars, scalar_count);
  }
  return status == SL_OK ? straightline::beginPart(q, q->part + 1, ctx) : status;
}

int32_t sl_entry_is_outside_graph(const sl_entry* entry) {
  if (entry->kind == SL_ENTRY_EXTERNAL &&
      std::strcmp(entry->backend, SL_OWN_OUTSIDE_BACKEND) == 0) {
    return 1;
  }
  const sl_backend_desc* backend =
      entry->kind == SL_ENTRY_EXTERNAL ? straightline::findBackend(entry->backend) : nullptr;
  return backend && !backend->device && !backend->runs_on;
}

int32_t sl_queue_start(sl_ctx* ctx, void* queue, void* kernel, const sl_grid* grid,
                       void* const* arguments) {
  const sl_queue* q = straightline::asQueue(queue);
  return grid->blocks > 0 || q->gathers ? q->device->start(q->handle, ctx, kernel, grid, arguments)
                                        : SL_OK;
}

void sl_queue_step(void* queue, int32_t number, const int32_t* after, int32_t count) {
  const sl_queue* q = straightline::asQueue(queue);
  if (q->gathers && q->device->graph_step) {
    q->device->graph_step(q->handle, number, after, count);
  }
}

void sl_queue_run(sl_ctx* ctx, void* queue, sl_thunk_fn entry, void* const* pointers,
                  const int64_t* scalars, int32_t alone) {
  straightline::Team* team = straightline::asQueue(queue)->team;
  if (alone || team->size() == 1) {
    entry(ctx, sl_team{nullptr, 0, 1}, pointers, scalars);
    return;
  }
  const straightline::EntryJob job{{}, entry, pointers, scalars};
  team->run(straightline::runEntry, ctx, &job.bindings);
}

int32_t sl_queue_copy(sl_ctx* ctx, void* queue, void* destination, const char* destination_space,
                      const void* source, const char* source_space, size_t bytes) {
  const sl_queue* q = straightline::asQueue(queue);
  if (q->device) {
    return q->device->copy(q->handle, ctx, destination, destination_space, source, source_space,
                           bytes);
  }
  if (std::strcmp(destination_space, "host") != 0 || std::strcmp(source_space, "host") != 0) {
    sl_fail(ctx, SL_INTERNAL, 0, 0, 0);  // only a device's queue can access another memory space
    return SL_INTERNAL;
  }
  std::memcpy(destination, source, bytes);
  return SL_OK;
}

void* sl_queue_record(void* queue) {
  const sl_queue* q = straightline::asQueue(queue);
  return q->device ? q->device->record(q->handle) : nullptr;
}

void sl_queue_wait(void* queue, void* event, void* origin) {
  if (!event) {
    return;
  }
  const sl_queue* q = straightline::asQueue(queue);
  const sl_device_desc* device = straightline::asQueue(origin)->device;
  if (q->device == device) {
    device->wait(q->handle, event);
  } else {
    device->synchronize(event);  // a team, or a device that does not know the other's events
  }
}

void sl_queue_forget(void* event, void* origin) {
  if (event) {
    straightline::asQueue(origin)->device->event_destroy(event);
  }
}
