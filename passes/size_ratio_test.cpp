// SPDX-License-Identifier: Apache-2.0
// Sizes of random images, tables and their borders: a size is at most the ratio times the other at
// each of many values of the names, from their lowest on.
#include "passes/size_ratio.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "llvm/ADT/DynamicAPInt.h"
#include "mlir/IR/MLIRContext.h"

namespace straightline::passes {
namespace {

using mlir::AffineExpr;

class SizeRatio : public ::testing::Test {
 protected:
  static uint64_t announced() {
    const uint64_t seed = std::random_device{}();
    printf("seed %lu\n", static_cast<unsigned long>(seed));
    return seed;
  }
  int64_t pick(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  }
  AffineExpr number(int64_t value) { return mlir::getAffineConstantExpr(value, &context); }
  AffineExpr name(unsigned i) { return mlir::getAffineSymbolExpr(i, &context); }

  /// Lines or columns behind some strides, with a border or none.
  AffineExpr side(unsigned i) {
    AffineExpr result = name(i);
    for (int64_t step = pick(0, 3); step > 0; --step) {
      switch (pick(0, 3)) {
        case 0:
          result = (result + -1).floorDiv(2) + 1;
          break;
        case 1:
          result = (result + pick(0, 6)).floorDiv(pick(1, 5)) + 1;
          break;
        case 2:
          result = result * pick(1, 4) + pick(0, 3);
          break;
        default:
          result = (result + 1).ceilDiv(pick(1, 4));
      }
    }
    return result + pick(0, 1) * pick(0, 7);
  }
  AffineExpr image() {
    const AffineExpr lines = side(0), columns = side(1);
    const int64_t channels = pick(1, 300);
    switch (pick(0, 3)) {
      case 0:  // what lies between the first and the last element within a border
        return (((lines + 3) * (columns + 7) + columns + 3) * pick(1, 4) + 1) * (channels * 4);
      case 1:
        return lines * pick(1, 64) + 8;
      case 2:
        return (lines * columns * channels + columns * 16) * 4 + 64;
      default:
        return lines * columns * (channels * 4);
    }
  }

  std::mt19937_64 random{announced()};
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  llvm::SmallVector<mlir::StringAttr> names{mlir::StringAttr::get(&context, "h"),
                                            mlir::StringAttr::get(&context, "w")};
};

int64_t valueAt(AffineExpr expr, llvm::ArrayRef<int64_t> values) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    return constant.getValue();
  }
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
    return values[symbol.getPosition()];
  }
  const auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const llvm::DynamicAPInt a(valueAt(binary.getLHS(), values)), b(valueAt(binary.getRHS(), values));
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return int64_t(a + b);
    case mlir::AffineExprKind::Mul:
      return int64_t(a * b);
    case mlir::AffineExprKind::FloorDiv:
      return int64_t(llvm::floorDiv(a, b));
    default:
      return int64_t(llvm::ceilDiv(a, b));
  }
}

TEST_F(SizeRatio, HoldsForAllValues) {
  constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();
  int found = 0;
  constexpr int kPairs = 400;
  for (int pair = 0; pair < kPairs; ++pair) {
    const int64_t lowest = pick(0, 3) * pick(0, 40);
    const int64_t highest = pick(0, 2) == 0 ? lowest + pick(0, 3000) : kInfinite;
    const symbolic::BoundsMap bounds = {{names[0], {lowest, highest}},
                                        {names[1], {pick(1, 32), kInfinite}}};
    SizeRatios ratios(names, bounds);
    const AffineExpr size = image(), other = image();
    const std::optional<double> ratio = ratios.most(size, other);
    found += ratio.has_value();
    for (int trial = 0; ratio && trial < 300; ++trial) {
      const auto value = [&](const symbolic::Bounds& range) {
        const int64_t beyond = trial < 40 ? trial : int64_t(1) << pick(0, 14);
        return std::min(range.highest, range.lowest + pick(0, beyond));
      };
      const int64_t at[] = {value(bounds.lookup(names[0])), value(bounds.lookup(names[1]))};
      const auto above = double(valueAt(size, at)), below = double(valueAt(other, at));
      ASSERT_LE(above, *ratio * below) << at[0] << " x " << at[1] << ", pair " << pair;
    }
  }
  EXPECT_GT(found, kPairs / 4) << "a test of nothing";
}

TEST_F(SizeRatio, OfStridesIsThatOfElements) {
  const symbolic::BoundsMap bounds = {{names[0], {32, std::numeric_limits<int64_t>::max()}},
                                      {names[1], {32, std::numeric_limits<int64_t>::max()}}};
  SizeRatios ratios(names, bounds);
  const auto half = [](AffineExpr side) { return (side + -1).floorDiv(2) + 1; };
  const AffineExpr whole = name(0) * name(1) * 64;
  const AffineExpr quarter = half(name(0)) * half(name(1)) * 128;
  EXPECT_NEAR(*ratios.most(quarter, whole), 2 * 17.0 / 33 * 17.0 / 33, 1e-6);  // of 33 x 33
  EXPECT_EQ(*ratios.most(whole, whole), 1.0);
  EXPECT_FALSE(ratios.most(whole, name(0) * 64)) << "columns are unbounded";
}

TEST_F(SizeRatio, OfNothingIsNotFound) {
  const symbolic::BoundsMap bounds = {{names[0], {0, 100}}, {names[1], {0, 100}}};
  SizeRatios ratios(names, bounds);
  EXPECT_FALSE(ratios.most((name(0) + 1) * 64, name(0) * 64)) << "64 bytes are no multiple of 0";
  EXPECT_NEAR(*ratios.most(name(0) * 64, (name(0) + 1) * 64), 100.0 / 101, 1e-6);
}

}  // namespace
}  // namespace straightline::passes
