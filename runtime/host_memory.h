// SPDX-License-Identifier: Apache-2.0
// Blocks of host memory for arenas, scratch and prepared data; the same two calls allocate a
// device's memory.
#ifndef STRAIGHTLINE_RUNTIME_HOST_MEMORY_H
#define STRAIGHTLINE_RUNTIME_HOST_MEMORY_H

#include <cstddef>

#include "straightline/abi/straightline.h"

namespace straightline {

/// Every block starts at a multiple of this many bytes (a cache line, and one AVX-512 vector).
inline constexpr size_t kAlignment = 64;

/// One block. `address` is null when `bytes` is 0. Not owned: released by releaseBlock with the
/// same device.
struct Block {
  void* address = nullptr;
  size_t bytes = 0;
  int32_t number = 0;  ///< of the device that has it
};

/// Allocates from device `number` of a kind, or from the host when `device` is null. Host blocks of
/// 2 MiB or more are aligned to huge pages and lie in them, but for the end where it fills a page
/// too little. Returns false when out of memory; a request
/// for 0 bytes gives an empty block.
bool allocateBlock(const sl_device_desc* device, int32_t number, size_t bytes, Block* block);
void releaseBlock(const sl_device_desc* device, Block* block);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_HOST_MEMORY_H
