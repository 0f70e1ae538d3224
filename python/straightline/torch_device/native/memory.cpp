// SPDX-License-Identifier: Apache-2.0
// Memory of the device, kept for later tensors, and pinned memory of the host.
//
// A block belongs to the stream on which it was allocated.
// A freed one is given to a later tensor of that stream at once, because work of a stream runs in
// order.
// A block that other streams used, too
// (record_stream), waits for events of theirs.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "device.h"

namespace sl_torch {
namespace {

constexpr size_t kUnit = 512, kSmallMost = size_t{1} << 20, kLargeUnit = size_t{1} << 16;
constexpr size_t kSmallClasses = kSmallMost / kUnit + 1;

struct Block {
  void* data;
  size_t bytes;
  c10::DeviceIndex index;
  c10::StreamId stream;
  std::vector<c10::StreamId> users{};  ///< other streams
  std::vector<void*> events{};         ///< of them, while the block waits
};

struct Counters {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void add(int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    (amount > 0 ? allocated : freed) += std::abs(amount);
  }
  void write(c10::CachingAllocator::StatArray* to) const {
    (*to)[0].current = current;
    (*to)[0].peak = peak;
    (*to)[0].allocated = allocated;
    (*to)[0].freed = freed;
  }
};

/// Free blocks of one stream by size.
struct Free {
  std::array<std::vector<Block*>, kSmallClasses> small{};
  std::map<size_t, std::vector<Block*>> large{};
  std::vector<Block*>& of(size_t bytes) {
    return bytes <= kSmallMost ? small[bytes / kUnit] : large[bytes];
  }
};

struct Pool {
  std::mutex mutex;
  std::map<c10::StreamId, Free> free{};
  std::vector<Block*> waiting{};
  Counters blocks{}, bytes{}, reserved{};
};

Pool& poolOf(c10::DeviceIndex index) {
  static auto* const all = new std::array<Pool, 64>;
  return (*all)[static_cast<size_t>(index)];
}

size_t rounded(size_t bytes) {
  const size_t unit = bytes <= kSmallMost ? kUnit : kLargeUnit;
  return (bytes + unit - 1) / unit * unit;
}

/// Puts waiting blocks whose events have fired to the free ones; with `all`, waits for them.
void reclaim(Pool& pool, bool all) {
  std::vector<Block*> still;
  for (Block* block : pool.waiting) {
    bool ready = true;
    for (void* event : block->events) {
      if (all) {
        device().synchronize(event);
      }
      ready = ready && device().query(event);
    }
    if (!ready) {
      still.push_back(block);
      continue;
    }
    for (void* event : block->events) {
      device().event_destroy(event);
    }
    block->events.clear();
    pool.free[block->stream].of(block->bytes).push_back(block);
  }
  pool.waiting.swap(still);
}

/// Gives all free blocks back to the device, which has finished.
void giveBack(Pool& pool, c10::DeviceIndex index) {
  const auto each = [&](std::vector<Block*>& blocks) {
    for (Block* block : blocks) {
      device().deallocate(index, block->data, block->bytes);
      pool.reserved.add(-static_cast<int64_t>(block->bytes));
      delete block;
    }
    blocks.clear();
  };
  for (auto& [stream, free] : pool.free) {
    for (auto& blocks : free.small) {
      each(blocks);
    }
    for (auto& [bytes, blocks] : free.large) {
      each(blocks);
    }
  }
}

void finish(c10::DeviceIndex index) {
  if (device().finish) {
    device().finish(index);
  } else {
    waitForDevice(index);
  }
}

uint64_t totalBytes(c10::DeviceIndex index) {
  sl_device_properties properties = {};
  properties.size = sizeof properties;
  if (device().properties) {
    device().properties(index, &properties);
  }
  return properties.memory_bytes;
}

void release(void* context);

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t wanted) override {
    const c10::DeviceIndex index = currentDevice();
    if (wanted == 0) {
      return {nullptr, c10::Device(kType, index)};
    }
    checkProcess(index);  // the device's memory is not in a forked process, either
    Block* block = take(index, rounded(wanted));
    return {block->data, block, release, c10::Device(kType, index)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    copyWithin(currentDevice(), to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < deviceCount(); ++i) {
      const auto index = static_cast<c10::DeviceIndex>(i);
      finish(index);
      const std::lock_guard<std::mutex> lock(poolOf(index).mutex);
      reclaim(poolOf(index), true);
      giveBack(poolOf(index), index);
    }
  }
  void recordStream(const c10::DataPtr& data, c10::Stream on) override {
    auto* block = static_cast<Block*>(data.get_context());
    if (!block || data.get_deleter() != release || on.id() == block->stream) {
      return;
    }
    const std::lock_guard<std::mutex> lock(poolOf(block->index).mutex);
    if (std::find(block->users.begin(), block->users.end(), on.id()) == block->users.end()) {
      block->users.push_back(on.id());
    }
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    Pool& pool = poolOf(checked(index));
    const std::lock_guard<std::mutex> lock(pool.mutex);
    c10::CachingDeviceAllocator::DeviceStats stats;
    pool.blocks.write(&stats.allocation);
    pool.blocks.write(&stats.active);
    pool.bytes.write(&stats.allocated_bytes);
    pool.bytes.write(&stats.active_bytes);
    pool.reserved.write(&stats.reserved_bytes);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    Pool& pool = poolOf(checked(index));
    const std::lock_guard<std::mutex> lock(pool.mutex);
    for (Counters* one : {&pool.blocks, &pool.bytes, &pool.reserved}) {
      one->allocated = one->freed = 0;
    }
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    Pool& pool = poolOf(checked(index));
    const std::lock_guard<std::mutex> lock(pool.mutex);
    for (Counters* one : {&pool.blocks, &pool.bytes, &pool.reserved}) {
      one->peak = one->current;
    }
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const size_t total = totalBytes(checked(index));
    const std::lock_guard<std::mutex> lock(poolOf(index).mutex);
    const auto used = static_cast<size_t>(poolOf(index).reserved.current);
    return {total > used ? total - used : 0, total};
  }

 private:
  static Block* take(c10::DeviceIndex index, size_t bytes) {
    Pool& pool = poolOf(index);
    const c10::StreamId stream = currentStream(index);
    const std::lock_guard<std::mutex> lock(pool.mutex);
    if (!pool.waiting.empty()) {
      reclaim(pool, false);
    }
    auto& free = pool.free[stream].of(bytes);
    Block* block = nullptr;
    if (!free.empty()) {
      block = free.back();
      free.pop_back();
    } else {
      block = new Block{fresh(pool, index, bytes), bytes, index, stream};
      pool.reserved.add(static_cast<int64_t>(bytes));
    }
    pool.blocks.add(1);
    pool.bytes.add(static_cast<int64_t>(bytes));
    return block;
  }

  /// Memory of the device itself; where there is none left, free blocks are given back before.
  static void* fresh(Pool& pool, c10::DeviceIndex index, size_t bytes) {
    void* data = device().allocate(index, bytes, kUnit / 2);
    if (!data) {
      finish(index);
      reclaim(pool, true);
      giveBack(pool, index);
      data = device().allocate(index, bytes, kUnit / 2);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, data, "device ", c10::Device(kType, index),
                     " is out of memory: ", bytes, " bytes were asked for, tensors have ",
                     pool.bytes.current, " of ", totalBytes(index));
    return data;
  }
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  Pool& pool = poolOf(block->index);
  const std::lock_guard<std::mutex> lock(pool.mutex);
  pool.blocks.add(-1);
  pool.bytes.add(-static_cast<int64_t>(block->bytes));
  for (c10::StreamId stream : block->users) {
    block->events.push_back(device().record(sl_queue_handle(queueOf(block->index, stream))));
  }
  block->users.clear();
  if (block->events.empty()) {
    pool.free[block->stream].of(block->bytes).push_back(block);
  } else {
    pool.waiting.push_back(block);
  }
}

// --- pinned memory of the host

struct Pinned {
  size_t bytes = 0;
  std::vector<void*> events{};  ///< behind copies that use it
};
struct AllPinned {
  std::mutex mutex;
  std::map<const char*, Pinned> blocks{};
};
AllPinned& allPinned() {
  static auto* const all = new AllPinned;
  return *all;
}

/// Call it with the lock. NULL: `data` is not pinned.
Pinned* pinnedBlock(const void* data) {
  auto& blocks = allPinned().blocks;
  auto next = blocks.upper_bound(static_cast<const char*>(data));
  if (next == blocks.begin()) {
    return nullptr;
  }
  auto& [begin, block] = *--next;
  return data < begin + block.bytes ? &block : nullptr;
}

/// Waits for the copies that use the block.
void releasePinned(void* data) {
  Pinned block;
  {
    const std::lock_guard<std::mutex> lock(allPinned().mutex);
    const auto found = allPinned().blocks.find(static_cast<const char*>(data));
    block = std::move(found->second);
    allPinned().blocks.erase(found);
  }
  for (void* event : block.events) {
    device().synchronize(event);
    device().event_destroy(event);
  }
  device().deallocate_host(0, data, block.bytes);
}

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    TORCH_CHECK(device().allocate_host, "device '", backend(), "' has no pinned host memory");
    void* data = device().allocate_host(currentDevice(), std::max<size_t>(bytes, 1), 64);
    TORCH_CHECK_WITH(OutOfMemoryError, data, "no pinned host memory is left for ", bytes, " bytes");
    const std::lock_guard<std::mutex> lock(allPinned().mutex);
    allPinned().blocks[static_cast<const char*>(data)].bytes = std::max<size_t>(bytes, 1);
    return {data, data, releasePinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return releasePinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::DeviceAllocator* allocator() {
  static auto* const instance = new DeviceMemory;
  return instance;
}

c10::Allocator* pinnedAllocator() {
  static auto* const instance = new PinnedMemory;
  return instance;
}

bool isPinned(const void* data) {
  const std::lock_guard<std::mutex> lock(allPinned().mutex);
  return data && pinnedBlock(data) != nullptr;
}

void usePinned(c10::DeviceIndex index, const void* data) {
  const std::lock_guard<std::mutex> lock(allPinned().mutex);
  if (Pinned* block = pinnedBlock(data)) {
    auto& events = block->events;
    while (!events.empty() && device().query(events.back())) {
      device().event_destroy(events.back());
      events.pop_back();
    }
    events.push_back(device().record(currentHandle(index)));
  }
}

void registerMemory() { c10::SetAllocator(kType, allocator()); }

}  // namespace sl_torch
