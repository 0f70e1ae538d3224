// SPDX-License-Identifier: Apache-2.0
// Memory whose size is known at run time; emitted text allocates it by the name of its space.
#include "straightline/abi/device_calls.h"

#include <algorithm>
#include <cstring>

#include "host_memory.h"
#include "registry.h"

void* sl_alloc(const char* space, int32_t device, size_t bytes) {
  const sl_device_desc* kind = straightline::findSpace(space);
  if (!kind && std::strcmp(space, "host") != 0) {
    return nullptr;
  }
  straightline::Block block;
  return straightline::allocateBlock(kind, device, std::max<size_t>(bytes, 1), &block)
             ? block.address
             : nullptr;
}

void sl_free(const char* space, int32_t device, void* address, size_t bytes) {
  straightline::Block block{address, std::max<size_t>(bytes, 1), device};
  straightline::releaseBlock(straightline::findSpace(space), &block);
}
