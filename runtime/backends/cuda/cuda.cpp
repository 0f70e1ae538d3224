// SPDX-License-Identifier: Apache-2.0
// The backend for NVIDIA's devices: memory space, queues over streams, launches of machine code.
// Its kernels are emitted as CUDA C++; kernels.h registers those that compete with other backends.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "architecture.h"
#include "driver.h"
#include "graph.h"
#include "kernels.h"
#include "straightline/abi/straightline.h"

namespace straightline::cuda {
namespace {

constexpr char kName[] = "cuda";

struct Queue {
  const OpenDevice& device;
  /// of a collecting queue: the stream on which the collected run will be launched
  Stream stream;
  bool owned;
  std::unique_ptr<LaunchGraph> graph;  ///< not null: it collects a run
  /// the host has read a result of this run, so the rest of the run is not collected
  bool direct = false;
  /// of a default stream, which lives as long as its context: queried once
  std::atomic<uint64_t> order{0};
};

Queue* asQueue(void* queue) { return static_cast<Queue*>(queue); }
Stream streamOf(void* queue) { return asQueue(queue)->stream; }
const OpenDevice& deviceOf(void* queue) { return asQueue(queue)->device; }

struct Mark {
  const OpenDevice& device;
  Event event;
};
Mark* asMark(void* event) { return static_cast<Mark*>(event); }

/// A loaded image; its kernels share it.
struct LoadedImage {
  const OpenDevice& device;
  Library library = nullptr;
  LoadedImage(const OpenDevice& on, Library loaded) : device(on), library(loaded) {}
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;
  ~LoadedImage() {
    if (const Entered entered(device); entered) {
      driver().libraryUnload(library);
    }
  }
};

/// A kernel and the image that contains it.
struct Loaded {
  const OpenDevice& device;
  std::shared_ptr<LoadedImage> image;
  KernelFacts facts;
  const char* symbol = nullptr;
  const sl_own_code* own = nullptr;  ///< not null: a user's machine code, or shared memory
  int32_t arguments = 0;             ///< of its entry
};

int32_t failed(sl_ctx* ctx, const OpenDevice& device, Result result) {
  if (result == kSuccess) {
    return SL_OK;
  }
  sl_fail_text(ctx, SL_DEVICE_ERROR, device.words(result).c_str());
  return SL_DEVICE_ERROR;
}

void* allocate(int32_t device, size_t bytes, size_t) {  // the driver aligns to 256 bytes
  Address address = 0;
  const Entered entered(openDevice(device));
  if (!entered) {
    return nullptr;
  }
  const RelaxedCapture relaxed(driver());
  return driver().allocate(&address, bytes) == kSuccess ? reinterpret_cast<void*>(address)
                                                        : nullptr;
}

void deallocate(int32_t device, void* address, size_t) {
  if (const Entered entered(openDevice(device)); entered) {
    const RelaxedCapture relaxed(driver());
    driver().release(reinterpret_cast<Address>(address));
  }
}

/// Copies in the order of the default stream, where a framework may still be writing parameters.
void* queueCreate(int32_t number) {
  Stream stream = nullptr;
  const OpenDevice& device = openDevice(number);
  const Entered entered(device);
  return entered && driver().streamCreate(&stream, 0) == kSuccess
             ? new Queue{device, stream, true, nullptr}
             : nullptr;
}

void* queueAdopt(int32_t number, void* native) {
  const OpenDevice& device = openDevice(number);
  return device.error.empty() ? new Queue{device, static_cast<Stream>(native), false, nullptr}
                              : nullptr;
}

void queueDestroy(void* handle) {
  Queue* queue = asQueue(handle);
  const Entered entered(queue->device);  // for the graph's destructor too
  if (queue->owned && entered) {
    driver().streamSynchronize(queue->stream);
    driver().streamDestroy(queue->stream);
  }
  delete queue;
}

bool isDefault(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= kLegacyStream; }

/// The default stream cannot be captured. While another stream is, the launch reports the error.
int32_t queueCaptured(void* queue) {
  if (isDefault(streamOf(queue))) {
    return 0;
  }
  int status = 0;
  const Entered entered(deviceOf(queue));
  return entered && driver().streamCapturing(streamOf(queue), &status) == kSuccess && status != 0
             ? 1
             : 0;
}

/// Whether the queue collects work for a graph instead of launching it.
bool gathers(void* queue) {
  return asQueue(queue)->graph && !asQueue(queue)->direct && !driver().waits;
}

/// Launches what was collected so far, because the host reads a result.
Result stopGathering(void* queue) {
  asQueue(queue)->direct = true;
  return asQueue(queue)->graph->launchOnce(streamOf(queue));
}

/// Whether launches on a stream may have the attribute that the kernel waits for its predecessor by
/// itself, also during a capture.
bool canOverlap() { return driver().launchWith.function && driver().graphAddEdges.function; }

/// Launches the kernel on the stream. It may start before its predecessor in this run has ended
/// where both wait by themselves; otherwise it starts after its end.
Result startOnStream(void* queue, sl_ctx* ctx, const KernelFacts& facts, LaunchConfig config,
                     void** arguments) {
  Result result = kSuccess;
  const bool isEarly = facts.waits && ctx->behind == queue;
  if (facts.cooperative && !driver().launchWith.function) {
    return kNotSupported;
  }
  if (isEarly || facts.cooperative) {  // no cooperative kernel waits by itself
    LaunchAttribute attribute{
        facts.cooperative ? kCooperative : kProgrammaticSerialization, {}, 1, {}};
    config.attributes = &attribute;
    config.attributeCount = 1;
    result = driver().launchWith(&config, facts.kernel, arguments, nullptr);
  } else {
    result = driver().launch(facts.kernel, config.gridX, config.gridY, config.gridZ, config.blockX,
                             1, 1, config.sharedBytes, config.stream, arguments, nullptr);
  }
  ctx->behind = facts.waits && ctx->overlap && canOverlap() ? queue : nullptr;
  return result;
}

int32_t startBlocks(void* queue, sl_ctx* ctx, const KernelFacts& facts, Blocks blocks,
                    unsigned threads, unsigned sharedBytes, void* const* arguments) {
  if (gathers(queue)) {
    return failed(ctx, deviceOf(queue),
                  asQueue(queue)->graph->kernel(facts, blocks, threads, sharedBytes, arguments));
  }
  if (blocks.x == 0) {
    return SL_OK;
  }
  const Entered entered(deviceOf(queue));
  if (!entered) {
    return failed(ctx, deviceOf(queue), entered.result);
  }
  const LaunchConfig config{blocks.x, blocks.y,    blocks.z,        threads, 1,
                            1,        sharedBytes, streamOf(queue), nullptr, 0};
  const Result result = startOnStream(queue, ctx, facts, config, const_cast<void**>(arguments));
  const bool waits = result == kSuccess && driver().waits && !queueCaptured(queue);
  return failed(ctx, deviceOf(queue), waits ? driver().streamSynchronize(streamOf(queue)) : result);
}

/// A user's machine code, or a kernel with dynamic shared memory: makes the parameters, which may
/// have an order and constants of their own, of the entry's arguments.
int32_t startOwn(void* queue, sl_ctx* ctx, const Loaded& loaded, const sl_grid* grid,
                 void* const* arguments) {
  constexpr int64_t kMostInYAndZ = 0xffff;
  const sl_own_code& code = *loaded.own;
  int64_t given[SL_MAX_DEVICE_PARAMETERS];
  for (int32_t i = 0; i < loaded.arguments; ++i) {
    given[i] = *static_cast<const int64_t*>(arguments[i]);
  }
  int64_t values[SL_MAX_DEVICE_PARAMETERS];
  void* places[SL_MAX_DEVICE_PARAMETERS];
  for (int32_t i = 0; i < code.parameter_count; ++i) {
    const sl_device_parameter& parameter = code.parameters[i];
    values[i] = sl_expr_value(&parameter.value, given);
    places[i] = &values[i];
    if ((values[i] & (parameter.alignment - 1)) != 0) {
      const std::string words = "parameter " + std::to_string(i) + " of " + loaded.symbol +
                                " begins at an address that is no multiple of " +
                                std::to_string(parameter.alignment) +
                                ", for which the kernel was compiled; give a tensor that begins at "
                                "one, or compile the kernel with aligned=False";
      sl_fail_text(ctx, SL_INVALID_ARGUMENT, words.c_str());
      return SL_INVALID_ARGUMENT;
    }
  }
  const int64_t y = sl_expr_value(&code.blocks_y, given);
  const int64_t z = sl_expr_value(&code.blocks_z, given);
  if (y > kMostInYAndZ || z > kMostInYAndZ) {
    const std::string words = std::string("the grid of ") + loaded.symbol + " has " +
                              std::to_string(y) + " blocks in y and " + std::to_string(z) +
                              " in z, a device takes 65535";
    sl_fail_text(ctx, SL_INVALID_ARGUMENT, words.c_str());
    return SL_INVALID_ARGUMENT;
  }
  const bool isEmpty = y <= 0 || z <= 0;
  const Blocks blocks{isEmpty ? 0 : static_cast<unsigned>(grid->blocks),
                      isEmpty ? 1 : static_cast<unsigned>(y),
                      isEmpty ? 1 : static_cast<unsigned>(z)};
  return startBlocks(queue, ctx, loaded.facts, blocks, static_cast<unsigned>(grid->threads),
                     static_cast<unsigned>(grid->shared_bytes + code.shared_bytes), places);
}

int32_t start(void* queue, sl_ctx* ctx, void* kernel, const sl_grid* grid, void* const* arguments) {
  constexpr int64_t kMostBlocks = 0x7fffffff;
  if (grid->blocks > kMostBlocks) {
    sl_fail(ctx, SL_INTERNAL, grid->blocks, kMostBlocks, 0);
    return SL_INTERNAL;
  }
  const auto& loaded = *static_cast<Loaded*>(kernel);
  if (loaded.own) {
    return startOwn(queue, ctx, loaded, grid, arguments);
  }
  return startBlocks(queue, ctx, loaded.facts, {static_cast<unsigned>(grid->blocks)},
                     static_cast<unsigned>(grid->threads),
                     static_cast<unsigned>(grid->shared_bytes), arguments);
}

/// Calls a library's entry at once, on the calling thread; the entry enqueues its own work on the
/// stream.
int32_t launch(void* queue, sl_ctx* ctx, void* entry, void* const* pointers, int32_t pointerCount,
               const int64_t* scalars, int32_t scalarCount) {
  const LibraryCall call{
      ctx, reinterpret_cast<sl_thunk_fn>(entry), pointers, pointerCount, scalars, scalarCount};
  if (gathers(queue)) {
    const Result result = asQueue(queue)->graph->library(call);
    return result == kSuccess ? ctx->status : failed(ctx, deviceOf(queue), result);
  }
  ctx->behind = nullptr;
  const Entered entered(deviceOf(queue));
  if (!entered) {
    return failed(ctx, deviceOf(queue), entered.result);
  }
  call.run(streamOf(queue));
  if (ctx->status == SL_OK && driver().waits && !queueCaptured(queue)) {
    return failed(ctx, deviceOf(queue), driver().streamSynchronize(streamOf(queue)));
  }
  return ctx->status;
}

int32_t copy(void* queue, sl_ctx* ctx, void* destination, const char* destinationSpace,
             const void* source, const char* sourceSpace, size_t bytes) {
  const bool toDevice = std::strcmp(destinationSpace, kName) == 0;
  const bool fromDevice = std::strcmp(sourceSpace, kName) == 0;
  const auto to = reinterpret_cast<Address>(destination);
  const auto from = reinterpret_cast<Address>(source);
  if (gathers(queue)) {
    if (!fromDevice) {
      sl_fail(ctx, SL_INTERNAL, 0, 0, 0);  // sl_program_graph_nodes refuses such programs
      return SL_INTERNAL;
    }
    if (toDevice) {
      return failed(ctx, deviceOf(queue), asQueue(queue)->graph->copy(to, from, bytes));
    }
    if (const int32_t status = failed(ctx, deviceOf(queue), stopGathering(queue));
        status != SL_OK) {
      return status;
    }
  }
  if (bytes == 0) {
    return SL_OK;
  }
  ctx->behind = nullptr;
  const Entered entered(deviceOf(queue));
  if (!entered) {
    return failed(ctx, deviceOf(queue), entered.result);
  }
  if (toDevice && fromDevice) {
    return failed(ctx, deviceOf(queue), driver().copyOnDevice(to, from, bytes, streamOf(queue)));
  }
  if (toDevice) {
    return failed(ctx, deviceOf(queue), driver().copyToDevice(to, source, bytes, streamOf(queue)));
  }
  if (fromDevice) {
    return failed(ctx, deviceOf(queue),
                  driver().copyToHost(destination, from, bytes, streamOf(queue)));
  }
  sl_fail(ctx, SL_INTERNAL, 0, 0, 0);  // between host buffers the team copies
  return SL_INTERNAL;
}

/// Null when the driver makes no event: then only the stream itself can be waited for.
void* record(void* queue) {
  Event event = nullptr;
  const Entered entered(deviceOf(queue));
  const RelaxedCapture relaxed(driver());
  if (!entered || driver().eventCreate(&event, kEventWithoutTiming) != kSuccess ||
      driver().eventRecord(event, streamOf(queue)) != kSuccess) {
    driver().streamSynchronize(streamOf(queue));
    return nullptr;
  }
  return new Mark{deviceOf(queue), event};
}

void wait(void* queue, void* event) {
  const Entered entered(deviceOf(queue));
  driver().streamWait(streamOf(queue), asMark(event)->event, 0);
}
void synchronize(void* event) {
  if (event) {
    const Entered entered(asMark(event)->device);
    driver().eventSynchronize(asMark(event)->event);
  }
}
void eventDestroy(void* event) {
  if (event) {
    if (const Entered entered(asMark(event)->device); entered) {
      driver().eventDestroy(asMark(event)->event);
    }
    delete asMark(event);
  }
}
int32_t query(void* event) {
  if (!event) {
    return 1;
  }
  const Entered entered(asMark(event)->device);
  const RelaxedCapture relaxed(driver());
  return driver().eventQuery(asMark(event)->event) != kNotReady ? 1 : 0;
}
int32_t recordAgain(void* queue, void* event) {
  const Entered entered(deviceOf(queue));
  return entered && driver().eventRecord(asMark(event)->event, streamOf(queue)) == kSuccess ? 1 : 0;
}

void finish(int32_t device) {
  if (const Entered entered(openDevice(device)); entered) {
    driver().finish();
  }
}

uint64_t queueOrder(void* queue) {
  const Stream stream = streamOf(queue);
  if (const uint64_t known = asQueue(queue)->order.load(std::memory_order_relaxed)) {
    return known;
  }
  unsigned long long id = 0;
  const Entered entered(deviceOf(queue));
  const bool known = reinterpret_cast<uintptr_t>(stream) != kPerThreadStream && entered &&
                     driver().streamId(stream, &id) == kSuccess;
  const uint64_t order = known ? id + 1 : 0;
  if (isDefault(stream)) {
    asQueue(queue)->order.store(order, std::memory_order_relaxed);
  }
  return order;
}

void* graphCreate(int32_t number) {
  const OpenDevice& device = openDevice(number);
  return new Queue{device, nullptr, false, std::make_unique<LaunchGraph>(device)};
}

int32_t graphBegin(void* graph, sl_ctx*, void* queue) {
  asQueue(graph)->stream = streamOf(queue);
  asQueue(graph)->direct = false;
  asQueue(graph)->graph->begin();
  return SL_OK;
}

int32_t graphLaunch(void* graph, sl_ctx* ctx) {
  return gathers(graph)
             ? failed(ctx, deviceOf(graph), asQueue(graph)->graph->launch(streamOf(graph)))
             : SL_OK;
}

int32_t graphAgain(void* graph, sl_ctx* ctx, void* queue) {
  if (!gathers(graph) || !asQueue(graph)->graph->isWhole()) {
    return 0;
  }
  asQueue(graph)->stream = streamOf(queue);
  failed(ctx, deviceOf(graph), asQueue(graph)->graph->launch(streamOf(graph)));
  return 1;
}

void graphStep(void* graph, int32_t number, const int32_t* after, int32_t count) {
  if (gathers(graph)) {
    asQueue(graph)->graph->step(number, after, count);
  }
}

int32_t refuse(const std::string& words, int32_t status, char* reason, size_t bytes) {
  std::snprintf(reason, bytes, "%s", words.c_str());
  return status;
}

std::string cudaVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// What to install where the driver's CUDA is older than that of the NVRTC that made the machine
/// code. NVIDIA's wheels for CUDA 12 and 13 have different names.
std::string remedyFor(int driverVersion, int compiler) {
  const std::string own = std::to_string(driverVersion / 1000);
  const bool is12 = driverVersion < 13000;
  return "; such a driver may not take what that makes: needs a driver of CUDA " +
         std::to_string(compiler / 1000) + " or an NVRTC of CUDA " + own + " (`pip install " +
         (is12 ? "nvidia-cuda-nvrtc-cu12" : "'nvidia-cuda-nvrtc==" + own + ".*'") +
         "`, STRAIGHTLINE_NVRTC=<site-packages>/nvidia/" + (is12 ? "cuda_nvrtc" : "cu" + own) +
         "/lib/libnvrtc.so." + own + ")";
}

/// Why machine code was refused; names device, driver and compiler where the code is for another
/// device or for a newer driver.
std::string loadFailure(const OpenDevice& device, Result result, const sl_device_image& image) {
  std::string words = device.words(result);
  const int compiler = image.size >= offsetof(sl_device_image, compiler) + sizeof(image.compiler)
                           ? image.compiler
                           : 0;
  const bool isUnfit =
      result == kInvalidImage || result == kNoImageForDevice || result == kNewerImage;
  if (isUnfit && device.error.empty()) {
    const int version = driver().version;
    words += "; device " + std::to_string(device.number) + " is sm_" +
             std::to_string(device.major) + std::to_string(device.minor) +
             ", its driver is for CUDA " + cudaVersion(version);
    words += compiler > 0 ? "; the kernel was compiled by NVRTC " + cudaVersion(compiler) : "";
    if (compiler / 1000 > version / 1000) {
      words += remedyFor(version, compiler);
    } else if (result != kNoImageForDevice) {
      words +=
          "; the driver takes what an NVRTC of its own version makes (STRAIGHTLINE_NVRTC names "
          "one)";
    }
  }
  return words;
}

/// Null with `result` set on failure. An image stays at its address for as long as one of its
/// kernels is loaded.
std::shared_ptr<LoadedImage> loadImage(const OpenDevice& device, const sl_device_image& image,
                                       Result* result) {
  static std::mutex mutex;
  static auto* const known =
      new std::map<std::pair<int32_t, const void*>, std::weak_ptr<LoadedImage>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<LoadedImage>& place = (*known)[{device.number, image.data}];
  if (std::shared_ptr<LoadedImage> loaded = place.lock()) {
    return loaded;
  }
  Library library = nullptr;
  *result = driver().libraryLoad(&library, image.data, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (*result != kSuccess) {
    return nullptr;
  }
  auto loaded = std::make_shared<LoadedImage>(device, library);
  place = loaded;
  return loaded;
}

int32_t load(int32_t number, const sl_device_code* code, void** kernel, char* reason,
             size_t bytes) {
  const OpenDevice& device = openDevice(number);
  if (!driver().error.empty()) {
    return refuse(driver().error, SL_UNSUPPORTED, reason, bytes);
  }
  const Entered entered(device);
  Result result = entered.result;
  const RelaxedCapture relaxed(driver());
  const std::string_view image(static_cast<const char*>(code->image->data), code->image->bytes);
  if (isText(image) && (image.empty() || image.back() != '\0')) {
    return refuse("the machine code is neither a cubin nor PTX", SL_DEVICE_ERROR, reason, bytes);
  }
  // What was compiled for older devices has no such instruction, and does not wait on any device.
  constexpr int kFirstThatWaits = 90;
  const bool waits = code->waits != 0 &&
                     imageArchitecture(image, 10 * device.major + device.minor) >= kFirstThatWaits;
  Loaded loaded{device, nullptr, {nullptr, code->argument_count, waits}};
  if (result == kSuccess) {
    loaded.image = loadImage(device, *code->image, &result);
  }
  if (result == kSuccess) {
    result = driver().libraryKernel(&loaded.facts.kernel, loaded.image->library, code->symbol);
  }
  if (code->size > offsetof(sl_device_code, own) && code->own) {
    loaded.symbol = code->symbol;
    loaded.own = code->own;
    loaded.arguments = code->argument_count;
    loaded.facts.arguments = code->own->parameter_count;
    loaded.facts.cooperative =
        code->own->size > offsetof(sl_own_code, cooperative) && code->own->cooperative != 0;
  }
  constexpr int32_t kWithoutAsking = 48 * 1024;
  if (result == kSuccess && loaded.own && loaded.own->shared_bytes > kWithoutAsking) {
    Device handle = 0;
    result = driver().deviceGet(&handle, number);
    result = result != kSuccess
                 ? result
                 : driver().kernelAttribute(kDynamicSharedBytes, loaded.own->shared_bytes,
                                            loaded.facts.kernel, handle);
    if (result == kInvalidValue) {
      return refuse("the device does not have the " + std::to_string(loaded.own->shared_bytes) +
                        " bytes of shared memory that a block of it takes",
                    SL_DEVICE_ERROR, reason, bytes);
    }
  }
  if (result != kSuccess) {
    return refuse(loadFailure(device, result, *code->image),
                  result == kOutOfMemory ? SL_OUT_OF_MEMORY : SL_DEVICE_ERROR, reason, bytes);
  }
  *kernel = new Loaded(loaded);
  return SL_OK;
}

void unload(void* kernel) {
  auto* loaded = static_cast<Loaded*>(kernel);
  if (const Entered entered(loaded->device); entered) {
    driver().finish();  // the program is going; a kernel of it may still be running
  }
  delete loaded;
}

const char* missing(int32_t device) {
  const std::string& error = openDevice(device).error;
  return error.empty() ? nullptr : error.c_str();
}

int32_t fits(int32_t number, const char* target, char* reason, size_t bytes) {
  const OpenDevice& device = openDevice(number);
  constexpr std::string_view kPrefix = "cuda:";
  std::string_view name(target);
  name.remove_prefix(name.substr(0, kPrefix.size()) == kPrefix ? kPrefix.size() : 0);
  const int32_t fit = fitOf(architectureOf(name), device.major, device.minor);
  if (fit == 0) {
    std::snprintf(reason, bytes, "device %d, which is sm_%d%d", number, device.major, device.minor);
  }
  return fit;
}

const sl_device_desc kDevice = {sizeof(sl_device_desc),
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
                                load,
                                unload,
                                start,
                                queueAdopt,
                                1,
                                queueOrder,
                                queueCaptured,
                                recordAgain,
                                finish,
                                graphCreate,
                                graphBegin,
                                graphLaunch,
                                graphAgain,
                                missing,
                                graphStep,
                                fits};

// Copied before main starts from objects that are constant-initialised, as native's are.
const sl_kernel_desc kKernels[] = {attentionKernel,        attentionWarpsKernel,
                                   convolutionKernel,      gemvKernel,
                                   gemvGroupKernel,        groupedMatmulKernel,
                                   linearKernel,           linearGroupWarpgroupsKernel,
                                   linearWarpgroupsKernel, matmulKernel,
                                   matmulWarpgroupsKernel, transposeKernel};

}  // namespace
}  // namespace straightline::cuda

extern "C" const sl_backend_desc sl_backend_cuda = {sizeof(sl_backend_desc),
                                                    SL_KERNEL_ABI_VERSION,
                                                    straightline::cuda::kName,
                                                    straightline::cuda::kKernels,
                                                    std::size(straightline::cuda::kKernels),
                                                    &straightline::cuda::kDevice};
