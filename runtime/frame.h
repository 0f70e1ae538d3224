// SPDX-License-Identifier: Apache-2.0
// The arenas of one call, and what the pool (frame_pool.h) does with them.
#ifndef STRAIGHTLINE_RUNTIME_FRAME_H
#define STRAIGHTLINE_RUNTIME_FRAME_H

#include <array>
#include <vector>

#include "frame_pool.h"
#include "host_memory.h"
#include "queue.h"
#include "straightline/abi/straightline.h"

namespace straightline {

/// The end of the last run's work on a queue. The event is kept for the next run where the device
/// can record it again.
struct QueueMark {
  void* event = nullptr;
  /// the queue that recorded it (a run may use the caller's own stream)
  const sl_device_desc* device = nullptr;
  bool pending = false;  ///< the queue may not have passed it yet
};

/// A graph of a frame, with all arguments that its last launch had.
struct LaunchedGraph {
  sl_queue queue;              ///< collects runs that are launched as a graph
  std::vector<uint64_t> seen;  ///< the words of sl_bindings that it was launched with
  uint64_t weights = 0;        ///< serial of their set
  /// `seen` is up to date; false: the last run failed, or there was none
  bool isLaunched = false;
  uint64_t run = 0;  ///< number of the frame's run that used it last
};

/// The graphs of a frame: one, and more for bindings that recur. (A framework's allocator returns
/// results at two or three addresses in turn, and a server sees a few sizes: each of these then has
/// a graph of its own, and no node is updated.) Runs of a frame follow each other, so all its
/// graphs share its arena.
struct FrameGraphs {
  static constexpr size_t kMost = 4;
  static constexpr size_t kRemembered = 8;
  std::array<LaunchedGraph, kMost> graphs;
  size_t count = 0;     ///< of `graphs` that were made
  size_t gathered = 0;  ///< index of the graph that was updated last
  uint64_t runs = 0;
  /// hashes of the bindings of the last runs that updated a graph; 0: none
  std::array<uint64_t, kRemembered> misses{};
  size_t nextMiss = 0;
};

}  // namespace straightline

/// Owned by exactly one party at any time: by a caller between lease and return; by the graph that
/// the caller captured, if its run was captured; else by the pool.
struct sl_frame {
  sl_program* program = nullptr;
  std::vector<straightline::Block> arenas;  ///< by memory space
  std::vector<void*> addresses;             ///< of `arenas`, what sl_bindings points at
  std::vector<sl_queue> deviceQueues;       ///< by queue index; [0] is unused
  /// what sl_bindings points at; [0] is set by each run
  std::vector<void*> queues;
  std::vector<straightline::QueueMark> marks;  ///< by queue index
  /// runs on it need not wait for the last run, unless it is null
  const sl_queue* leasedFor = nullptr;
  /// of the queue of the last run (sl_device_desc.queue_order); 0: unknown
  uint64_t order = 0;
  /// the last run recorded no event: until it is waited for, only its order may lease the frame
  bool unmarked = false;
  bool captured = false;  ///< its runs become part of a graph of the caller's
  /// graphs of runs; made by the first run that is launched as a graph
  straightline::FrameGraphs graphs;
  /// Context of a run with device queues: kernels may use it after sl_run has returned, so it lives
  /// here.
  sl_ctx context{};
  bool failureUnreported =
      false;                 ///< a failure that arrives in `context` now belongs to nobody yet
  sl_frame* next = nullptr;  ///< in FramePool::overflow
};

namespace straightline {

/// Whether a run in this order may go without an event: the frame can be leased again at once in
/// the same order, no other order has asked for a frame, and the memory that another order would
/// have to allocate is small.
bool needsNoMark(const sl_frame& frame);
/// Blocks until nothing that was enqueued with this frame is running, then forgets the events.
void waitForFrame(sl_frame* frame);
/// Waits for pending work and frees arenas, queues and the frame itself.
void destroyFrame(sl_frame* frame);
/// Destroys every frame of the pool. No frame may be leased.
void drainPool(FramePool* pool);
/// Blocks until no frame in the pool has work pending (called before prepared data is freed).
void waitForPool(FramePool* pool);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_FRAME_H
