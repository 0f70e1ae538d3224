// SPDX-License-Identifier: Apache-2.0
#include "frame.h"

#include <cstring>
#include <memory>

#include "boundary.h"
#include "failure.h"
#include "message_writer.h"
#include "program.h"

#if defined(__SANITIZE_ADDRESS__)
#define SL_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SL_HAS_ASAN 1
#endif
#endif
#ifdef SL_HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace straightline {
namespace {

#ifdef SL_POISON_ARENA
// In sanitized builds an arena is NaN at the start of every call (all bits set: NaN in every float
// type, -1 in every integer type), so that a read of memory that this call has not written shows in
// the result. Between calls its memory may not be touched.
void beginUse(sl_frame* frame) {
  const sl_program& program = *frame->program;
  for (size_t i = 0; i < frame->arenas.size(); ++i) {
    const Block& block = frame->arenas[i];
    if (!program.spaceDevices[i] && block.address) {
#ifdef SL_HAS_ASAN
      ASAN_UNPOISON_MEMORY_REGION(block.address, block.bytes);
#endif
      std::memset(block.address, 0xff, block.bytes);
    }
  }
}

void endUse([[maybe_unused]] sl_frame* frame, [[maybe_unused]] bool pending) {
#ifdef SL_HAS_ASAN
  // While a queue still copies from or to the arena, it is in use.
  for (size_t i = 0; !pending && i < frame->arenas.size(); ++i) {
    const Block& block = frame->arenas[i];
    if (!frame->program->spaceDevices[i] && block.address) {
      ASAN_POISON_MEMORY_REGION(block.address, block.bytes);
    }
  }
#endif
}
#else
void beginUse(sl_frame*) {}
void endUse(sl_frame*, bool) {}
#endif

size_t neededBytes(const sl_program& program, size_t space, const int64_t* extents) {
  if (program.staticArenas) {
    return program.arenaBytes[space];
  }
  const int64_t bytes = sl_expr_value(&program.desc->arena_bytes[space], extents);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

/// Called when the queue has passed the mark. An event that cannot be recorded again is released.
void passed(QueueMark* mark) {
  mark->pending = false;
  if (!mark->device->record_again) {
    mark->device->event_destroy(mark->event);
    mark->event = nullptr;
  }
}

/// True when no work that used the frame is still enqueued. Never blocks.
bool hasPassed(sl_frame* frame) {
  if (frame->unmarked) {
    return false;
  }
  for (QueueMark& mark : frame->marks) {
    if (!mark.pending) {
      continue;
    }
    if (!mark.device->query(mark.event)) {
      return false;
    }
    passed(&mark);
  }
  return true;
}

bool isPending(const sl_frame& frame) {
  if (frame.unmarked) {
    return true;
  }
  for (const QueueMark& mark : frame.marks) {
    if (mark.pending) {
      return true;
    }
  }
  return false;
}

void push(std::atomic<sl_frame*>* list, sl_frame* frame) {
  frame->next = list->load(std::memory_order_relaxed);
  while (!list->compare_exchange_weak(frame->next, frame, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

/// Puts a frame into an empty slot. If the pool is full the frame is freed, or listed while a queue
/// still uses it.
void putBack(FramePool* pool, sl_frame* frame) {
  const uint64_t order = frame->order;
  for (int32_t i = 0; i < FramePool::kSlots; ++i) {
    sl_frame* empty = nullptr;
    if (pool->slots[i].load(std::memory_order_relaxed) == nullptr &&
        pool->slots[i].compare_exchange_strong(empty, frame, std::memory_order_release,
                                               std::memory_order_relaxed)) {
      pool->orders[i].store(order, std::memory_order_relaxed);
      return;
    }
  }
  if (!frame->unmarked && isPending(*frame)) {
    push(&pool->overflow, frame);
  } else {
    destroyFrame(frame);
  }
}

/// Returns a frame whose queues have passed its last use, or null.
sl_frame* takeIdle(FramePool* pool) {
  for (std::atomic<sl_frame*>& slot : pool->slots) {
    if (slot.load(std::memory_order_relaxed) == nullptr) {
      continue;
    }
    sl_frame* frame = slot.exchange(nullptr, std::memory_order_acquire);
    if (!frame) {
      continue;
    }
    if (hasPassed(frame)) {
      return frame;
    }
    putBack(pool, frame);
  }
  return nullptr;
}

/// Returns a frame whose last run was on the queue of this order, or null. The next run on that
/// queue may use it at once.
sl_frame* takeInOrder(FramePool* pool, uint64_t order) {
  for (int32_t i = 0; i < FramePool::kSlots; ++i) {
    if (pool->orders[i].load(std::memory_order_relaxed) != order ||
        pool->slots[i].load(std::memory_order_relaxed) == nullptr) {
      continue;
    }
    sl_frame* frame = pool->slots[i].exchange(nullptr, std::memory_order_acquire);
    if (frame && frame->order == order) {
      return frame;
    }
    if (frame) {
      putBack(pool, frame);
    }
  }
  return nullptr;
}

/// Returns a frame without enqueued work, as far as known without a query to a device, or null.
sl_frame* takeUnmarked(FramePool* pool) {
  for (std::atomic<sl_frame*>& slot : pool->slots) {
    sl_frame* frame = slot.load(std::memory_order_relaxed)
                          ? slot.exchange(nullptr, std::memory_order_acquire)
                          : nullptr;
    if (frame && !isPending(*frame)) {
      return frame;
    }
    if (frame) {
      putBack(pool, frame);
    }
  }
  return nullptr;
}

/// Frees the frames of the overflow list whose work has ended.
void sweepOverflow(FramePool* pool) {
  sl_frame* list = pool->overflow.exchange(nullptr, std::memory_order_acquire);
  while (list) {
    sl_frame* frame = list;
    list = list->next;
    if (hasPassed(frame)) {
      destroyFrame(frame);
    } else {
      push(&pool->overflow, frame);
    }
  }
}

/// Makes each arena large enough. On failure the frame stays consistent (smaller).
int32_t growArenas(sl_frame* frame, const int64_t* extents, sl_message* message) {
  const sl_program& program = *frame->program;
  for (size_t i = 0; i < frame->arenas.size(); ++i) {
    const size_t bytes = neededBytes(program, i, extents);
    Block& block = frame->arenas[i];
    if (bytes <= block.bytes) {
      continue;
    }
    waitForFrame(frame);  // the previous run may still use the smaller one
    releaseBlock(program.spaceDevices[i], &block);
    const bool allocated = allocateBlock(program.spaceDevices[i], program.device, bytes, &block);
    frame->addresses[i] = block.address;
    if (!allocated) {
      block = {};
      return reportNoMemory(program, i, "the program needs an arena of ",
                            static_cast<int64_t>(bytes), "", message);
    }
  }
  return SL_OK;
}

struct FrameDeleter {
  void operator()(sl_frame* frame) const { destroyFrame(frame); }
};

/// Arenas and queues are made when they are first needed.
std::unique_ptr<sl_frame, FrameDeleter> makeFrame(sl_program* program) {
  std::unique_ptr<sl_frame, FrameDeleter> frame(new sl_frame);
  const size_t spaces = program->spaceDevices.size();
  const size_t queues = program->queueDevices.size();
  frame->program = program;
  frame->arenas.resize(spaces);
  frame->addresses.resize(spaces);
  frame->deviceQueues.resize(queues);
  frame->queues.resize(queues);
  frame->marks.resize(queues);
  frame->context.size = sizeof(sl_ctx);
  frame->context.device = program->device;
  return frame;
}

/// A failure of a run that was still going on when its sl_run returned. It is reported to the next
/// lease, once.
bool takeLateFailure(sl_frame* frame, int32_t* status, sl_message* message) {
  if (!frame->failureUnreported) {
    return false;
  }
  frame->failureUnreported = false;
  *status = __atomic_load_n(&frame->context.status, __ATOMIC_ACQUIRE);
  if (*status == SL_OK) {
    return false;
  }
  describeFailure(*frame->program->desc, frame->context,
                  "in an earlier asynchronous call: ", nullptr, message);
  return true;
}

/// Notes the order of a lease.
void noteOrder(FramePool* pool, uint64_t order) {
  uint64_t known = pool->order.load(std::memory_order_relaxed);
  if (known == 0 && order != 0 &&
      pool->order.compare_exchange_strong(known, order, std::memory_order_relaxed)) {
    return;
  }
  if (known != order || order == 0) {
    pool->order.store(FramePool::kSeveral, std::memory_order_relaxed);
  }
}

/// Returns a frame for a run on `queue`, chosen by what is known about that queue's order; null
/// when a new frame is needed.
sl_frame* takeFor(sl_program* program, const sl_queue* queue, int32_t launch, uint64_t* order,
                  bool* captured) {
  const size_t ordered = program->orderedQueue;
  const sl_device_desc* device =
      ordered && queue && queue->number == program->device ? queue->device : nullptr;
  if (device && device == program->queueDevices[ordered] &&
      (program->deviceArena || launch == SL_LAUNCH_GRAPH)) {
    *captured = device->queue_captured && device->queue_captured(queue->handle);
    if (*captured) {
      return takeUnmarked(&program->frames);  // while a graph is captured no event may be asked
    }
    *order = device->queue_order(queue->handle);
    if (program->frames.order.load(std::memory_order_relaxed) != *order || *order == 0) {
      noteOrder(&program->frames, *order);
    }
    if (sl_frame* frame = *order ? takeInOrder(&program->frames, *order) : nullptr) {
      return frame;
    }
  }
  return takeIdle(&program->frames);
}

void destroyList(std::atomic<sl_frame*>* frames) {
  sl_frame* list = frames->exchange(nullptr, std::memory_order_acquire);
  while (list) {
    sl_frame* frame = list;
    list = list->next;
    destroyFrame(frame);  // waits
  }
}

}  // namespace

bool needsNoMark(const sl_frame& frame) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  return frame.order != 0 &&
         frame.program->frames.order.load(std::memory_order_relaxed) == frame.order &&
         sl_frame_bytes(&frame) <= kMostBytes;
}

void waitForFrame(sl_frame* frame) {
  if (frame->unmarked) {
    const sl_program& program = *frame->program;
    program.queueDevices[program.orderedQueue]->finish(program.device);
    frame->unmarked = false;
  }
  for (QueueMark& mark : frame->marks) {
    if (mark.pending) {
      mark.device->synchronize(mark.event);
      passed(&mark);
    }
  }
}

void destroyFrame(sl_frame* frame) {
  waitForFrame(frame);
  for (const QueueMark& mark : frame->marks) {
    if (mark.event) {
      mark.device->event_destroy(mark.event);
    }
  }
  for (LaunchedGraph& graph : frame->graphs.graphs) {
    closeDeviceQueue(&graph.queue);
  }
  for (sl_queue& queue : frame->deviceQueues) {
    closeDeviceQueue(&queue);
  }
  for (size_t i = 0; i < frame->arenas.size(); ++i) {
#if defined(SL_POISON_ARENA) && defined(SL_HAS_ASAN)
    if (!frame->program->spaceDevices[i] && frame->arenas[i].address) {
      ASAN_UNPOISON_MEMORY_REGION(frame->arenas[i].address, frame->arenas[i].bytes);
    }
#endif
    releaseBlock(frame->program->spaceDevices[i], &frame->arenas[i]);
  }
  delete frame;
}

void drainPool(FramePool* pool) {
  for (std::atomic<sl_frame*>& slot : pool->slots) {
    if (sl_frame* frame = slot.exchange(nullptr, std::memory_order_acquire)) {
      destroyFrame(frame);
    }
  }
  destroyList(&pool->overflow);
  destroyList(&pool->captured);
}

void waitForPool(FramePool* pool) {
  for (std::atomic<sl_frame*>& slot : pool->slots) {
    if (sl_frame* frame = slot.exchange(nullptr, std::memory_order_acquire)) {
      waitForFrame(frame);
      putBack(pool, frame);
    }
  }
  destroyList(&pool->overflow);
}

}  // namespace straightline

int32_t sl_frame_lease(sl_program* program, const int64_t* extents, sl_frame** out,
                       sl_message* message) {
  return sl_frame_lease_on(program, nullptr, SL_LAUNCH_STREAM, extents, out, message);
}

int32_t sl_frame_lease_on(sl_program* program, sl_queue* queue, int32_t launch,
                          const int64_t* extents, sl_frame** out, sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    uint64_t order = 0;
    bool captured = false;
    std::unique_ptr<sl_frame, FrameDeleter> frame(
        takeFor(program, queue, launch, &order, &captured));
    if (!captured && program->frames.overflow.load(std::memory_order_relaxed)) {
      sweepOverflow(&program->frames);
    }
    int32_t status = SL_OK;
    if (frame && takeLateFailure(frame.get(), &status, message)) {
      endUse(frame.get(), false);
      putBack(&program->frames, frame.release());
      return status;
    }
    if (!frame) {
      frame = makeFrame(program);
    }
    if ((status = growArenas(frame.get(), extents, message)) != SL_OK) {
      return status;
    }
    frame->leasedFor = order || captured ? queue : nullptr;
    frame->order = order;
    frame->captured = captured;
    beginUse(frame.get());
    *out = frame.release();
    return SL_OK;
  });
}

void sl_frame_return(sl_frame* frame) {
  if (!frame) {
    return;
  }
  if (frame->captured && sl_frame_bytes(frame) > 0) {
    straightline::push(&frame->program->frames.captured, frame);
    return;
  }
  frame->captured = false;
  straightline::endUse(frame, straightline::isPending(*frame));
  straightline::putBack(&frame->program->frames, frame);
}

size_t sl_frame_bytes(const sl_frame* frame) {
  size_t bytes = 0;
  for (const straightline::Block& block : frame->arenas) {
    bytes += block.bytes;
  }
  return bytes;
}
