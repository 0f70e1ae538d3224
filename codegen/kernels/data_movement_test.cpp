// SPDX-License-Identifier: Apache-2.0
// Families fill, zero_border, iota, scan, gather_rows, scatter_rows, gather_elements, gather_nd,
// scatter_nd and transpose, on teams of one to three threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "straightline/kernels/fill.h"
#include "straightline/kernels/gather_elements.h"
#include "straightline/kernels/gather_nd.h"
#include "straightline/kernels/gather_rows.h"
#include "straightline/kernels/iota.h"
#include "straightline/kernels/scan.h"
#include "straightline/kernels/scatter_nd.h"
#include "straightline/kernels/scatter_rows.h"
#include "straightline/kernels/transpose.h"
#include "straightline/kernels/zero_border.h"
#include "team_for_tests.h"

namespace {

uint64_t freshSeed() {
  uint64_t seed = std::random_device{}();
  printf("seed %lu\n", seed);
  return seed;
}

TEST(Fill, StridedViewOnly) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<int16_t> x(20 * 30, 1);
    sl::FillShape shape{.extent = {20, 10}, .stride = {30, 3}};
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::fill<sl::FillTune{.rank = 2}>(
          ctx, team, shape, [](auto& y) SL_LAMBDA { y = sl::constant(y, -7); }, x.data());
    });
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i], i % 3 == 0 ? -7 : 1);
    }
  }
}

TEST(ZeroBorder, OnlyTheBorder) {
  // [3, 4, 5] with borders {0,1}, {2,1}, {1,3}: storage [4, 7, 9].
  sl::ZeroBorderShape shape{
      .extent = {3, 4, 5}, .stride = {63, 9, 1}, .low = {0, 2, 1}, .high = {1, 1, 3}};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> x(4 * 7 * 9 + 2, 5.0f);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::zero_border<sl::ZeroBorderTune{.rank = 3}>(ctx, team, shape, x.data() + 1 + 2 * 9 + 1);
    });
    EXPECT_EQ(x.front(), 5.0f);
    EXPECT_EQ(x.back(), 5.0f);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 7; ++j) {
        for (int k = 0; k < 9; ++k) {
          bool inside = i < 3 && j >= 2 && j < 6 && k >= 1 && k < 6;
          ASSERT_EQ(x[1 + i * 63 + j * 9 + k], inside ? 5.0f : 0.0f) << i << " " << j << " " << k;
        }
      }
    }
  }
}

TEST(Iota, AnyTypeAndStride) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> x(2 * 5003, 1.5f);
    std::vector<int32_t> k(77);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::iota<sl::IotaTune{}>(
          ctx, team, sl::IotaShape{.count = 5003, .stride = 2},
          [](auto i, auto& y)
              SL_LAMBDA { y = sl::cast<float>(i) * sl::constantAs<float>(i, 0.5f); },
          x.data());
      sl::iota<sl::IotaTune{}>(
          ctx, team, sl::IotaShape{.count = 77, .stride = 1},
          [](auto i, auto& y) SL_LAMBDA { y = sl::cast<int32_t>(-i); }, k.data());
    });
    for (int i = 0; i < 5003; ++i) {
      ASSERT_EQ(x[2 * i], float(i) * 0.5f);
      ASSERT_EQ(x[2 * i + 1], 1.5f);
    }
    for (int i = 0; i < 77; ++i) {
      ASSERT_EQ(k[i], -i);
    }
  }
}

template <class T, class O>
void checkScan(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  std::mt19937_64 random(freshSeed());
  std::vector<T> x(size_t(rows * columns));
  for (T& v : x) {
    v = T(int64_t(random() % 2000) - 1000) / T(3);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<O> y(x.size());
    sl::ScanShape shape{.outer = {rows},
                        .outerStride = {{rowStride}, {rowStride}},
                        .count = columns,
                        .stride = {columnStride, columnStride}};
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::scan<sl::ScanTune{.rank = 1}>(ctx, team, shape, static_cast<const T*>(x.data()),
                                        y.data());
    });
    for (int64_t r = 0; r < rows; ++r) {
      std::conditional_t<std::is_floating_point_v<T>, double, int64_t> sum = 0;
      for (int64_t c = 0; c < columns; ++c) {
        sum += x[r * rowStride + c * columnStride];
        ASSERT_EQ(y[r * rowStride + c * columnStride], O(sum));
      }
    }
  }
}
TEST(Scan, CumulativeSum) {
  checkScan<float, float>(37, 100, 100, 1);
  checkScan<float, float>(11, 900, 900, 1);
  checkScan<int32_t, int64_t>(4, 33, 33, 1);
  checkScan<float, float>(37, 100, 1, 37);
  checkScan<double, double>(5, 70, 1, 5);
  checkScan<int32_t, int64_t>(33, 20, 1, 33);
  checkScan<int64_t, int64_t>(1, 500, 500, 1);
}

template <class I>
void checkGatherRows(int64_t outer, int64_t extent, int64_t count, int64_t run, int64_t bad) {
  std::mt19937_64 random(freshSeed());
  std::vector<float> in(size_t(outer * extent * run));
  for (float& v : in) {
    v = float(random() % 1000);
  }
  std::vector<I> index(size_t(2 * count));
  for (I& i : index) {
    i = I(random() % uint64_t(extent));
  }
  if (count > 3 && bad != 0) {
    index[6] = I(bad);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> out(size_t(outer * count * run), -1.0f);
    sl::GatherRowsShape shape{.outer = outer,
                              .count = count,
                              .run = run,
                              .extent = extent,
                              .inOuter = extent * run,
                              .inRow = run,
                              .indexStride = 2,
                              .outOuter = count * run,
                              .outRow = run};
    sl_ctx failure;
    int32_t status = runTeam(
        threads,
        [&](sl_ctx* ctx, sl_team team) {
          sl::gather_rows<sl::GatherRowsTune{}>(ctx, team, shape,
                                                static_cast<const float*>(in.data()),
                                                static_cast<const I*>(index.data()), out.data());
          // All threads see the same answer, whoever found the index.
          ASSERT_EQ(sl_failed(ctx, team), bad != 0);
        },
        &failure);
    EXPECT_EQ(status, bad != 0 ? SL_INDEX_ERROR : SL_OK);
    if (bad != 0) {
      EXPECT_EQ(failure.detail[0], bad);
      EXPECT_EQ(failure.detail[1], 0);
      EXPECT_EQ(failure.detail[2], extent - 1);
    }
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t m = 0; m < count; ++m) {
        int64_t row = std::clamp<int64_t>(index[2 * m], 0, extent - 1);
        for (int64_t k = 0; k < run; ++k) {
          ASSERT_EQ(out[(o * count + m) * run + k], in[(o * extent + row) * run + k]);
        }
      }
    }
  }
}
TEST(GatherRows, InAndOutOfRange) {
  checkGatherRows<int64_t>(1, 50, 33, 64, 0);
  checkGatherRows<int32_t>(3, 7, 20, 5, 0);
  checkGatherRows<int64_t>(2, 50, 33, 1, 50);
  checkGatherRows<int64_t>(2, 50, 33, 9, -1);
  checkGatherRows<int32_t>(1, 5, 8, 1000, -2147483647);
  checkGatherRows<int64_t>(1, 5, 8, 3, INT64_MAX);
  checkGatherRows<int64_t>(4, 5, 0, 3, 0);
}

template <int Add, class I, class E>
void checkScatterRows(int64_t outer, int64_t extent, int64_t count, int64_t run, int64_t bad) {
  std::mt19937_64 random(freshSeed());
  auto numbers = [&](int64_t size) {
    std::vector<E> values(static_cast<size_t>(size));
    for (E& v : values) {
      v = E(int(random() % 100));
    }
    return values;
  };
  const std::vector<E> src = numbers(outer * count * run);
  const std::vector<E> before = numbers(outer * extent * run);
  std::vector<I> index(static_cast<size_t>(count));
  for (I& i : index) {
    // with repetitions: the last one stays, sums have one order
    i = I(random() % uint64_t(extent));
  }
  if (bad != 0) {
    index[size_t(count) / 2] = I(bad);
  }
  std::vector<E> want = before;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t m = 0; m < count; ++m) {
      const int64_t row = index[size_t(m)];
      for (int64_t k = 0; k < run && row >= 0 && row < extent; ++k) {
        E& to = want[size_t((o * extent + row) * run + k)];
        const E from = src[size_t((o * count + m) * run + k)];
        to = Add ? E(to + from) : from;
      }
    }
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> out = before;
    sl::ScatterRowsShape shape{.outer = outer,
                               .count = count,
                               .run = run,
                               .extent = extent,
                               .srcOuter = count * run,
                               .srcRow = run,
                               .outOuter = extent * run,
                               .outRow = run};
    sl_ctx failure;
    const int32_t status = runTeam(
        threads,
        [&](sl_ctx* ctx, sl_team team) {
          sl::scatter_rows<sl::ScatterRowsTune{.add = Add}>(
              ctx, team, shape, static_cast<const I*>(index.data()),
              static_cast<const E*>(src.data()), out.data());
          ASSERT_EQ(sl_failed(ctx, team), bad != 0);
        },
        &failure);
    EXPECT_EQ(status, bad != 0 ? SL_INDEX_ERROR : SL_OK);
    if (bad != 0) {
      EXPECT_EQ(failure.detail[0], bad);
      EXPECT_EQ(failure.detail[2], extent - 1);
    }
    ASSERT_EQ(out, want);
  }
}
TEST(ScatterRows, WritesAndAdds) {
  checkScatterRows<0, int64_t, float>(1, 50, 33, 64, 0);
  checkScatterRows<1, int64_t, float>(1, 50, 133, 64, 0);
  checkScatterRows<0, int32_t, double>(3, 7, 20, 5, 0);
  checkScatterRows<1, int32_t, int64_t>(3, 7, 20, 5, 0);
  checkScatterRows<1, int64_t, float>(2, 5, 30, 5000, 0);
  checkScatterRows<0, int64_t, uint8_t>(2, 5, 30, 2049, 0);
  checkScatterRows<0, int64_t, float>(2, 50, 33, 9, -1);
  checkScatterRows<1, int32_t, float>(1, 5, 8, 1000, 5);
  checkScatterRows<0, int64_t, float>(4, 5, 0, 3, 0);
}

TEST(GatherElements, AlongEachDim) {
  std::mt19937_64 random(freshSeed());
  std::vector<double> in(6 * 8);
  for (double& v : in) {
    v = double(random() % 1000);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<int64_t> index(6 * 5);
    for (int64_t& i : index) {
      i = int64_t(random() % 8);
    }
    std::vector<double> out(index.size());
    sl::GatherElementsShape shape{
        .extent = {6, 5}, .stride = {{8, 0}, {5, 1}, {1, 6}}, .dimExtent = 8, .dimStride = 1};
    auto gather = [&] {
      return runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
        sl::gather_elements<sl::GatherElementsTune{.rank = 2}>(
            ctx, team, shape, static_cast<const double*>(in.data()),
            static_cast<const int64_t*>(index.data()), out.data());
      });
    };
    EXPECT_EQ(gather(), SL_OK);
    for (int i = 0; i < 6; ++i) {
      for (int j = 0; j < 5; ++j) {
        ASSERT_EQ(out[j * 6 + i], in[i * 8 + index[i * 5 + j]]);
      }
    }
    index[29] = 8;
    EXPECT_EQ(gather(), SL_INDEX_ERROR);
    shape.dimExtent = 0;
    EXPECT_EQ(gather(), SL_INDEX_ERROR);
    EXPECT_EQ(out[3], 0.0);
  }
}

/// in [m, d] gathered along d (IN 0), or [d, m] along its first dim (IN 1), with one index for an
/// element or (expanded) for a row.
template <class E, class I>
void checkGatherRuns(int64_t rows, int64_t count, int64_t extent, bool alongLast, bool expanded,
                     int64_t bad) {
  std::mt19937_64 random(freshSeed());
  std::vector<E> in(size_t(std::max<int64_t>(rows, extent) * std::max(count, extent)));
  for (E& v : in) {
    v = E(random() % 100);
  }
  std::vector<I> index(size_t(expanded ? rows : rows * count));
  for (I& i : index) {
    i = I(random() % uint64_t(extent));
  }
  const size_t wrong = index.size() / 2;
  if (bad != 0) {
    index[wrong] = I(bad);
  }
  const int64_t indexRow = expanded ? 1 : count;
  const int64_t indexStep = expanded ? 0 : 1;
  const sl::GatherElementsShape shape{
      .extent = {rows, count},
      .stride = {{alongLast ? extent : 0, alongLast ? 0 : 1}, {indexRow, indexStep}, {count, 1}},
      .dimExtent = extent,
      .dimStride = alongLast ? 1 : count};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> out(size_t(rows * count), E(111));
    sl_ctx failure;
    const int32_t status = runTeam(
        threads,
        [&](sl_ctx* ctx, sl_team team) {
          sl::gather_elements<sl::GatherElementsTune{.rank = 2}>(
              ctx, team, shape, static_cast<const E*>(in.data()),
              static_cast<const I*>(index.data()), out.data());
        },
        &failure);
    EXPECT_EQ(status, bad != 0 ? SL_INDEX_ERROR : SL_OK);
    if (bad != 0) {
      EXPECT_EQ(failure.detail[0], bad);
      EXPECT_EQ(failure.detail[1], 0);
      EXPECT_EQ(failure.detail[2], extent - 1);
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < count; ++c) {
        const int64_t place = index[size_t(r * indexRow + c * indexStep)];
        if (place >= 0 && place < extent) {
          const int64_t at = alongLast ? r * extent + place : place * count + c;
          ASSERT_EQ(out[size_t(r * count + c)], in[size_t(at)])
              << r << " " << c << " of " << rows << "x" << count;
        }
      }
    }
  }
}
TEST(GatherElements, Runs) {
  for (int64_t count : {1, 7, 16, 17, 40, 1500}) {
    for (bool alongLast : {true, false}) {
      checkGatherRuns<float, int64_t>(5, count, 33, alongLast, false, 0);
      checkGatherRuns<uint8_t, int32_t>(3, count, 100, alongLast, false, 0);
      checkGatherRuns<double, int64_t>(5, count, 33, alongLast, true, 0);
      for (int64_t bad : {int64_t(-1), int64_t(33), INT64_MIN, INT64_MAX}) {
        checkGatherRuns<float, int64_t>(5, count, 33, alongLast, false, bad);
      }
      checkGatherRuns<int64_t, int32_t>(5, count, 33, alongLast, true, INT32_MIN);
      checkGatherRuns<float, int32_t>(2, count, 33, alongLast, false, INT32_MAX);
    }
  }
}

/// Indices in [-extent, extent).
template <class I>
std::vector<I> placesFromEnd(std::mt19937_64& random, int64_t count, int64_t extent) {
  std::vector<I> places;
  for (int64_t i = 0; i < count; ++i) {
    places.push_back(I(int64_t(random() % uint64_t(2 * extent)) - extent));
  }
  return places;
}

/// out[n, m, k] = in[a[n, 1], b[1, m], k] of in [rows, columns, k], or (`transposed`) in
/// [k, rows, columns], whose k is not contiguous; `bad` stands in the middle of b.
template <class E, class I>
void checkGatherNd(int64_t n, int64_t m, int64_t k, bool transposed, int64_t bad) {
  constexpr int64_t kRows = 7, kColumns = 11;
  std::mt19937_64 random(freshSeed());
  std::vector<E> in(size_t(kRows * kColumns * k));
  for (E& v : in) {
    v = E(random() % 100);
  }
  std::vector<I> a = placesFromEnd<I>(random, n, kRows);
  std::vector<I> b = placesFromEnd<I>(random, m, kColumns);
  if (bad != 0) {
    b[size_t(m / 2)] = I(bad);
  }
  const sl::GatherNdShape shape{
      .extent = {n, m, k},
      .stride = {{0, 0, transposed ? kRows * kColumns : 1}, {1, 0, 0}, {0, 1, 0}, {m * k, k, 1}},
      .dimExtent = {kRows, kColumns},
      .dimStride = {transposed ? kColumns : kColumns * k, transposed ? 1 : k}};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> out(size_t(n * m * k), E(111));
    sl_ctx failure;
    const int32_t status = runTeam(
        threads,
        [&](sl_ctx* ctx, sl_team team) {
          sl::gather_nd<sl::GatherNdTune{.rank = 3, .indices = 2}>(
              ctx, team, shape, static_cast<const E*>(in.data()), static_cast<const I*>(a.data()),
              static_cast<const I*>(b.data()), out.data());
        },
        &failure);
    EXPECT_EQ(status, bad != 0 ? SL_INDEX_ERROR : SL_OK);
    if (bad != 0) {
      EXPECT_EQ(failure.detail[0], bad);
      EXPECT_EQ(failure.detail[1], -kColumns);
      EXPECT_EQ(failure.detail[2], kColumns - 1);
    }
    for (int64_t i = 0; i < n * m * k; ++i) {
      int64_t row = a[size_t(i / (m * k))], column = b[size_t(i / k % m)];
      if (bad != 0 && column == bad) {
        continue;
      }
      row += row < 0 ? kRows : 0;
      column += column < 0 ? kColumns : 0;
      const int64_t place = row * kColumns + column;
      ASSERT_EQ(out[size_t(i)],
                in[size_t(transposed ? i % k * kRows * kColumns + place : place * k + i % k)])
          << i << " of " << n << "x" << m << "x" << k;
    }
  }
}
TEST(GatherNd, IndicesAreBroadcastAndCountFromTheEnd) {
  for (bool transposed : {false, true}) {
    checkGatherNd<float, int64_t>(3, 50, 1, transposed, 0);
    checkGatherNd<float, int32_t>(9, 5, 133, transposed, 0);
    checkGatherNd<uint8_t, int64_t>(1, 3000, 1, transposed, 0);
    checkGatherNd<double, int32_t>(40, 1, 17, transposed, 0);
    for (int64_t bad : {int64_t(-12), int64_t(11), INT64_MIN, INT64_MAX}) {
      checkGatherNd<float, int64_t>(3, 50, 1, transposed, bad);
      checkGatherNd<int64_t, int64_t>(3, 5, 20, transposed, bad);
    }
  }
}
TEST(GatherNd, NothingToReadIsZero) {
  const float in = 3;
  const int64_t places[] = {0, 1};
  float out[] = {9, 9};
  const sl::GatherNdShape shape{
      .extent = {2}, .stride = {{0}, {1}, {1}}, .dimExtent = {0}, .dimStride = {1}};
  EXPECT_EQ(runTeam(1,
                    [&](sl_ctx* ctx, sl_team team) {
                      sl::gather_nd<sl::GatherNdTune{.rank = 1, .indices = 1}>(ctx, team, shape,
                                                                               &in, places, out);
                    }),
            SL_INDEX_ERROR);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 0);
}

/// What family scatter_nd does with an element that is there.
template <int Combine, class E>
E combine(E old, E from) {
  return Combine == 0   ? from
         : Combine == 1 ? E(old + from)
         : Combine == 2 ? E(old * from)
         : Combine == 3 ? std::min(old, from)
                        : std::max(old, from);
}

/// index [n, m, k] into out [n, extent, k] along the dim in the middle, or [m, n] into [extent, n]
/// along the first (`first`); src has two columns more than index.
template <int Combine, class I, class E>
void checkScatterAlong(int64_t n, int64_t m, int64_t k, int64_t extent, bool first, int64_t bad) {
  std::mt19937_64 random(freshSeed());
  if (first) {
    k = n;
    n = 1;
  }
  const int64_t wide = k + 2;
  std::vector<E> src(size_t(n * m * wide)), before(size_t(n * extent * k));
  for (std::vector<E>* values : {&src, &before}) {
    for (E& v : *values) {
      v = E(random() % 5);
    }
  }
  std::vector<I> index(size_t(n * m * k));
  for (I& i : index) {
    i = I(random() % uint64_t(extent));
  }
  if (bad != 0) {
    index[index.size() / 2] = I(bad);
  }
  std::vector<E> want = before;
  for (int64_t i = 0; i < n * m * k; ++i) {
    const int64_t place = index[size_t(i)];
    if (place >= 0 && place < extent) {
      E& to = want[size_t((i / (m * k) * extent + place) * k + i % k)];
      to = combine<Combine>(to, src[size_t(i / k * wide + i % k)]);
    }
  }
  const sl::ScatterNdShape shape{.extent = {n, k, m},
                                 .stride = {{m * k, 1, k}, {m * wide, 1, wide}, {extent * k, 1, 0}},
                                 .dimExtent = {extent},
                                 .dimStride = {k}};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> out = before;
    sl_ctx failure;
    const int32_t status = runTeam(
        threads,
        [&](sl_ctx* ctx, sl_team team) {
          sl::scatter_nd<sl::ScatterNdTune{
              .rank = 3, .beside = 2, .indices = 1, .combine = Combine}>(
              ctx, team, shape, static_cast<const I*>(index.data()),
              static_cast<const E*>(src.data()), out.data());
        },
        &failure);
    EXPECT_EQ(status, bad != 0 ? SL_INDEX_ERROR : SL_OK);
    if (bad != 0) {
      EXPECT_EQ(failure.detail[0], bad);
      EXPECT_EQ(failure.detail[1], 0);
      EXPECT_EQ(failure.detail[2], extent - 1);
    }
    ASSERT_EQ(out, want);
  }
}
TEST(ScatterNd, WritesAndCombinesAlongADim) {
  checkScatterAlong<0, int64_t, float>(3, 7, 5, 9, false, 0);
  checkScatterAlong<1, int64_t, float>(1000, 40, 1, 9, true, 0);
  checkScatterAlong<1, int32_t, double>(2, 33, 600, 4, false, 0);
  checkScatterAlong<2, int64_t, int64_t>(3, 7, 5, 3, false, 0);
  checkScatterAlong<1, int64_t, uint8_t>(3, 700, 5, 3, false, 0);
  checkScatterAlong<3, int32_t, int32_t>(300, 7, 1, 3, true, 0);
  checkScatterAlong<4, int64_t, float>(1, 900, 1, 3, false, 0);
  checkScatterAlong<0, int64_t, float>(3, 0, 5, 9, false, 0);
  checkScatterAlong<0, int64_t, float>(0, 5, 1, 9, true, 0);
  checkScatterAlong<1, int64_t, float>(3, 7, 5, 9, false, -1);
  checkScatterAlong<0, int32_t, float>(300, 7, 1, 3, true, 3);
}

/// src [n, m, k] to out[a[n], b[m], k] of out [rows, columns, k].
template <int Combine, class I, class E>
void checkScatterAt(int64_t n, int64_t m, int64_t k, int64_t bad) {
  constexpr int64_t kRows = 3, kColumns = 5;
  std::mt19937_64 random(freshSeed());
  std::vector<E> src(size_t(n * m * k)), before(size_t(kRows * kColumns * k));
  for (std::vector<E>* values : {&src, &before}) {
    for (E& v : *values) {
      v = E(random() % 5);
    }
  }
  std::vector<I> a = placesFromEnd<I>(random, n, kRows);
  std::vector<I> b = placesFromEnd<I>(random, m, kColumns);
  if (bad != 0) {
    a[size_t(n / 2)] = I(bad);
  }
  std::vector<E> want = before;
  for (int64_t i = 0; i < n * m * k; ++i) {
    int64_t row = a[size_t(i / (m * k))], column = b[size_t(i / k % m)];
    row += row < 0 ? kRows : 0;
    column += column < 0 ? kColumns : 0;
    if (row >= 0 && row < kRows) {
      E& to = want[size_t((row * kColumns + column) * k + i % k)];
      to = combine<Combine>(to, src[size_t(i)]);
    }
  }
  const sl::ScatterNdShape shape{.extent = {k, n, m},
                                 .stride = {{0, 1, 0}, {0, 0, 1}, {1, m * k, k}, {1, 0, 0}},
                                 .dimExtent = {kRows, kColumns},
                                 .dimStride = {kColumns * k, k}};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> out = before;
    sl_ctx failure;
    const int32_t status = runTeam(
        threads,
        [&](sl_ctx* ctx, sl_team team) {
          sl::scatter_nd<sl::ScatterNdTune{
              .rank = 3, .beside = 1, .indices = 2, .wrap = 1, .combine = Combine}>(
              ctx, team, shape, static_cast<const I*>(a.data()), static_cast<const I*>(b.data()),
              static_cast<const E*>(src.data()), out.data());
        },
        &failure);
    EXPECT_EQ(status, bad != 0 ? SL_INDEX_ERROR : SL_OK);
    if (bad != 0) {
      EXPECT_EQ(failure.detail[0], bad);
      EXPECT_EQ(failure.detail[1], -kRows);
      EXPECT_EQ(failure.detail[2], kRows - 1);
    }
    ASSERT_EQ(out, want);
  }
}
TEST(ScatterNd, WritesAndCombinesAtSeveralIndices) {
  checkScatterAt<0, int64_t, float>(4, 9, 1, 0);
  checkScatterAt<1, int32_t, float>(40, 9, 3, 0);
  checkScatterAt<1, int64_t, uint8_t>(2, 2, 3000, 0);
  checkScatterAt<0, int64_t, double>(3, 4, 700, -4);
  checkScatterAt<1, int64_t, int64_t>(30, 4, 1, 3);
  checkScatterAt<0, int32_t, float>(0, 4, 7, 0);
}

TEST(Team, BarrierOrdersWrites) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<int> cells(threads);
    runTeam(threads, [&](sl_ctx*, sl_team team) {
      for (int round = 1; round < 200; ++round) {
        cells[team.index] = round;
        sl_barrier(team);
        for (int other = 0; other < threads; ++other) {
          ASSERT_EQ(cells[other], round);
        }
        sl_barrier(team);
      }
    });
  }
}
TEST(Team, FirstFailureWins) {
  sl_ctx failure;
  int32_t status = runTeam(
      1,
      [&](sl_ctx* ctx, sl_team) {
        sl_fail_at(ctx, SL_INDEX_ERROR, 1, 2, 3);
        sl_fail_at(ctx, SL_ZERO_DIVISION, 4, 5, 6);
      },
      &failure);
  EXPECT_EQ(status, SL_INDEX_ERROR);
  EXPECT_EQ(failure.detail[2], 3);
}
TEST(Team, SplitCoversEverythingOnce) {
  for (int64_t n : {0, 1, 5, 64, 1000}) {
    for (int64_t grain : {1, 16, 300}) {
      for (int32_t size = 1; size <= 5; ++size) {
        int64_t at = 0;
        for (int32_t i = 0; i < size; ++i) {
          sl::Range part = sl::split(n, sl_team{nullptr, i, size}, grain);
          EXPECT_EQ(part.begin, at);
          EXPECT_TRUE(part.begin % grain == 0 || part.begin == n);
          at = part.end;
        }
        EXPECT_EQ(at, n);
      }
    }
  }
}

/// Two matrices inside larger ones, with guards that must stay as they are.
template <class E, int Block>
void checkTranspose(int64_t rows, int64_t cols) {
  sl::TransposeShape shape{.batch = 2,
                           .rows = rows,
                           .cols = cols,
                           .inBatch = rows * (cols + 3),
                           .inRow = cols + 3,
                           .outBatch = cols * (rows + 1),
                           .outCol = rows + 1};
  std::vector<E> in(size_t(2 * shape.inBatch));
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = E(i % 120);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<E> out(size_t(2 * shape.outBatch), E(121));
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::transpose<sl::TransposeTune{.block = Block}>(
          ctx, team, shape, static_cast<const E*>(in.data()), out.data());
    });
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t r = 0; r <= rows; ++r) {
          const E expected =
              r == rows ? E(121) : in[size_t(b * shape.inBatch + r * shape.inRow + c)];
          ASSERT_EQ(out[size_t(b * shape.outBatch + c * shape.outCol + r)], expected)
              << rows << "x" << cols << " " << b << " " << r << " " << c;
        }
      }
    }
  }
}

TEST(Transpose, BlocksAndEdges) {
  for (int64_t rows : {0, 1, 8, 16, 33, 64}) {
    for (int64_t cols : {1, 15, 16, 50}) {
      checkTranspose<float, 16>(rows, cols);
      checkTranspose<double, 4>(rows, cols);
      checkTranspose<int8_t, 64>(rows, cols);
      checkTranspose<uint16_t, 8>(rows, cols);
    }
  }
}

/// Batches of batches, as the lines of images with a border have them.
TEST(Transpose, BatchesOfBatches) {
  constexpr int64_t kOuter = 3, kInner = 5, kRows = 24, kCols = 37;
  const sl::TransposeShape shape{.batch = kOuter * kInner,
                                 .rows = kRows,
                                 .cols = kCols,
                                 .inBatch = kCols,
                                 .inRow = kInner * kCols,
                                 .outBatch = (kCols + 2) * kRows,
                                 .outCol = kRows,
                                 .inner = kInner,
                                 .inOuter = kRows * kInner * kCols,
                                 .outOuter = (kInner + 2) * (kCols + 2) * kRows};
  std::vector<float> in(size_t(kOuter * shape.inOuter));
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = float(i);
  }
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> out(size_t(kOuter * shape.outOuter), -1.0F);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::transpose<sl::TransposeTune{.block = 16}>(
          ctx, team, shape, static_cast<const float*>(in.data()), out.data());
    });
    for (int64_t o = 0; o < kOuter; ++o) {
      for (int64_t b = 0; b < kInner + 2; ++b) {
        for (int64_t c = 0; c < kCols + 2; ++c) {
          for (int64_t r = 0; r < kRows; ++r) {
            const float expected = b < kInner && c < kCols
                                       ? in[size_t(((o * kRows + r) * kInner + b) * kCols + c)]
                                       : -1.0F;
            ASSERT_EQ(out[size_t(o * shape.outOuter + (b * (kCols + 2) + c) * kRows + r)], expected)
                << o << " " << b << " " << c << " " << r;
          }
        }
      }
    }
  }
}

}  // namespace
