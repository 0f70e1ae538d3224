// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_QUEUE_H
#define STRAIGHTLINE_RUNTIME_QUEUE_H

#include "straightline/abi/queue.h"
#include "straightline/abi/straightline.h"
#include "team.h"

/// Exactly one of `team` and `device` is set.
struct sl_queue {
  straightline::Team* team = nullptr;  ///< shared, lives as long as the process
  const sl_device_desc* device = nullptr;
  void* handle = nullptr;  ///< the device's queue, owned
  int32_t number = 0;      ///< of the device
  /// what is started on it becomes nodes of a graph, launches without blocks too
  bool gathers = false;
};

namespace straightline {

/// Creates a queue of device `number` of a kind into `queue`; false when the device cannot.
bool openDeviceQueue(const sl_device_desc* device, int32_t number, sl_queue* queue);
/// Waits for what is enqueued. Legal on a queue that was never opened.
void closeDeviceQueue(sl_queue* queue);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_QUEUE_H
