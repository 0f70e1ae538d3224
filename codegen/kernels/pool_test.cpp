// SPDX-License-Identifier: Apache-2.0
// Family `pool` against a direct reference: layouts, padding, dilation, ceil mode, divisors, NaN,
// teams.
#include "straightline/kernels/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "team_for_tests.h"

namespace {

int64_t outExtent(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                  bool ceilMode) {
  int64_t reach = dilation * (kernel - 1) + 1;
  int64_t out = (in + 2 * pad - reach + (ceilMode ? stride - 1 : 0)) / stride + 1;
  return ceilMode && (out - 1) * stride >= in + pad ? out - 1 : out;
}

void reference(const sl::PoolShape& s, bool isMax, const std::vector<float>& x,
               std::vector<double>& y) {
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t c = 0; c < s.channels; ++c) {
      for (int64_t oh = 0; oh < s.outH; ++oh) {
        for (int64_t ow = 0; ow < s.outW; ++ow) {
          int64_t h0 = oh * s.strideH - s.padH;
          int64_t w0 = ow * s.strideW - s.padW;
          double best = -INFINITY;
          double sum = 0;
          int64_t inside = 0;
          for (int64_t i = 0; i < s.kernelH; ++i) {
            for (int64_t j = 0; j < s.kernelW; ++j) {
              int64_t h = h0 + i * s.dilationH;
              int64_t w = w0 + j * s.dilationW;
              if (h < 0 || h >= s.inH || w < 0 || w >= s.inW) {
                continue;
              }
              double v =
                  x[n * s.inStride[0] + c * s.inStride[1] + h * s.inStride[2] + w * s.inStride[3]];
              best = v > best || std::isnan(v) ? v : best;
              sum += v;
              ++inside;
            }
          }
          int64_t padded = (std::min(h0 + s.kernelH, s.inH + s.padH) - h0) *
                           (std::min(w0 + s.kernelW, s.inW + s.padW) - w0);
          int64_t divisor = s.divisor != 0 ? s.divisor : s.includePad != 0 ? padded : inside;
          double mean = inside == 0 ? 0 : sum / double(divisor);
          y[n * s.outStride[0] + c * s.outStride[1] + oh * s.outStride[2] + ow * s.outStride[3]] =
              isMax ? best : mean;
        }
      }
    }
  }
}

template <sl::PoolTune T>
void check(sl::PoolShape s, std::mt19937_64& random, bool nan) {
  std::vector<float> x(size_t(s.batch * s.channels * s.inH * s.inW));
  for (float& v : x) {
    v = nan && random() % 23 == 0 ? NAN : float(int64_t(random() % 2001) - 1000) / 64;
  }
  auto strides = [&](int64_t* to, int64_t h, int64_t w) {
    if (T.channelsLast != 0) {
      to[0] = h * w * s.channels, to[1] = 1, to[2] = w * s.channels, to[3] = s.channels;
    } else {
      to[0] = s.channels * h * w, to[1] = h * w, to[2] = w, to[3] = 1;
    }
  };
  strides(s.inStride, s.inH, s.inW);
  strides(s.outStride, s.outH, s.outW);
  std::vector<double> want(size_t(s.batch * s.channels * s.outH * s.outW));
  reference(s, T.kind == sl::PoolKind::max, x, want);
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> y(want.size());
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      sl::pool<T>(ctx, team, s, static_cast<const float*>(x.data()), y.data());
    });
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(want[i])) {
        ASSERT_TRUE(std::isnan(y[i]));
      } else if (T.kind == sl::PoolKind::max) {
        ASSERT_EQ(y[i], want[i]) << i;
      } else {
        ASSERT_NEAR(y[i], want[i], 1e-5) << i;
      }
    }
  }
}

TEST(Pool, RandomShapes) {
  uint64_t seed = std::random_device{}();
  printf("seed %lu\n", seed);
  std::mt19937_64 random(seed);
  auto pick = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (int i = 0; i < 200; ++i) {
    sl::PoolShape s{
        .batch = pick(1, 2), .channels = pick(1, 40), .inH = pick(5, 20), .inW = pick(5, 60)};
    s.kernelH = pick(1, 3);
    s.kernelW = pick(1, 3);
    s.strideH = pick(1, 3);
    s.strideW = pick(1, 3);
    s.padH = s.kernelH / 2;
    s.padW = s.kernelW / 2;
    bool ceilMode = pick(0, 1) != 0;
    sl::PoolShape dilated = s;
    dilated.dilationH = pick(1, 2);
    dilated.dilationW = pick(1, 2);
    dilated.outH = outExtent(s.inH, s.kernelH, s.strideH, s.padH, dilated.dilationH, ceilMode);
    dilated.outW = outExtent(s.inW, s.kernelW, s.strideW, s.padW, dilated.dilationW, ceilMode);
    check<sl::PoolTune{.kind = sl::PoolKind::max, .channelsLast = 0}>(dilated, random, i % 2 == 0);
    check<sl::PoolTune{.kind = sl::PoolKind::max, .channelsLast = 1}>(dilated, random, i % 2 == 0);
    s.outH = outExtent(s.inH, s.kernelH, s.strideH, s.padH, 1, ceilMode);
    s.outW = outExtent(s.inW, s.kernelW, s.strideW, s.padW, 1, ceilMode);
    s.includePad = pick(0, 1);
    s.divisor = pick(0, 3) == 0 ? 7 : 0;
    check<sl::PoolTune{.kind = sl::PoolKind::avg, .channelsLast = 0}>(s, random, false);
    check<sl::PoolTune{.kind = sl::PoolKind::avg, .channelsLast = 1}>(s, random, false);
  }
}

TEST(Pool, EpilogueAndStorageTypes) {
  // bfloat16 in and out through relu: [1, 1, 4, 4], 2x2.
  std::vector<sl::bfloat16> x(16);
  for (int i = 0; i < 16; ++i) {
    x[i] = sl::cast<sl::bfloat16>(float(i - 10));
  }
  std::vector<sl::bfloat16> y(4);
  sl::PoolShape s{.batch = 1,
                  .channels = 1,
                  .inH = 4,
                  .inW = 4,
                  .outH = 2,
                  .outW = 2,
                  .kernelH = 2,
                  .kernelW = 2,
                  .strideH = 2,
                  .strideW = 2,
                  .inStride = {16, 16, 4, 1},
                  .outStride = {4, 4, 2, 1}};
  runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::pool<sl::PoolTune{.kind = sl::PoolKind::avg}>(
        ctx, team, s,
        [](auto v, auto& o)
            SL_LAMBDA { o = sl::cast<sl::bfloat16>(sl::maximum(v, sl::constant(v, 0.0f))); },
        static_cast<const sl::bfloat16*>(x.data()), y.data());
  });
  const float want[4] = {0.0f, 0.0f, 0.5f, 2.5f};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(sl::cast<float>(y[i]), want[i]);
  }
}

}  // namespace
