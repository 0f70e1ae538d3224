// SPDX-License-Identifier: Apache-2.0
// The plug-in's device as torch's PrivateUse1. Built for one version of torch, by the package's
// build (python/torch_device.cmake) or where it is imported (straightline/torch_device/_build.py);
// all of what torch's C++ API is needed for is in this folder. Any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <string>

#include "straightline/abi/straightline.h"

namespace sl_torch {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

/// The backend's name ("sim") and its device; set once, before anything else is called.
const char* backend();
const sl_device_desc& device();
int deviceCount();
/// Opens the backend; an error names what is missing.
void openBackend(const char* name);

// --- current device and streams

c10::DeviceIndex currentDevice();
c10::DeviceIndex exchangeDevice(c10::DeviceIndex index);
/// Refuses a number that no device has.
c10::DeviceIndex checked(c10::DeviceIndex index);
/// -1 becomes the current one.
c10::DeviceIndex resolved(c10::Device device);

/// Id of the stream on which this thread uses a device; 0 is the default one.
c10::StreamId currentStream(c10::DeviceIndex index);
c10::StreamId exchangeStream(c10::DeviceIndex index, c10::StreamId id);
/// One of the pool of a device, in turns.
c10::StreamId newStream(c10::DeviceIndex index);
sl_queue* queueOf(c10::DeviceIndex index, c10::StreamId id);
/// The current stream's queue, and what the device's functions take for it.
sl_queue* currentQueue(c10::DeviceIndex index);
/// Whether this process was forked from one that had used the device.
bool isForked();
/// Throws if it was; `currentQueue` does, too. A first call of an op asks before it compiles.
void checkProcess(c10::DeviceIndex index);
inline void* currentHandle(c10::DeviceIndex index) { return sl_queue_handle(currentQueue(index)); }

// --- work that is enqueued

/// A context for the device's functions.
sl_ctx newContext(c10::DeviceIndex index);
/// Raises what a function of the device or a run reported: IndexError, ZeroDivisionError or
/// RuntimeError. Nothing for SL_OK.
void check(int32_t status, const sl_ctx& ctx, const char* what);
/// Raises the error of a status with its whole text.
[[noreturn]] void raise(int32_t status, const std::string& text);
/// Copies between host and device on the current stream of `index`.
void copyToDevice(c10::DeviceIndex index, void* to, const void* from, size_t bytes);
void copyToHost(c10::DeviceIndex index, void* to, const void* from, size_t bytes);
void copyWithin(c10::DeviceIndex index, void* to, const void* from, size_t bytes);
/// Blocks until the current stream has passed everything; a failure of its work is raised.
void waitForCurrent(c10::DeviceIndex index);
void waitForQueue(c10::DeviceIndex index, sl_queue* queue);
/// Blocks until all streams of the device have; likewise.
void waitForDevice(c10::DeviceIndex index);

// --- memory

c10::DeviceAllocator* allocator();
c10::Allocator* pinnedAllocator();
bool isPinned(const void* data);
/// The pinned block of `data` is in use until the current stream of `index` has passed this point.
void usePinned(c10::DeviceIndex index, const void* data);
void registerMemory();

// --- random numbers

/// Seed and offset for work that draws `step` counters, which the generator has then used. Without
/// a generator: the device's default one.
struct Draw {
  uint64_t seed, offset;
};
Draw draw(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t step);
const at::Generator& defaultGenerator(c10::DeviceIndex index);

/// Registers guard, hooks and generators.
void registerClasses();

}  // namespace sl_torch
