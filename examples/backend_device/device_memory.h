// SPDX-License-Identifier: Apache-2.0
// Memory of one simulated device: a memfd that is mapped twice. Users have addresses of the first
// mapping, which is PROT_NONE, so that a host that dereferences one faults. Workers use the second.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace sim {

constexpr int kDevices = 2;

/// Best fit in granules of 256 bytes, which is every block's alignment. Fresh memory is all bits
/// set: NaN as floats, -1 as integers. Lives as long as the process. Any thread.
class DeviceMemory {
 public:
  DeviceMemory();

  /// NULL: over the limit, or no gap is large enough.
  void* allocate(size_t bytes, size_t alignment);
  void deallocate(void* address);
  /// The worker's address of `bytes` bytes; NULL: they are not all allocated memory of this device.
  /// Takes no lock.
  void* translate(const void* address, size_t bytes = 1) const;
  /// Whether it is an address of the device at all, allocated or not.
  bool owns(const void* address) const;
  void setLimit(size_t bytes);
  size_t limit() const { return limit_; }
  size_t liveBytes() const { return live_; }

 private:
  static constexpr size_t kBytes = size_t{1} << 34;  ///< of addresses; only touched pages exist
  static constexpr size_t kGranule = 256;

  void addGap(size_t begin, size_t bytes);
  void removeGap(size_t begin, size_t bytes);
  void mark(size_t begin, size_t bytes, uint8_t value);

  mutable std::mutex mutex_;
  std::map<size_t, size_t> blocks_;               ///< offset -> granules' bytes, allocated
  std::map<size_t, size_t> gaps_;                 ///< offset -> bytes, free
  std::set<std::pair<size_t, size_t>> gapSizes_;  ///< (bytes, offset) of the same
  std::atomic<size_t> limit_{size_t{1} << 32};
  std::atomic<size_t> live_{0};
  int file_ = -1;
  char* user_ = nullptr;         ///< PROT_NONE
  char* worker_ = nullptr;       ///< readable and writable
  uint8_t* granules_ = nullptr;  ///< per granule: 0 free, 1 the first of a block, 2 a further one
};

/// That of device 0 or 1.
DeviceMemory& memoryOf(int device);
/// The device that has the address, -1: none.
int deviceOf(const void* address);

}  // namespace sim
