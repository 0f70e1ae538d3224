// SPDX-License-Identifier: Apache-2.0
// Arenas of one call, and the pool that lends them.
#ifndef STRAIGHTLINE_RUNTIME_FRAME_H
#define STRAIGHTLINE_RUNTIME_FRAME_H

#include <atomic>
#include <vector>

#include "host_memory.h"
#include "queue.h"
#include "straightline/abi/straightline.h"

/// Owned by exactly one party at any time: a caller between lease and return, the pool otherwise.
struct sl_frame {
  sl_program* program = nullptr;
  std::vector<straightline::Block> arenas;  ///< by memory space
  std::vector<void*> addresses;             ///< of `arenas`, what sl_bindings points at
  std::vector<sl_queue> deviceQueues;       ///< by queue index; [0] is unused
  std::vector<void*> queues;                ///< what sl_bindings points at; [0] is set by each run
  /// By queue index: fires when the last run's work on that queue has passed, null when nothing is
  /// pending. Recorded on eventDevices[i] (a run may use the caller's own stream in place of
  /// deviceQueues[i]).
  std::vector<void*> events;
  std::vector<const sl_device_desc*> eventDevices;
  /// Context of a run with device queues: kernels may use it after sl_run has returned, so it lives
  /// here.
  sl_ctx context{};
  bool failureUnreported =
      false;                 ///< a failure that arrives in `context` now belongs to nobody yet
  sl_frame* next = nullptr;  ///< in FramePool::overflow
};

namespace straightline {

/// Lock-free: a frame is taken by exchanging its slot with null, so whoever gets a pointer owns the
/// frame and no ABA question arises. The overflow list is only pushed to and taken whole.
struct FramePool {
  static constexpr int32_t kSlots = 64;
  std::atomic<sl_frame*> slots[kSlots] = {};
  std::atomic<sl_frame*> overflow{nullptr};
};

/// Blocks until nothing that was enqueued with this frame is running, then forgets the events.
void waitForFrame(sl_frame* frame);
/// Waits for pending work and frees arenas, queues and the frame itself.
void destroyFrame(sl_frame* frame);
/// Destroys every frame of the pool. No frame may be leased.
void drainPool(FramePool* pool);
/// Blocks until no frame in the pool has work pending (prepared data is about to go).
void waitForPool(FramePool* pool);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_FRAME_H
