// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "random.h"

namespace sim {
namespace {

std::atomic<int64_t> delayNs{0};
std::atomic<uint64_t> delaySeed{1};
std::atomic<int64_t> executed{0};
std::atomic<uint64_t> queuesMade{0};

/// Stops all workers between items.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> held{false};
};
Gate& gate() {
  static Gate* const instance = new Gate;
  return *instance;
}

void waitAtGate() {
  if (gate().held.load(std::memory_order_acquire)) {
    std::unique_lock<std::mutex> lock(gate().mutex);
    gate().changed.wait(lock, [] { return !gate().held; });
  }
}

/// The queues that exist, for `finish`.
struct Queues {
  std::mutex mutex;
  std::vector<Queue*> all;
};
Queues& queues() {
  static Queues* const instance = [] {
    if (const char* text = std::getenv("SIM_DEVICE_DELAY_US")) {
      const char* seed = std::getenv("SIM_DEVICE_SEED");
      setDelay(std::strtoll(text, nullptr, 10), seed ? std::strtoull(seed, nullptr, 10) : 1);
    }
    return new Queues;
  }();
  return *instance;
}

void pauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits up to some 30 us for `ready` without sleeping: work often follows at once.
template <typename Ready>
bool spin(const Ready& ready) {
  const int64_t end = nowNs() + 30'000;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) {
        return true;
      }
      pauseBriefly();
    }
  } while (nowNs() < end);
  return false;
}

}  // namespace

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void setDelay(int64_t microseconds, uint64_t seed) {
  delaySeed = seed;
  delayNs = microseconds * 1000;
}

void setHeld(bool held) {
  const std::lock_guard<std::mutex> lock(gate().mutex);
  gate().held = held;
  gate().changed.notify_all();
}

int64_t executedItems() { return executed; }

void Progress::await(uint64_t item) {
  if (spin([&] { return passed(item); })) {
    return;
  }
  std::unique_lock<std::mutex> lock(mutex);
  ++waiting;
  changed.wait(lock, [&] { return passed(item); });
  --waiting;
}

void Progress::advance() {
  done.fetch_add(1);  // sequentially consistent, as `waiting`: one of both sides sees the other
  if (waiting.load() > 0) {
    const std::lock_guard<std::mutex> lock(mutex);
    changed.notify_all();
  }
}

Queue::Queue(int device)
    : device_(device), number_(++queuesMade), first_(std::make_unique<Block>()), worker_() {
  last_ = first_.get();
  {
    const std::lock_guard<std::mutex> lock(queues().mutex);
    queues().all.push_back(this);
  }
  worker_ = std::thread([this] { work(); });
}

Queue::~Queue() {
  {
    const std::lock_guard<std::mutex> lock(queues().mutex);
    auto& all = queues().all;
    all.erase(std::find(all.begin(), all.end(), this));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

uint64_t Queue::enqueue(Item&& item) {
  const int64_t most = delayNs.load(std::memory_order_relaxed);
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = enqueued_.load(std::memory_order_relaxed) + 1;
    if (most > 0) {
      const uint64_t drawn = mix(delaySeed + 0x9e3779b97f4a7c15u * number_ + number);
      item.earliestNs = nowNs() + static_cast<int64_t>(drawn % static_cast<uint64_t>(most + 1));
    }
    const uint64_t place = (number - 1) % Block::kItems;
    if (place == 0 && number > 1) {
      last_->next = std::make_unique<Block>();
      last_ = last_->next.get();
    }
    last_->items[place] = std::move(item);
    enqueued_.store(number);  // sequentially consistent, as `asleep_`
  }
  if (asleep_.load()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }
  return number;
}

void Queue::runItem(Item& item) {
  if (item.earliestNs > 0) {
    const int64_t wait = item.earliestNs - nowNs();
    if (wait > 0) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(wait));
    }
  }
  waitAtGate();
  item.function(*this, item);
  item.held.reset();
  executed.fetch_add(1, std::memory_order_relaxed);
  progress_->advance();
}

void Queue::work() {
  for (uint64_t begun = 0;; ++begun) {
    if (!spin([&] { return enqueued() > begun; })) {
      std::unique_lock<std::mutex> lock(mutex_);
      asleep_ = true;
      changed_.wait(lock, [&] { return closing_ || enqueued_ > begun; });
      asleep_ = false;
      if (enqueued_ == begun) {
        return;
      }
    }
    const uint64_t place = begun % Block::kItems;
    if (place == 0 && begun > 0) {
      first_ = std::move(first_->next);
    }
    runItem(first_->items[place]);
  }
}

void Queue::fail(const char* kernel, const sl_ctx& context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) {
    return;
  }
  std::memset(&failure_, 0, sizeof failure_);
  failure_.status = context.status;
  std::memcpy(failure_.detail, context.detail, sizeof failure_.detail);
  char text[128] = "it set a status";
  if (context.status == SL_INDEX_ERROR) {
    std::snprintf(text, sizeof text, "index %lld is out of range [%lld, %lld)",
                  static_cast<long long>(context.detail[0]),
                  static_cast<long long>(context.detail[1]),
                  static_cast<long long>(context.detail[2] + 1));
  }
  std::snprintf(failure_.text, sizeof failure_.text, "in earlier work of this queue, kernel %s: %s",
                kernel, context.text[0] ? context.text : text);
  failed_ = true;
}

int32_t Queue::tellFailure(sl_ctx* ctx) {
  if (!failed_.load(std::memory_order_acquire)) {
    return SL_OK;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failed_) {
    return SL_OK;
  }
  failed_ = false;
  if (ctx) {
    sl_plugin_fail(ctx, failure_.status, failure_.text);
    std::memcpy(ctx->detail, failure_.detail, sizeof ctx->detail);
  }
  return failure_.status;
}

void finish(int device) {
  std::vector<std::pair<std::shared_ptr<Progress>, uint64_t>> points;
  {
    const std::lock_guard<std::mutex> lock(queues().mutex);
    for (const Queue* queue : queues().all) {
      if (queue->device() == device) {
        points.emplace_back(queue->progress(), queue->enqueued());
      }
    }
  }
  for (const auto& [progress, item] : points) {
    progress->await(item);
  }
}

}  // namespace sim
