// SPDX-License-Identifier: Apache-2.0
// A queue of a simulated device: a worker thread that runs items in order, late if it is told to.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "straightline/abi/plugin.h"

namespace sim {

class Queue;

/// One piece of work. `arguments` are 8 bytes each; what they mean is the function's matter.
struct Item {
  static constexpr int kInline = 20;
  using Function = void (*)(Queue& queue, Item& item);

  Function function = nullptr;
  const void* code = nullptr;
  int32_t count = 0;
  int64_t inlined[kInline];
  std::unique_ptr<int64_t[]> more{};  ///< instead of `inlined`, for more than kInline
  std::shared_ptr<void> held{};       ///< lives until the item has run
  int64_t earliestNs = 0;

  int64_t* arguments() { return more ? more.get() : inlined; }
  /// Room for so many arguments.
  int64_t* reserve(int32_t wanted) {
    count = wanted;
    if (wanted > kInline) {
      more.reset(new int64_t[static_cast<size_t>(wanted)]);
    }
    return arguments();
  }
};

/// How far a queue is; shared by the queue and its events, which may outlive it. Items are counted
/// from 1 in the order in which they were enqueued.
struct Progress {
  std::atomic<uint64_t> done{0};
  std::atomic<int> waiting{0};
  std::mutex mutex;
  std::condition_variable changed;

  bool passed(uint64_t item) const { return done.load(std::memory_order_acquire) >= item; }
  /// Blocks until the item has run.
  void await(uint64_t item);
  void advance();
};

/// A point of a queue. `record_again` moves it.
struct Event {
  std::mutex mutex;  ///< guards `progress` and `item`
  std::shared_ptr<Progress> progress{};
  uint64_t item = 0;
  std::shared_ptr<std::atomic<int64_t>> firedNs{};  ///< NULL: not timed
};

class Queue {
 public:
  explicit Queue(int device);
  /// Waits for what is enqueued.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Number of the item.
  uint64_t enqueue(Item&& item);
  int device() const { return device_; }
  /// No other queue of the process has had it.
  uint64_t number() const { return number_; }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  uint64_t enqueued() const { return enqueued_.load(std::memory_order_acquire); }

  /// Keeps the first failure of an item until `tellFailure`. `context` has a status.
  void fail(const char* kernel, const sl_ctx& context);
  /// Records the kept failure in `ctx`, and forgets it. SL_OK: there is none.
  int32_t tellFailure(sl_ctx* ctx);

 private:
  /// Items that follow each other; the worker frees a block when it has run its last item.
  struct Block {
    static constexpr uint64_t kItems = 128;
    Item items[kItems];
    std::unique_ptr<Block> next{};  ///< there before its first item is counted
  };

  void work();
  void runItem(Item& item);

  const int device_;
  const uint64_t number_;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  std::mutex mutex_;  ///< the worker takes it only to sleep and to keep a failure
  std::condition_variable changed_;
  Block* last_ = nullptr;  ///< where the next item goes; guarded by mutex_
  bool closing_ = false;
  sl_ctx failure_{};  ///< guarded by mutex_
  std::atomic<bool> failed_{false};
  std::atomic<bool> asleep_{false};
  std::atomic<uint64_t> enqueued_{0};  ///< what is counted here is the worker's
  std::unique_ptr<Block> first_;       ///< the worker's
  std::thread worker_;                 ///< last: starts when everything else is there
};

/// Each item starts a random time of up to so many microseconds after it was enqueued; the times
/// are drawn from the seed, the queue's number and the item's.
void setDelay(int64_t microseconds, uint64_t seed);
/// While held, no item of any queue starts.
void setHeld(bool held);
/// Items that all queues have run.
int64_t executedItems();
/// Blocks until all queues of a device have run what was enqueued before.
void finish(int device);
int64_t nowNs();

}  // namespace sim
