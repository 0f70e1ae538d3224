// SPDX-License-Identifier: Apache-2.0
// ResNet-18 for FLOOR_BATCH images of 3 x 224 x 224. Parameters: weight and bias, batch norms
// folded, of the stem, of each block's two convolutions and of its shortcut where it has one, and
// of the last linear layer. One image: every layer is shared by the threads. More: each thread
// takes images as far as 28 x 28, then they share layers.
#include <algorithm>

#include "convolution.h"

using namespace floor_code;

static constexpr int kBatch = FLOOR_BATCH, kClasses = 1000;
static constexpr bool kApart = kBatch > 1;  // the first half of the net image by image
static constexpr int kClassColumns = 8 * kLanes, kClassesPadded = (kClasses + kClassColumns - 1) /
                                                                  kClassColumns * kClassColumns;
static constexpr int kStem = 112 + 2, kPicture = 224 + 6;

using At56 = Winograd<4, 56, 64, 24>;
using At28 = Winograd<4, 28, 128, 24>;
using At14 = Winograd<4, 14, 256, kApart ? 24 : 16>;
// F(4 x 4)'s weights do not pay for one image
using At7 = Winograd<kApart ? 4 : 2, 7, 512, kApart ? kBatch * 4 : 16>;

struct Block {
  Weights first, second, shortcut;
};

/// Images of one size: three, for the two ends of a block and what is between.
struct Place {
  float* images[3];
};

/// What one walk through the first half needs.
struct Front {
  float *picture, *stem;
  Place at56, at28;
};

static Weights stem, classes;
static Block blocks[8];
static Front fronts[2];
static Place at28, at14, at7;  // at28: of all images, where the first half goes image by image
static float *scratch[2], *pooled, *scores;

static Place makePlace(int images, int size, int channels) {
  Place place;
  for (float*& image : place.images) {
    image = floats(static_cast<size_t>(images) * padded(size) * padded(size) * channels);
  }
  return place;
}

static float* paddedBias(const float* bias, int count) {
  return floor_code::padded(bias, count, kColumns);
}

template <typename Same>
static const float* transformed(const float* w) {
  return transformedWeights<Same::kN - 2>(w, Same::kC, Same::kC);
}

static const float* transformedFor(int stage, const float* w) {
  switch (stage) {
    case 0:
      return transformed<At56>(w);
    case 1:
      return transformed<At28>(w);
    case 2:
      return transformed<At14>(w);
    default:
      return transformed<At7>(w);
  }
}

static void prepare(const float* const* p) {
  stem = {packedConvolution(p[0], 64, 3, 7), paddedBias(p[1], 64)};
  p += 2;
  for (int i = 0; i < 8; ++i) {
    const int stage = i / 2, out = 64 << stage;
    const bool strides = stage > 0 && i % 2 == 0;
    blocks[i].first = {
        strides ? packedConvolution(p[0], out, out / 2, 3) : transformedFor(stage, p[0]),
        paddedBias(p[1], out)};
    blocks[i].second = {transformedFor(stage, p[2]), paddedBias(p[3], out)};
    p += 4;
    if (strides) {
      blocks[i].shortcut = {packedConvolution(p[0], out, out / 2, 1), paddedBias(p[1], out)};
      p += 2;
    }
  }
  classes = {packed(p[0], kClasses, 512, kClassColumns),
             floor_code::padded(p[1], kClasses, kClassColumns)};
  const size_t most = 2 * std::max({At56::kScratch, At28::kScratch, At14::kScratch, At7::kScratch});
  for (int thread = 0; thread < FLOOR_THREADS; ++thread) {
    scratch[thread] = floats(most);
    if (thread == 0 || kApart) {
      fronts[thread] = {floats(kPicture * kPicture * 3), floats(kStem * kStem * 64),
                        makePlace(1, 56, 64), makePlace(1, 28, 128)};
    }
  }
  at28 = kApart ? makePlace(kBatch, 28, 128) : fronts[0].at28;
  at14 = makePlace(kBatch, 14, 256);
  at7 = makePlace(kBatch, 7, 512);
  pooled = floats(static_cast<size_t>(kBatch) * 512);
  scores = floats(static_cast<size_t>(kBatch) * kClassesPadded);
}

/// Planes to pixels, the stem's 7 x 7, and the pool 3 x 3; all with stride 2.
static void begin(const float* x, Front& front, int part, int parts) {
  for (int row = shareOf(224, part, parts); row < shareOf(224, part + 1, parts); ++row) {
    float* to = front.picture + ((row + 3) * kPicture + 3) * 3;
    for (int column = 0; column < 224; ++column) {
      for (int c = 0; c < 3; ++c) {
        to[column * 3 + c] = x[(c * 224 + row) * 224 + column];
      }
    }
  }
  barrier(part, parts);
  for (int row = shareOf(112, part, parts); row < shareOf(112, part + 1, parts); ++row) {
    for (int panel = 0; panel < 64 / kColumns; ++panel) {
      const float* from = front.picture + 2 * row * kPicture * 3;
      float* to = front.stem + ((row + 1) * kStem + 1) * 64 + panel * kColumns;
      balancedBlocks(112, [&]<int kRows>(int first) {
        pixels<kRows, 7, 21>(from + first * 6, 6, kPicture * 3,
                             stem.values + panel * 147 * kColumns, stem.bias + panel * kColumns,
                             to + first * 64, 64, [](vec v, const float*) { return relu(v); });
      });
    }
  }
  barrier(part, parts);
  for (int row = shareOf(56, part, parts); row < shareOf(56, part + 1, parts); ++row) {
    for (int column = 0; column < 56; ++column) {
      for (int c = 0; c < 64; c += kLanes) {
        vec most{};  // after the relu nothing is below the border's zeros
        for (int i = 0; i < 9; ++i) {
          const vec v =
              load(front.stem + ((2 * row + i / 3) * kStem + 2 * column + i % 3) * 64 + c);
          most = v > most ? v : most;
        }
        store(front.at56.images[0] + ((row + 1) * floor_code::padded(56) + column + 1) * 64 + c,
              most);
      }
    }
  }
  barrier(part, parts);
}

/// Stem to the end of 28 x 28 of one image; leaves the result in at28.images[2].
static void front(const float* x, Front& f, float* own, int part, int parts) {
  begin(x, f, part, parts);
  float* const* a = f.at56.images;
  for (int i = 0; i < 2; ++i) {
    float *from = a[i == 0 ? 0 : 2], *to = a[i == 0 ? 2 : 0];
    At56::byTiles(from, blocks[i].first, nullptr, a[1], own, 1, part, parts);
    At56::byTiles(a[1], blocks[i].second, from, to, own, 1, part, parts);
  }
  float* const* b = f.at28.images;
  strided<1, 56, 64, 128, false>(a[0], blocks[2].shortcut, b[2], 1, part, parts);
  strided<3, 56, 64, 128, true>(a[0], blocks[2].first, b[1], 1, part, parts);
  barrier(part, parts);
  At28::byTiles(b[1], blocks[2].second, b[2], b[0], own, 1, part, parts);
  At28::byTiles(b[0], blocks[3].first, nullptr, b[1], own, 1, part, parts);
  At28::byTiles(b[1], blocks[3].second, b[0], b[2], own, 1, part, parts);
}

static void convolve14(const float* x, Weights w, const float* residual, float* y, int thread) {
  if (kApart) {
    At14::byTiles(x, w, residual, y, scratch[thread], kBatch, thread, FLOOR_THREADS);
  } else {
    At14::byChannels(x, w, residual, y, scratch[0], kBatch, thread, FLOOR_THREADS);
  }
}

static void convolve7(const float* x, Weights w, const float* residual, float* y, int thread) {
  At7::byChannels(x, w, residual, y, scratch[0], kBatch, thread, FLOOR_THREADS);
}

static void end(float* y, int thread) {
  constexpr int kPadded = floor_code::padded(7);
  for (int i = shareOf(kBatch * 512 / kLanes, thread, FLOOR_THREADS);
       i < shareOf(kBatch * 512 / kLanes, thread + 1, FLOOR_THREADS); ++i) {
    const int image = i * kLanes / 512, c = i * kLanes % 512;
    vec total{};
    for (int row = 1; row < 8; ++row) {
      for (int column = 1; column < 8; ++column) {
        total += load(at7.images[2] + ((image * kPadded + row) * kPadded + column) * 512 + c);
      }
    }
    store(pooled + image * 512 + c, total * (1.0f / 49));
  }
  barrier(thread, FLOOR_THREADS);
  constexpr int kPanels = kClassesPadded / kClassColumns;
  for (int panel = shareOf(kPanels, thread, FLOOR_THREADS);
       panel < shareOf(kPanels, thread + 1, FLOOR_THREADS); ++panel) {
    for (int image = 0; image < kBatch; ++image) {
      tile<1, 8, 1, 512>(pooled + image * 512, 0,
                         classes.values + static_cast<int64_t>(panel) * 512 * kClassColumns,
                         kClassColumns, classes.bias + panel * kClassColumns,
                         scores + image * kClassesPadded + panel * kClassColumns, 0,
                         [](vec v, const float*) { return v; });
    }
  }
  barrier(thread, FLOOR_THREADS);
  for (int image = 0; thread == 0 && image < kBatch; ++image) {
    std::memcpy(y + image * kClasses, scores + image * kClassesPadded, kClasses * sizeof(float));
  }
}

static void run(const void* const* inputs, void* const* outputs, int thread) {
  const float* x = static_cast<const float*>(inputs[0]);
  if (kApart) {
    constexpr size_t kImage =
        static_cast<size_t>(floor_code::padded(28)) * floor_code::padded(28) * 128;
    for (int i = shareOf(kBatch, thread, FLOOR_THREADS);
         i < shareOf(kBatch, thread + 1, FLOOR_THREADS); ++i) {
      front(x + static_cast<int64_t>(i) * 3 * 224 * 224, fronts[thread], scratch[thread], 0, 1);
      std::memcpy(at28.images[2] + i * kImage, fronts[thread].at28.images[2],
                  kImage * sizeof(float));
    }
    barrier(thread, FLOOR_THREADS);
  } else {
    front(x, fronts[0], scratch[thread], thread, FLOOR_THREADS);
  }
  float* const* a = at14.images;
  strided<1, 28, 128, 256, false>(at28.images[2], blocks[4].shortcut, a[2], kBatch, thread,
                                  FLOOR_THREADS);
  strided<3, 28, 128, 256, true>(at28.images[2], blocks[4].first, a[1], kBatch, thread,
                                 FLOOR_THREADS);
  barrier(thread, FLOOR_THREADS);
  convolve14(a[1], blocks[4].second, a[2], a[0], thread);
  convolve14(a[0], blocks[5].first, nullptr, a[1], thread);
  convolve14(a[1], blocks[5].second, a[0], a[2], thread);
  float* const* b = at7.images;
  strided<1, 14, 256, 512, false>(a[2], blocks[6].shortcut, b[2], kBatch, thread, FLOOR_THREADS);
  strided<3, 14, 256, 512, true>(a[2], blocks[6].first, b[1], kBatch, thread, FLOOR_THREADS);
  barrier(thread, FLOOR_THREADS);
  convolve7(b[1], blocks[6].second, b[2], b[0], thread);
  convolve7(b[0], blocks[7].first, nullptr, b[1], thread);
  convolve7(b[1], blocks[7].second, b[0], b[2], thread);
  end(static_cast<float*>(outputs[0]), thread);
}

FLOOR_EXPORTS
