// SPDX-License-Identifier: Apache-2.0
#include "host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace straightline {
namespace {

// Convolutions that stream weights gain 5-15 % from huge pages; small arenas would only waste
// memory.
constexpr size_t kHugePage = size_t{2} << 20;

size_t roundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// How many bytes of a block lie in huge pages. The last one counts unless more than an eighth of
/// what the block needs would lie idle in it.
size_t hugeBytes(size_t bytes) {
  const size_t whole = roundUp(bytes, kHugePage);
  return whole - bytes > bytes / 8 ? bytes / kHugePage * kHugePage : whole;
}

}  // namespace

bool allocateBlock(const sl_device_desc* device, int32_t number, size_t bytes, Block* block) {
  *block = {nullptr, 0, number};
  if (bytes == 0) {
    return true;
  }
  if (bytes > (size_t{1} << 62)) {
    return false;
  }
  if (device) {
    block->address = device->allocate(number, bytes, kAlignment);
    block->bytes = bytes;
    return block->address != nullptr;
  }
  const size_t huge = bytes >= kHugePage ? hugeBytes(bytes) : 0;
  const size_t rounded = std::max(huge, roundUp(bytes, kAlignment));
  // Not std::aligned_alloc: the size is no multiple of the alignment.
  if (posix_memalign(&block->address, huge != 0 ? kHugePage : kAlignment, rounded) != 0) {
    block->address = nullptr;
  }
  if (!block->address) {
    return false;
  }
  if (huge != 0) {
    madvise(block->address, huge, MADV_HUGEPAGE);  // a hint: failure changes speed only
  }
  block->bytes = rounded;
#ifdef SL_POISON_ARENA
  std::memset(block->address, 0xff,
              rounded);  // NaN in every float type: reading what nobody wrote shows
#endif
  return true;
}

void releaseBlock(const sl_device_desc* device, Block* block) {
  if (!block->address) {
    return;
  }
  if (device) {
    device->deallocate(block->number, block->address, block->bytes);
  } else {
    std::free(block->address);
  }
  *block = {};
}

}  // namespace straightline
