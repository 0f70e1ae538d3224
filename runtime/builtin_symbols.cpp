// SPDX-License-Identifier: Apache-2.0
#include "builtin_symbols.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

// From libgcc.a, where they are hidden: the linker of this library binds them, dlsym would not find
// them.
extern "C" {
__int128 __divti3(__int128, __int128);
__int128 __modti3(__int128, __int128);
unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);
unsigned __int128 __umodti3(unsigned __int128, unsigned __int128);
__int128 __multi3(__int128, __int128);
}

namespace straightline {
namespace {

// bfloat16 and half travel in the low 16 bits of an SSE register, which is how _Float16 is passed;
// libgcc 12 lacks the bfloat16 conversions.
using Word = _Float16;

Word word(std::uint16_t bits) { return std::bit_cast<Word>(bits); }

std::uint16_t roundToBfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // a NaN stays one
  }
  // to nearest, ties to even
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// double to float, rounded to odd: a second rounding to a narrower type then gives the same as one
/// rounding.
float roundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value) || std::isinf(back)) {
    return nearest;
  }
  std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const bool awayFromZero = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  bits -= awayFromZero ? 1 : 0;
  return std::bit_cast<float>(bits | 1u);
}

std::uint16_t roundToHalf(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x47800000u) {  // 65536 and above
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  }
  // below the smallest normal half: the float unit rounds at 2^-24
  if (magnitude < 0x38800000u) {
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // ulp of 0.5 is 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float halfToFloat(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

Word truncateFloatToBfloat16(float value) { return word(roundToBfloat16(value)); }
Word truncateDoubleToBfloat16(double value) { return word(roundToBfloat16(roundToOdd(value))); }
Word truncateFloatToHalf(float value) { return word(roundToHalf(value)); }
Word truncateDoubleToHalf(double value) { return word(roundToHalf(roundToOdd(value))); }
float extendHalfToFloat(Word value) { return halfToFloat(std::bit_cast<std::uint16_t>(value)); }

template <typename Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void* builtinSymbol(const char* name) {
  struct Entry {
    const char* name;
    void* address;
  };
  static const Entry entries[] = {
      {"memcpy", address<void*(void*, const void*, size_t)>(&std::memcpy)},
      {"memmove", address<void*(void*, const void*, size_t)>(&std::memmove)},
      {"memset", address<void*(void*, int, size_t)>(&std::memset)},
      {"memcmp", address<int(const void*, const void*, size_t)>(&std::memcmp)},
      {"bcmp", address<int(const void*, const void*, size_t)>(&std::memcmp)},
      {"__divti3", address(&__divti3)},
      {"__modti3", address(&__modti3)},
      {"__udivti3", address(&__udivti3)},
      {"__umodti3", address(&__umodti3)},
      {"__multi3", address(&__multi3)},
      {"__truncsfbf2", address(&truncateFloatToBfloat16)},
      {"__truncdfbf2", address(&truncateDoubleToBfloat16)},
      {"__truncsfhf2", address(&truncateFloatToHalf)},
      {"__truncdfhf2", address(&truncateDoubleToHalf)},
      {"__extendhfsf2", address(&extendHalfToFloat)},
  };
  for (const Entry& entry : entries) {
    if (std::strcmp(name, entry.name) == 0) {
      return entry.address;
    }
  }
  return nullptr;
}

}  // namespace straightline
