// SPDX-License-Identifier: Apache-2.0
// Packings against the formulas of their layouts: odd sizes, weights that lie in any order,
// prologues, teams. What is packed must be the same bits.
#include "straightline/kernels/pack.h"

#include <cmath>
#include <limits>

#include "straightline/kernels/kernel_testing.h"
#include "straightline/kernels/pack_winograd.h"
#include "straightline/kernels/scalar.h"

namespace sl::testing {
namespace {

/// Weight element [o][i][h][w] is at the sum of index * stride.
struct Order {
  const char* name;
  int64_t o, i, h, w;
};

/// The orders that a weight [o, i, kh, kw] may have, each in memory of `extent` elements.
std::vector<Order> ordersOf(int64_t o, int64_t i, int64_t kh, int64_t kw) {
  return {{"dense", i * kh * kw, kh * kw, kw, 1},
          {"rows apart", i * kh * kw + 5, kh * kw, kw, 1},
          {"channels last", kh * kw * i, 1, kw * i, i},
          {"inputs first", kh * kw, o * kh * kw, kw, 1}};
}

int64_t extentOf(const Order& order, int64_t o, int64_t i, int64_t kh, int64_t kw) {
  return (o - 1) * order.o + (i - 1) * order.i + (kh - 1) * order.h + (kw - 1) * order.w + 1;
}

/// As a folded batch norm: in double, rounded once. `zero` is a factor that is the same for all.
constexpr auto kScale = [](auto x, auto s, auto zero, auto& y) SL_LAMBDA {
  auto t = cast<double>(x) * s;
  y = cast<Element<decltype(x)>>(t + cast<double>(zero));
};

template <class T>
T scaled(T x, double s) {
  return T(double(x) * s + 0.0);
}

template <class T>
void expectSame(const std::vector<T>& expected, const Guarded<T>& got, const std::string& where) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const T value = got.at(int64_t(i));
    ASSERT_EQ(std::memcmp(&value, &expected[i], sizeof(T)), 0)
        << where << ": element " << i << " is " << numberOf(value) << ", expected "
        << numberOf(expected[i]);
  }
  T pattern;
  std::memset(static_cast<void*>(&pattern), 0xFB, sizeof(T));
  for (int64_t i : {int64_t(-1), int64_t(expected.size())}) {
    const T value = got.at(i);
    ASSERT_EQ(std::memcmp(&value, &pattern, sizeof(T)), 0) << where << ": wrote element " << i;
  }
}

template <int NR, class T>
void runConvolution(int64_t o, int64_t i, int64_t kh, int64_t kw, int threads) {
  for (const Order& order : ordersOf(o, i, kh, kw)) {
    const std::string where = std::string("pack_convolution ") + order.name +
                              " nr=" + std::to_string(NR) + " o=" + std::to_string(o) +
                              " i=" + std::to_string(i) + " kh=" + std::to_string(kh) +
                              " kw=" + std::to_string(kw) + " threads=" + std::to_string(threads);
    const std::vector<T> weight = randomVector<T>(extentOf(order, o, i, kh, kw));
    const std::vector<double> scale = randomVector<double>(2 * o);
    const float zero = 0;
    const int64_t count = (o + NR - 1) / NR * NR * i * kh * kw;
    std::vector<T> plain(size_t(count), T(0)), folded(size_t(count), T(0));
    for (int64_t out = 0; out < o; ++out) {
      for (int64_t in = 0; in < i; ++in) {
        for (int64_t h = 0; h < kh; ++h) {
          for (int64_t w = 0; w < kw; ++w) {
            const auto to = size_t((((out / NR * kh + h) * kw + w) * i + in) * NR + out % NR);
            const T x = weight[size_t(out * order.o + in * order.i + h * order.h + w * order.w)];
            plain[to] = x;
            folded[to] = scaled(x, scale[size_t(2 * out)]);
          }
        }
      }
    }
    PackConvolutionShape shape{.o = o,
                               .i = i,
                               .kh = kh,
                               .kw = kw,
                               .strideO = order.o,
                               .strideI = order.i,
                               .strideH = order.h,
                               .strideW = order.w,
                               .prologueStride = {2, 0}};
    Guarded<T> packed(count), made(count);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      pack_convolution<PackConvolutionTune{.nr = NR}>(ctx, team, shape, weight.data(),
                                                      packed.data());
      pack_convolution<PackConvolutionTune{.nr = NR}>(ctx, team, shape, kScale, weight.data(),
                                                      scale.data(), &zero, made.data());
    });
    expectSame(plain, packed, where);
    expectSame(folded, made, where + " with a prologue");
  }
}

TEST(Pack, Convolution) {
  for (const auto& [kh, kw] : {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {7, 7}, {1, 5}, {4, 1}}) {
    for (int64_t i : {1, 2, 3, 15, 16, 17, 33}) {
      runConvolution<16, float>(pick(1, 70), i, kh, kw, int(pick(1, 3)));
      runConvolution<32, float>(pick(1, 70), i, kh, kw, int(pick(1, 3)));
      runConvolution<24, float>(pick(1, 70), i, kh, kw, int(pick(1, 3)));
      runConvolution<8, double>(pick(1, 30), i, kh, kw, int(pick(1, 3)));
    }
  }
}

template <int NR, int PAIRS, class T>
void runGemm(int64_t n, int64_t k, int threads) {
  for (const Order& order : {Order{"dense", k, 1, 0, 0}, Order{"rows apart", k + 3, 1, 0, 0},
                             Order{"inputs first", 1, n, 0, 0}}) {
    const std::string where = std::string("pack_gemm ") + order.name + " nr=" + std::to_string(NR) +
                              " pairs=" + std::to_string(PAIRS) + " n=" + std::to_string(n) +
                              " k=" + std::to_string(k) + " threads=" + std::to_string(threads);
    using Number = typename Conditional<kSame<T, double>, double, float>::type;
    const std::vector<T> weight =
        randomMatrix<T, Number>((n - 1) * order.o + (k - 1) * order.i + 1);
    const int64_t count = (n + NR - 1) / NR * NR * k;
    std::vector<T> expected(size_t(count), T{});
    for (int64_t out = 0; out < n; ++out) {
      for (int64_t in = 0; in < k; ++in) {
        expected[size_t(((out / NR * (k / PAIRS) + in / PAIRS) * NR + out % NR) * PAIRS +
                        in % PAIRS)] = weight[size_t(out * order.o + in * order.i)];
      }
    }
    const PackGemmShape shape{.n = n, .k = k, .strideN = order.o, .strideK = order.i};
    Guarded<T> packed(count);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      pack_gemm<PackGemmTune{.nr = NR, .pairs = PAIRS}>(ctx, team, shape, weight.data(),
                                                        packed.data());
    });
    expectSame(expected, packed, where);
    if constexpr (kSame<T, bfloat16> && PAIRS == 1) {  // stored narrower than it is packed
      std::vector<float> wide(expected.size());
      for (size_t at = 0; at < wide.size(); ++at) {
        wide[at] = cast<float>(expected[at]);
      }
      Guarded<float> made(count);
      runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
        pack_gemm<PackGemmTune{.nr = NR}>(
            ctx, team, shape, [](auto x, auto& y) SL_LAMBDA { y = cast<float>(x); }, weight.data(),
            made.data());
      });
      expectSame(wide, made, where + " widened");
    }
  }
}

TEST(Pack, Gemm) {
  for (int64_t k : {1, 2, 7, 8, 16, 17, 31, 32, 50, 95}) {
    const int64_t n = pick(1, 150);
    const auto threads = int(pick(1, 3));
    runGemm<16, 1, float>(n, k, threads);
    runGemm<48, 1, float>(n, k, threads);
    runGemm<64, 1, float>(n, k, threads);
    runGemm<6, 1, float>(n, k, threads);
    runGemm<16, 1, double>(n, k, threads);
    runGemm<32, 1, bfloat16>(n, k, threads);
    runGemm<32, 2, bfloat16>(n, k + k % 2, threads);
  }
}

/// U = G g G^T of one 3x3 weight, in double.
template <int M>
double transformed(const double (&g)[9], int row, int column) {
  double u = 0;
  for (int at = 0; at < 9; ++at) {
    u += WinogradPoints<M>::kG[row][at / 3] * g[at] * WinogradPoints<M>::kG[column][at % 3];
  }
  return u;
}

/// Memory that begins at a cache line, with a guard around it.
template <class T>
class Lines {
 public:
  explicit Lines(int64_t count) : data_(count, 160) {
    const auto rest = reinterpret_cast<uintptr_t>(data_.data()) % 64;
    shift_ = rest ? int64_t((64 - rest) / sizeof(T)) : 0;
  }
  T* data() { return data_.data() + shift_; }
  T at(int64_t i) const { return data_.at(i + shift_); }

 private:
  Guarded<T> data_;
  int64_t shift_ = 0;
};

template <int M, int NR, int KB, class T>
void runWinograd(int64_t o, int64_t i, int threads) {
  constexpr int n = M + 2;
  for (const Order& order : ordersOf(o, i, 3, 3)) {
    const std::string where = std::string("pack_winograd ") + order.name +
                              " m=" + std::to_string(M) + " nr=" + std::to_string(NR) +
                              " o=" + std::to_string(o) + " i=" + std::to_string(i) +
                              " threads=" + std::to_string(threads);
    const std::vector<T> weight = randomVector<T>(extentOf(order, o, i, 3, 3));
    const std::vector<double> scale = randomVector<double>(2 * o);
    const float zero = 0;
    const int64_t count = o * i * n * n;
    const PackWinogradShape shape{.o = o,
                                  .i = i,
                                  .strideO = order.o,
                                  .strideI = order.i,
                                  .strideH = order.h,
                                  .strideW = order.w,
                                  .prologueStride = {2, 0}};
    std::vector<T> folded(weight);
    for (int64_t at = 0; at < o * i * 9; ++at) {
      const auto from = size_t(at / 9 / i * order.o + at / 9 % i * order.i + at % 9 / 3 * order.h +
                               at % 3 * order.w);
      folded[from] = scaled(weight[from], scale[size_t(2 * (at / 9 / i))]);
    }
    Lines<T> packed(count), streamed(count), made(count), expected(count);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      constexpr PackWinogradTune kTune{.m = M, .nr = NR, .kb = KB};
      constexpr PackWinogradTune kStream{.m = M, .nr = NR, .kb = KB, .stream = 1};
      pack_winograd<kTune>(ctx, team, shape, weight.data(), packed.data());
      pack_winograd<kStream>(ctx, team, shape, weight.data(), streamed.data());
      pack_winograd<kStream>(ctx, team, shape, kScale, weight.data(), scale.data(), &zero,
                             made.data());
      pack_winograd<kTune>(ctx, team, shape, folded.data(), expected.data());
    });
    for (int64_t at = 0; at < count; ++at) {
      const int64_t in = at / NR % i, point = at / NR / i / (KB / NR) % (n * n);
      const int64_t out = at / (n * n * KB * i) * KB + at / NR / i % (KB / NR) * NR + at % NR;
      double g[9];
      for (int64_t place = 0; place < 9; ++place) {
        g[place] = double(weight[size_t(out * order.o + in * order.i + place / 3 * order.h +
                                        place % 3 * order.w)]);
      }
      const double value = transformed<M>(g, int(point / n), int(point % n));
      // Terms of up to 1 with factors of up to 4.3 (F(4x4)), summed in double and rounded once.
      ASSERT_NEAR(double(packed.at(at)), value, kEpsilon<T> * std::abs(value) + 1e-14) << where;
      ASSERT_EQ(packed.at(at), streamed.at(at)) << where << ": streamed, element " << at;
      ASSERT_EQ(expected.at(at), made.at(at)) << where << ": with a prologue, element " << at;
    }
    T pattern;
    std::memset(static_cast<void*>(&pattern), 0xFB, sizeof(T));
    for (int64_t at : {int64_t(-1), count}) {
      for (const T value : {packed.at(at), streamed.at(at), made.at(at)}) {
        ASSERT_EQ(std::memcmp(&value, &pattern, sizeof(T)), 0) << where << ": wrote element " << at;
      }
    }
  }
}

/// Weights [n, k] of which about half are subnormal, and the same with zeros of their signs there.
template <class T>
std::pair<std::vector<T>, std::vector<T>> weightsWithSubnormals(int64_t count) {
  std::vector<T> weight = randomVector<T>(count), expected = weight;
  for (int64_t at = 0; at < count; at += pick(1, 3)) {
    const T tiny = weight[size_t(at)] * std::numeric_limits<T>::min();  // below 1 times the least
    weight[size_t(at)] = tiny;
    expected[size_t(at)] = std::copysign(T(0), tiny);
  }
  weight.back() = expected.back() = std::numeric_limits<T>::min();  // this one is kept
  return {weight, expected};
}

template <int NR, class T>
void runSubnormals(int64_t n, int64_t k) {
  const auto [weight, zeroed] = weightsWithSubnormals<T>(n * k);
  const int64_t count = (n + NR - 1) / NR * NR * k;
  const PackGemmShape shape{.n = n, .k = k, .strideN = k, .strideK = 1};
  Guarded<T> packed(count), expected(count);
  runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    pack_gemm<PackGemmTune{.nr = NR}>(ctx, team, shape, weight.data(), packed.data());
    pack_gemm<PackGemmTune{.nr = NR}>(ctx, team, shape, zeroed.data(), expected.data());
  });
  int64_t kept = 0;
  for (int64_t out = 0; out < n; ++out) {
    for (int64_t in = 0; in < k; ++in) {
      const int64_t at = (out / NR * k + in) * NR + out % NR;
      const T value = packed.at(at), wanted = zeroed[size_t(out * k + in)];
      ASSERT_EQ(std::memcmp(&value, &wanted, sizeof(T)), 0) << out << ", " << in << ": " << value;
      kept += value != 0;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, n * k);
}

TEST(Pack, SubnormalNumbersAreZero) {
  runSubnormals<16, float>(37, 50);  // rows in registers, and some left
  runSubnormals<16, float>(5, 3);    // one by one
  runSubnormals<8, double>(19, 21);
}

TEST(Pack, Winograd) {
  for (int64_t i : {1, 2, 3, 15, 16, 17, 40}) {
    const auto threads = int(pick(1, 3));
    runWinograd<2, 16, 32, float>(32 * pick(1, 3), i, threads);
    runWinograd<2, 32, 32, float>(32 * pick(1, 3), i, threads);
    runWinograd<4, 16, 64, float>(64 * pick(1, 2), i, threads);
    runWinograd<4, 32, 64, float>(64 * pick(1, 2), i, threads);
    runWinograd<4, 16, 16, double>(16 * pick(1, 2), i, threads);
  }
}

}  // namespace
}  // namespace sl::testing
