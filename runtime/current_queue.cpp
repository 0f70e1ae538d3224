// SPDX-License-Identifier: Apache-2.0
// The queue on which a thread uses a device of a plug-in. Frameworks with streams of their own
// (torch on CUDA) tell theirs instead (sl_queue_adopt).
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "boundary.h"
#include "message_writer.h"
#include "queue.h"
#include "registry.h"

namespace straightline {
namespace {

using DeviceName = std::pair<const sl_device_desc*, int32_t>;

/// Default queues, which live as long as the process: work may be enqueued while it ends.
struct Defaults {
  std::mutex mutex;
  std::map<DeviceName, sl_queue*> queues;
};
Defaults& defaults() {
  static Defaults* const instance = new Defaults;
  return *instance;
}

/// The queues that this thread has chosen.
std::map<DeviceName, sl_queue*>& chosen() {
  static thread_local std::map<DeviceName, sl_queue*> queues;
  return queues;
}

/// What this thread asked for last, so that calls of a program take no lock.
struct Last {
  DeviceName name;
  sl_queue* queue = nullptr;
};
thread_local Last last;

const sl_device_desc* deviceOf(const char* backend) {
  const sl_backend_desc* found = findBackend(backend);
  return found ? found->device : nullptr;
}

}  // namespace
}  // namespace straightline

int32_t sl_queue_current(const char* backend, int32_t device, sl_queue** out, sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    const DeviceName name{deviceOf(backend), device};
    if (name.first && last.queue && last.name == name) {
      *out = last.queue;
      return SL_OK;
    }
    int32_t status = SL_OK;
    if (const auto own = chosen().find(name); own != chosen().end()) {
      *out = own->second;
    } else {
      const std::lock_guard<std::mutex> lock(defaults().mutex);
      sl_queue*& queue = defaults().queues[name];
      if (!queue) {
        status = sl_queue_create(backend, device, &queue, message);
      }
      *out = queue;
    }
    if (status == SL_OK) {
      last = {name, *out};
    }
    return status;
  });
}

void sl_queue_choose(const char* backend, int32_t device, sl_queue* queue) {
  using namespace straightline;
  const DeviceName name{deviceOf(backend), device};
  if (!name.first) {
    return;
  }
  last.queue = nullptr;
  if (queue) {
    chosen()[name] = queue;
  } else {
    chosen().erase(name);
  }
}

void* sl_queue_handle(const sl_queue* queue) { return queue->handle; }
