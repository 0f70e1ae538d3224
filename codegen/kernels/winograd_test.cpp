// SPDX-License-Identifier: Apache-2.0
// winograd and pack_winograd against a double reference. Bounds are relative to max |y|: F(2x2) is
// about as exact as direct convolution, F(4x4) loses a small factor (winograd_points.h).
#include "straightline/kernels/winograd.h"

#include "straightline/kernels/kernel_testing.h"
#include "straightline/kernels/pack_winograd.h"

namespace sl::testing {
namespace {

std::vector<double> reference(const std::vector<float>& x, const std::vector<float>& weight,
                              int64_t n, int64_t h, int64_t w, int64_t c, int64_t k) {
  std::vector<double> y(size_t(n * h * w * k), 0.0);
  for (int64_t image = 0; image < n; ++image) {
    for (int64_t oy = 0; oy < h; ++oy) {
      for (int64_t ox = 0; ox < w; ++ox) {
        double* out = y.data() + ((image * h + oy) * w + ox) * k;
        for (int64_t tap = 0; tap < 9; ++tap) {
          const int64_t iy = oy + tap / 3 - 1, ix = ox + tap % 3 - 1;
          if (iy < 0 || iy >= h || ix < 0 || ix >= w) {
            continue;
          }
          const float* in = x.data() + ((image * h + iy) * w + ix) * c;
          for (int64_t o = 0; o < k; ++o) {
            for (int64_t i = 0; i < c; ++i) {
              out[o] += double(in[i]) * double(weight[size_t((o * c + i) * 9 + tap)]);
            }
          }
        }
      }
    }
  }
  return y;
}

/// border: zeros around the input that the kernel may read (top, bottom, left, right); beyond it
/// the buffer has NaN.
template <WinogradTune Tune>
void runWinograd(int64_t n, int64_t h, int64_t w, int64_t c, int64_t k,
                 const std::vector<int64_t>& border, int threads) {
  const std::string where =
      "winograd m=" + std::to_string(Tune.m) + " n=" + std::to_string(n) +
      " h=" + std::to_string(h) + " w=" + std::to_string(w) + " c=" + std::to_string(c) +
      " k=" + std::to_string(k) + " mode=" + std::to_string(Tune.mode) +
      " border=" + std::to_string(border[0]) + std::to_string(border[1]) +
      std::to_string(border[2]) + std::to_string(border[3]) + " threads=" + std::to_string(threads);
  const std::vector<float> x = randomVector<float>(n * h * w * c);
  const std::vector<float> weight = randomVector<float>(k * c * 9);
  const std::vector<float> bias = randomVector<float>(k);
  const std::vector<float> residual = randomVector<float>(n * h * w * k);
  // Two NaN pixels around the border.
  const int64_t top = border[0] + 2, left = border[2] + 2;
  const int64_t height = top + h + border[1] + 2, width = left + w + border[3] + 2;
  std::vector<float> in(size_t(n * height * width * c), std::nanf(""));
  for (int64_t image = 0; image < n; ++image) {
    for (int64_t y = -border[0]; y < h + border[1]; ++y) {
      for (int64_t q = -border[2]; q < w + border[3]; ++q) {
        const bool inside = y >= 0 && y < h && q >= 0 && q < w;
        for (int64_t i = 0; i < c; ++i) {
          in[size_t(((image * height + y + top) * width + q + left) * c + i)] =
              inside ? x[size_t(((image * h + y) * w + q) * c + i)] : 0.0f;
        }
      }
    }
  }
  const int64_t outStride[3] = {(h + 2) * (w + 1) * k, (w + 1) * k, k};
  Guarded<float> y(n * outStride[0]);
  std::vector<float> packed(size_t((Tune.m + 2) * (Tune.m + 2) * c * k), std::nanf(""));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    pack_winograd<PackWinogradTune{.m = Tune.m, .nr = Tune.nr, .kb = Tune.kb}>(
        ctx, team,
        PackWinogradShape{
            .o = k, .i = c, .strideO = c * 9, .strideI = 9, .strideH = 3, .strideW = 1},
        weight.data(), packed.data());
  });
  Workspace work(winogradWorkspace(c, Tune, threads));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    winograd<Tune>(
        ctx, team,
        WinogradShape{.n = n,
                      .h = h,
                      .w = w,
                      .c = c,
                      .k = k,
                      .inStride = {height * width * c, width * c, c},
                      .outStride = {outStride[0], outStride[1], outStride[2]},
                      .border = {border[0], border[1], border[2], border[3]},
                      .epilogueStride = {{0, 0, 0, 1}, {h * w * k, w * k, k, 1}}},
        [](auto acc, auto b, auto r, auto& out) { out = acc + b + r; },
        static_cast<const float*>(in.data() + (top * width + left) * c),
        static_cast<const float*>(packed.data()), static_cast<const float*>(bias.data()),
        static_cast<const float*>(residual.data()), y.data(), work.data());
  });
  const std::vector<double> expected = reference(x, weight, n, h, w, c, k);
  double highest = 1;
  for (double value : expected) {
    highest = std::max(highest, std::abs(value));
  }
  const double bound = (Tune.m == 2 ? 2e-6 : 8e-6) * highest;
  for (int64_t i = 0; i < n * h * w * k; ++i) {
    const int64_t o = i % k, ox = i / k % w, oy = i / k / w % h, image = i / k / w / h;
    const double value =
        expected[size_t(i)] + double(bias[size_t(o)]) + double(residual[size_t(i)]);
    if (!y.expect(image * outStride[0] + oy * outStride[1] + ox * outStride[2] + o, value, bound,
                  where)) {
      return;
    }
  }
  y.expectRestUntouched(where);
  work.expectIntact(where);
}

template <WinogradTune Tune>
void forManyProblems() {
  constexpr int64_t kChannels = 16;  // a multiple of every vector
  for (int64_t h : {1, 2, 3, 4, 5, 7, 8, 13}) {
    for (int64_t w : {1, 4, 6, 11}) {
      for (const std::vector<int64_t>& border :
           {std::vector<int64_t>{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 4, 2, 5}}) {
        runWinograd<Tune>(pick(1, 3), h, w, kChannels * pick(1, 3), Tune.kb * pick(1, 3), border,
                          int(pick(1, 3)));
      }
    }
  }
}

TEST(Winograd, F4ByTiles) {
  forManyProblems<WinogradTune{
      .m = 4, .tiles = 6, .kb = 32, .mr = 6, .nr = 16, .mode = kWinogradTile, .prefetch = 1}>();
}

TEST(Winograd, F4ByOutputs) {
  forManyProblems<WinogradTune{.m = 4,
                               .tiles = 4,
                               .kb = 32,
                               .mr = 6,
                               .nr = 32,
                               .mode = kWinogradOutputs,
                               .prefetch = 2,
                               .prefetchStreams = 2}>();
}

TEST(Winograd, F2ByTiles) {
  forManyProblems<WinogradTune{
      .m = 2, .tiles = 16, .kb = 16, .mr = 6, .nr = 16, .mode = kWinogradTile, .prefetch = 0}>();
}

// Chunks of fewer tiles than the kernel is for: blocks of up to mr rows, lines by their number.
TEST(Winograd, RaggedChunksFetchByBlocks) {
  forManyProblems<WinogradTune{.m = 2,
                               .tiles = 16,
                               .kb = 32,
                               .mr = 12,
                               .nr = 32,
                               .mode = kWinogradTile,
                               .prefetch = 4,
                               .prefetchStreams = 4}>();
}

TEST(Winograd, F2ByOutputs) {
  forManyProblems<WinogradTune{
      .m = 2, .tiles = 11, .kb = 16, .mr = 4, .nr = 16, .mode = kWinogradOutputs, .prefetch = 1}>();
}

}  // namespace
}  // namespace sl::testing
