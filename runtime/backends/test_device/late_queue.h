// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_LATE_QUEUE_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_LATE_QUEUE_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace straightline::test_device {

/// Fires once. Shared between whoever holds it and the queues that wait for it, so it may be given
/// up at any time.
class Event {
 public:
  void fire();
  void wait();
  bool fired();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool fired_ = false;
};

/// A worker thread that runs items in order, each at least a delay after it was enqueued.
class LateQueue {
 public:
  explicit LateQueue(int device);
  /// Waits for what is enqueued.
  ~LateQueue();

  void enqueue(std::function<void()> item);
  /// No other queue of the process has had it.
  uint64_t number() const { return number_; }
  int device() const { return device_; }

 private:
  struct Item {
    std::chrono::steady_clock::time_point earliest;
    std::function<void()> run;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closing_ = false;
  const int device_;
  const uint64_t number_;
  std::thread worker_;  ///< last: starts when everything else is there
};

/// Delay of items that are enqueued from now on.
void setDelay(std::chrono::microseconds delay);
/// While held, no item starts.
void setHeld(bool held);
/// Items executed by all queues.
int64_t executedItems();
/// Blocks until no queue has anything left to execute.
void waitForAll();

}  // namespace straightline::test_device

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_LATE_QUEUE_H
