// SPDX-License-Identifier: Apache-2.0
// Arenas of one call, and the pool that lends them.
#ifndef STRAIGHTLINE_RUNTIME_FRAME_H
#define STRAIGHTLINE_RUNTIME_FRAME_H

#include <atomic>
#include <vector>

#include "host_memory.h"
#include "queue.h"
#include "straightline/abi/straightline.h"

namespace straightline {

/// Where the last run's work on a queue ends. The event is kept for the next run where the device can record it again.
struct QueueMark {
  void* event = nullptr;
  const sl_device_desc* device = nullptr;  ///< whose event it is (a run may use the caller's own stream)
  bool pending = false;                    ///< the queue may not have passed it yet
};

}  // namespace straightline

/// Owned by exactly one party at any time: a caller between lease and return, the pool otherwise; or, when its run was captured,
/// by the graph that the caller captured.
struct sl_frame {
  sl_program* program = nullptr;
  std::vector<straightline::Block> arenas;  ///< by memory space
  std::vector<void*> addresses;             ///< of `arenas`, what sl_bindings points at
  std::vector<sl_queue> deviceQueues;       ///< by queue index; [0] is unused
  std::vector<void*> queues;                ///< what sl_bindings points at; [0] is set by each run
  std::vector<straightline::QueueMark> marks;  ///< by queue index
  const sl_queue* leasedFor = nullptr;      ///< runs on it need not wait for the last one, unless it is null
  uint64_t order = 0;                       ///< of the queue of the last run (sl_device_desc.queue_order); 0: unknown
  bool captured = false;                    ///< its runs become part of a graph of the caller's
  sl_queue graph;                           ///< gathers runs that are launched at once; made by the first such run
  std::vector<uint64_t> launched;           ///< what the straight line could see when the graph was launched last
  bool isLaunched = false;                  ///< `launched` is that; false: the last run failed, or there was none
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
  std::atomic<uint64_t> orders[kSlots] = {};  ///< sl_frame.order of what is in the slot; a hint, for only its owner may read a frame
  std::atomic<sl_frame*> overflow{nullptr};
  std::atomic<sl_frame*> captured{nullptr};   ///< those of captured graphs, until the program goes
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
