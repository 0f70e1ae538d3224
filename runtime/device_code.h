// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_DEVICE_CODE_H
#define STRAIGHTLINE_RUNTIME_DEVICE_CODE_H

#include <atomic>
#include <mutex>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline {

/// A program's machine code as loaded by its devices. The first run loads it, not the creation of
/// the program, so that a program for a device can be compiled on a machine without that device.
class DeviceKernels {
 public:
  DeviceKernels() = default;
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;
  ~DeviceKernels();

  /// Loads once, on device number `device`; any thread may call it. A failure is reported to this
  /// caller, and the next caller tries again.
  int32_t load(const sl_program_desc& desc, int32_t device, sl_message* message);
  /// By entry; null for entries that run on the host, and for all entries before load.
  void* const* table() const { return table_.empty() ? nullptr : table_.data(); }

 private:
  void unload();

  std::atomic<bool> loaded_{false};
  std::mutex mutex_;
  std::vector<void*> table_;
  std::vector<const sl_device_desc*> devices_;  ///< by entry
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_DEVICE_CODE_H
