// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sim {
namespace {

[[noreturn]] void giveUp(const char* what) {
  std::perror(what);
  std::abort();  // there is no device without its memory
}

size_t roundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

DeviceMemory::DeviceMemory() {
  file_ = memfd_create("simulated_device", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(kBytes)) != 0) {
    giveUp("sim: memfd_create");
  }
  const int shared = MAP_SHARED | MAP_NORESERVE;
  void* user = mmap(nullptr, kBytes, PROT_NONE, shared, file_, 0);
  void* worker = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, shared, file_, 0);
  void* granules = mmap(nullptr, kBytes / kGranule, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (user == MAP_FAILED || worker == MAP_FAILED || granules == MAP_FAILED) {
    giveUp("sim: mmap");
  }
  // A process that is forked has no workers, and must not write what the parent's device holds.
  madvise(worker, kBytes, MADV_DONTFORK);
  user_ = static_cast<char*>(user);
  worker_ = static_cast<char*>(worker);
  granules_ = static_cast<uint8_t*>(granules);
  addGap(0, kBytes);
  if (const char* text = std::getenv("SIM_DEVICE_MEMORY")) {
    limit_ = std::strtoull(text, nullptr, 10);
  }
}

void DeviceMemory::addGap(size_t begin, size_t bytes) {
  gaps_[begin] = bytes;
  gapSizes_.insert({bytes, begin});
}

void DeviceMemory::removeGap(size_t begin, size_t bytes) {
  gaps_.erase(begin);
  gapSizes_.erase({bytes, begin});
}

void DeviceMemory::mark(size_t begin, size_t bytes, uint8_t value) {
  std::memset(granules_ + begin / kGranule, value, bytes / kGranule);
}

void* DeviceMemory::allocate(size_t bytes, size_t alignment) {
  if (bytes > kBytes || alignment > kGranule) {
    return nullptr;
  }
  const size_t whole = roundUp(bytes ? bytes : 1, kGranule);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto best = gapSizes_.lower_bound({whole, 0});
  if (live_ + whole > limit_ || best == gapSizes_.end()) {
    return nullptr;
  }
  const auto [gapBytes, begin] = *best;
  removeGap(begin, gapBytes);
  if (gapBytes > whole) {
    addGap(begin + whole, gapBytes - whole);
  }
  blocks_[begin] = whole;
  live_ += whole;
  mark(begin, whole, 2);
  granules_[begin / kGranule] = 1;
  std::memset(worker_ + begin, 0xff, whole);
  return user_ + begin;
}

void DeviceMemory::deallocate(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t begin = static_cast<size_t>(static_cast<char*>(address) - user_);
  const auto found = blocks_.find(begin);
  if (!owns(address) || found == blocks_.end()) {
    giveUp("sim: deallocate of an address that is not allocated");
  }
  size_t bytes = found->second;
  blocks_.erase(found);
  live_ -= bytes;
  mark(begin, bytes, 0);
  if (bytes >= (size_t{1} << 20)) {  // gives whole pages back to the host
    constexpr size_t kPage = 4096;
    const size_t first = roundUp(begin, kPage), last = (begin + bytes) / kPage * kPage;
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
              static_cast<off_t>(last - first));
  }
  const auto after = gaps_.find(begin + bytes);
  if (after != gaps_.end()) {
    const size_t more = after->second;
    removeGap(begin + bytes, more);
    bytes += more;
  }
  const auto next = gaps_.lower_bound(begin);
  if (next != gaps_.begin()) {
    const auto [before, beforeBytes] = *std::prev(next);
    if (before + beforeBytes == begin) {
      removeGap(before, beforeBytes);
      begin = before;
      bytes += beforeBytes;
    }
  }
  addGap(begin, bytes);
}

bool DeviceMemory::owns(const void* address) const {
  return address >= user_ && address < user_ + kBytes;
}

void* DeviceMemory::translate(const void* address, size_t bytes) const {
  if (!owns(address)) {
    return nullptr;
  }
  const size_t offset = static_cast<size_t>(static_cast<const char*>(address) - user_);
  if (bytes > kBytes - offset) {
    return nullptr;
  }
  const size_t first = offset / kGranule;
  const size_t last = (offset + (bytes ? bytes : 1) - 1) / kGranule;
  if (granules_[first] == 0) {
    return nullptr;
  }
  for (size_t granule = first + 1; granule <= last; ++granule) {
    if (granules_[granule] != 2) {  // free, or another block
      return nullptr;
    }
  }
  return worker_ + offset;
}

void DeviceMemory::setLimit(size_t bytes) { limit_ = bytes; }

DeviceMemory& memoryOf(int device) {
  static DeviceMemory* const instances = new DeviceMemory[kDevices];
  return instances[device];
}

int deviceOf(const void* address) {
  for (int device = 0; device < kDevices; ++device) {
    if (memoryOf(device).owns(address)) {
      return device;
    }
  }
  return -1;
}

}  // namespace sim
