// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_WEIGHTS_H
#define STRAIGHTLINE_RUNTIME_WEIGHTS_H

#include <atomic>
#include <vector>

#include "host_memory.h"
#include "straightline/abi/straightline.h"

/// Immutable once prepared, except for the reference count. Holds a reference to its program, whose
/// code destroys the handles.
struct sl_weights {
  sl_program* program = nullptr;
  void (*release)(void*) = nullptr;
  void* user = nullptr;
  std::atomic<int32_t> references{1};
  /// unique in this process, because a later set may get the same addresses
  const uint64_t serial = nextSerial();
  std::vector<void*> parameters;              ///< borrowed
  std::vector<straightline::Block> prepared;  ///< by memory space
  std::vector<void*> preparedAddresses;       ///< of `prepared`, what sl_bindings points at
  std::vector<void*> handles;

 private:
  static uint64_t nextSerial() {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
};

#endif  // STRAIGHTLINE_RUNTIME_WEIGHTS_H
