// SPDX-License-Identifier: Apache-2.0
#include "random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace sim {
namespace {

enum Code { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

using Block = std::array<uint32_t, 4>;

Block philox(uint64_t seed, uint64_t counter) {
  Block c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t key[] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * c[0], second = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(second >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

uint64_t wordOf(const Block& block, int i) {
  return block[2 * i] | static_cast<uint64_t>(block[2 * i + 1]) << 32;
}

/// The top `bits` bits as a fraction from [0, 1), exact in a float of that precision.
double fraction(uint32_t word, int bits) { return std::ldexp(word >> (32 - bits), -bits); }
double fraction(uint64_t word) { return std::ldexp(static_cast<double>(word >> 11), -53); }

/// Two normal numbers of two uniform ones (Box and Muller).
void normals(double first, double second, double* out) {
  const double radius = std::sqrt(-2 * std::log(1 - first));
  const double angle = 6.283185307179586476925 * second;
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

/// Of a float with `mantissa` bits (the leading one included).
int elementsOf(int32_t kind, int bytes, int mantissa, const Block& block, double* out) {
  if (bytes == 8) {
    const double u[] = {fraction(wordOf(block, 0)), fraction(wordOf(block, 1))};
    if (kind == SL_RANDOM_NORMAL) {
      normals(u[0], u[1], out);
    } else {
      std::copy_n(u, 2, out);
    }
    return 2;
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = fraction(block[i], kind == SL_RANDOM_NORMAL ? 32 : mantissa);
  }
  if (kind == SL_RANDOM_NORMAL) {
    const double u[] = {out[0], out[1], out[2], out[3]};
    normals(u[0], u[1], out);
    normals(u[2], u[3], out + 2);
  }
  return 4;
}

/// Rounded to nearest, ties to even.
uint16_t toBfloat(double value) {
  const float narrow = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// |value| < 65504; what is below the least normal number is rounded to a multiple of 2^-24.
uint16_t toHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  int exponent = 0;
  const double size = std::fabs(value);
  std::frexp(size, &exponent);
  exponent = std::max(exponent, -13);  // size < 2^exponent
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 11 - exponent)));
  // For normal numbers the leading one adds itself to the exponent.
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + steps);
}

void store(sl_dtype dtype, double value, char* to) {
  if (dtype.bits == 64) {
    std::memcpy(to, &value, 8);
  } else if (dtype.bits == 32) {
    const float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, 4);
  } else {
    const uint16_t narrow = dtype.code == kBfloat ? toBfloat(value) : toHalf(value);
    std::memcpy(to, &narrow, 2);
  }
}

int perBlock(sl_dtype dtype) { return dtype.bits == 64 ? 2 : 4; }

int storeBits(sl_dtype dtype, const Block& block, int64_t room, char* to) {
  const int made = static_cast<int>(std::min<int64_t>(perBlock(dtype), room));
  for (int i = 0; i < made; ++i) {
    const uint64_t word = dtype.bits == 64      ? wordOf(block, i)
                          : dtype.code == kBool ? block[i] >> 31
                                                : block[i];
    std::memcpy(to + i * (dtype.bits / 8), &word, dtype.bits / 8);  // little-endian
  }
  return made;
}

}  // namespace

const char* whyNotRandom(int32_t kind, sl_dtype dtype) {
  const bool isFloat = (dtype.code == kFloat && dtype.bits >= 16) || dtype.code == kBfloat;
  const bool isInt = dtype.code == kInt || dtype.code == kUint || dtype.code == kBool;
  if (dtype.lanes != 1 || dtype.bits % 8 != 0 || dtype.bits > 64) {
    return "elements of 8, 16, 32 or 64 bits can be drawn";
  }
  if (kind == SL_RANDOM_BITS) {
    return isInt ? nullptr : "bits are drawn for integers and bool";
  }
  if (kind != SL_RANDOM_UNIFORM && kind != SL_RANDOM_NORMAL) {
    return "uniform and normal numbers, and bits, can be drawn";
  }
  return isFloat ? nullptr : "uniform and normal numbers are drawn for floats";
}

uint64_t randomStep(int32_t, sl_dtype dtype, int64_t count) {
  const int each = perBlock(dtype);
  return static_cast<uint64_t>((count + each - 1) / each);
}

void fillRandom(int32_t kind, sl_dtype dtype, void* to, int64_t count, uint64_t seed,
                uint64_t offset) {
  const int bytes = dtype.bits / 8;
  const int mantissa = dtype.code == kBfloat ? 8 : dtype.bits == 16 ? 11 : 24;
  char* at = static_cast<char*>(to);
  for (int64_t i = 0; i < count;) {
    const Block block = philox(seed, offset++);
    if (kind == SL_RANDOM_BITS) {
      const int made = storeBits(dtype, block, count - i, at);
      at += made * bytes;
      i += made;
      continue;
    }
    double values[4] = {};
    const int made = elementsOf(kind, bytes, mantissa, block, values);
    for (int j = 0; j < made && i < count; ++j, ++i, at += bytes) {
      store(dtype, values[j], at);
    }
  }
}

}  // namespace sim
