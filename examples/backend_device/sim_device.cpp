// SPDX-License-Identifier: Apache-2.0
#include "sim_device.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "compiler.h"
#include "device_memory.h"
#include "kernels.h"
#include "queue.h"
#include "random.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace sim {
namespace {

constexpr char kName[] = "sim";

std::atomic<uint64_t> pinnedBytes{0};

Queue& asQueue(void* queue) { return *static_cast<Queue*>(queue); }
Event& asEvent(void* event) { return *static_cast<Event*>(event); }
bool isThere(int32_t device) { return device >= 0 && device < kDevices; }
int64_t number(const void* address) { return reinterpret_cast<int64_t>(address); }

// --- memory

void* allocate(int32_t device, size_t bytes, size_t alignment) {
  return isThere(device) ? memoryOf(device).allocate(bytes, alignment) : nullptr;
}

void deallocate(int32_t device, void* address, size_t) { memoryOf(device).deallocate(address); }

void* allocateHost(int32_t, size_t bytes, size_t alignment) {
  void* address = nullptr;
  if (posix_memalign(&address, std::max(alignment, sizeof(void*)), bytes ? bytes : 1) != 0) {
    return nullptr;
  }
  pinnedBytes += bytes;
  return address;
}

void deallocateHost(int32_t, void* address, size_t bytes) {
  pinnedBytes -= bytes;
  std::free(address);
}

// --- queues

void* queueCreate(int32_t device) { return isThere(device) ? new Queue(device) : nullptr; }
void queueDestroy(void* queue) { delete &asQueue(queue); }
uint64_t queueOrder(void* queue) { return asQueue(queue).number(); }

/// Our own kernels enqueue themselves (kernels.cpp); any other function would get addresses that
/// fault on the host.
int32_t launch(void* queue, sl_ctx* ctx, void* entry, void* const* pointers, int32_t,
               const int64_t* scalars, int32_t) {
  const int32_t earlier = asQueue(queue).tellFailure(ctx);
  if (earlier != SL_OK) {
    return earlier;
  }
  Queue* const outer = launchingQueue();
  launchingQueue() = &asQueue(queue);
  reinterpret_cast<sl_thunk_fn>(entry)(ctx, sl_team{nullptr, 0, 1}, pointers, scalars);
  launchingQueue() = outer;
  return ctx->status;
}

/// A side of a copy as the worker's address; NULL, with a text: it is not in the space named.
char* resolve(int device, const void* address, const char* space, size_t bytes, const char* side,
              char* text, size_t textBytes) {
  const int owner = deviceOf(address);
  const bool onDevice = std::strcmp(space, kName) == 0;
  if (!onDevice && std::strcmp(space, "host") != 0) {
    std::snprintf(text, textBytes,
                  "a copy's %s is in space '%s', this device copies between "
                  "'host' and 'sim'",
                  side, space);
  } else if (!onDevice && owner < 0) {
    return static_cast<char*>(const_cast<void*>(address));
  } else if (!onDevice) {
    std::snprintf(text, textBytes,
                  "a copy's %s %p is said to be host memory but is an address of "
                  "device %d",
                  side, address, owner);
  } else if (owner != device) {
    std::snprintf(text, textBytes, "a copy's %s %p is said to be memory of device %d but is %s",
                  side, address, device, owner < 0 ? "host memory" : "memory of the other device");
  } else if (void* found = memoryOf(device).translate(address, bytes)) {
    return static_cast<char*>(found);
  } else {
    std::snprintf(text, textBytes, "a copy's %s %p with %zu bytes is not allocated on device %d",
                  side, address, bytes, device);
  }
  return nullptr;
}

void workCopy(Queue&, Item& item) {
  const int64_t* a = item.arguments();
  std::memmove(reinterpret_cast<void*>(a[0]), reinterpret_cast<void*>(a[1]),
               static_cast<size_t>(a[2]));
}

/// A copy of 0 bytes enqueues nothing, but tells an earlier failure as any other does.
int32_t copy(void* queue, sl_ctx* ctx, void* destination, const char* destinationSpace,
             const void* source, const char* sourceSpace, size_t bytes) {
  const int32_t earlier = asQueue(queue).tellFailure(ctx);
  if (earlier != SL_OK || bytes == 0) {
    return earlier;
  }
  char text[256];
  const int device = asQueue(queue).device();
  char* to =
      resolve(device, destination, destinationSpace, bytes, "destination", text, sizeof text);
  char* from =
      to ? resolve(device, source, sourceSpace, bytes, "source", text, sizeof text) : nullptr;
  if (!to || !from) {
    return sl_plugin_fail(ctx, SL_DEVICE_ERROR, text);
  }
  Item item;
  item.function = workCopy;
  int64_t* a = item.reserve(3);
  a[0] = number(to);
  a[1] = number(from);
  a[2] = static_cast<int64_t>(bytes);
  asQueue(queue).enqueue(std::move(item));
  return SL_OK;
}

void finishDevice(int32_t device) { finish(device); }

// --- events

void pointTo(Event* event, Queue& queue, uint64_t item) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  event->progress = queue.progress();
  event->item = item;
}

/// An item that stores the time, for events that keep it.
uint64_t enqueueTime(Queue& queue, const Event& event) {
  Item item;
  item.function = [](Queue&, Item& self) {
    *static_cast<std::atomic<int64_t>*>(self.held.get()) = nowNs();
  };
  item.held = event.firedNs;
  return queue.enqueue(std::move(item));
}

void* record(void* queue) {
  auto* event = new Event;
  pointTo(event, asQueue(queue), asQueue(queue).enqueued());
  return event;
}

void* recordTimed(void* queue) {
  auto* event = new Event;
  event->firedNs = std::make_shared<std::atomic<int64_t>>(0);
  pointTo(event, asQueue(queue), enqueueTime(asQueue(queue), *event));
  return event;
}

int32_t recordAgain(void* queue, void* event) {
  Event& moved = asEvent(event);
  Queue& on = asQueue(queue);
  if (moved.firedNs) {
    moved.firedNs = std::make_shared<std::atomic<int64_t>>(0);
    pointTo(&moved, on, enqueueTime(on, moved));
  } else {
    pointTo(&moved, on, on.enqueued());
  }
  return 1;
}

std::pair<std::shared_ptr<Progress>, uint64_t> pointOf(void* event) {
  const std::lock_guard<std::mutex> lock(asEvent(event).mutex);
  return {asEvent(event).progress, asEvent(event).item};
}

void wait(void* queue, void* event) {
  auto [progress, point] = pointOf(event);
  if (progress->passed(point) || progress == asQueue(queue).progress()) {
    return;  // a queue is always behind its own points
  }
  Item item;
  item.function = [](Queue&, Item& self) {
    static_cast<Progress*>(self.held.get())->await(static_cast<uint64_t>(self.arguments()[0]));
  };
  item.held = progress;
  item.reserve(1)[0] = static_cast<int64_t>(point);
  asQueue(queue).enqueue(std::move(item));
}

void synchronize(void* event) {
  const auto [progress, point] = pointOf(event);
  progress->await(point);
}

void eventDestroy(void* event) { delete &asEvent(event); }

int32_t query(void* event) {
  const auto [progress, point] = pointOf(event);
  return progress->passed(point) ? 1 : 0;
}

double elapsedMs(void* first, void* second) {
  return static_cast<double>(*asEvent(second).firedNs - *asEvent(first).firedNs) / 1e6;
}

// --- machine code

int32_t load(int32_t device, const sl_device_code* code, void** kernel, char* reason,
             size_t reasonBytes) {
  if (!isThere(device)) {
    std::snprintf(reason, reasonBytes, "device %d is not there, there are %d", device, kDevices);
    return SL_INVALID_ARGUMENT;
  }
  *kernel = loadKernel(code, reason, reasonBytes);
  return *kernel ? SL_OK : SL_DEVICE_ERROR;
}

void unload(void* kernel) {
  for (int device = 0; device < kDevices; ++device) {
    finish(device);  // whatever was started with it
  }
  unloadKernel(static_cast<Kernel*>(kernel));
}

void failBecause(Queue& queue, const char* kernel, int32_t argument, int64_t value) {
  sl_ctx context = {};
  context.status = SL_DEVICE_ERROR;
  std::snprintf(context.text, sizeof context.text, "argument %d, %p, is %s device %d", argument,
                reinterpret_cast<void*>(value),
                deviceOf(reinterpret_cast<void*>(value)) == queue.device()
                    ? "freed memory of"
                    : "memory of the other device, not of",
                queue.device());
  queue.fail(kernel, context);
}

/// Runs a kernel of ours: its arguments, those that are addresses as the worker's.
void workStart(Queue& queue, Item& item) {
  const auto* kernel = static_cast<const Kernel*>(item.code);
  int64_t* values = item.arguments();
  void* few[Item::kInline];
  std::vector<void*> many(item.count > Item::kInline ? static_cast<size_t>(item.count) : 0);
  void** addresses = many.empty() ? few : many.data();
  for (int32_t i = 0; i < item.count; ++i) {
    const void* value = reinterpret_cast<const void*>(values[i]);
    if (deviceOf(value) >= 0) {
      void* found = memoryOf(queue.device()).translate(value);
      if (!found) {
        failBecause(queue, kernel->name, i, values[i]);
        return;
      }
      values[i] = number(found);
    }
    addresses[i] = &values[i];
  }
  static thread_local sl_ctx context;
  std::memset(&context, 0, offsetof(sl_ctx, text) + 1);
  context.size = sizeof context;
  context.statement = -1;
  context.device = queue.device();
  context.overlap = 0;
  context.behind = nullptr;
  kernel->start(&context, sl_team{nullptr, 0, 1}, addresses);
  if (context.status != SL_OK) {
    queue.fail(kernel->name, context);
  }
}

int32_t start(void* queue, sl_ctx* ctx, void* kernel, const sl_grid*, void* const* arguments) {
  const int32_t earlier = asQueue(queue).tellFailure(ctx);
  if (earlier != SL_OK) {
    return earlier;
  }
  const auto* code = static_cast<const Kernel*>(kernel);
  Item item;
  item.function = workStart;
  item.code = code;
  int64_t* values = item.reserve(code->argumentCount);
  for (int32_t i = 0; i < code->argumentCount; ++i) {
    std::memcpy(&values[i], arguments[i], sizeof values[i]);
  }
  asQueue(queue).enqueue(std::move(item));
  return SL_OK;
}

// --- random numbers

/// kind and dtype, address, count, seed, offset
void workRandom(Queue&, Item& item) {
  const int64_t* a = item.arguments();
  const sl_dtype dtype = {static_cast<uint8_t>(a[1] & 255), static_cast<uint8_t>(a[1] >> 8), 1};
  fillRandom(static_cast<int32_t>(a[0]), dtype, reinterpret_cast<void*>(a[2]), a[3],
             static_cast<uint64_t>(a[4]), static_cast<uint64_t>(a[5]));
}

int32_t random(void* queue, sl_ctx* ctx, int32_t kind, sl_dtype dtype, void* address, int64_t count,
               uint64_t seed, uint64_t offset) {
  const int32_t earlier = asQueue(queue).tellFailure(ctx);
  if (earlier != SL_OK || count == 0) {
    return earlier;
  }
  char text[256];
  if (const char* why = whyNotRandom(kind, dtype)) {
    std::snprintf(text, sizeof text, "random numbers of kind %d and dtype (%d, %d): %s", kind,
                  dtype.code, dtype.bits, why);
    return sl_plugin_fail(ctx, SL_UNSUPPORTED, text);
  }
  const size_t bytes = static_cast<size_t>(count) * (dtype.bits / 8);
  const char* to =
      resolve(asQueue(queue).device(), address, kName, bytes, "destination", text, sizeof text);
  if (!to) {
    return sl_plugin_fail(ctx, SL_DEVICE_ERROR, text);
  }
  Item item;
  item.function = workRandom;
  int64_t* a = item.reserve(6);
  a[0] = kind;
  a[1] = dtype.code | dtype.bits << 8;
  a[2] = number(to);
  a[3] = count;
  a[4] = static_cast<int64_t>(seed);
  a[5] = static_cast<int64_t>(offset);
  asQueue(queue).enqueue(std::move(item));
  return SL_OK;
}

// --- the description

int32_t count() { return kDevices; }

void properties(int32_t device, sl_device_properties* known) {
  known->name = "Simulated accelerator";
  known->memory_bytes = memoryOf(device).limit();
  known->vector_bytes = 32;
#if defined(__x86_64__)
  known->vector_bytes = __builtin_cpu_supports("avx512f") ? 64
                        : __builtin_cpu_supports("avx2")  ? 32
                                                          : 16;
#endif
  known->start_us = 0.5;
  known->bytes_per_us = 5000;
}

const char* missing(int32_t device) {
  return isThere(device) ? nullptr : "there are two simulated devices, numbers 0 and 1";
}

int32_t failure(void* queue, sl_ctx* ctx) { return asQueue(queue).tellFailure(ctx); }

sl_device_desc describeDevice() {
  sl_device_desc device = {};
  device.size = sizeof device;
  device.space = kName;
  device.host_access = 0;
  device.allocate = allocate;
  device.deallocate = deallocate;
  device.queue_create = queueCreate;
  device.queue_destroy = queueDestroy;
  device.launch = launch;
  device.copy = copy;
  device.record = record;
  device.wait = wait;
  device.synchronize = synchronize;
  device.event_destroy = eventDestroy;
  device.query = query;
  device.load = load;
  device.unload = unload;
  device.start = start;
  device.independent = 1;
  device.queue_order = queueOrder;
  device.record_again = recordAgain;
  device.finish = finishDevice;
  device.missing = missing;
  device.count = count;
  device.properties = properties;
  device.compile = compile;
  device.compiler = compilerVersion;
  device.allocate_host = allocateHost;
  device.deallocate_host = deallocateHost;
  device.record_timed = recordTimed;
  device.elapsed_ms = elapsedMs;
  device.random = random;
  device.random_step = randomStep;
  // As a device that has kernels of its own alone.
  const char* compiles = std::getenv("SIM_DEVICE_COMPILES");
  if (compiles && std::strcmp(compiles, "0") == 0) {
    device.compile = nullptr;
    device.compiler = nullptr;
  }
  device.failure = failure;
  return device;
}

}  // namespace
}  // namespace sim

EXPORT const sl_backend_desc* straightline_backend_v1(void) {
  static const sl_device_desc device = sim::describeDevice();
  static const sl_backend_desc backend = [] {
    sl_backend_desc made = {};
    made.size = sizeof made;
    made.abi_version = SL_KERNEL_ABI_VERSION;
    made.name = sim::kName;
    made.kernels = sim::kKernels;
    made.kernel_count = sim::kKernelCount;
    made.kernel_stride = sizeof(sl_kernel_desc);
    made.device = &device;
    made.version = [] { return "simulated device 1"; };
    return made;
  }();
  return &backend;
}

EXPORT void sim_device_set_delay(int64_t microseconds, uint64_t seed) {
  sim::setDelay(microseconds, seed);
}
EXPORT void sim_device_hold(int32_t held) { sim::setHeld(held != 0); }
EXPORT void sim_device_set_limit(int32_t device, uint64_t bytes) {
  if (sim::isThere(device)) {
    sim::memoryOf(device).setLimit(bytes);
  }
}
EXPORT uint64_t sim_device_live_bytes(int32_t device) {
  return sim::isThere(device) ? sim::memoryOf(device).liveBytes() : 0;
}
EXPORT uint64_t sim_device_pinned_bytes(void) { return sim::pinnedBytes; }
EXPORT int64_t sim_device_executed(void) { return sim::executedItems(); }
