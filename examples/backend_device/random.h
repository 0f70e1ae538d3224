// SPDX-License-Identifier: Apache-2.0
// Random numbers by counter: element i of a fill depends on the seed and the offset alone. Each
// counter gives a block of 128 bits (Philox 4x32, 10 rounds), from which 4 elements are made, 2 of
// 64 bits.
#pragma once

#include <cstdint>

#include "straightline/abi/kernel.h"

namespace sim {

/// A bijection of 64 bits (the end of splitmix64).
inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// NULL: it can be drawn. Otherwise why not.
const char* whyNotRandom(int32_t kind, sl_dtype dtype);
/// Counters that `count` elements use.
uint64_t randomStep(int32_t kind, sl_dtype dtype, int64_t count);
/// `to` is an address of the worker.
void fillRandom(int32_t kind, sl_dtype dtype, void* to, int64_t count, uint64_t seed,
                uint64_t offset);

}  // namespace sim
