// SPDX-License-Identifier: Apache-2.0
// Family `row_reduction` against references in double, over layouts and teams.
#include "straightline/kernels/row_reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "team_for_tests.h"

namespace {

using sl::Combine;
using sl::RowReductionShape;
using sl::RowReductionTune;

/// How the logical [rows][columns] matrix lies in memory.
struct Layout {
  int64_t rows;
  int64_t columns;
  int64_t rowStride;
  int64_t columnStride;
};
std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (int64_t rows : {1, 2, 3, 17, 70}) {
    for (int64_t columns : {1, 2, 7, 16, 31, 64, 129, 1000}) {
      all.push_back({rows, columns, columns, 1});
      all.push_back({rows, columns, 1, rows});
      all.push_back({rows, columns, 2 * columns * 2, 2});
    }
  }
  all.push_back({0, 5, 5, 1});
  all.push_back({5, 0, 1, 1});
  return all;
}
std::vector<float> randomFloats(size_t n, float low = -3, float high = 3) {
  static std::mt19937_64 random = [] {
    uint64_t seed = std::random_device{}();
    printf("seed %lu\n", seed);
    return std::mt19937_64(seed);
  }();
  std::uniform_real_distribution<float> range(low, high);
  std::vector<float> v(n);
  for (float& x : v) {
    x = range(random);
  }
  return v;
}
size_t sizeOf(const Layout& l) {
  return size_t(l.rows * std::abs(l.rowStride) + l.columns * std::abs(l.columnStride) + 1) * 1;
}

void softmax(const Layout& l, int threads, bool inPlace) {
  std::vector<float> x = randomFloats(sizeOf(l), -20, 20);
  std::vector<float> y = inPlace ? x : std::vector<float>(x.size(), 7.0f);
  constexpr int kMostLanes = 32;
  std::vector<char> workspace(size_t(threads) * size_t(l.columns + 1) * kMostLanes * sizeof(float) +
                              64);
  RowReductionShape shape{.outer = {l.rows}, .inner = {l.columns}};
  shape.stride[0][0][0] = shape.stride[1][0][0] = l.rowStride;
  shape.stride[0][1][0] = shape.stride[1][1][0] = l.columnStride;
  auto body = [&]<int COLUMNS>(sl_ctx* ctx, sl_team team, sl::Index<COLUMNS>) {
    sl::row_reduction<RowReductionTune{.outerRank = 1,
                                       .innerRank = 1,
                                       .inputs = 1,
                                       .elementOutputs = 1,
                                       .kept = 1,
                                       .keptStage = 1,
                                       .stages = 2,
                                       .columns = COLUMNS,
                                       .combine = {Combine::max, Combine::sum}}>(
        ctx, team, shape, [](auto a, auto& value) SL_LAMBDA { value = a; },
        [](auto a, auto m, auto& value, auto& keep) SL_LAMBDA {
          auto e = sl::exp(a - m);
          value = e;
          keep = e;
        },
        [](auto, auto, auto s, auto k, auto& out) SL_LAMBDA { out = k / s; },
        inPlace ? static_cast<const float*>(y.data()) : static_cast<const float*>(x.data()),
        y.data(), workspace.data());
  };
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    if (threads == 2) {
      body(ctx, team, sl::Index<8>{});
    } else if (threads == 3) {
      body(ctx, team, sl::Index<kMostLanes>{});
    } else {
      body(ctx, team, sl::Index<0>{});
    }
  });
  for (int64_t r = 0; r < l.rows; ++r) {
    double largest = -INFINITY;
    double sum = 0;
    auto at = [&](int64_t c) { return r * l.rowStride + c * l.columnStride; };
    for (int64_t c = 0; c < l.columns; ++c) {
      largest = std::max<double>(largest, x[at(c)]);
    }
    for (int64_t c = 0; c < l.columns; ++c) {
      sum += std::exp(x[at(c)] - largest);
    }
    for (int64_t c = 0; c < l.columns; ++c) {
      double want = std::exp(x[at(c)] - largest) / sum;
      // exp of a difference rounded in float (|x - max| < 40) carries 40 * 2^-24 relative.
      ASSERT_NEAR(y[at(c)], want, want * 4e-6 + 1e-30)
          << l.rows << "x" << l.columns << " threads " << threads;
    }
  }
}
TEST(RowReduction, Softmax) {
  for (const Layout& l : layouts()) {
    for (int threads = 1; threads <= 3; ++threads) {
      softmax(l, threads, false);
    }
    softmax(l, 1, true);
    softmax(l, 2, true);
    softmax(l, 3, true);
  }
}

/// Layer norm with weight and bias, and mean and 1/deviation as row outputs; the mean is two
/// stages.
TEST(RowReduction, LayerNorm) {
  for (const Layout& l : layouts()) {
    if (l.columns == 0) {
      continue;
    }
    std::vector<float> x = randomFloats(sizeOf(l), 90, 110);
    std::vector<float> weight = randomFloats(size_t(l.columns));
    std::vector<float> bias = randomFloats(size_t(l.columns));
    std::vector<float> y(x.size());
    std::vector<float> mean(size_t(l.rows) + 1);
    RowReductionShape shape{.outer = {l.rows}, .inner = {l.columns}};
    shape.stride[0][0][0] = shape.stride[4][0][0] = l.rowStride;
    shape.stride[0][1][0] = shape.stride[4][1][0] = l.columnStride;
    shape.stride[1][1][0] = shape.stride[2][1][0] = 1;
    shape.stride[3][0][0] = 1;
    float inverse = 1.0f / float(l.columns);
    runTeam(2, [&](sl_ctx* ctx, sl_team team) {
      sl::row_reduction<RowReductionTune{.outerRank = 1,
                                         .innerRank = 1,
                                         .inputs = 3,
                                         .rowOutputs = 1,
                                         .elementOutputs = 1,
                                         .stages = 2,
                                         .combine = {Combine::sum, Combine::sum}}>(
          ctx, team, shape, [](auto a, auto, auto, auto& value) SL_LAMBDA { value = a; },
          [inverse](auto a, auto, auto, auto s, auto& value) SL_LAMBDA {
            auto d = a - s * sl::constant(s, inverse);
            value = d * d;
          },
          [inverse](auto s, auto, auto& m) SL_LAMBDA { m = s * sl::constant(s, inverse); },
          [inverse](auto a, auto w, auto b, auto s, auto v, auto& out) SL_LAMBDA {
            auto i = sl::constant(s, inverse);
            out = (a - s * i) * sl::rsqrt(v * i + sl::constant(v, 1e-5f)) * w + b;
          },
          static_cast<const float*>(x.data()), static_cast<const float*>(weight.data()),
          static_cast<const float*>(bias.data()), mean.data(), y.data());
    });
    for (int64_t r = 0; r < l.rows; ++r) {
      double m = 0;
      double v = 0;
      for (int64_t c = 0; c < l.columns; ++c) {
        m += x[r * l.rowStride + c * l.columnStride] / double(l.columns);
      }
      for (int64_t c = 0; c < l.columns; ++c) {
        v += std::pow(x[r * l.rowStride + c * l.columnStride] - m, 2) / double(l.columns);
      }
      // Worst case: 16 additions in a block and 6 levels above it, then two products: 24 roundings
      // of 100 * 2^-24.
      EXPECT_NEAR(mean[r], m, 24 * 110 * 0x1p-24);
      for (int64_t c = 0; c < l.columns; ++c) {
        double want =
            (x[r * l.rowStride + c * l.columnStride] - m) / std::sqrt(v + 1e-5) * weight[c] +
            bias[c];
        // x is near 100, so the mean and the difference are good to 1e-5, a few times that after
        // scaling.
        double slack = l.columns == 1 ? 2e-2 : l.columns == 2 ? 0.1 : 1e-3;
        ASSERT_NEAR(y[r * l.rowStride + c * l.columnStride], want, slack)
            << l.rows << "x" << l.columns;
      }
    }
  }
}

template <Combine C, class T, class O>
std::vector<O> reduceOnce(const T* x, const Layout& l, int threads) {
  auto out = std::make_unique<O[]>(size_t(l.rows) + 1);
  RowReductionShape shape{.outer = {l.rows}, .inner = {l.columns}};
  shape.stride[0][0][0] = l.rowStride;
  shape.stride[0][1][0] = l.columnStride;
  shape.stride[1][0][0] = 1;
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    sl::row_reduction<RowReductionTune{
        .outerRank = 1, .innerRank = 1, .inputs = 1, .rowOutputs = 1, .stages = 1, .combine = {C}}>(
        ctx, team, shape, [](auto a, auto& value) SL_LAMBDA { value = a; },
        [](auto r, auto& o) SL_LAMBDA { o = sl::cast<O>(r); }, x, out.get());
  });
  return std::vector<O>(out.get(), out.get() + l.rows);
}

TEST(RowReduction, SumMeanProd) {
  for (const Layout& l : layouts()) {
    std::vector<float> x = randomFloats(sizeOf(l));
    std::vector<int32_t> k(x.size());
    for (size_t i = 0; i < k.size(); ++i) {
      k[i] = int32_t(x[i] * 1e8f);
    }
    for (int threads = 1; threads <= 3; ++threads) {
      std::vector<float> sums = reduceOnce<Combine::sum, float, float>(x.data(), l, threads);
      std::vector<double> products = reduceOnce<Combine::prod, float, double>(x.data(), l, threads);
      std::vector<int64_t> integers =
          reduceOnce<Combine::sum, int32_t, int64_t>(k.data(), l, threads);
      for (int64_t r = 0; r < l.rows; ++r) {
        double sum = 0;
        double magnitude = 0;
        double product = 1;
        int64_t integer = 0;
        for (int64_t c = 0; c < l.columns; ++c) {
          int64_t at = r * l.rowStride + c * l.columnStride;
          sum += x[at];
          magnitude += std::fabs(x[at]);
          product *= x[at];
          integer += k[at];
        }
        ASSERT_NEAR(sums[r], sum, magnitude * 4e-7);
        if (l.columns < 40) {
          ASSERT_NEAR(products[r], product, std::fabs(product) * 1e-5);
        }
        ASSERT_EQ(integers[r], integer);
      }
    }
  }
}

TEST(RowReduction, LongSumIsAccurate) {
  Layout l{1, 10000019, 10000019, 1};
  std::vector<float> x = randomFloats(size_t(l.columns), 0, 1);
  double sum = 0;
  for (float v : x) {
    sum += v;
  }
  // A plain sum in order would be off by about 1e-3 relative; torch's cascade stays below 1e-6.
  float total = reduceOnce<Combine::sum, float, float>(x.data(), l, 1)[0];
  EXPECT_NEAR(total, sum, sum * 2.5e-7);
  Layout column{64, 100000, 1, 64};
  std::vector<float> z = randomFloats(64 * 100000, 0, 1);
  std::vector<float> got = reduceOnce<Combine::sum, float, float>(z.data(), column, 1);
  for (int64_t r = 0; r < 64; ++r) {
    double want = 0;
    for (int64_t c = 0; c < column.columns; ++c) {
      want += z[c * 64 + r];
    }
    EXPECT_NEAR(got[r], want, want * 4e-7);
  }
}

template <class T>
void checkExtremes(const Layout& l, std::vector<T> x) {
  std::vector<T> largest = reduceOnce<Combine::max, T, T>(x.data(), l, 2);
  std::vector<T> smallest = reduceOnce<Combine::min, T, T>(x.data(), l, 3);
  std::vector<int64_t> first = reduceOnce<Combine::argmax, T, int64_t>(x.data(), l, 1);
  std::vector<int64_t> last = reduceOnce<Combine::argmin, T, int64_t>(x.data(), l, 1);
  for (int64_t r = 0; r < l.rows; ++r) {
    auto at = [&](int64_t c) { return x[r * l.rowStride + c * l.columnStride]; };
    int64_t high = 0;
    int64_t low = 0;
    for (int64_t c = 0; c < l.columns; ++c) {
      if (at(c) > at(high) || (at(c) != at(c) && at(high) == at(high))) {
        high = c;
      }
      if (at(c) < at(low) || (at(c) != at(c) && at(low) == at(low))) {
        low = c;
      }
    }
    ASSERT_EQ(first[r], high) << l.rows << "x" << l.columns << " row " << r << " stride "
                              << l.columnStride;
    ASSERT_EQ(last[r], low) << l.rows << "x" << l.columns << " row " << r << " stride "
                            << l.columnStride;
    if (at(high) != at(high)) {
      ASSERT_NE(largest[r], largest[r]);
      ASSERT_NE(smallest[r], smallest[r]);
    } else {
      ASSERT_EQ(largest[r], at(high));
      ASSERT_EQ(smallest[r], at(low));
    }
  }
}
TEST(RowReduction, Extremes) {
  for (const Layout& l : layouts()) {
    if (l.columns == 0) {
      continue;
    }
    std::vector<float> x = randomFloats(sizeOf(l));
    std::vector<double> d(x.size());
    std::vector<int32_t> k(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = std::round(x[i] * 2);  // many equal values
      d[i] = x[i];
      k[i] = int32_t(x[i]);
    }
    checkExtremes(l, x);
    checkExtremes(l, d);
    checkExtremes(l, k);
    for (size_t i = 3; i < x.size(); i += 37) {
      x[i] = NAN;
    }
    for (size_t i = 5; i < x.size(); i += 91) {
      x[i] = -INFINITY;
    }
    checkExtremes(l, x);
    checkExtremes(l, std::vector<float>(x.size(), -INFINITY));
    checkExtremes(l, std::vector<float>(x.size(), INFINITY));
  }
}

TEST(RowReduction, AnyAllAndEmpty) {
  for (const Layout& l : layouts()) {
    std::vector<float> noise = randomFloats(sizeOf(l));
    auto x = std::make_unique<bool[]>(noise.size());
    for (size_t i = 0; i < noise.size(); ++i) {
      x[i] = noise[i] > 2.9f;
    }
    std::vector<bool> any;
    std::vector<bool> all;
    auto anyBytes = reduceOnce<Combine::any, bool, uint8_t>(x.get(), l, 1);
    auto allBytes = reduceOnce<Combine::all, bool, uint8_t>(x.get(), l, 2);
    auto counts = reduceOnce<Combine::sum, bool, int64_t>(x.get(), l, 2);
    for (int64_t r = 0; r < l.rows; ++r) {
      int64_t n = 0;
      for (int64_t c = 0; c < l.columns; ++c) {
        n += x[r * l.rowStride + c * l.columnStride];
      }
      EXPECT_EQ(anyBytes[r], n > 0);
      EXPECT_EQ(allBytes[r], n == l.columns);
      EXPECT_EQ(counts[r], n);
    }
  }
  Layout empty{3, 0, 1, 1};
  float none = 0;
  EXPECT_EQ((reduceOnce<Combine::sum, float, float>(&none, empty, 1)), std::vector<float>(3, 0.0f));
  EXPECT_EQ((reduceOnce<Combine::prod, float, float>(&none, empty, 1)),
            std::vector<float>(3, 1.0f));
  EXPECT_EQ((reduceOnce<Combine::max, float, float>(&none, empty, 1)),
            std::vector<float>(3, -INFINITY));
}

/// Several dims on both sides, a masked mean over [n, c, h, w] -> [n, c] in bfloat16 with a bool
/// mask, NHWC in memory.
TEST(RowReduction, ManyDimsAndTypes) {
  constexpr int64_t kN = 3, kC = 21, kH = 5, kW = 6;
  std::vector<float> noise = randomFloats(kN * kC * kH * kW);
  std::vector<sl::bfloat16> x(noise.size());
  auto mask = std::make_unique<bool[]>(noise.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = sl::cast<sl::bfloat16>(noise[i]);
    mask[i] = i % 4 != 0;
  }
  RowReductionShape shape{.outer = {kN, kC}, .inner = {kH, kW}};
  for (int o = 0; o < 2; ++o) {
    shape.stride[o][0][0] = kH * kW * kC;
    shape.stride[o][0][1] = 1;
    shape.stride[o][1][0] = kW * kC;
    shape.stride[o][1][1] = kC;
  }
  shape.stride[2][0][0] = kC;
  shape.stride[2][0][1] = 1;
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> y(kN * kC);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::row_reduction<RowReductionTune{.outerRank = 2,
                                         .innerRank = 2,
                                         .inputs = 2,
                                         .rowOutputs = 1,
                                         .stages = 2,
                                         .combine = {Combine::sum, Combine::sum},
                                         .value = {sl::Value::automatic, sl::Value::i64}}>(
          ctx, team, shape,
          [](auto a, auto m, auto& value) SL_LAMBDA {
            auto f = sl::cast<float>(a);
            value = sl::select(m, f, sl::constant(f, 0));
          },
          [](auto, auto m, auto, auto& value) SL_LAMBDA { value = m; },
          [](auto sum, auto count, auto& o) SL_LAMBDA { o = sum / sl::cast<float>(count); },
          static_cast<const sl::bfloat16*>(x.data()), static_cast<const bool*>(mask.get()),
          y.data());
    });
    for (int64_t n = 0; n < kN; ++n) {
      for (int64_t c = 0; c < kC; ++c) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t p = 0; p < kH * kW; ++p) {
          int64_t at = (n * kH * kW + p) * kC + c;
          sum += mask[at] ? sl::cast<float>(x[at]) : 0;
          count += mask[at];
        }
        EXPECT_NEAR(y[n * kC + c], sum / double(count), 1e-5);
      }
    }
  }
}

}  // namespace
