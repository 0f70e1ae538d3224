// SPDX-License-Identifier: Apache-2.0
#include "test_device.h"

#include <cstring>
#include <vector>

#include "device_memory.h"
#include "late_queue.h"

namespace straightline::test_device {
namespace {

constexpr char kName[] = "test_device";

using EventRef = std::shared_ptr<Event>;

LateQueue* asQueue(void* queue) { return static_cast<LateQueue*>(queue); }
EventRef& asEvent(void* event) { return *static_cast<EventRef*>(event); }

bool isThere(int32_t device) { return device >= 0 && device < kDevices; }
void* allocate(int32_t device, size_t bytes, size_t alignment) {
  return isThere(device) ? deviceMemory(device).allocate(bytes, alignment) : nullptr;
}
void deallocate(int32_t device, void* address, size_t) { deviceMemory(device).deallocate(address); }
void* queueCreate(int32_t device) { return isThere(device) ? new LateQueue(device) : nullptr; }
void queueDestroy(void* queue) { delete asQueue(queue); }

/// Runs on the worker. An address that is not this device's is a bug of the program, told as such.
void runLaunch(int device, sl_ctx* ctx, sl_thunk_fn entry, std::vector<void*> pointers,
               const std::vector<int64_t>& scalars) {
  for (void*& pointer : pointers) {
    void* translated = pointer ? deviceMemory(device).translate(pointer) : nullptr;
    if (pointer && !translated) {
      sl_fail(ctx, SL_INTERNAL, reinterpret_cast<intptr_t>(pointer), 0, 0);
      return;
    }
    pointer = translated;
  }
  entry(ctx, sl_team{nullptr, 0, 1}, pointers.data(), scalars.data());
}

int32_t launch(void* queue, sl_ctx* ctx, void* entry, void* const* pointers, int32_t pointerCount,
               const int64_t* scalars, int32_t scalarCount) {
  std::vector<void*> ownPointers(pointers, pointers + pointerCount);
  std::vector<int64_t> ownScalars(scalars, scalars + scalarCount);
  const int device = asQueue(queue)->device();
  asQueue(queue)->enqueue([=, pointers = std::move(ownPointers), scalars = std::move(ownScalars)] {
    runLaunch(device, ctx, reinterpret_cast<sl_thunk_fn>(entry), pointers, scalars);
  });
  return SL_OK;
}

/// The address that the worker may use for one side of a copy, null when it is not in the space
/// that was named.
void* resolve(int device, const void* address, const char* space, size_t bytes) {
  void* translated = deviceMemory(device).translate(address, bytes);
  const bool onDevice = std::strcmp(space, kName) == 0;
  if (onDevice) {
    return translated;
  }
  const bool elsewhere = !translated && deviceMemory(1 - device).translate(address, bytes);
  const bool onHost = std::strcmp(space, "host") == 0 && !translated && !elsewhere;
  return onHost ? const_cast<void*>(address) : nullptr;
}

int32_t copy(void* queue, sl_ctx* ctx, void* destination, const char* destinationSpace,
             const void* source, const char* sourceSpace, size_t bytes) {
  if (bytes == 0) {
    return SL_OK;
  }
  const int device = asQueue(queue)->device();
  void* to = resolve(device, destination, destinationSpace, bytes);
  void* from = resolve(device, source, sourceSpace, bytes);
  if (!to || !from) {
    sl_fail(ctx, SL_INTERNAL, reinterpret_cast<intptr_t>(destination),
            reinterpret_cast<intptr_t>(source), static_cast<int64_t>(bytes));
    return SL_INTERNAL;
  }
  asQueue(queue)->enqueue([=] { std::memcpy(to, from, bytes); });
  return SL_OK;
}

void* record(void* queue) {
  auto event = std::make_shared<Event>();
  asQueue(queue)->enqueue([event] { event->fire(); });
  return new EventRef(std::move(event));
}

void wait(void* queue, void* event) {
  asQueue(queue)->enqueue([event = asEvent(event)] { event->wait(); });
}

void synchronize(void* event) { asEvent(event)->wait(); }
void eventDestroy(void* event) { delete static_cast<EventRef*>(event); }
int32_t query(void* event) { return asEvent(event)->fired() ? 1 : 0; }
uint64_t queueOrder(void* queue) { return asQueue(queue)->number(); }

sl_device_desc device = {sizeof(sl_device_desc),
                         kName,
                         0,
                         allocate,
                         deallocate,
                         queueCreate,
                         queueDestroy,
                         launch,
                         copy,
                         record,
                         wait,
                         synchronize,
                         eventDestroy,
                         query,
                         nullptr,
                         nullptr,
                         nullptr,
                         nullptr,
                         0,
                         queueOrder,
                         nullptr,
                         nullptr,
                         [](int32_t) { waitForAll(); }};

const sl_backend_desc kBackend = {
    sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, kName, nullptr, 0, &device};

}  // namespace
}  // namespace straightline::test_device

const sl_backend_desc* straightline_backend_v1(void) {
  return &straightline::test_device::kBackend;
}

void sl_test_device_set_delay(int64_t microseconds) {
  straightline::test_device::setDelay(std::chrono::microseconds(microseconds));
}

void sl_test_device_hold(int32_t held) { straightline::test_device::setHeld(held != 0); }

void sl_test_device_set_independent(int32_t independent) {
  straightline::test_device::device.independent = independent;
}

size_t sl_test_device_live_bytes(void) {
  return sl_test_device_live_bytes_on(0) + sl_test_device_live_bytes_on(1);
}

size_t sl_test_device_live_bytes_on(int32_t device) {
  return straightline::test_device::deviceMemory(device).liveBytes();
}

int64_t sl_test_device_executed(void) { return straightline::test_device::executedItems(); }

void* sl_test_device_translate(void* device_address) {
  using straightline::test_device::deviceMemory;
  void* first = deviceMemory(0).translate(device_address);
  return first ? first : deviceMemory(1).translate(device_address);
}
