// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_QUEUE_H
#define STRAIGHTLINE_RUNTIME_QUEUE_H

#include <vector>

#include "straightline/abi/queue.h"
#include "straightline/abi/straightline.h"
#include "team.h"

/// Exactly one of `team` and `device` is set.
struct sl_queue {
  straightline::Team* team = nullptr;  ///< shared, lives as long as the process
  const sl_device_desc* device = nullptr;
  void* handle = nullptr;  ///< the device's queue, owned
  int32_t number = 0;      ///< of the device
  /// work enqueued on it becomes nodes of a graph, as do launches without blocks
  bool gathers = false;
  /// of prepare: its calls (sl_queue_call) use the framework's own stream, which is unknown here,
  /// so nothing may be under way when such a call begins or ends
  bool prepares = false;
  // Of a queue that collects a run: a call outside of graphs (sl_queue_call) ends one part of the
  // run and begins the next.
  std::vector<void*> parts{};  ///< a graph each, owned; `handle` is the one that gathers now
  size_t part = 0;             ///< which one that is
  void* target = nullptr;      ///< the device's queue on which the run is launched
};

namespace straightline {

/// Creates a queue of device `number` of a kind into `queue`; false when the device cannot.
bool openDeviceQueue(const sl_device_desc* device, int32_t number, sl_queue* queue);
/// Begins part `part` of the run that a queue collects, in its graph, which is made if necessary.
/// Returns sl_status; a failure is also written to `ctx`.
int32_t beginPart(sl_queue* queue, size_t part, sl_ctx* ctx);
/// Blocks until a device's queue has passed everything enqueued so far.
void waitForQueue(const sl_queue& queue);
/// Waits for enqueued work. Legal on a queue that was never opened.
void closeDeviceQueue(sl_queue* queue);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_QUEUE_H
