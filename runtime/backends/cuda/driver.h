// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver, opened when it is first used; building needs nothing of it. The prototypes are
// those of the driver API (https://docs.nvidia.com/cuda/cuda-driver-api), version 12.0 and later;
// the declarations are ours.
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
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kNoImageForDevice = 209;
inline constexpr Result kNewerImage = 222;
inline constexpr Result kNotReady = 600;
/// up to kLastOfKernels: a kernel failed, and with it the context
inline constexpr Result kFirstOfKernels = 700;
inline constexpr Result kLastOfKernels = 720;
inline constexpr unsigned kEventWithoutTiming = 2;
/// CU_STREAM_NON_BLOCKING: the default stream and this one do not wait for each other
inline constexpr unsigned kStreamNonBlocking = 1;

using Device = int;
using Address = unsigned long long;
struct Context_;
struct Stream_;
struct Event_;
struct Library_;
struct Kernel_;
struct Graph_;
struct GraphNode_;
struct GraphExec_;
using Context = Context_*;
using Stream = Stream_*;
using Event = Event_*;
using Library = Library_*;
using Kernel = Kernel_*;
using Graph = Graph_*;
using GraphNode = GraphNode_*;
using GraphExec = GraphExec_*;

/// CUlaunchAttribute.
struct LaunchAttribute {
  unsigned id;
  unsigned char reserved[4];
  unsigned value;
  unsigned char unused[60];
};
/// CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
inline constexpr unsigned kCooperative = 2, kProgrammaticSerialization = 6;

/// CUlaunchAttributeValue.
struct LaunchAttributeValue {
  unsigned value;
  unsigned char unused[60];
};

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attributeCount;
};

/// CUDA_KERNEL_NODE_PARAMS, version 2. One of `function` and `kernel` is null.
struct KernelNodeParameters {
  void* function;
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void** arguments;
  void** extra;
  Kernel kernel;
  Context context;
};

/// CUDA_MEMCPY3D: where it comes from and where it goes.
struct CopySide {
  size_t x, y, z, level;
  unsigned kind;
  const void* host;
  Address device;
  void* array;
  void* reserved;
  size_t pitch, height;
};
struct CopyParameters {
  CopySide from, to;
  size_t widthBytes, height, depth;
};
inline constexpr unsigned kDeviceMemory = 2;

/// CUgraphEdgeData.
struct EdgeData {
  unsigned char fromPort, toPort, type, reserved[5];
};

inline constexpr int kComputeMajor = 75;  ///< CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kComputeMinor = 76;
/// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int kDynamicSharedBytes = 8;
/// of CUstreamCaptureMode: other threads' captures forbid this thread nothing
inline constexpr int kRelaxed = 2;
inline constexpr uintptr_t kLegacyStream = 1;  ///< the default stream of a context, as 0 is
/// the handle that means another stream in each thread
inline constexpr uintptr_t kPerThreadStream = 2;

/// (member, symbol in the library, kind of sl_cuda_calls that counts it, parameters)
#define SL_CUDA_DRIVER(ENTRY)                                                                      \
  ENTRY(init, cuInit, others, (unsigned flags))                                                    \
  ENTRY(driverVersion, cuDriverGetVersion, others, (int* version))                                 \
  ENTRY(deviceCount, cuDeviceGetCount, others, (int* count))                                       \
  ENTRY(deviceGet, cuDeviceGet, others, (Device * device, int ordinal))                            \
  ENTRY(deviceAttribute, cuDeviceGetAttribute, others, (int* value, int attribute, Device device)) \
  ENTRY(primaryContext, cuDevicePrimaryCtxRetain, others, (Context * context, Device device))      \
  ENTRY(currentContext, cuCtxGetCurrent, others, (Context * context))                              \
  ENTRY(setContext, cuCtxSetCurrent, others, (Context context))                                    \
  ENTRY(finish, cuCtxSynchronize, synchronizations, ())                                            \
  ENTRY(errorName, cuGetErrorName, others, (Result error, const char** name))                      \
  ENTRY(errorText, cuGetErrorString, others, (Result error, const char** text))                    \
  ENTRY(libraryLoad, cuLibraryLoadData, loads,                                                     \
        (Library * library, const void* code, void* jitOptions, void** jitValues,                  \
         unsigned jitCount, void* options, void** values, unsigned count))                         \
  ENTRY(libraryUnload, cuLibraryUnload, loads, (Library library))                                  \
  ENTRY(libraryKernel, cuLibraryGetKernel, loads,                                                  \
        (Kernel * kernel, Library library, const char* name))                                      \
  ENTRY(kernelAttribute, cuKernelSetAttribute, loads,                                              \
        (int attribute, int value, Kernel kernel, Device device))                                  \
  ENTRY(launch, cuLaunchKernel, launches,                                                          \
        (Kernel kernel, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,           \
         unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream stream, void** arguments,  \
         void** extra))                                                                            \
  ENTRY(allocate, cuMemAlloc_v2, allocations, (Address * address, size_t bytes))                   \
  ENTRY(release, cuMemFree_v2, allocations, (Address address))                                     \
  ENTRY(copyToDevice, cuMemcpyHtoDAsync_v2, copies,                                                \
        (Address to, const void* from, size_t bytes, Stream stream))                               \
  ENTRY(copyToHost, cuMemcpyDtoHAsync_v2, copies,                                                  \
        (void* to, Address from, size_t bytes, Stream stream))                                     \
  ENTRY(copyOnDevice, cuMemcpyDtoDAsync_v2, copies,                                                \
        (Address to, Address from, size_t bytes, Stream stream))                                   \
  ENTRY(streamCreate, cuStreamCreate, others, (Stream * stream, unsigned flags))                   \
  ENTRY(streamDestroy, cuStreamDestroy_v2, others, (Stream stream))                                \
  ENTRY(streamSynchronize, cuStreamSynchronize, synchronizations, (Stream stream))                 \
  ENTRY(streamWait, cuStreamWaitEvent, events, (Stream stream, Event event, unsigned flags))       \
  ENTRY(eventCreate, cuEventCreate, events, (Event * event, unsigned flags))                       \
  ENTRY(eventDestroy, cuEventDestroy_v2, events, (Event event))                                    \
  ENTRY(eventRecord, cuEventRecord, events, (Event event, Stream stream))                          \
  ENTRY(eventQuery, cuEventQuery, events, (Event event))                                           \
  ENTRY(eventSynchronize, cuEventSynchronize, synchronizations, (Event event))                     \
  ENTRY(streamCapturing, cuStreamIsCapturing, others, (Stream stream, int* status))                \
  ENTRY(captureBegin, cuStreamBeginCapture_v2, captures, (Stream stream, int mode))                \
  ENTRY(captureEnd, cuStreamEndCapture, others, (Stream stream, Graph * graph))                    \
  ENTRY(streamId, cuStreamGetId, others, (Stream stream, unsigned long long* id))                  \
  ENTRY(exchangeCaptureMode, cuThreadExchangeStreamCaptureMode, others, (int* mode))               \
  ENTRY(graphCreate, cuGraphCreate, others, (Graph * graph, unsigned flags))                       \
  ENTRY(graphDestroy, cuGraphDestroy, others, (Graph graph))                                       \
  ENTRY(graphAddKernel, cuGraphAddKernelNode_v2, others,                                           \
        (GraphNode * node, Graph graph, const GraphNode* from, size_t count,                       \
         const KernelNodeParameters* parameters))                                                  \
  ENTRY(graphAddCopy, cuGraphAddMemcpyNode, others,                                                \
        (GraphNode * node, Graph graph, const GraphNode* from, size_t count,                       \
         const CopyParameters* parameters, Context context))                                       \
  ENTRY(graphAddEmpty, cuGraphAddEmptyNode, others,                                                \
        (GraphNode * node, Graph graph, const GraphNode* from, size_t count))                      \
  ENTRY(graphAddChild, cuGraphAddChildGraphNode, others,                                           \
        (GraphNode * node, Graph graph, const GraphNode* from, size_t count, Graph child))         \
  ENTRY(graphInstantiate, cuGraphInstantiateWithFlags, instantiations,                             \
        (GraphExec * made, Graph graph, unsigned long long flags))                                 \
  ENTRY(graphExecDestroy, cuGraphExecDestroy, others, (GraphExec graph))                           \
  ENTRY(graphSetKernel, cuGraphExecKernelNodeSetParams_v2, node_updates,                           \
        (GraphExec graph, GraphNode node, const KernelNodeParameters* parameters))                 \
  ENTRY(graphSetCopy, cuGraphExecMemcpyNodeSetParams, node_updates,                                \
        (GraphExec graph, GraphNode node, const CopyParameters* parameters, Context context))      \
  ENTRY(graphSetChild, cuGraphExecChildGraphNodeSetParams, node_updates,                           \
        (GraphExec graph, GraphNode node, Graph child))                                            \
  ENTRY(graphEnable, cuGraphNodeSetEnabled, node_updates,                                          \
        (GraphExec graph, GraphNode node, unsigned enabled))                                       \
  ENTRY(graphLaunch, cuGraphLaunch, graph_launches, (GraphExec graph, Stream stream))

/// Functions of newer drivers; `function` is null where one is missing. Edges with data need CUDA
/// 12.3, and so does a capture of launches that may start early.
#define SL_CUDA_NEWER_DRIVER(ENTRY)                                                     \
  ENTRY(launchWith, cuLaunchKernelEx, launches,                                         \
        (const LaunchConfig* config, Kernel kernel, void** arguments, void** extra))    \
  ENTRY(graphSetAttribute, cuGraphKernelNodeSetAttribute, others,                       \
        (GraphNode node, unsigned id, const LaunchAttributeValue* value))               \
  ENTRY(graphAddEdges, cuGraphAddDependencies_v2, others,                               \
        (Graph graph, const GraphNode* from, const GraphNode* to, const EdgeData* data, \
         size_t count))

/// Calls so far, by kind of sl_cuda_calls. Relaxed: the counts are only read; they order nothing.
struct Counters {
  std::atomic<int64_t> launches{0}, copies{0}, allocations{0}, events{0}, synchronizations{0},
      loads{0}, others{0};
  std::atomic<int64_t> graph_launches{0}, node_updates{0}, instantiations{0}, captures{0};
};
Counters& counters();

/// One function of the driver; a call of it is counted.
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

/// The functions.
struct Driver {
#define SL_CUDA_MEMBER(member, symbol, kind, parameters) EntryOf<Result parameters>::type member;
  SL_CUDA_DRIVER(SL_CUDA_MEMBER)
  SL_CUDA_NEWER_DRIVER(SL_CUDA_MEMBER)
#undef SL_CUDA_MEMBER
  std::string error;  ///< why it cannot be used; empty when it can
  int process = 0;    ///< that opened it
  int version = 0;    ///< 12040: CUDA 12.4
  /// STRAIGHTLINE_SYNC: each launch is waited for, so that what fails is known by its statement
  bool waits = false;

  /// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", and what may be done about it.
  std::string words(Result result) const;
};

/// One device, by its number, with its primary context, which frameworks use as well. Lives as long
/// as the process.
struct OpenDevice {
  const Driver& driver;
  int32_t number = 0;
  Context context = nullptr;
  int major = 0, minor = 0;         ///< of its compute capability
  std::string error;                ///< why it cannot be used; empty when it can
  Result result = kNotInitialized;  ///< of opening it

  /// The driver's message, or why the device cannot be used at all.
  std::string words(Result failure) const { return error.empty() ? driver.words(failure) : error; }
};

/// Makes the device's context current on the calling thread for its lifetime, then restores the
/// previous one. A thread without a context keeps that of device 0, which frameworks assume.
class Entered {
 public:
  explicit Entered(const OpenDevice& device) : result(device.result), device_(device) {
    if (result != kSuccess || (result = device.driver.currentContext(&before_)) != kSuccess) {
      return;
    }
    if (before_ != device.context) {
      result = device.driver.setContext(device.context);
      changed_ = before_ || device.number != 0;
    }
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    if (changed_) {
      device_.driver.setContext(before_);
    }
  }
  /// Whether the context is current.
  explicit operator bool() const { return result == kSuccess; }
  Result result;

 private:
  const OpenDevice& device_;
  Context before_ = nullptr;
  bool changed_ = false;
};

/// For its lifetime, this thread's calls (an allocation, an event query) do not invalidate captures
/// of other threads.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    driver_.exchangeCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { driver_.exchangeCaptureMode(&mode_); }

 private:
  const Driver& driver_;
  int mode_ = kRelaxed;
};

/// Opened by the first call; any thread may call it. Check `error` first.
const Driver& driver();

/// The device of this number, opened by the first call for it, since a context takes memory there;
/// any thread may call it. Check `error` first.
const OpenDevice& openDevice(int32_t number);

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_DRIVER_H
