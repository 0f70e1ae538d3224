// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_WEIGHTS_H
#define STRAIGHTLINE_RUNTIME_WEIGHTS_H

#include <atomic>
#include <vector>

#include "host_memory.h"
#include "straightline/abi/straightline.h"

/// Immutable once prepared, but for the reference count. Keeps its program alive: the code that
/// destroys handles is there.
struct sl_weights {
  sl_program* program = nullptr;
  void (*release)(void*) = nullptr;
  void* user = nullptr;
  std::atomic<int32_t> references{1};
  std::vector<void*> parameters;              ///< borrowed
  std::vector<straightline::Block> prepared;  ///< by memory space
  std::vector<void*> preparedAddresses;       ///< of `prepared`, what sl_bindings points at
  std::vector<void*> handles;
};

#endif  // STRAIGHTLINE_RUNTIME_WEIGHTS_H
