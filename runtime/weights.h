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
  sl_weights* memory = nullptr;  ///< whose prepared data is shared, a reference; null: its own
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

namespace straightline {

/// Between which memories a copy goes.
enum class Copy { toSpace, fromSpace, within };

/// Copies between the host and a memory space of the program, or within that, and waits.
int32_t copyBytes(const sl_program& program, size_t space, void* to, const void* from, size_t bytes,
                  Copy direction, sl_message* message);
/// Allocates a block of a memory space of the program, for the caller to release, and copies data
/// of the host into it.
int32_t copyToSpace(const sl_program& program, size_t space, const void* from, size_t bytes,
                    Block* block, sl_message* message);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_WEIGHTS_H
