// SPDX-License-Identifier: Apache-2.0
// The backend for NVIDIA's devices: memory space, queues over streams, launches of machine code. Its kernels are emitted as
// CUDA C++; here stand only those that compete with others (kernels.h). One device, number 0.
#include <cstdio>
#include <cstring>
#include <iterator>

#include "driver.h"
#include "kernels.h"
#include "straightline/abi/straightline.h"

namespace straightline::cuda {
namespace {

constexpr char kName[] = "cuda";

struct Queue {
  Stream stream;
  bool owned;
};

Stream streamOf(void* queue) { return static_cast<Queue*>(queue)->stream; }
Event asEvent(void* event) { return static_cast<Event>(event); }

/// A kernel with the library that holds it.
struct Loaded {
  Library library;
  Kernel kernel;
};

bool ready() { return driver().error.empty() && driver().enter() == kSuccess; }

int32_t failed(sl_ctx* ctx, Result result) {
  if (result == kSuccess) {
    return SL_OK;
  }
  sl_fail_text(ctx, SL_DEVICE_ERROR, driver().words(result).c_str());
  return SL_DEVICE_ERROR;
}

void* allocate(size_t bytes, size_t) {  // the driver aligns to 256 bytes
  Address address = 0;
  return ready() && driver().allocate(&address, bytes) == kSuccess ? reinterpret_cast<void*>(address) : nullptr;
}

void deallocate(void* address, size_t) {
  if (ready()) {
    driver().release(reinterpret_cast<Address>(address));
  }
}

/// Ordered with the default stream, where a framework may still be writing parameters.
void* queueCreate() {
  Stream stream = nullptr;
  return ready() && driver().streamCreate(&stream, 0) == kSuccess ? new Queue{stream, true} : nullptr;
}

void* queueAdopt(int32_t device, void* native) {
  return device == 0 && ready() ? new Queue{static_cast<Stream>(native), false} : nullptr;
}

void queueDestroy(void* handle) {
  auto* queue = static_cast<Queue*>(handle);
  if (queue->owned && ready()) {
    driver().streamSynchronize(queue->stream);
    driver().streamDestroy(queue->stream);
  }
  delete queue;
}

/// Host functions do not run here: the printer knows, and the interpreter asks for a thunk.
int32_t launch(void*, sl_ctx* ctx, void*, void* const*, int32_t, const int64_t*, int32_t) {
  sl_fail(ctx, SL_INTERNAL, 0, 0, 0);
  return SL_INTERNAL;
}

int32_t start(void* queue, sl_ctx* ctx, void* kernel, const sl_grid* grid, void* const* arguments) {
  constexpr int64_t kMostBlocks = 0x7fffffff;
  if (grid->blocks > kMostBlocks) {
    sl_fail(ctx, SL_INTERNAL, grid->blocks, kMostBlocks, 0);
    return SL_INTERNAL;
  }
  if (const Result result = driver().enter(); result != kSuccess) {
    return failed(ctx, result);
  }
  return failed(ctx, driver().launch(static_cast<Loaded*>(kernel)->kernel, static_cast<unsigned>(grid->blocks), 1, 1,
                                     static_cast<unsigned>(grid->threads), 1, 1,
                                     static_cast<unsigned>(grid->shared_bytes), streamOf(queue),
                                     const_cast<void**>(arguments), nullptr));
}

int32_t copy(void* queue, sl_ctx* ctx, void* destination, const char* destinationSpace, const void* source,
             const char* sourceSpace, size_t bytes) {
  if (bytes == 0) {
    return SL_OK;
  }
  if (const Result result = driver().enter(); result != kSuccess) {
    return failed(ctx, result);
  }
  const bool toDevice = std::strcmp(destinationSpace, kName) == 0;
  const bool fromDevice = std::strcmp(sourceSpace, kName) == 0;
  const auto to = reinterpret_cast<Address>(destination);
  const auto from = reinterpret_cast<Address>(source);
  if (toDevice && fromDevice) {
    return failed(ctx, driver().copyOnDevice(to, from, bytes, streamOf(queue)));
  }
  if (toDevice) {
    return failed(ctx, driver().copyToDevice(to, source, bytes, streamOf(queue)));
  }
  if (fromDevice) {
    return failed(ctx, driver().copyToHost(destination, from, bytes, streamOf(queue)));
  }
  sl_fail(ctx, SL_INTERNAL, 0, 0, 0);  // between host buffers the team copies
  return SL_INTERNAL;
}

/// Null when the driver gives no event: then nothing can be waited for but the stream itself.
void* record(void* queue) {
  Event event = nullptr;
  if (!ready() || driver().eventCreate(&event, kEventWithoutTiming) != kSuccess ||
      driver().eventRecord(event, streamOf(queue)) != kSuccess) {
    driver().streamSynchronize(streamOf(queue));
    return nullptr;
  }
  return event;
}

void wait(void* queue, void* event) { driver().streamWait(streamOf(queue), asEvent(event), 0); }
void synchronize(void* event) {
  if (event) {
    driver().eventSynchronize(asEvent(event));
  }
}
void eventDestroy(void* event) {
  if (event && ready()) {
    driver().eventDestroy(asEvent(event));
  }
}
int32_t query(void* event) { return !event || driver().eventQuery(asEvent(event)) != kNotReady ? 1 : 0; }

int32_t refuse(const std::string& words, int32_t status, char* reason, size_t bytes) {
  std::snprintf(reason, bytes, "%s", words.c_str());
  return status;
}

int32_t load(const sl_device_code* code, void** kernel, char* reason, size_t bytes) {
  if (!driver().error.empty()) {
    return refuse(driver().error, SL_UNSUPPORTED, reason, bytes);
  }
  Result result = driver().enter();
  Loaded loaded{};
  if (result == kSuccess) {
    result = driver().libraryLoad(&loaded.library, code->image->data, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }
  if (result == kSuccess) {
    result = driver().libraryKernel(&loaded.kernel, loaded.library, code->symbol);
    if (result != kSuccess) {
      driver().libraryUnload(loaded.library);
    }
  }
  if (result != kSuccess) {
    return refuse(driver().words(result), result == kOutOfMemory ? SL_OUT_OF_MEMORY : SL_DEVICE_ERROR, reason, bytes);
  }
  *kernel = new Loaded(loaded);
  return SL_OK;
}

void unload(void* kernel) {
  auto* loaded = static_cast<Loaded*>(kernel);
  if (ready()) {
    driver().finish();  // the program is going; a kernel of it may still be running
    driver().libraryUnload(loaded->library);
  }
  delete loaded;
}

const sl_device_desc kDevice = {sizeof(sl_device_desc), kName, 0,     allocate, deallocate,  queueCreate,
                                queueDestroy,           launch, copy, record,   wait,        synchronize,
                                eventDestroy,           query, load,  unload,   start,       queueAdopt,
                                1};

// Copied before main starts from objects that are constant-initialised, as native's are.
const sl_kernel_desc kKernels[] = {attentionKernel, gemvKernel, linearKernel, matmulKernel};

}  // namespace
}  // namespace straightline::cuda

extern "C" const sl_backend_desc sl_backend_cuda = {
    sizeof(sl_backend_desc),    SL_ABI_VERSION,
    straightline::cuda::kName,  straightline::cuda::kKernels,
    std::size(straightline::cuda::kKernels), &straightline::cuda::kDevice};
