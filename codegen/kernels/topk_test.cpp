// SPDX-License-Identifier: Apache-2.0
// Family topk against a stable sort, on teams of one to three threads.
#include "straightline/kernels/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "team_for_tests.h"

namespace {

/// Random numbers of which many are equal; of floats also NaN, infinities and both zeros.
template <class T>
std::vector<T> hardNumbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> x(count);
  for (T& value : x) {
    value = T(int64_t(random() % 40) - (std::numeric_limits<T>::is_signed ? 20 : 0));
    if constexpr (std::numeric_limits<T>::has_infinity) {
      constexpr T kInfinity = std::numeric_limits<T>::infinity();
      const T special[] = {T(0), -T(0), kInfinity, -kInfinity, std::numeric_limits<T>::quiet_NaN()};
      value = random() % 3 == 0 ? special[random() % 5] : value;
    }
  }
  return x;
}

/// Whether a comes before b in rising order: NaN last.
template <class T>
bool rises(T a, T b) {
  return a < b || (b != b && a == a);
}

/// [5, count, 3] with rows along the middle; indices lie with these innermost.
template <int LARGEST, class T>
void check(int64_t count, int64_t k, uint64_t seed) {
  constexpr int64_t kOuter = 5, kInner = 3;
  const std::vector<T> x = hardNumbers<T>(kOuter * count * kInner, seed);
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<T> values(kOuter * k * kInner);
    std::vector<int64_t> indices(values.size());
    sl::TopkShape shape{.outer = {kOuter, kInner},
                        .outerStride = {{count * kInner, 1}, {k * kInner, 1}, {k * kInner, k}},
                        .count = count,
                        .k = k,
                        .stride = {kInner, kInner, 1}};
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::topk<sl::TopkTune{.rank = 2, .largest = LARGEST}>(ctx, team, shape, x.data(),
                                                            values.data(), indices.data());
    });
    for (int64_t row = 0; row < kOuter * kInner; ++row) {
      const int64_t outer = row / kInner, inner = row % kInner;
      auto at = [&](int64_t i) { return x[(outer * count + i) * kInner + inner]; };
      std::vector<int64_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const bool before = rises(at(a), at(b)), after = rises(at(b), at(a));
        return before == after ? a < b : LARGEST != 0 ? after : before;
      });
      for (int64_t i = 0; i < k; ++i) {
        ASSERT_EQ(indices[(outer * kInner + inner) * k + i], order[i]) << count << " " << k;
        const T value = values[(outer * k + i) * kInner + inner], best = at(order[i]);
        ASSERT_EQ(0, std::memcmp(&value, &best, sizeof(T))) << count << " " << k;
      }
    }
  }
}

TEST(Topk, AsAStableSort) {
  const uint64_t seed = std::random_device{}();
  printf("seed %lu\n", seed);
  for (int64_t count : {1, 2, 17, 40, 130, 1000, 5000}) {
    for (int64_t k : {int64_t(1), count / 9, count / 2, count}) {
      if (k > 0) {
        check<1, float>(count, k, seed);
        check<0, float>(count, k, seed + 1);
        check<1, double>(count, k, seed + 2);
        check<0, int64_t>(count, k, seed + 3);
        check<1, int8_t>(count, k, seed + 4);
        check<0, uint8_t>(count, k, seed + 5);
      }
    }
  }
}

/// Where pivots were bad too often, at once or after some, a heap ends it.
TEST(Topk, BadPivots) {
  constexpr int64_t kCount = 20000;
  std::vector<float> x(kCount), values(kCount);
  std::vector<int64_t> indices(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = float(i % 2 == 0 ? i : -i);
  }
  for (int depth : {0, 3}) {
    std::vector<uint64_t> words(kCount);
    const sl::topk_detail::RowWords<false, float> order{x.data(), 1};
    for (int64_t i = 0; i < kCount; ++i) {
      words[i] = order.at(i);
    }
    sl::topk_detail::sortWords(order, words.data(), kCount, depth);
    ASSERT_TRUE(std::is_sorted(words.begin(), words.end()));
  }
}

}  // namespace
