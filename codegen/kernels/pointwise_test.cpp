// SPDX-License-Identifier: Apache-2.0
// Family `pointwise` against a direct loop: strides of every kind, element types, teams of one to
// three threads.
#include "straightline/kernels/pointwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "team_for_tests.h"

namespace {

/// Elements that a view with these extents and strides spans, and the position of its first
/// element.
struct Span {
  int64_t size = 1;
  int64_t first = 0;
};
Span spanOf(int rank, const int64_t* extent, const int64_t* stride) {
  Span span;
  for (int d = 0; d < rank; ++d) {
    int64_t reach = (extent[d] - 1) * stride[d];
    span.size += std::abs(reach);
    span.first += reach < 0 ? -reach : 0;
    if (extent[d] == 0) {
      return {1, 0};
    }
  }
  return span;
}

template <int RANK>
void checkSum(const std::vector<int64_t>& extent, const std::vector<std::vector<int64_t>>& strides,
              uint64_t seed) {
  std::mt19937_64 random(seed);
  sl::PointwiseShape shape;
  Span spans[3];
  for (int d = 0; d < RANK; ++d) {
    shape.extent[d] = extent[d];
    for (int o = 0; o < 3; ++o) {
      shape.stride[o][d] = strides[o][d];
    }
  }
  std::vector<float> data[3];
  for (int o = 0; o < 3; ++o) {
    spans[o] = spanOf(RANK, shape.extent, shape.stride[o]);
    data[o].resize(spans[o].size);
    for (float& x : data[o]) {
      x = float(int64_t(random() % 2001) - 1000) / 8;
    }
  }
  int64_t n = 1;
  for (int d = 0; d < RANK; ++d) {
    n *= extent[d];
  }
  std::vector<float> want = data[2];
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    int64_t at[3] = {spans[0].first, spans[1].first, spans[2].first};
    for (int d = RANK - 1; d >= 0; --d) {
      for (int o = 0; o < 3; ++o) {
        at[o] += rest % extent[d] * strides[o][d];
      }
      rest /= extent[d];
    }
    want[at[2]] = data[0][at[0]] - data[1][at[1]];
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> got = data[2];
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::pointwise<sl::PointwiseTune{.rank = RANK, .inputs = 2}>(
          ctx, team, shape, [](auto a, auto b, auto& y) SL_LAMBDA { y = a - b; },
          static_cast<const float*>(data[0].data() + spans[0].first),
          static_cast<const float*>(data[1].data() + spans[1].first), got.data() + spans[2].first);
    });
    ASSERT_EQ(got, want) << "threads " << threads << " seed " << seed;
  }
}

TEST(Pointwise, Layouts) {
  checkSum<0>({}, {{}, {}, {}}, 1);
  checkSum<1>({1000003}, {{1}, {1}, {1}}, 2);
  checkSum<1>({37}, {{1}, {0}, {1}}, 3);
  checkSum<1>({37}, {{-1}, {2}, {-3}}, 4);
  checkSum<1>({0}, {{1}, {1}, {1}}, 5);
  checkSum<2>({33, 70}, {{70, 1}, {0, 1}, {70, 1}}, 6);
  checkSum<2>({33, 70}, {{1, 33}, {1, 0}, {70, 1}}, 7);
  checkSum<2>({200, 170}, {{1, 200}, {170, 1}, {170, 1}}, 8);
  checkSum<2>({200, 170}, {{170, 1}, {1, 200}, {1, 200}}, 9);
  checkSum<3>({4, 0, 5}, {{1, 1, 1}, {1, 1, 1}, {5, 5, 1}}, 10);
  checkSum<4>({2, 40, 5, 6}, {{1200, 1, 240, 40}, {1200, 30, 6, 1}, {1200, 30, 6, 1}}, 11);
  checkSum<4>({2, 40, 5, 6}, {{1200, 30, 6, 1}, {0, 1, 0, 0}, {1200, 1, 240, 40}}, 12);
}
TEST(Pointwise, RandomLayouts) {
  uint64_t seed = std::random_device{}();
  printf("seed %lu\n", seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> extent(4);
    for (int64_t& e : extent) {
      e = random() % 9 == 0 ? 1 : random() % 12 + 1;
    }
    std::vector<std::vector<int64_t>> strides(3, std::vector<int64_t>(4));
    for (int o = 0; o < 3; ++o) {
      std::vector<int> order = {0, 1, 2, 3};
      std::shuffle(order.begin(), order.end(), random);
      int64_t step = random() % 3 == 0 ? 2 : 1;
      for (int d : order) {
        strides[o][d] = o < 2 && random() % 4 == 0 ? 0 : random() % 6 == 0 ? -step : step;
        step *= extent[d];
      }
    }
    checkSum<4>(extent, strides, random());
  }
}

TEST(Pointwise, InPlaceAndTwoOutputs) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> x(5000);
    std::vector<bool> unused;
    auto positive = std::make_unique<bool[]>(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = float(i % 7) - 3;
    }
    sl::PointwiseShape shape{.extent = {50, 100}, .stride = {{100, 1}, {100, 1}, {100, 1}}};
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1}>(
          ctx, team, shape,
          [](auto a, auto& y, auto& m) SL_LAMBDA {
            auto p = sl::gt(a, sl::constant(a, 0.0f));
            y = sl::select(p, sl::exp(a), -a);
            m = p;
          },
          static_cast<const float*>(x.data()), x.data(), positive.get());
    });
    for (size_t i = 0; i < x.size(); ++i) {
      float a = float(i % 7) - 3;
      EXPECT_NEAR(x[i], a > 0 ? std::exp(a) : -a, 1e-5f);
      EXPECT_EQ(positive[i], a > 0);
    }
  }
}

TEST(Pointwise, MixedTypes) {
  // bfloat16 and int64 in, bool condition, half out: 77 elements, so that a partial chunk remains.
  constexpr int kN = 77;
  sl::bfloat16 a[kN];
  int64_t b[kN];
  bool c[kN];
  sl::half y[kN];
  uint8_t u[kN];
  for (int i = 0; i < kN; ++i) {
    a[i] = sl::cast<sl::bfloat16>(float(i) / 4);
    b[i] = 1000 - i;
    c[i] = i % 3 == 0;
  }
  sl::PointwiseShape shape{.extent = {kN}, .stride = {{1}, {1}, {1}, {1}, {1}}};
  runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 3}>(
        ctx, team, shape,
        [](auto x, auto k, auto m, auto& out, auto& byte) SL_LAMBDA {
          auto wide = sl::cast<float>(x);
          auto other = sl::cast<float>(k);
          out = sl::cast<sl::half>(sl::select(m, wide, other));
          byte = sl::cast<uint8_t>(k);
        },
        static_cast<const sl::bfloat16*>(a), static_cast<const int64_t*>(b),
        static_cast<const bool*>(c), y, u);
  });
  for (int i = 0; i < kN; ++i) {
    EXPECT_EQ(sl::cast<float>(y[i]), i % 3 == 0 ? float(i) / 4 : float(1000 - i));
    EXPECT_EQ(u[i], uint8_t(1000 - i));
  }
}

TEST(Pointwise, DivisionByZeroIsReported) {
  int32_t a[19];
  int32_t b[19];
  int32_t y[19];
  for (int i = 0; i < 19; ++i) {
    a[i] = -5;
    b[i] = 3;
  }
  sl::PointwiseShape shape{.extent = {19}, .stride = {{1}, {1}, {1}}};
  auto divide = [&] {
    return runTeam(1, [&](sl_ctx* ctx, sl_team team) {
      sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 2}>(
          ctx, team, shape,
          [ctx](auto p, auto q, auto& r) SL_LAMBDA { r = sl::checked_floor_divide(ctx, p, q); },
          static_cast<const int32_t*>(a), static_cast<const int32_t*>(b), y);
    });
  };
  EXPECT_EQ(divide(), SL_OK);
  EXPECT_EQ(y[18], -2);
  b[18] = 0;
  EXPECT_EQ(divide(), SL_ZERO_DIVISION);
}

/// Lines of which each result is repeated, and each line twice, as images are enlarged: of an input
/// along the line and one that is constant there, into outputs of two types.
template <class E, int TIMES>
void checkRepeated(int64_t rows, int64_t line) {
  const int64_t wide = line * TIMES;
  std::vector<E> a(rows * line + 1), b(rows + 1);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = E(int(i * 7 % 101));
  }
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = E(int(i * 5 % 23));
  }
  const sl::PointwiseShape shape{
      .extent = {rows, 2, line, TIMES},
      .stride = {
          {line, 0, 1, 0}, {1, 0, 0, 0}, {2 * wide, wide, TIMES, 1}, {2 * wide, wide, TIMES, 1}}};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> sum(rows * 2 * wide + 1, E(111));  // one more, which is not written
    std::vector<int32_t> also(sum.size(), 111);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::pointwise<sl::PointwiseTune{.rank = 4, .inputs = 2, .repeats = TIMES}>(
          ctx, team, shape,
          [](auto x, auto y, auto& r, auto& s) SL_LAMBDA {
            r = x + y;
            s = sl::cast<int32_t>(x);
          },
          static_cast<const E*>(a.data()), static_cast<const E*>(b.data()), sum.data(),
          also.data());
    });
    for (int64_t i = 0; i < rows * 2 * wide; ++i) {
      const int64_t row = i / (2 * wide), from = row * line + i % wide / TIMES;
      ASSERT_EQ(sum[i], E(a[from] + b[row])) << i << " of " << line << " x " << TIMES;
      ASSERT_EQ(also[i], int32_t(a[from])) << i << " of " << line << " x " << TIMES;
    }
    ASSERT_EQ(sum.back(), E(111));
    ASSERT_EQ(also.back(), 111);
  }
}

TEST(Pointwise, RepeatedResults) {
  for (int64_t line : {0, 1, 3, 15, 16, 17, 40}) {
    for (int64_t rows : {0, 1, 5}) {
      checkRepeated<float, 2>(rows, line);
      checkRepeated<float, 3>(rows, line);
      checkRepeated<double, 8>(rows, line);
      checkRepeated<int64_t, 4>(rows, line);
      checkRepeated<uint8_t, 2>(rows, line);
    }
  }
}

TEST(Pointwise, RepeatedElementsOfALineAreSplit) {
  const int64_t line = 10007;
  std::vector<float> x(line);
  for (int64_t i = 0; i < line; ++i) {
    x[i] = float(i);
  }
  const sl::PointwiseShape shape{.extent = {line, 2}, .stride = {{1, 0}, {2, 1}}};
  std::vector<float> y(2 * line);
  const auto run = [&](sl_ctx* ctx, sl_team team) {
    sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1, .repeats = 2}>(
        ctx, team, shape, [](auto a, auto& r) SL_LAMBDA { r = a; },
        static_cast<const float*>(x.data()), y.data());
  };
  for (int threads = 1; threads <= 3; ++threads) {
    std::fill(y.begin(), y.end(), -1.0f);
    runTeam(threads, run);
    for (int64_t i = 0; i < 2 * line; ++i) {
      ASSERT_EQ(y[i], float(i / 2)) << threads;
    }
  }
  std::fill(y.begin(), y.end(), -1.0f);
  runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    if (team.index == 0) {
      run(ctx, team);
    }
  });
  EXPECT_EQ(y.front(), 0);
  EXPECT_EQ(y.back(), -1);  // the other thread's part
}

TEST(Pointwise, NoInputs) {
  double y[21];
  sl::PointwiseShape shape{.extent = {21}, .stride = {{1}}};
  runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 0}>(
        ctx, team, shape, [](auto& r) SL_LAMBDA { r = sl::constant(r, 0.1); }, y);
  });
  for (double v : y) {
    EXPECT_EQ(v, 0.1);
  }
}

}  // namespace
