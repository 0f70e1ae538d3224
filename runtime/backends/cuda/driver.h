// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, opened when it is first used: nothing of it is needed to build. The prototypes are those of the driver
// API (https://docs.nvidia.com/cuda/cuda-driver-api), version 12.0 and later, the declarations are ours.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_DRIVER_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_DRIVER_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "straightline/abi/cuda_calls.h"

namespace straightline::cuda {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;
inline constexpr unsigned kEventWithoutTiming = 2;

using Device = int;
using Address = unsigned long long;
struct Context_;
struct Stream_;
struct Event_;
struct Library_;
struct Kernel_;
using Context = Context_*;
using Stream = Stream_*;
using Event = Event_*;
using Library = Library_*;
using Kernel = Kernel_*;

/// (member, symbol in the library, kind of sl_cuda_calls that counts it, parameters)
#define SL_CUDA_DRIVER(ENTRY)                                                                                       \
  ENTRY(init, cuInit, others, (unsigned flags))                                                                     \
  ENTRY(driverVersion, cuDriverGetVersion, others, (int* version))                                                  \
  ENTRY(deviceGet, cuDeviceGet, others, (Device * device, int ordinal))                                             \
  ENTRY(primaryContext, cuDevicePrimaryCtxRetain, others, (Context * context, Device device))                       \
  ENTRY(currentContext, cuCtxGetCurrent, others, (Context * context))                                               \
  ENTRY(setContext, cuCtxSetCurrent, others, (Context context))                                                     \
  ENTRY(finish, cuCtxSynchronize, synchronizations, ())                                                             \
  ENTRY(errorName, cuGetErrorName, others, (Result error, const char** name))                                       \
  ENTRY(errorText, cuGetErrorString, others, (Result error, const char** text))                                     \
  ENTRY(libraryLoad, cuLibraryLoadData, loads,                                                                      \
        (Library * library, const void* code, void* jitOptions, void** jitValues, unsigned jitCount,                \
         void* options, void** values, unsigned count))                                                             \
  ENTRY(libraryUnload, cuLibraryUnload, loads, (Library library))                                                   \
  ENTRY(libraryKernel, cuLibraryGetKernel, loads, (Kernel * kernel, Library library, const char* name))             \
  ENTRY(launch, cuLaunchKernel, launches,                                                                           \
        (Kernel kernel, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,           \
         unsigned blockZ, unsigned sharedBytes, Stream stream, void** arguments, void** extra))                     \
  ENTRY(allocate, cuMemAlloc_v2, allocations, (Address * address, size_t bytes))                                    \
  ENTRY(release, cuMemFree_v2, allocations, (Address address))                                                      \
  ENTRY(copyToDevice, cuMemcpyHtoDAsync_v2, copies, (Address to, const void* from, size_t bytes, Stream stream))    \
  ENTRY(copyToHost, cuMemcpyDtoHAsync_v2, copies, (void* to, Address from, size_t bytes, Stream stream))            \
  ENTRY(copyOnDevice, cuMemcpyDtoDAsync_v2, copies, (Address to, Address from, size_t bytes, Stream stream))        \
  ENTRY(streamCreate, cuStreamCreate, others, (Stream * stream, unsigned flags))                                    \
  ENTRY(streamDestroy, cuStreamDestroy_v2, others, (Stream stream))                                                 \
  ENTRY(streamSynchronize, cuStreamSynchronize, synchronizations, (Stream stream))                                  \
  ENTRY(streamWait, cuStreamWaitEvent, events, (Stream stream, Event event, unsigned flags))                        \
  ENTRY(eventCreate, cuEventCreate, events, (Event * event, unsigned flags))                                        \
  ENTRY(eventDestroy, cuEventDestroy_v2, events, (Event event))                                                     \
  ENTRY(eventRecord, cuEventRecord, events, (Event event, Stream stream))                                           \
  ENTRY(eventQuery, cuEventQuery, events, (Event event))                                                            \
  ENTRY(eventSynchronize, cuEventSynchronize, synchronizations, (Event event))

/// Calls so far, by kind. Relaxed: they are looked at, nothing is ordered by them.
struct Counters {
  std::atomic<int64_t> launches{0}, copies{0}, allocations{0}, events{0}, synchronizations{0}, loads{0}, others{0};
};
Counters& counters();

/// One function of the driver; calling it counts.
template <class... P>
class Entry {
 public:
  Result operator()(P... arguments) const {
    count->fetch_add(1, std::memory_order_relaxed);
    return function(arguments...);
  }
  Result (*function)(P...) = nullptr;
  std::atomic<int64_t>* count = nullptr;
};

template <class F>
struct EntryOf;
template <class... P>
struct EntryOf<Result(P...)> {
  using type = Entry<P...>;
};

/// The functions, with the primary context of device 0, which frameworks use as well.
struct Driver {
#define SL_CUDA_MEMBER(member, symbol, kind, parameters) EntryOf<Result parameters>::type member;
  SL_CUDA_DRIVER(SL_CUDA_MEMBER)
#undef SL_CUDA_MEMBER
  Context context = nullptr;
  std::string error;  ///< why it cannot be used; empty when it can

  /// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
  std::string words(Result result) const;
  /// Makes the context the calling thread's when it is not.
  Result enter() const;
};

/// Opened by the first call; any thread. Look at `error` first.
const Driver& driver();

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_DRIVER_H
