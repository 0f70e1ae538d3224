// SPDX-License-Identifier: Apache-2.0
// convolution_int8 with pack_convolution_int8 against sums of products in 64 bits, for random
// windows, over teams of one to three threads.
#include "straightline/kernels/convolution_int8.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "straightline/kernels/pack_convolution_int8.h"
#include "team_for_tests.h"

namespace {

std::mt19937 random_ = [] {
  const unsigned seed = std::random_device{}();
  printf("seed %u\n", seed);
  return std::mt19937(seed);
}();

int64_t between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

/// A batch of images with their zero border around them.
struct Images {
  int64_t n, h, w, c, before, after;
  std::vector<int8_t> memory;

  int64_t row() const { return (w + before + after) * c; }
  int64_t image() const { return (h + before + after) * row(); }
  int64_t first() const { return before * row() + before * c; }
  int64_t at(int64_t i, int64_t y, int64_t x) const {
    return first() + i * image() + y * row() + x * c;
  }
  int8_t get(int64_t i, int64_t y, int64_t x, int64_t channel) const {
    return y < 0 || y >= h || x < 0 || x >= w ? int8_t(0) : memory[at(i, y, x) + channel];
  }
};

template <int KH, int KW, int MR, int NR>
void check() {
  sl::ConvolutionInt8Shape s{.n = between(1, 3),
                             .h = between(KH, 9),
                             .w = between(KW, 9),
                             .c = 4 * between(1, 9),
                             .k = between(1, 2 * NR + 3)};
  s.strideH = between(1, 2), s.strideW = between(1, 3), s.padH = between(0, KH - 1);
  s.padW = between(0, KW - 1), s.dilationH = between(1, 2), s.dilationW = between(1, 2);
  const int64_t spanH = (KH - 1) * s.dilationH + 1, spanW = (KW - 1) * s.dilationW + 1;
  s.h += spanH, s.w += spanW;
  s.ho = (s.h + 2 * s.padH - spanH) / s.strideH + 1,
  s.wo = (s.w + 2 * s.padW - spanW) / s.strideW + 1;
  Images in{s.n, s.h, s.w, s.c, 8, 8, {}};
  in.memory.assign(s.n * in.image(), 0);
  for (int64_t i = 0; i < s.n; ++i) {
    for (int64_t y = 0; y < s.h; ++y) {
      for (int64_t x = 0; x < s.w * s.c; ++x) {
        in.memory[in.at(i, y, 0) + x] = int8_t(between(-128, 127));
      }
    }
  }
  s.inStride[0] = in.image(), s.inStride[1] = in.row(), s.inStride[2] = s.c;
  s.outStride[2] = s.k, s.outStride[1] = s.wo * s.k, s.outStride[0] = s.ho * s.wo * s.k;
  std::vector<int8_t> weight(s.k * s.c * KH * KW);
  for (int8_t& x : weight) {
    x = int8_t(between(-128, 127));
  }
  std::vector<int8_t> packed((s.k + NR - 1) / NR * NR * s.c * KH * KW, 7);
  const sl::PackConvolutionInt8Shape pack{s.k, s.c, KH, KW, s.c * KH * KW, KH * KW, KW, 1};
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<int32_t> out(s.n * s.ho * s.wo * s.k, 7);
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::pack_convolution_int8<sl::PackConvolutionInt8Tune{NR}>(ctx, team, pack, weight.data(),
                                                                 packed.data());
    });
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::convolution_int8<sl::ConvolutionInt8Tune{
          .mr = MR, .nr = NR, .kh = KH, .kw = KW, .mc = 3 * MR}>(
          ctx, team, s, [](auto sum, auto& y) SL_LAMBDA { y = sum; }, in.memory.data() + in.first(),
          packed.data(), out.data());
    });
    for (int64_t i = 0, at = 0; i < s.n; ++i) {
      for (int64_t y = 0; y < s.ho; ++y) {
        for (int64_t x = 0; x < s.wo; ++x) {
          for (int64_t k = 0; k < s.k; ++k, ++at) {
            int64_t sum = 0;
            for (int64_t e = 0; e < s.c * KH * KW; ++e) {
              const int64_t c = e / (KH * KW), h = e / KW % KH, w = e % KW;
              sum += int64_t(weight[k * s.c * KH * KW + e]) *
                     in.get(i, y * s.strideH - s.padH + h * s.dilationH,
                            x * s.strideW - s.padW + w * s.dilationW, c);
            }
            ASSERT_EQ(out[at], sum) << threads << " threads, image " << i << " row " << y
                                    << " column " << x << " output " << k;
          }
        }
      }
    }
  }
}

TEST(ConvolutionInt8, Windows) {
  for (int i = 0; i < 20; ++i) {
    check<1, 1, 6, 16>();
    check<3, 3, 4, 32>();
    check<2, 5, 6, 16>();
    check<5, 1, 1, 8>();
  }
}

}  // namespace
