// SPDX-License-Identifier: Apache-2.0
#include "driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace straightline::cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr int kOldest = 12000;  ///< the first driver with cuLibraryLoadData

/// Fills the table; returns an error message, or an empty string.
std::string bind(Driver* driver, void* library) {
#define SL_CUDA_TAKE(member, symbol, kind, parameters)                              \
  driver->member.function =                                                         \
      reinterpret_cast<decltype(driver->member.function)>(dlsym(library, #symbol)); \
  driver->member.count = &counters().kind;
  SL_CUDA_NEWER_DRIVER(SL_CUDA_TAKE)
#define SL_CUDA_BIND(member, symbol, kind, parameters)                           \
  SL_CUDA_TAKE(member, symbol, kind, parameters)                                 \
  if (!driver->member.function) {                                                \
    return std::string(kLibrary) + " has no " #symbol                            \
                                   ": a driver of CUDA 12.0 or newer is needed"; \
  }
  SL_CUDA_DRIVER(SL_CUDA_BIND)
#undef SL_CUDA_BIND
#undef SL_CUDA_TAKE
  return "";
}

std::string open(Driver* driver) {
  // never closed: frameworks use it as well
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    return std::string("NVIDIA's driver ") + kLibrary +
           " cannot be opened: " + (reason ? reason : "no reason given");
  }
  if (std::string error = bind(driver, library); !error.empty()) {
    return error;
  }
  if (const Result result = driver->init(0); result != kSuccess) {
    return "NVIDIA's driver finds no device: " + driver->words(result);
  }
  int& version = driver->version;
  driver->driverVersion(&version);
  if (version < kOldest) {
    return "NVIDIA's driver is for CUDA " + std::to_string(version / 1000) + "." +
           std::to_string(version % 1000 / 10) + " but 12.0 or newer is needed";
  }
  driver->process = getpid();
  const char* waits = std::getenv("STRAIGHTLINE_SYNC");
  driver->waits = waits && std::strcmp(waits, "1") == 0;
  return "";
}

/// Fills the properties of a device.
void open(OpenDevice* device) {
  const Driver& driver = device->driver;
  if (!driver.error.empty()) {
    device->error = driver.error;
    return;
  }
  int count = 0;
  driver.deviceCount(&count);
  if (device->number < 0 || device->number >= count) {
    device->result = kInvalidDevice;
    device->error = "there is no device " + std::to_string(device->number) +
                    ": NVIDIA's driver has " + std::to_string(count);
    return;
  }
  Device handle = 0;
  device->result = driver.deviceGet(&handle, device->number);
  if (device->result == kSuccess) {
    device->result = driver.primaryContext(&device->context, handle);
  }
  driver.deviceAttribute(&device->major, kComputeMajor, handle);
  driver.deviceAttribute(&device->minor, kComputeMinor, handle);
  if (device->result != kSuccess) {
    device->error = "device " + std::to_string(device->number) +
                    " cannot be used: " + driver.words(device->result);
  }
}

}  // namespace

Counters& counters() {
  static Counters* const instance = new Counters;
  return *instance;
}

namespace {

/// Advice for the user about an error, where there is any.
const char* advice(const Driver& driver, Result result) {
  if (result >= kFirstOfKernels && result <= kLastOfKernels && !driver.waits) {
    return "; some kernel before this may be the cause: STRAIGHTLINE_SYNC=1 names it";
  }
  if (result == kNotInitialized && driver.process != getpid()) {
    return "; this process was forked from one that had used the device: spawn it instead";
  }
  return "";
}

}  // namespace

std::string Driver::words(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  errorName(result, &name);
  errorText(result, &text);
  return std::string(name ? name : "an unknown error") + " (" + std::to_string(result) + ")" +
         (text ? std::string(": ") + text : "") + advice(*this, result);
}

const Driver& driver() {
  static const Driver* const instance = [] {
    auto* made = new Driver;  // never destroyed: exit handlers may still free device memory
    made->error = open(made);
    return made;
  }();
  return *instance;
}

const OpenDevice& openDevice(int32_t number) {
  constexpr int32_t kMost = 64;
  // never destroyed; the last one stands for numbers that no machine has
  static std::atomic<const OpenDevice*> known[kMost + 1];
  static std::mutex mutex;
  std::atomic<const OpenDevice*>& place = known[number >= 0 && number < kMost ? number : kMost];
  if (const OpenDevice* device = place.load(std::memory_order_acquire)) {
    return *device;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  if (!place.load(std::memory_order_relaxed)) {
    auto* made = new OpenDevice{driver(), number};
    open(made);
    place.store(made, std::memory_order_release);
  }
  return *place;
}

}  // namespace straightline::cuda

void sl_cuda_count(sl_cuda_calls* calls) {
  using straightline::cuda::counters;
  calls->launches = counters().launches;
  calls->copies = counters().copies;
  calls->allocations = counters().allocations;
  calls->events = counters().events;
  calls->synchronizations = counters().synchronizations;
  calls->loads = counters().loads;
  calls->others = counters().others;
  if (calls->size >= offsetof(sl_cuda_calls, instantiations) + sizeof(int64_t)) {
    calls->graph_launches = counters().graph_launches;
    calls->node_updates = counters().node_updates;
    calls->instantiations = counters().instantiations;
  }
  if (calls->size >= offsetof(sl_cuda_calls, captures) + sizeof(int64_t)) {
    calls->captures = counters().captures;
  }
}

namespace {

/// Calls `wait` with the device's context, and writes what the driver says against it.
template <typename Wait>
int32_t finished(int32_t device, char* text, size_t bytes, const Wait& wait) {
  const straightline::cuda::OpenDevice& open = straightline::cuda::openDevice(device);
  const straightline::cuda::Entered entered(open);
  const straightline::cuda::Result result = entered ? wait(open.driver) : entered.result;
  if (result == straightline::cuda::kSuccess) {
    return SL_OK;
  }
  std::snprintf(text, bytes, "cuda:%d: %s", device, open.words(result).c_str());
  return SL_DEVICE_ERROR;
}

}  // namespace

int32_t sl_cuda_finish_stream(int32_t device, void* stream, char* text, size_t bytes) {
  return finished(device, text, bytes, [&](const straightline::cuda::Driver& driver) {
    return driver.streamSynchronize(static_cast<straightline::cuda::Stream>(stream));
  });
}

int32_t sl_cuda_finish(int32_t device, char* text, size_t bytes) {
  return finished(device, text, bytes,
                  [](const straightline::cuda::Driver& driver) { return driver.finish(); });
}

const char* sl_cuda_missing(void) { return straightline::cuda::driver().error.c_str(); }
