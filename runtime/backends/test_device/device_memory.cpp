// SPDX-License-Identifier: Apache-2.0
#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace straightline::test_device {
namespace {

[[noreturn]] void giveUp(const char* what) {
  std::perror(what);
  std::abort();  // a test cannot go on without its device
}

}  // namespace

DeviceMemory::DeviceMemory() {
  const int file = memfd_create("sl_test_device", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(kBytes)) != 0) {
    giveUp("test_device: memfd");
  }
  void* device = mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* worker = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (device == MAP_FAILED || worker == MAP_FAILED) {
    giveUp("test_device: mmap");
  }
  device_ = static_cast<char*>(device);
  worker_ = static_cast<char*>(worker);
}

void* DeviceMemory::allocate(size_t bytes, size_t alignment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t offset = 0;
  for (const auto& [begin, length] : live_) {
    if (offset + bytes <= begin) {
      break;
    }
    offset = (begin + length + alignment - 1) / alignment * alignment;
  }
  if (bytes > kBytes || offset > kBytes - bytes) {
    return nullptr;
  }
  live_[offset] = bytes;
  std::memset(worker_ + offset, 0xff, bytes);
  return device_ + offset;
}

void DeviceMemory::deallocate(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto offset = static_cast<size_t>(static_cast<char*>(address) - device_);
  const auto found = live_.find(offset);
  if (found == live_.end()) {
    giveUp("test_device: deallocate of an address that is not allocated");
  }
  std::memset(worker_ + offset, 0xff, found->second);
  live_.erase(found);
}

void* DeviceMemory::translate(const void* address, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto* at = static_cast<const char*>(address);
  if (at < device_ || at >= device_ + kBytes) {
    return nullptr;
  }
  const auto offset = static_cast<size_t>(at - device_);
  auto next = live_.upper_bound(offset);
  if (next == live_.begin()) {
    return nullptr;
  }
  const auto& [begin, length] = *--next;
  return offset + bytes <= begin + length ? worker_ + offset : nullptr;
}

size_t DeviceMemory::liveBytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t bytes = 0;
  for (const auto& [begin, length] : live_) {
    bytes += length;
  }
  return bytes;
}

DeviceMemory& deviceMemory(int number) {
  static DeviceMemory* const instances = new DeviceMemory[kDevices];
  return instances[number];
}

}  // namespace straightline::test_device
