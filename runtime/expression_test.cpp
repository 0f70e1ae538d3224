// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "straightline/abi/straightline.h"

namespace {

int64_t value(std::vector<sl_expr_step> steps, std::vector<int64_t> extents = {}) {
  const sl_expr expression{steps.data(), static_cast<int64_t>(steps.size())};
  return sl_expr_value(&expression, extents.data());
}

TEST(Expression, ConstantsSymbolsAndOperators) {
  EXPECT_EQ(42, value({{'c', 42}}));
  EXPECT_EQ(7, value({{'s', 1}}, {3, 7}));
  EXPECT_EQ(10, value({{'s', 0}, {'s', 1}, {'+', 0}}, {3, 7}));
  EXPECT_EQ(22, value({{'s', 0}, {'s', 1}, {'*', 0}, {'c', 1}, {'+', 0}}, {3, 7}));
  EXPECT_EQ(7, value({{'s', 0}, {'s', 1}, {'M', 0}}, {3, 7}));
  EXPECT_EQ(0, value({})) << "no steps: nothing";
}

TEST(Expression, DivisionAndModuloRoundDownAsInPython) {
  const int64_t rows[][4] = {{7, 2, 3, 1},    {-7, 2, -4, 1}, {7, -2, -4, -1},
                             {-7, -2, 3, -1}, {6, 3, 2, 0},   {0, 5, 0, 0}};
  for (const auto& row : rows) {
    EXPECT_EQ(row[2], value({{'c', row[0]}, {'c', row[1]}, {'/', 0}}))
        << row[0] << " // " << row[1];
    EXPECT_EQ(row[3], value({{'c', row[0]}, {'c', row[1]}, {'%', 0}})) << row[0] << " % " << row[1];
  }
}

TEST(Expression, NeverTrapsOrWraps) {
  EXPECT_EQ(0, value({{'c', 5}, {'s', 0}, {'/', 0}}, {0}));
  EXPECT_EQ(0, value({{'c', 5}, {'s', 0}, {'%', 0}}, {0}));
  EXPECT_EQ(INT64_MAX, value({{'c', INT64_MIN}, {'c', -1}, {'/', 0}}));
  EXPECT_EQ(0, value({{'c', INT64_MIN}, {'c', -1}, {'%', 0}}));
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(INT64_MAX, value({{'s', 0}, {'s', 0}, {'*', 0}}, {large}));
  EXPECT_EQ(INT64_MIN, value({{'s', 0}, {'c', -large}, {'*', 0}}, {large}));
  EXPECT_EQ(INT64_MAX, value({{'c', INT64_MAX}, {'c', 1}, {'+', 0}}));
}

}  // namespace
