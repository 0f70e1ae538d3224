/* SPDX-License-Identifier: Apache-2.0 */
/* A device in host memory whose queues do nothing until somebody waits: what is not ordered by an event has not run. It has a kernel, relu.
 * FAULT_ macros break one promise of kernel.h each, FAULT_KERNEL_ macros one of the kernel. One lock, so that any thread may call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* of the recursive lock */
#endif
#include <pthread.h>
#include <stdio.h>
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
typedef struct Handle {
  int64_t rows, columns; /* rows: without a size that calls bring */
  int32_t dynamic;
  const float* x; /* FAULT_KERNEL_SHARED: of the last run */
  float* y;
} Handle;
typedef struct Item {
  void* to;
  const void* from;
  size_t bytes;
  Event* after; /* or NULL */
  Handle* relu; /* or NULL: a copy */
  int64_t rows;
} Item;
struct Queue {
  Item* items;
  long count, done;
  int32_t device;
  int references; /* of its owner and of events */
};

static void runTo(Queue* queue, long position);
static void runRelu(const Item* item);

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

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
    } else if (item.relu) {
      runRelu(&item);
    } else {
      memmove(item.to, item.from, item.bytes);
    }
  }
}

static void runBehindLock(Queue* queue, long position) {
  pthread_mutex_lock(&lock);
  runTo(queue, position);
  pthread_mutex_unlock(&lock);
}

static void add(Queue* queue, Item item) {
  pthread_mutex_lock(&lock);
  queue->items = realloc(queue->items, (size_t)(queue->count + 1) * sizeof(Item));
  queue->items[queue->count++] = item;
  pthread_mutex_unlock(&lock);
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
  Queue* queue = calloc(1, sizeof(Queue));
  queue->device = device;
  queue->references = 1;
  return queue;
}
static void queueDestroy(void* queue) {
  Queue* own = queue;
  pthread_mutex_lock(&lock);
#ifndef FAULT_DESTROY
  runTo(own, own->count);
#endif
  if (--own->references == 0) {
    free(own->items);
    free(own);
  }
  pthread_mutex_unlock(&lock);
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
  add(queue, (Item){to, from, bytes, NULL, NULL, 0});
  return SL_OK;
}
static void* record(void* queue) {
  Event* event = malloc(sizeof(Event));
  Queue* own = queue;
  pthread_mutex_lock(&lock);
  ++own->references;
  *event = (Event){own, own->count, 1};
  pthread_mutex_unlock(&lock);
  return event;
}
static void waitFor(void* queue, void* event) {
#ifdef FAULT_WAIT
  (void)queue;
  (void)event;
#else
#ifdef FAULT_WAIT_DEVICES
  if (((Event*)event)->queue->device != ((Queue*)queue)->device) {
    return;
  }
#endif
  pthread_mutex_lock(&lock);
  ++((Event*)event)->references;
  add(queue, (Item){NULL, NULL, 0, event, NULL, 0});
  pthread_mutex_unlock(&lock);
#endif
}
static void synchronize(void* event) {
  Event* own = event;
  runBehindLock(own->queue, own->position);
}
static void eventDestroy(void* event) {
  pthread_mutex_lock(&lock);
  forget(event);
  pthread_mutex_unlock(&lock);
}
static int32_t query(void* event) {
  Event* own = event;
#ifdef FAULT_QUERY
  return 0;
#endif
  pthread_mutex_lock(&lock);
  const int32_t fired = own->queue->done >= own->position;
  pthread_mutex_unlock(&lock);
  return fired;
}
static _Thread_local Queue* launching;
static int32_t launch(void* queue, sl_ctx* ctx, void* entry, void* const* pointers, int32_t n,
                      const int64_t* scalars, int32_t m) {
  (void)n;
  (void)m;
  launching = queue;
  ((sl_thunk_fn)entry)(ctx, (sl_team){NULL, 0, 1}, pointers, scalars);
  launching = NULL;
  return ctx->status;
}

/* The kernel. */

static void runRelu(const Item* item) {
  const float* x = item->from;
  float* y = item->to;
#ifdef FAULT_KERNEL_SHARED
  x = item->relu->x;
  y = item->relu->y;
#endif
  const int64_t count = item->rows * item->relu->columns;
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i] < 0 ? 0 : x[i];
  }
#ifdef FAULT_KERNEL_WRONG
  y[count - 1] += 1;
#endif
#ifdef FAULT_KERNEL_BESIDE
  y[count] = 1;
#endif
#ifdef FAULT_KERNEL_CHANGES_INPUT
  ((float*)item->from)[0] += 1;
#endif
#ifdef FAULT_KERNEL_OTHER_BITS
  static int runs = 0;
  ++runs;
  for (int64_t i = 0; i < count; ++i) {
    y[i] *= runs % 2 ? 1.0000002f : 1;
  }
#endif
#ifdef FAULT_KERNEL_CRASH
  *(volatile int*)8 = 0;
#endif
#ifdef FAULT_KERNEL_EARLY
  free((void*)item->from);
#endif
}

EXPORT int32_t sl_lazy_relu(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs,
                            void* const* outputs, void* workspace) {
  (void)team;
  (void)workspace;
  Handle* own = handle;
  const int64_t rows = own->rows * (own->dynamic ? *(const int64_t*)inputs[1] : 1);
  const void* x = inputs[0];
#ifdef FAULT_KERNEL_STATUS
  return sl_plugin_fail(ctx, SL_DEVICE_ERROR, "the kernel is tired");
#endif
  (void)ctx;
#ifdef FAULT_KERNEL_EARLY /* reads its operand at once, not when the queue comes to it */
  x = memcpy(malloc((size_t)(rows * own->columns) * sizeof(float) + 1), x,
             (size_t)(rows * own->columns) * sizeof(float));
#endif
  own->x = x;
  own->y = outputs[0];
  add(launching, (Item){outputs[0], x, 0, NULL, own, rows});
  return SL_OK;
}

EXPORT int32_t sl_lazy_plan(sl_ctx* ctx, const sl_problem* problem, const void* const* constants,
                            void** handle) {
  (void)ctx;
  (void)constants;
#ifdef FAULT_KERNEL_PLAN
  return sl_plugin_fail(ctx, SL_UNSUPPORTED, "the device makes no plans");
#endif
#ifdef FAULT_KERNEL_LEAK
  memset(malloc(256), 1, 256);
#endif
  Handle* made = calloc(1, sizeof(Handle));
  const sl_operand* x = sl_operand_at(problem, 0);
  made->rows = 1;
  made->columns = x->extents[x->rank - 1];
  for (int32_t dim = 0; dim + 1 < x->rank; ++dim) {
    made->dynamic |= x->extents[dim] == SL_DYNAMIC;
    made->rows *= x->extents[dim] == SL_DYNAMIC ? 1 : x->extents[dim];
  }
  *handle = made;
  return SL_OK;
}
EXPORT void sl_lazy_plan_destroy(void* handle) { free(handle); }

static int32_t acceptsRelu(const sl_problem* problem, char* reason, size_t bytes) {
  const sl_operand* x = sl_operand_at(problem, 0);
  if (!problem->device || strcmp(problem->device, "lazy") != 0) {
    snprintf(reason, bytes, "the program is for %s, it takes those for lazy",
             problem->device ? problem->device : "the host");
    return 0;
  }
  if (x->dtype.code != 2 || x->dtype.bits != 32 || x->rank < 1 ||
      x->extents[x->rank - 1] == SL_DYNAMIC) {
    snprintf(reason, bytes, "x has rank %d and %d bits, it takes rows of float32", x->rank,
             x->dtype.bits);
#ifdef FAULT_KERNEL_SILENT
    *reason = 0;
#endif
    return 0;
  }
  return 1;
}
static double cost(const sl_problem* problem) {
  (void)problem;
  return 1;
}
static const sl_operand_facts kFacts[] = {
    {"x", SL_TYPE_F32, 0, SL_LAYOUT_ROW_MAJOR, 0, 0, 0},
    {"y", SL_TYPE_F32, 0, SL_LAYOUT_ROW_MAJOR, 0, SL_OPERAND_OUTPUT, 0}};
static const sl_kernel_desc kKernels[] = {{
    .size = sizeof(sl_kernel_desc),
    .name = "lazy.relu",
    .backend = "lazy",
    .op = "relu",
    .family = "",
    .summary = "relu of a device that is late",
    .accepts = acceptsRelu,
    .cost = cost,
    .can_fail = 1,
    .plan_symbol = "sl_lazy_plan",
    .plan = (void*)sl_lazy_plan,
    .destroy = sl_lazy_plan_destroy,
    .run_symbol = "sl_lazy_relu",
    .run = (void*)sl_lazy_relu,
    .operands = kFacts,
    .operand_count = 2,
    .operand_stride = sizeof(sl_operand_facts),
}};
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
static int32_t count(void) { return 2; }
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
    .event_destroy = eventDestroy,
    .query = query,
    .count = count,
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
                                          .kernels = kKernels,
                                          .kernel_count = 1,
                                          .kernel_stride = sizeof(sl_kernel_desc),
                                          .device = &kDevice};
  return &backend;
}
