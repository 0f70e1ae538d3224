// SPDX-License-Identifier: Apache-2.0
// Family `grid_sample` against a direct reference in double: modes, layouts, types, places that are
// outside or no numbers, elements that are not finite, empty images, teams.
#include "straightline/kernels/grid_sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel_testing.h"

namespace {

using sl::Interpolation;
using sl::Padding;
using sl::testing::pick;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// [n, c, h, w], or the order in which the last dims of a grid lie.
std::array<int64_t, 4> stridesOf(std::array<int64_t, 4> extents, std::array<int, 4> order) {
  std::array<int64_t, 4> strides{};
  int64_t next = 1;
  for (int i = 3; i >= 0; --i) {
    strides[size_t(order[size_t(i)])] = next;
    next *= extents[size_t(order[size_t(i)])];
  }
  return strides;
}

double unnormalized(double place, int64_t size, bool align) {
  return align ? (place + 1) / 2 * double(size - 1) : ((place + 1) * double(size) - 1) / 2;
}

double bounded(double at, int64_t size, Padding padding, bool align) {
  if (padding == Padding::zeros) {
    return at;
  }
  if (padding == Padding::reflection) {
    const double low = align ? 0 : -0.5;
    const double span = double(align ? size - 1 : size);
    if (span == 0) {
      return 0;
    }
    const double over = std::fmod(std::abs(at - low), 2 * span);
    at = std::min(over, 2 * span - over) + low;
  }
  return std::isnan(at) ? 0 : std::min(double(size - 1), std::max(at, 0.0));
}

/// Elements along one dim and their weights.
struct Taps {
  std::vector<double> at, weight;
};
Taps tapsOf(double place, int64_t size, sl::GridSampleTune tune) {
  const bool align = tune.alignCorners != 0;
  const double at = unnormalized(place, size, align);
  if (tune.interpolation == Interpolation::bicubic) {
    const double low = std::floor(at), t = at - low, a = -0.75;
    auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    Taps taps{{}, {far(t + 1), near(t), near(1 - t), far(2 - t)}};
    for (int k = -1; k < 3; ++k) {
      taps.at.push_back(std::trunc(bounded(low + k, size, tune.padding, align)));
    }
    return taps;
  }
  const double inside = bounded(at, size, tune.padding, align);
  if (tune.interpolation == Interpolation::nearest) {
    return {{std::nearbyint(inside)}, {1}};
  }
  const double low = std::floor(inside);
  return {{low, low + 1}, {1 - (inside - low), inside - low}};
}

double reference(const sl::GridSampleShape& s, sl::GridSampleTune tune,
                 const std::vector<double>& x, int64_t n, int64_t c, double across, double down) {
  const Taps rows = tapsOf(down, s.inH, tune), columns = tapsOf(across, s.inW, tune);
  double total = 0;
  for (size_t r = 0; r < rows.at.size(); ++r) {
    for (size_t k = 0; k < columns.at.size(); ++k) {
      const double h = rows.at[r], w = columns.at[k];
      const bool exists = h >= 0 && h < double(s.inH) && w >= 0 && w < double(s.inW);
      const double weight = rows.weight[r] * columns.weight[k];
      const double value = exists
                               ? x[size_t(n * s.inStride[0] + c * s.inStride[1] +
                                          int64_t(h) * s.inStride[2] + int64_t(w) * s.inStride[3])]
                               : 0;
      total += tune.interpolation == Interpolation::nearest ? value : weight * value;
    }
  }
  return total;
}

/// A place at some distance from elements and from the middle between two of them, where rounding
/// decides what is read. Mirroring a large number is exact in double only.
double randomPlace(int64_t size, bool align, Padding padding) {
  if (pick(0, 40) == 0) {
    constexpr double kOdd[] = {kNaN, kInfinity, -kInfinity, 1e20, -1e20, 3e9, -3e9};
    return kOdd[pick(0, padding == Padding::reflection ? 2 : 6)];
  }
  const double beyond = double(pick(5, 40)) / 100;
  const double at = double(pick(-size - 3, 2 * size + 3)) + (pick(0, 1) == 0 ? beyond : -beyond);
  const double count = double(align ? std::max<int64_t>(size - 1, 1) : size);
  return align ? 2 * at / count - 1 : (2 * at + 1) / count - 1;
}

template <class E>
E stored(double value) {
  return sl::cast<E>(sl::grid_sample_detail::Compute<E>(value));
}
template <class E>
double numberOf(E value) {
  return double(sl::cast<sl::grid_sample_detail::Compute<E>>(value));
}

template <class E>
double tolerance() {
  return sl::kSame<E, double>     ? 1e-12
         : sl::kSame<E, float>    ? 3e-5
         : sl::kSame<E, sl::half> ? 4e-3
                                  : 3e-2;
}

/// Values of E, and the same in double.
template <class E>
struct Both {
  std::vector<E> values;
  std::vector<double> exact;
  void push(double value) {
    values.push_back(stored<E>(value));
    exact.push_back(numberOf(values.back()));
  }
};

template <sl::GridSampleTune T, class E>
void check(sl::GridSampleShape s) {
  constexpr std::array<int, 4> kPlanes = {0, 1, 2, 3}, kLast = {0, 2, 3, 1};
  const auto in = stridesOf({s.batch, s.channels, s.inH, s.inW},
                            T.channelsLast != 0 || pick(0, 3) == 0 ? kLast : kPlanes);
  const auto out =
      stridesOf({s.batch, s.channels, s.outH, s.outW}, pick(0, 1) == 0 ? kLast : kPlanes);
  const auto grid = stridesOf({s.batch, s.outH, s.outW, 2},
                              pick(0, 1) == 0 ? kPlanes : std::array<int, 4>{0, 3, 1, 2});
  std::copy(in.begin(), in.end(), s.inStride);
  std::copy(out.begin(), out.end(), s.outStride);
  std::copy(grid.begin(), grid.end(), s.gridStride);
  Both<E> x;
  for (int64_t i = 0; i < s.batch * s.channels * s.inH * s.inW; ++i) {
    x.push(pick(0, 200) == 0 ? kInfinity : double(pick(-1000, 1000)) / 256);
  }
  Both<E> places;
  places.values.resize(size_t(s.batch * s.outH * s.outW * 2));
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t i = 0; i < s.outH * s.outW * 2; ++i) {
      const int64_t size = i % 2 == 0 ? s.inW : s.inH;
      const int64_t at =
          n * grid[0] + i / 2 / s.outW * grid[1] + i / 2 % s.outW * grid[2] + i % 2 * grid[3];
      places.values[size_t(at)] = stored<E>(randomPlace(size, T.alignCorners != 0, T.padding));
    }
  }
  for (int threads = 1; threads <= 3; ++threads) {
    sl::testing::Guarded<E> y(s.batch * s.channels * s.outH * s.outW);
    std::vector<E> image(x.values.begin(), x.values.end());  // of its size, for a sanitizer
    sl::testing::runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::grid_sample<T>(ctx, team, s, static_cast<const E*>(image.data()),
                         static_cast<const E*>(places.values.data()), y.data());
    });
    for (int64_t i = 0; i < s.batch * s.channels * s.outH * s.outW; ++i) {
      const int64_t w = i % s.outW, h = i / s.outW % s.outH, c = i / (s.outW * s.outH) % s.channels,
                    n = i / (s.outW * s.outH * s.channels);
      const int64_t at = n * grid[0] + h * grid[1] + w * grid[2];
      const double want = reference(s, T, x.exact, n, c, numberOf(places.values[size_t(at)]),
                                    numberOf(places.values[size_t(at + grid[3])]));
      const double got = numberOf(y.at(n * out[0] + c * out[1] + h * out[2] + w * out[3]));
      const bool same = std::isnan(want)   ? std::isnan(got)
                        : std::isinf(want) ? got == want
                                           : std::abs(got - want) <= 8 * tolerance<E>();
      ASSERT_TRUE(same) << "image " << n << " channel " << c << " row " << h << " column " << w
                        << " is " << got << ", expected " << want << "; x "
                        << numberOf(places.values[size_t(at)]) << ", y "
                        << numberOf(places.values[size_t(at + grid[3])]) << ", " << s.inH << " x "
                        << s.inW;
    }
  }
}

sl::GridSampleShape randomShape() {
  return {.batch = pick(1, 3),
          .channels = pick(1, 40),
          .inH = pick(1, 12),
          .inW = pick(1, 12),
          .outH = pick(1, 20),
          .outW = pick(1, 20)};
}

template <Interpolation I, Padding P, int ALIGN>
void checkMode() {
  for (int i = 0; i < 12; ++i) {
    check<sl::GridSampleTune{.interpolation = I, .padding = P, .alignCorners = ALIGN}, float>(
        randomShape());
    if constexpr (ALIGN == 0) {
      check<sl::GridSampleTune{.interpolation = I, .padding = P, .channelsLast = 1}, float>(
          randomShape());
    }
  }
}
template <Interpolation I>
void checkModes() {
  checkMode<I, Padding::zeros, 0>();
  checkMode<I, Padding::zeros, 1>();
  checkMode<I, Padding::border, 0>();
  checkMode<I, Padding::border, 1>();
  checkMode<I, Padding::reflection, 0>();
  checkMode<I, Padding::reflection, 1>();
}

TEST(GridSample, Nearest) { checkModes<Interpolation::nearest>(); }
TEST(GridSample, Bilinear) { checkModes<Interpolation::bilinear>(); }
TEST(GridSample, Bicubic) { checkModes<Interpolation::bicubic>(); }

template <class E, int WIDE>
void checkType() {
  constexpr sl::GridSampleTune kNearest{.interpolation = Interpolation::nearest, .wide = WIDE},
      kBilinear{.channelsLast = 0, .wide = WIDE}, kLast{.channelsLast = 1, .wide = WIDE},
      kBicubic{.interpolation = Interpolation::bicubic, .wide = WIDE};
  for (int i = 0; i < 12; ++i) {
    if constexpr (sizeof(E) > 2) {  // a place of 16 bits may lie between two elements
      check<kNearest, E>(randomShape());
    }
    check<kBilinear, E>(randomShape());
    check<kLast, E>(randomShape());
    check<kBicubic, E>(randomShape());
  }
}

TEST(GridSample, Types) {
  checkType<double, 0>();
  checkType<sl::half, 0>();
  checkType<sl::bfloat16, 0>();
  checkType<float, 1>();
}

TEST(GridSample, NearestTakesTheEvenOneOfTwo) {
  // An image of 4 columns: x is at column 2 (x + 1) - 0.5.
  const float x[4] = {10, 11, 12, 13};
  const float grid[8] = {-0.5f, 0, 0, 0, 0.5f, 0, -1.0f, 0};
  sl::GridSampleShape s{.batch = 1, .channels = 1, .inH = 1, .inW = 4, .outH = 1, .outW = 4};
  const std::array<int64_t, 4> in = {4, 4, 4, 1}, places = {8, 8, 2, 1};
  std::copy(in.begin(), in.end(), s.inStride);
  std::copy(in.begin(), in.end(), s.outStride);
  std::copy(places.begin(), places.end(), s.gridStride);
  float y[4];
  sl::testing::runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::grid_sample<sl::GridSampleTune{.interpolation = Interpolation::nearest}>(
        ctx, team, s, static_cast<const float*>(x), static_cast<const float*>(grid), y);
  });
  EXPECT_EQ(y[0], 10);  // between 0 and 1
  EXPECT_EQ(y[1], 12);  // between 1 and 2
  EXPECT_EQ(y[2], 12);  // between 2 and 3
  EXPECT_EQ(y[3], 10);  // between -1 and 0
}

TEST(GridSample, AnEmptyImageIsOutsideEverywhere) {
  const std::vector<float> grid = sl::testing::randomVector<float>(2 * 6);
  sl::GridSampleShape s{.batch = 1, .channels = 9, .inH = 0, .inW = 4, .outH = 2, .outW = 3};
  const std::array<int64_t, 4> places = {12, 6, 2, 1}, out = {54, 6, 3, 1};
  std::copy(places.begin(), places.end(), s.gridStride);
  std::copy(out.begin(), out.end(), s.outStride);
  std::vector<float> y(54, 7);
  sl::testing::runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    sl::grid_sample<sl::GridSampleTune{.padding = Padding::border}>(
        ctx, team, s, static_cast<const float*>(nullptr), grid.data(), y.data());
  });
  for (const float value : y) {
    EXPECT_EQ(value, 0);
  }
}

}  // namespace
