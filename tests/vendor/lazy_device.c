/* SPDX-License-Identifier: Apache-2.0 */
/* A device in host memory whose queues do nothing until somebody waits: what is not ordered by an event has not run. FAULT_ macros break
 * one promise of kernel.h each. One thread at a time. */
#include <stdlib.h>
#include <string.h>

#include "straightline/abi/plugin.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct Queue Queue;
typedef struct Event {
  Queue* queue;
  long position;
  int references;
} Event;
typedef struct Item {
  void* to;
  const void* from;
  size_t bytes;
  Event* after; /* or NULL */
} Item;
struct Queue {
  Item* items;
  long count, done;
  int references; /* of its owner and of events */
};

static void runTo(Queue* queue, long position);

static void forget(Event* event) {
  if (--event->references == 0) {
    if (--event->queue->references == 0) {
      free(event->queue->items);
      free(event->queue);
    }
    free(event);
  }
}

static void runTo(Queue* queue, long position) {
  while (queue->done < position) {
    const Item item = queue->items[queue->done++];
    if (item.after) {
      runTo(item.after->queue, item.after->position);
      forget(item.after);
    } else {
      memmove(item.to, item.from, item.bytes);
    }
  }
}

static void add(Queue* queue, Item item) {
  queue->items = realloc(queue->items, (size_t)(queue->count + 1) * sizeof(Item));
  queue->items[queue->count++] = item;
}

static void* allocate(int32_t device, size_t bytes, size_t alignment) {
  (void)device;
  void* address = NULL;
  if (bytes > ((size_t)1 << 40)) {
#ifdef FAULT_MEMORY
    bytes = 64;
#else
    return NULL;
#endif
  }
  return posix_memalign(&address, alignment, bytes + 8) ? NULL : address;
}
static void deallocate(int32_t device, void* address, size_t bytes) {
  (void)device;
  (void)bytes;
  free(address);
}
static void* queueCreate(int32_t device) {
  (void)device;
  Queue* queue = calloc(1, sizeof(Queue));
  queue->references = 1;
  return queue;
}
static void queueDestroy(void* queue) {
  Queue* own = queue;
#ifndef FAULT_DESTROY
  runTo(own, own->count);
#endif
  if (--own->references == 0) {
    free(own->items);
    free(own);
  }
}
static int32_t copy(void* queue, sl_ctx* ctx, void* to, const char* toSpace, const void* from,
                    const char* fromSpace, size_t bytes) {
  (void)toSpace;
  (void)fromSpace;
#ifdef FAULT_STATUS
  sl_plugin_fail(ctx, SL_DEVICE_ERROR, "all is well");
  return SL_OK;
#endif
  (void)ctx;
#ifdef FAULT_LAST_BYTE
  bytes = bytes > 1 ? bytes - 1 : bytes;
#endif
  add(queue, (Item){to, from, bytes, NULL});
  return SL_OK;
}
static void* record(void* queue) {
  Event* event = malloc(sizeof(Event));
  Queue* own = queue;
  ++own->references;
  *event = (Event){own, own->count, 1};
  return event;
}
static void waitFor(void* queue, void* event) {
#ifdef FAULT_WAIT
  (void)queue;
  (void)event;
#else
  ++((Event*)event)->references;
  add(queue, (Item){NULL, NULL, 0, event});
#endif
}
static void synchronize(void* event) {
  Event* own = event;
  runTo(own->queue, own->position);
}
static int32_t query(void* event) {
  Event* own = event;
#ifdef FAULT_QUERY
  return 0;
#endif
  return own->queue->done >= own->position;
}
static int32_t launch(void* queue, sl_ctx* ctx, void* entry, void* const* pointers, int32_t n,
                      const int64_t* scalars, int32_t m) {
  (void)queue;
  (void)n;
  (void)m;
  ((sl_thunk_fn)entry)(ctx, (sl_team){NULL, 0, 1}, pointers, scalars);
  return SL_OK;
}
#ifdef FAULT_RANDOM
static int32_t drawNumbers(void* queue, sl_ctx* ctx, int32_t kind, sl_dtype dtype, void* address,
                           int64_t count, uint64_t seed, uint64_t offset) {
  (void)ctx;
  (void)kind;
  (void)dtype;
  (void)seed;
  (void)offset;
  runTo(queue, ((Queue*)queue)->count);
  for (int64_t i = 0; i < count; ++i) {
    ((float*)address)[i] = (float)(i % 1000) / 1000; /* the same for each seed */
  }
  return SL_OK;
}
static uint64_t step(int32_t kind, sl_dtype dtype, int64_t count) {
  (void)kind;
  (void)dtype;
  return (uint64_t)count;
}
#endif
#ifdef FAULT_CRASH
static void finish(int32_t device) {
  (void)device;
  abort();
}
#endif

static const sl_device_desc kDevice = {
    .size = sizeof(sl_device_desc),
    .space = "lazy",
    .allocate = allocate,
    .deallocate = deallocate,
    .queue_create = queueCreate,
    .queue_destroy = queueDestroy,
    .launch = launch,
    .copy = copy,
    .record = record,
    .wait = waitFor,
    .synchronize = synchronize,
    .event_destroy = (void (*)(void*))forget,
    .query = query,
#ifdef FAULT_RANDOM
    .random = drawNumbers,
    .random_step = step,
#endif
#ifdef FAULT_CRASH
    .finish = finish,
#endif
};

EXPORT const sl_backend_desc* straightline_backend_v1(void) {
  static const sl_backend_desc backend = {.size = sizeof(sl_backend_desc),
                                          .abi_version = SL_KERNEL_ABI_VERSION,
                                          .name = "lazy",
                                          .device = &kDevice};
  return &backend;
}
