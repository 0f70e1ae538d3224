// SPDX-License-Identifier: Apache-2.0
// convolution, convolution_direct and their packing against a double reference.
#include "straightline/kernels/convolution.h"

#include "straightline/kernels/convolution_direct.h"
#include "straightline/kernels/kernel_testing.h"
#include "straightline/kernels/pack.h"

namespace sl::testing {
namespace {

constexpr auto kBiasResidualRelu = [](auto acc, auto bias, auto residual, auto& y) {
  auto t = acc + bias + residual;
  y = t < Element<decltype(t)>(0) ? decltype(t){} : t;
};

struct Problem {
  int64_t n, h, w, c, k, kh, kw;
  int64_t strideH = 1, strideW = 1, padH = 0, padW = 0, dilationH = 1, dilationW = 1;
  int64_t groups = 1;
  bool transposed = false;
  int64_t outputPadH = 0, outputPadW = 0;

  int64_t ho() const {
    return transposed ? (h - 1) * strideH - 2 * padH + dilationH * (kh - 1) + outputPadH + 1
                      : (h + 2 * padH - dilationH * (kh - 1) - 1) / strideH + 1;
  }
  int64_t wo() const {
    return transposed ? (w - 1) * strideW - 2 * padW + dilationW * (kw - 1) + outputPadW + 1
                      : (w + 2 * padW - dilationW * (kw - 1) - 1) / strideW + 1;
  }
  std::string describe() const {
    return "n=" + std::to_string(n) + " h=" + std::to_string(h) + " w=" + std::to_string(w) +
           " c=" + std::to_string(c) + " k=" + std::to_string(k) + " kernel=" + std::to_string(kh) +
           "x" + std::to_string(kw) + " stride=" + std::to_string(strideH) + "," +
           std::to_string(strideW) + " pad=" + std::to_string(padH) + "," + std::to_string(padW) +
           " dilation=" + std::to_string(dilationH) + "," + std::to_string(dilationW) +
           " groups=" + std::to_string(groups) + (transposed ? " transposed" : "");
  }
};

/// Convolution in double over contiguous NHWC input and OIHW (IOHW when transposed) weight: result
/// [n][ho][wo][k] and the sum of magnitudes, which bounds the rounding error.
struct Reference {
  std::vector<double> y, magnitude;

  template <class T>
  Reference(const Problem& p, const std::vector<T>& x, const std::vector<T>& weight)
      : y(size_t(p.n * p.ho() * p.wo() * p.k)), magnitude(y.size()) {
    const int64_t ci = p.c / p.groups, ko = p.k / p.groups;
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t k = 0; k < p.k; ++k) {
        for (int64_t c = 0; c < ci; ++c) {
          const int64_t input = k / ko * ci + c;
          for (int64_t i = 0; i < p.kh; ++i) {
            for (int64_t j = 0; j < p.kw; ++j) {
              const int64_t at = p.transposed ? ((input * ko + k % ko) * p.kh + i) * p.kw + j
                                              : ((k * ci + c) * p.kh + i) * p.kw + j;
              addTap(p, x, double(weight[size_t(at)]), n, k, input, i, j);
            }
          }
        }
      }
    }
  }

 private:
  void add(const Problem& p, int64_t n, int64_t oy, int64_t ox, int64_t k, double value) {
    if (oy < 0 || oy >= p.ho() || ox < 0 || ox >= p.wo()) {
      return;
    }
    const auto at = size_t(((n * p.ho() + oy) * p.wo() + ox) * p.k + k);
    y[at] += value;
    magnitude[at] += std::abs(value);
  }
  template <class T>
  void addTap(const Problem& p, const std::vector<T>& x, double weight, int64_t n, int64_t k,
              int64_t c, int64_t i, int64_t j) {
    if (p.transposed) {  // scatter: the definition, unlike the kernel's gather
      for (int64_t iy = 0; iy < p.h; ++iy) {
        for (int64_t ix = 0; ix < p.w; ++ix) {
          add(p, n, iy * p.strideH - p.padH + i * p.dilationH,
              ix * p.strideW - p.padW + j * p.dilationW, k,
              weight * double(x[size_t(((n * p.h + iy) * p.w + ix) * p.c + c)]));
        }
      }
      return;
    }
    for (int64_t oy = 0; oy < p.ho(); ++oy) {
      for (int64_t ox = 0; ox < p.wo(); ++ox) {
        const int64_t iy = oy * p.strideH - p.padH + i * p.dilationH;
        const int64_t ix = ox * p.strideW - p.padW + j * p.dilationW;
        if (iy >= 0 && iy < p.h && ix >= 0 && ix < p.w) {
          add(p, n, oy, ox, k, weight * double(x[size_t(((n * p.h + iy) * p.w + ix) * p.c + c)]));
        }
      }
    }
  }
};

template <class T>
void check(const Problem& p, const Reference& r, const std::vector<T>& bias,
           const std::vector<T>& residual, const int64_t (&stride)[4], Guarded<T>& y,
           const std::string& where) {
  const int64_t depth = p.c / p.groups * p.kh * p.kw;
  for (int64_t n = 0, i = 0; n < p.n; ++n) {
    for (int64_t oy = 0; oy < p.ho(); ++oy) {
      for (int64_t ox = 0; ox < p.wo(); ++ox) {
        for (int64_t k = 0; k < p.k; ++k, ++i) {
          const double value =
              r.y[size_t(i)] + double(bias[size_t(k)]) + double(residual[size_t(i)]);
          const double bound =
              kEpsilon<T> * (4 + std::sqrt(double(depth))) * (r.magnitude[size_t(i)] + 2);
          if (!y.expect(n * stride[0] + oy * stride[1] + ox * stride[2] + k * stride[3],
                        std::max(value, 0.0), bound, where)) {
            return;
          }
        }
      }
    }
  }
  y.expectRestUntouched(where);
}

/// NHWC copy of x with a zero border, and nothing beyond it (for AddressSanitizer).
std::vector<float> bordered(const Problem& p, const std::vector<float>& x, int64_t top,
                            int64_t left, int64_t height, int64_t width) {
  std::vector<float> out(size_t(p.n * height * width * p.c), 0.0f);
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t y = 0; y < p.h; ++y) {
      for (int64_t i = 0; i < p.w * p.c; ++i) {
        out[size_t(((n * height + y + top) * width + left) * p.c + i)] =
            x[size_t((n * p.h + y) * p.w * p.c + i)];
      }
    }
  }
  return out;
}

template <ConvolutionTune Tune>
void runConvolution(Problem p, int threads) {
  p.kh = Tune.kh;
  p.kw = Tune.kw;
  if (p.ho() < 1 || p.wo() < 1 || p.h + 2 * p.padH < p.dilationH * (p.kh - 1) + 1 ||
      p.w + 2 * p.padW < p.dilationW * (p.kw - 1) + 1) {
    return;
  }
  const std::vector<float> x = randomVector<float>(p.n * p.h * p.w * p.c);
  const std::vector<float> weight = randomVector<float>(p.k * p.c * p.kh * p.kw);
  const std::vector<float> bias = randomVector<float>(p.k);
  const std::vector<float> residual = randomVector<float>(p.n * p.ho() * p.wo() * p.k);
  const int64_t height = (p.ho() - 1) * p.strideH + (p.kh - 1) * p.dilationH + 1;
  const int64_t width = (p.wo() - 1) * p.strideW + (p.kw - 1) * p.dilationW + 1;
  const int64_t full[2] = {std::max(height, p.h + p.padH), std::max(width, p.w + p.padW)};
  const std::vector<float> in = bordered(p, x, p.padH, p.padW, full[0], full[1]);
  // The output has a border, too (of the next layer): it must stay as it is.
  const int64_t outStride[4] = {(p.ho() + 2) * (p.wo() + 3) * p.k, (p.wo() + 3) * p.k, p.k, 1};
  Guarded<float> y(p.n * outStride[0]);
  std::vector<float> packed(size_t((p.k + Tune.nr - 1) / Tune.nr * Tune.nr * p.c * p.kh * p.kw));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    pack_convolution<PackConvolutionTune{.nr = Tune.nr}>(
        ctx, team,
        PackConvolutionShape{.o = p.k,
                             .i = p.c,
                             .kh = p.kh,
                             .kw = p.kw,
                             .strideO = p.c * p.kh * p.kw,
                             .strideI = p.kh * p.kw,
                             .strideH = p.kw,
                             .strideW = 1},
        weight.data(), packed.data());
  });
  const float* origin = in.data() + (p.padH * full[1] + p.padW) * p.c;
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    convolution<Tune>(
        ctx, team,
        ConvolutionShape{
            .n = p.n,
            .h = p.h,
            .w = p.w,
            .c = p.c,
            .k = p.k,
            .ho = p.ho(),
            .wo = p.wo(),
            .strideH = p.strideH,
            .strideW = p.strideW,
            .padH = p.padH,
            .padW = p.padW,
            .dilationH = p.dilationH,
            .dilationW = p.dilationW,
            .inStride = {full[0] * full[1] * p.c, full[1] * p.c, p.c},
            .outStride = {outStride[0], outStride[1], outStride[2]},
            .epilogueStride = {{0, 0, 0, 1}, {p.ho() * p.wo() * p.k, p.wo() * p.k, p.k, 1}}},
        kBiasResidualRelu, origin, static_cast<const float*>(packed.data()),
        static_cast<const float*>(bias.data()), static_cast<const float*>(residual.data()),
        y.data());
  });
  check(p, Reference(p, x, weight), bias, residual, outStride, y,
        "convolution " + p.describe() + " threads=" + std::to_string(threads));
}

template <ConvolutionTune Tune>
void forManyProblems(int count) {
  for (int i = 0; i < count; ++i) {
    runConvolution<Tune>(Problem{.n = pick(1, 2),
                                 .h = pick(1, 12),
                                 .w = pick(1, 12),
                                 .c = pick(1, 19),
                                 .k = pick(1, 40),
                                 .kh = 0,
                                 .kw = 0,
                                 .strideH = pick(1, 3),
                                 .strideW = pick(1, 3),
                                 .padH = pick(0, 3),
                                 .padW = pick(0, 3),
                                 .dilationH = pick(1, 2),
                                 .dilationW = pick(1, 3)},
                         int(pick(1, 3)));
  }
}

TEST(Convolution, Kernel3x3) {
  forManyProblems<ConvolutionTune{.mr = 6, .nr = 16, .kh = 3, .kw = 3, .mc = 24, .prefetch = 1}>(
      60);
}

TEST(Convolution, Kernel1x1) {
  forManyProblems<ConvolutionTune{.mr = 12, .nr = 16, .kh = 1, .kw = 1, .mc = 96, .prefetch = 0}>(
      60);
}

TEST(Convolution, Kernel2x5WidePanel) {
  forManyProblems<ConvolutionTune{
      .mr = 4, .nr = 32, .kh = 2, .kw = 5, .mc = 8, .prefetch = 2, .prefetchStreams = 2}>(60);
}

TEST(Convolution, Stem7x7) {
  runConvolution<ConvolutionTune{.mr = 6, .nr = 16, .kh = 7, .kw = 7, .mc = 96, .prefetch = 0}>(
      Problem{.n = 2,
              .h = 23,
              .w = 29,
              .c = 3,
              .k = 64,
              .kh = 7,
              .kw = 7,
              .strideH = 2,
              .strideW = 2,
              .padH = 3,
              .padW = 3},
      2);
}

/// channelsLast: NHWC in and out, else NCHW.
template <ConvolutionDirectTune Tune, class T>
void runDirect(const Problem& p, bool channelsLast, int threads) {
  if (p.ho() < 1 || p.wo() < 1 ||
      (!p.transposed && (p.h + 2 * p.padH < p.dilationH * (p.kh - 1) + 1 ||
                         p.w + 2 * p.padW < p.dilationW * (p.kw - 1) + 1))) {
    return;
  }
  const int64_t ci = p.c / p.groups, ko = p.k / p.groups;
  const std::vector<T> x = randomVector<T>(p.n * p.h * p.w * p.c);
  const std::vector<T> weight = randomVector<T>(p.groups * ko * ci * p.kh * p.kw);
  const std::vector<T> bias = randomVector<T>(p.k);
  const std::vector<T> residual = randomVector<T>(p.n * p.ho() * p.wo() * p.k);
  std::vector<T> in = x;
  if (!channelsLast) {
    for (int64_t i = 0; i < p.n * p.h * p.w * p.c; ++i) {
      const int64_t c = i % p.c, pixel = i / p.c % (p.h * p.w), n = i / p.c / (p.h * p.w);
      in[size_t((n * p.c + c) * p.h * p.w + pixel)] = x[size_t(i)];
    }
  }
  const int64_t taps = p.kh * p.kw, area = p.ho() * p.wo();
  const int64_t last[4] = {area * p.k, p.wo() * p.k, p.k, 1};
  const int64_t first[4] = {area * p.k, p.wo(), 1, area};
  const auto& outStride = channelsLast ? last : first;
  Guarded<T> y(p.n * area * p.k);
  ConvolutionDirectShape s{.n = p.n,
                           .h = p.h,
                           .w = p.w,
                           .c = p.c,
                           .k = p.k,
                           .ho = p.ho(),
                           .wo = p.wo(),
                           .kh = p.kh,
                           .kw = p.kw,
                           .groups = p.groups,
                           .strideH = p.strideH,
                           .strideW = p.strideW,
                           .padH = p.padH,
                           .padW = p.padW,
                           .dilationH = p.dilationH,
                           .dilationW = p.dilationW,
                           .inStride = {p.h * p.w * p.c, p.w * p.c, p.c, 1},
                           .outStride = {outStride[0], outStride[1], outStride[2], outStride[3]},
                           .weightStride = {ko * ci * taps, ci * taps, taps, p.kw, 1},
                           .epilogueStride = {{0, 0, 0, 1}, {last[0], last[1], last[2], 1}}};
  if (!channelsLast) {
    s.inStride[1] = p.w;
    s.inStride[2] = 1;
    s.inStride[3] = p.h * p.w;
  }
  if (p.transposed) {
    s.weightStride[1] = taps;
    s.weightStride[2] = ko * taps;
  }
  Workspace work(convolutionDirectWorkspace<T>(s, kVectorBytes, threads));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    convolution_direct<Tune>(ctx, team, s, kBiasResidualRelu, static_cast<const T*>(in.data()),
                             weight.data(), static_cast<const T*>(bias.data()),
                             static_cast<const T*>(residual.data()), y.data(), work.data());
  });
  const std::string where = "direct " + p.describe() + " threads=" + std::to_string(threads) +
                            (channelsLast ? " NHWC" : " NCHW");
  check(p, Reference(p, x, weight), bias, residual, outStride, y, where);
  work.expectIntact(where);
}

Problem randomDirect(bool transposed) {
  const int64_t groups = pick(1, 4);
  Problem p{.n = pick(1, 2),
            .h = pick(1, 9),
            .w = pick(1, 11),
            .c = groups * pick(1, 5),
            .k = groups * pick(1, 20),
            .kh = pick(1, 3),
            .kw = pick(1, 4),
            .strideH = pick(1, 3),
            .strideW = pick(1, 3),
            .padH = pick(0, 2),
            .padW = pick(0, 3),
            .dilationH = pick(1, 2),
            .dilationW = pick(1, 2),
            .groups = groups,
            .transposed = transposed};
  if (transposed) {
    p.outputPadH = pick(0, std::max(p.strideH, p.dilationH) - 1);
    p.outputPadW = pick(0, std::max(p.strideW, p.dilationW) - 1);
  }
  return p;
}

TEST(ConvolutionDirect, Grouped) {
  for (int i = 0; i < 120; ++i) {
    runDirect<ConvolutionDirectTune{.transposed = 0, .pixels = 4}, float>(
        randomDirect(false), i % 2 == 0, int(pick(1, 3)));
  }
}

TEST(ConvolutionDirect, Depthwise) {
  for (int i = 0; i < 60; ++i) {
    Problem p = randomDirect(false);
    p.groups = p.c = p.k = pick(1, 40);
    runDirect<ConvolutionDirectTune{.transposed = 0, .pixels = 2}, float>(p, i % 2 == 0,
                                                                          int(pick(1, 3)));
  }
}

/// Row-major planes: several vectors to a row, more rows than are copied at once, several outputs
/// of one input, long kernels.
TEST(ConvolutionDirect, DepthwisePlanes) {
  for (int i = 0; i < 60; ++i) {
    Problem p = randomDirect(false);
    p.h = pick(1, 40);
    p.w = pick(1, 200);
    p.kh = pick(1, 5);
    p.kw = i % 3 == 0 ? pick(1, 31) : p.kh;
    p.padW = pick(0, p.kw);
    p.groups = p.c = pick(1, 3);
    p.k = p.groups * pick(1, 2);
    if (i % 2 == 0) {
      p.strideH = p.strideW = p.dilationH = p.dilationW = 1;
    }
    runDirect<ConvolutionDirectTune{.transposed = 0, .pixels = 4}, float>(p, false,
                                                                          int(pick(1, 3)));
    runDirect<ConvolutionDirectTune{.transposed = 0, .pixels = 4}, double>(p, false,
                                                                           int(pick(1, 3)));
  }
}

/// Kernels of 5 x 5 and 7 x 7 of which the side alone is known when they are compiled.
template <int Side>
void runKnownSide(int i) {
  Problem p;
  p.n = pick(1, 2);
  p.h = pick(1, 40);
  p.w = pick(1, 200);
  p.kh = p.kw = Side;
  p.padH = pick(0, Side);
  p.padW = pick(0, Side);
  p.groups = p.c = pick(1, 3);
  p.k = p.groups * pick(1, 2);
  runDirect<ConvolutionDirectTune{.pixels = 4, .side = Side}, float>(p, i % 8 == 0,
                                                                     int(pick(1, 3)));
  runDirect<ConvolutionDirectTune{.pixels = 4, .side = Side}, double>(p, false, int(pick(1, 3)));
}
TEST(ConvolutionDirect, DepthwisePlanesOfAKnownSide) {
  for (int i = 0; i < 12; ++i) {
    runKnownSide<5>(i);
    runKnownSide<7>(i);
  }
}

TEST(ConvolutionDirect, Transposed) {
  for (int i = 0; i < 120; ++i) {
    runDirect<ConvolutionDirectTune{.transposed = 1, .pixels = 1}, float>(
        randomDirect(true), i % 2 == 0, int(pick(1, 3)));
  }
}

TEST(ConvolutionDirect, Float64) {
  for (int i = 0; i < 60; ++i) {
    runDirect<ConvolutionDirectTune{.transposed = 0, .pixels = 4}, double>(
        randomDirect(false), i % 2 == 0, int(pick(1, 3)));
    runDirect<ConvolutionDirectTune{.transposed = 1, .pixels = 1}, double>(
        randomDirect(true), i % 2 == 0, int(pick(1, 3)));
  }
}

TEST(ConvolutionDirect, OneDimensional) {
  runDirect<ConvolutionDirectTune{.transposed = 0, .pixels = 4}, float>(
      Problem{.n = 2, .h = 1, .w = 50, .c = 6, .k = 10, .kh = 1, .kw = 5, .padW = 2, .groups = 2},
      false, 2);
}

}  // namespace
}  // namespace sl::testing
