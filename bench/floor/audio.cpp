// SPDX-License-Identifier: Apache-2.0
// The audio net of cases/models.py with FLOOR_CHANNELS channels and FLOOR_BLOCKS blocks over
// FLOOR_SAMPLES samples. Signals lie [time][channel], so that each convolution is a product of
// rows: the three taps of a dilated one are gathered side by side.
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static constexpr int kChannels = FLOOR_CHANNELS, kBlocks = FLOOR_BLOCKS, kSamples = FLOOR_SAMPLES;
static constexpr int kTaps = 8, kStep = 4, kPad = 2,
                     kTimes = (kSamples + 2 * kPad - kTaps) / kStep + 1;
static constexpr int kWide = 2 * kChannels, kGroups = 4;
static constexpr int kRows = kTileRows, kVectors = 2, kPanel = kVectors * kLanes;
static_assert(kTimes % kRows == 0 && kChannels % kPanel == 0 && kTaps <= kLanes);

struct Block {
  const float *conv, *convBias, *out, *outBias;
};
static const float *stem, *stemBias, *normScale, *normShift, *back;
static float slope, backBias;
static Block blocks[kBlocks];

/// [out][in][taps] as [out][taps][in].
static float* tapsFirst(const float* w, int out, int in, int taps) {
  float* turned = floats(static_cast<size_t>(out) * in * taps);
  for (int o = 0; o < out; ++o) {
    for (int i = 0; i < in; ++i) {
      for (int t = 0; t < taps; ++t) {
        turned[(o * taps + t) * in + i] = w[(o * in + i) * taps + t];
      }
    }
  }
  return turned;
}

static void prepare(const float* const* p) {
  // The batch norm goes into the first convolution.
  float* w = floats(kChannels * kTaps);
  float* b = floats(kChannels);
  for (int c = 0; c < kChannels; ++c) {
    const float scale = p[2][c] / std::sqrt(p[5][c] + 1e-5f);
    for (int t = 0; t < kTaps; ++t) {
      w[c * kTaps + t] = p[0][c * kTaps + t] * scale;
    }
    b[c] = (p[1][c] - p[4][c]) * scale + p[3][c];
  }
  stem = packed(w, kChannels, kTaps, kPanel);
  stemBias = b;
  slope = p[7][0];  // p[6] counts batches
  const float* const* at = p + 8;
  for (Block& block : blocks) {
    block = {packed(tapsFirst(at[0], kWide, kChannels, 3), kWide, 3 * kChannels, kPanel), at[1],
             packed(at[2], kWide, kChannels, kPanel), at[3]};
    at += 4;
  }
  normScale = at[0], normShift = at[1], backBias = at[3][0];
  float* turned = floats(kChannels * kLanes);  // [channel][tap], padded
  for (int c = 0; c < kChannels; ++c) {
    std::memcpy(turned + c * kLanes, at[2] + c * kTaps, kTaps * sizeof(float));
  }
  back = turned;
}

template <int kDepth, typename Finish>
static __attribute__((noinline)) void product(const float* x, const float* w, const float* b,
                                              float* y, int columns, Finish finish) {
  for (int column = 0; column < columns; column += kPanel) {
    for (int row = 0; row < kTimes; row += kRows) {
      tile<kRows, kVectors, 1, kDepth>(x + row * kDepth, kDepth, w + column * kDepth, kPanel,
                                       b + column, y + row * columns + column, columns, finish);
    }
  }
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  alignas(64) static float taps[kTimes][3 * kChannels], x[kTimes][kChannels], gates[kTimes][kWide],
      gated[kTimes][kChannels];
  alignas(64) static float both[kTimes][kWide], skips[kTimes][kChannels], pieces[kTimes][kLanes];
  const float* wave = static_cast<const float*>(inputs[0]);
  auto* windows = &taps[0][0];
  for (int t = 0; t < kTimes; ++t) {
    for (int i = 0; i < kTaps; ++i) {
      const int at = t * kStep - kPad + i;
      windows[t * kTaps + i] = at >= 0 && at < kSamples ? wave[at] : 0;
    }
  }
  product<kTaps>(windows, stem, stemBias, x[0], kChannels,
                 [](vec v, const float*) { return v < 0 ? v * slope : v; });
  std::memset(skips, 0, sizeof(skips));
  for (int b = 0; b < kBlocks; ++b) {
    const int dilation = 1 << b;
    for (int t = 0; t < kTimes; ++t) {
      for (int tap = 0; tap < 3; ++tap) {
        const int at = t + (tap - 1) * dilation;
        if (at >= 0 && at < kTimes) {
          std::memcpy(taps[t] + tap * kChannels, x[at], sizeof(x[0]));
        } else {
          std::memset(taps[t] + tap * kChannels, 0, sizeof(x[0]));
        }
      }
    }
    product<3 * kChannels>(taps[0], blocks[b].conv, blocks[b].convBias, gates[0], kWide,
                           [](vec v, const float*) { return v; });
    for (int t = 0; t < kTimes; ++t) {
      for (int c = 0; c < kChannels; c += kLanes) {
        store(gated[t] + c, tangent(load(gates[t] + c)) * sigmoid(load(gates[t] + kChannels + c)));
      }
    }
    product<kChannels>(gated[0], blocks[b].out, blocks[b].outBias, both[0], kWide,
                       [](vec v, const float*) { return v; });
    for (int t = 0; t < kTimes; ++t) {
      for (int c = 0; c < kChannels; c += kLanes) {
        store(x[t] + c, load(x[t] + c) + load(both[t] + c));
        store(skips[t] + c, load(skips[t] + c) + load(both[t] + kChannels + c));
      }
    }
  }
  constexpr int kGroup = kChannels / kGroups, kCount = kGroup * kTimes;
  for (int g = 0; g < kGroups; ++g) {
    double total = 0, squares = 0;  // 320 values: in double one pass is exact enough
    for (int t = 0; t < kTimes; ++t) {
      for (int c = g * kGroup; c < (g + 1) * kGroup; ++c) {
        const float v = skips[t][c] < 0 ? 0 : skips[t][c];
        total += v;
        squares += static_cast<double>(v) * v;
      }
    }
    const double mean = total / kCount;
    const auto factor = static_cast<float>(1.0 / std::sqrt(squares / kCount - mean * mean + 1e-5));
    for (int t = 0; t < kTimes; ++t) {
      for (int c = g * kGroup; c < (g + 1) * kGroup; ++c) {
        const float v = skips[t][c] < 0 ? 0 : skips[t][c];
        gated[t][c] = (v - static_cast<float>(mean)) * factor * normScale[c] + normShift[c];
      }
    }
  }
  for (int row = 0; row < kTimes; row += kRows) {
    tile<kRows, 1, 1, kChannels>(gated[row], kChannels, back, kLanes, nullptr, pieces[row], kLanes,
                                 [](vec v, const float*) { return v; });
  }
  alignas(64) float sums[kSamples + 2 * kTaps] = {};
  for (int t = 0; t < kTimes; ++t) {
    for (int i = 0; i < kTaps; ++i) {
      sums[t * kStep + i] += pieces[t][i];
    }
  }
  float* y = static_cast<float*>(outputs[0]);
  for (int i = 0; i < kSamples; i += kLanes) {
    store(y + i, tangent(load(sums + kPad + i) + backBias));
  }
}

FLOOR_EXPORTS
