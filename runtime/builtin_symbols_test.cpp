// SPDX-License-Identifier: Apache-2.0
// Checks the 16-bit conversions against the compiler's own, over random bit patterns and the edges
// of each range.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>

#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

template <typename Result, typename Argument>
Result callBuiltin(const char* name, Argument argument) {
  return reinterpret_cast<Result (*)(Argument)>(sl_symbol(name))(argument);
}

std::uint16_t bits(_Float16 value) { return std::bit_cast<std::uint16_t>(value); }

TEST(BuiltinSymbols, UnknownNamesAreNull) {
  EXPECT_EQ(sl_symbol("expf"), nullptr);
  EXPECT_EQ(sl_symbol(""), nullptr);
  EXPECT_NE(sl_symbol("memcpy"), nullptr);
}

TEST(BuiltinSymbols, HalfMatchesTheCompiler) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2'000'000; ++i) {
    // Exponents around and inside half's range (112..142), plus all others now and then.
    std::uint32_t pattern = random();
    if (i % 4 != 0) {
      pattern = (pattern & 0x807fffffu) | ((98u + random() % 48u) << 23);
    }
    const float value = std::bit_cast<float>(pattern);
    if (value != value) {
      continue;
    }
    ASSERT_EQ(bits(callBuiltin<_Float16>("__truncsfhf2", value)),
              bits(static_cast<_Float16>(value)))
        << value;
    const double wide =
        static_cast<double>(value) * (1.0 + 0x1p-40 * static_cast<int>(random() % 3 - 1));
    ASSERT_EQ(bits(callBuiltin<_Float16>("__truncdfhf2", wide)), bits(static_cast<_Float16>(wide)))
        << wide;
  }
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const _Float16 half = std::bit_cast<_Float16>(static_cast<std::uint16_t>(pattern));
    const float expected = static_cast<float>(half);
    const float got = callBuiltin<float>("__extendhfsf2", half);
    if (expected == expected) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected))
          << pattern;
    } else {
      ASSERT_NE(got, got) << pattern;
    }
  }
}

TEST(BuiltinSymbols, Bfloat16RoundsToNearestEven) {
  const auto truncate = [](float value) {
    return bits(callBuiltin<_Float16>("__truncsfbf2", value));
  };
  EXPECT_EQ(truncate(1.0f), 0x3f80);
  EXPECT_EQ(truncate(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // a tie goes to even
  EXPECT_EQ(truncate(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(truncate(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(truncate(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);  // overflows to infinity
  EXPECT_EQ(truncate(std::bit_cast<float>(0x7f800001u)) & 0x7fff, 0x7fc0);
  // A tie in float that the double was just above: two roundings would give the even neighbour.
  EXPECT_EQ(bits(callBuiltin<_Float16>("__truncdfbf2", 1.0 + 0x1p-8 + 0x1p-40)), 0x3f81);
  EXPECT_EQ(bits(callBuiltin<_Float16>("__truncdfbf2", 1.0 + 0x1p-8 - 0x1p-40)), 0x3f80);
}

}  // namespace
}  // namespace straightline
