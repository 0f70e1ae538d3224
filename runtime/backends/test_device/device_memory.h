// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_DEVICE_MEMORY_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_DEVICE_MEMORY_H

#include <cstddef>
#include <map>
#include <mutex>

namespace straightline::test_device {

/// One memfd mapped twice; first-fit allocation. Lives as long as the process. Thread-safe.
class DeviceMemory {
 public:
  DeviceMemory();

  /// A device address, null when out of memory.
  void* allocate(size_t bytes, size_t alignment);
  void deallocate(void* address);
  /// The worker's address of [address, address + bytes), null when that is not wholly device memory
  /// in use.
  void* translate(const void* address, size_t bytes = 1);
  size_t liveBytes();

 private:
  /// Sparse: only touched pages exist.
  static constexpr size_t kBytes = size_t{1} << 32;

  std::mutex mutex_;
  std::map<size_t, size_t> live_;  ///< offset -> bytes
  char* device_ = nullptr;         ///< PROT_NONE
  char* worker_ = nullptr;         ///< readable and writable
};

inline constexpr int kDevices = 2;

/// That of device number 0 or 1.
DeviceMemory& deviceMemory(int number);

}  // namespace straightline::test_device

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_TEST_DEVICE_DEVICE_MEMORY_H
