// SPDX-License-Identifier: Apache-2.0
#include "late_queue.h"

#include <atomic>
#include <utility>

namespace straightline::test_device {
namespace {

std::atomic<int64_t> delayMicroseconds{2000};
std::atomic<int64_t> executed{0};
std::atomic<int64_t> enqueued{0};
std::atomic<uint64_t> queuesMade{0};

/// Stops all workers between items.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool held = false;
};
Gate& gate() {
  static Gate* const instance = new Gate;
  return *instance;
}

void waitAtGate() {
  std::unique_lock<std::mutex> lock(gate().mutex);
  gate().changed.wait(lock, [] { return !gate().held; });
}

}  // namespace

void setHeld(bool held) {
  const std::lock_guard<std::mutex> lock(gate().mutex);
  gate().held = held;
  gate().changed.notify_all();
}

void setDelay(std::chrono::microseconds delay) { delayMicroseconds = delay.count(); }
int64_t executedItems() { return executed; }

void waitForAll() {
  while (executed < enqueued) {
    std::this_thread::yield();
  }
}

void Event::fire() {
  const std::lock_guard<std::mutex> lock(mutex_);
  fired_ = true;
  changed_.notify_all();
}

void Event::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return fired_; });
}

bool Event::fired() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return fired_;
}

LateQueue::LateQueue(int device)
    : device_(device), number_(++queuesMade), worker_([this] { work(); }) {}

LateQueue::~LateQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

void LateQueue::enqueue(std::function<void()> item) {
  const auto earliest =
      std::chrono::steady_clock::now() + std::chrono::microseconds(delayMicroseconds.load());
  const std::lock_guard<std::mutex> lock(mutex_);
  items_.push_back({earliest, std::move(item)});
  ++enqueued;
  changed_.notify_all();
}

void LateQueue::work() {
  for (;;) {
    Item item;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !items_.empty(); });
      if (items_.empty()) {
        return;
      }
      item = std::move(items_.front());
      items_.pop_front();
    }
    std::this_thread::sleep_until(item.earliest);
    waitAtGate();
    item.run();
    ++executed;
  }
}

}  // namespace straightline::test_device
