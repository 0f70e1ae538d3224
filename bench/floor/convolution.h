// SPDX-License-Identifier: Apache-2.0
// Convolutions for the floor of ResNet-18: images are NHWC with a border of zeros that nobody
// writes (one row and column before the picture, and after it up to the size of a tile). `part` of
// `parts` threads does its share; barrier(part, parts) is one for two.
#pragma once
#include "floor.h"

namespace floor_code {

constexpr int kColumns = 2 * kLanes;  // of a panel of weights

FLOOR_INLINE void barrier(int part, int parts) {
  if (parts > 1) {
    barrier(part);
  }
}

/// Pixels from one row of an image to the next, borders included: tiles of 4 x 4 with an edge of 1.
constexpr int padded(int size) { return (size + 3) / 4 * 4 + 2; }

/// How many rows, columns, tiles... begin before share `part`.
constexpr int shareOf(int count, int part, int parts) { return count * part / parts; }

/// Calls body.template operator()<n>(first) for blocks of at most kTileRows that are as equal as
/// they can be.
template <typename Body>
FLOOR_INLINE void balancedBlocks(int count, Body body) {
  const int blocks = (count + kTileRows - 1) / kTileRows;
  for (int i = 0; i < blocks; ++i) {
    const int first = count * i / blocks;
    switch (count * (i + 1) / blocks - first) {
      case 1:
        body.template operator()<1>(first);
        break;
      case 2:
        body.template operator()<2>(first);
        break;
      case 3:
        body.template operator()<3>(first);
        break;
      case 4:
        body.template operator()<4>(first);
        break;
      case 5:
        body.template operator()<kTileRows >= 5 ? 5 : 1>(first);
        break;
      case 6:
        body.template operator()<kTileRows >= 6 ? 6 : 1>(first);
        break;
      case 7:
        body.template operator()<kTileRows >= 7 ? 7 : 1>(first);
        break;
      case 8:
        body.template operator()<kTileRows >= 8 ? 8 : 1>(first);
        break;
    }
  }
}

/// kRows pixels x kColumns channels of an implicit product: the reduction is kRuns runs of kRun
/// neighbouring floats.
template <int kRows, int kRuns, int kRun, typename Finish>
static __attribute__((noinline)) void pixels(const float* a, int64_t aStride, int64_t runStride,
                                             const float* b, const float* bias, float* c,
                                             int64_t cStride, Finish finish) {
  const float* at[kRows];
  vec sums[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    at[r] = a + r * aStride;
    // neighbours overlap: merged loads would need more registers than there are
    asm("" : "+r"(at[r]));
    sums[r][0] = load(bias);
    sums[r][1] = load(bias + kLanes);
  }
  for (int run = 0; run < kRuns; ++run) {
#pragma GCC unroll 4
    for (int k = 0; k < kRun; ++k) {
      const vec first = load(b + k * kColumns), second = load(b + k * kColumns + kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const vec x = all(at[r][k]);
        sums[r][0] += x * first;
        sums[r][1] += x * second;
      }
    }
    b += kRun * kColumns;
    for (int r = 0; r < kRows; ++r) {
      at[r] += runStride;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* place = c + r * cStride;
    store(place, finish(sums[r][0], place));
    store(place + kLanes, finish(sums[r][1], place + kLanes));
  }
}

struct Weights {
  const float* values;
  const float* bias;
};

/// Weights [k][c][side][side] as panels [k / kColumns][side][side][c][kColumns].
inline const float* packedConvolution(const float* w, int k, int c, int side) {
  float* rows = floats(static_cast<size_t>(k) * c * side * side);
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < c; ++j) {
      for (int s = 0; s < side * side; ++s) {
        rows[(static_cast<int64_t>(i) * side * side + s) * c + j] =
            w[(static_cast<int64_t>(i) * c + j) * side * side + s];
      }
    }
  }
  return packed(rows, k, c * side * side, kColumns);
}

/// A convolution kSide x kSide with stride 2 and edge kSide / 2, from kSize to kSize / 2; shares
/// are panels of channels.
template <int kSide, int kSize, int kIn, int kOut, bool kRelu>
void strided(const float* x, Weights w, float* y, int images, int part, int parts) {
  constexpr int kFrom = padded(kSize), kTo = padded(kSize / 2), kHalf = kSize / 2;
  constexpr int kDepth = kSide * kSide * kIn;
  const int panels = kOut / kColumns;
  for (int panel = shareOf(panels, part, parts); panel < shareOf(panels, part + 1, parts);
       ++panel) {
    for (int row = 0; row < images * kHalf; ++row) {
      const int image = row / kHalf, h = row % kHalf;
      const float* from =
          x +
          ((static_cast<int64_t>(image) * kFrom + 2 * h + 1 - kSide / 2) * kFrom + 1 - kSide / 2) *
              kIn;
      float* to =
          y + ((static_cast<int64_t>(image) * kTo + h + 1) * kTo + 1) * kOut + panel * kColumns;
      balancedBlocks(kHalf, [&]<int kRows>(int first) {
        pixels<kRows, kSide, kSide * kIn>(
            from + first * 2 * kIn, 2 * kIn, static_cast<int64_t>(kFrom) * kIn,
            w.values + static_cast<int64_t>(panel) * kDepth * kColumns, w.bias + panel * kColumns,
            to + first * kOut, kOut, [](vec v, const float*) { return kRelu ? relu(v) : v; });
      });
    }
  }
}

// Winograd F(kM x kM, 3 x 3): for kM = 4 the points 0, +-3/4, +-3/2 and infinity, which lose less
// than 0, +-1, +-2.
constexpr float kA = 0.75f, kB = 1.5f;

template <int kM>
FLOOR_INLINE void inputLine(const vec* d, vec* o) {
  if constexpr (kM == 2) {
    o[0] = d[0] - d[2];
    o[1] = d[1] + d[2];
    o[2] = d[2] - d[1];
    o[3] = d[3] - d[1];
  } else {
    const vec p = d[4] - d[2] * (kB * kB), q = d[3] - d[1] * (kB * kB);
    const vec r = d[4] - d[2] * (kA * kA), t = d[3] - d[1] * (kA * kA);
    o[0] = d[0] * (kA * kA * kB * kB) + (d[4] - d[2] * (kA * kA + kB * kB));
    o[1] = p + q * kA;
    o[2] = p - q * kA;
    o[3] = r + t * kB;
    o[4] = r - t * kB;
    o[5] = d[1] * (kA * kA * kB * kB) + (d[5] - d[3] * (kA * kA + kB * kB));
  }
}

template <int kM>
FLOOR_INLINE void outputLine(const vec* d, vec* o) {
  if constexpr (kM == 2) {
    o[0] = d[0] + d[1] + d[2];
    o[1] = d[1] - d[2] + d[3];
  } else {
    const vec s = d[1] + d[2], t = d[1] - d[2], p = d[3] + d[4], q = d[3] - d[4];
    o[0] = d[0] + s + p;
    o[1] = q * kB + t * kA;
    o[2] = p * (kB * kB) + s * (kA * kA);
    o[3] = q * (kB * kB * kB) + (t * (kA * kA * kA) + d[5]);
  }
}

/// Weights [k][c][3][3] transformed, as [points][k / kColumns][c][kColumns].
template <int kM>
const float* transformedWeights(const float* w, int k, int c) {
  constexpr int kN = kM + 2;
  double g[kN][3];
  if constexpr (kM == 2) {
    const double rows[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
    std::memcpy(g, rows, sizeof(g));
  } else {
    const double points[5] = {0, kA, -kA, kB, -kB};
    for (int i = 0; i < 5; ++i) {
      double scale = 1;
      for (int j = 0; j < 5; ++j) {
        scale *= i == j ? 1 : points[i] - points[j];
      }
      g[i][0] = 1 / scale;
      g[i][1] = points[i] / scale;
      g[i][2] = points[i] * points[i] / scale;
    }
    g[5][0] = g[5][1] = 0;
    g[5][2] = 1;
  }
  float* out = floats(static_cast<size_t>(kN) * kN * k * c);
  for (int i = 0; i < k; ++i) {
    for (int j = 0; j < c; ++j) {
      const float* f = w + (static_cast<int64_t>(i) * c + j) * 9;
      for (int point = 0; point < kN * kN; ++point) {
        double value = 0;
        for (int s = 0; s < 9; ++s) {
          value += g[point / kN][s / 3] * g[point % kN][s % 3] * f[s];
        }
        const int64_t panel = static_cast<int64_t>(point) * (k / kColumns) + i / kColumns;
        out[(panel * c + j) * kColumns + i % kColumns] = static_cast<float>(value);
      }
    }
  }
  return out;
}

/// A 3 x 3 convolution of kChannels to kChannels at kSize x kSize, with relu, and before it the
/// residual where there is one. At most kChunk tiles are transformed at a time.
template <int kM, int kSize, int kChannels, int kChunk>
struct Winograd {
  static constexpr int kN = kM + 2, kPoints = kN * kN, kSide = (kSize + kM - 1) / kM,
                       kTiles = kSide * kSide;
  static constexpr int kPadded = padded(kSize), kC = kChannels;
  // no power of two: those alias
  static constexpr int64_t kPointStride = static_cast<int64_t>(kChunk) * kC + 16;
  static constexpr size_t kScratch = static_cast<size_t>(kPoints) * kPointStride;
  static_assert(kSide * kM + 2 <= kPadded);

  /// Element (0, 0) of what tile number `tile` of a batch reads; what it writes begins one row and
  /// one column later.
  static int64_t place(int tile) {
    const int image = tile / kTiles, row = tile % kTiles / kSide, column = tile % kSide;
    return ((static_cast<int64_t>(image) * kPadded + row * kM) * kPadded + column * kM) * kC;
  }

  static __attribute__((noinline)) void transformInput(const float* x, float* v) {
    for (int c = 0; c < kC; c += kLanes) {
      vec t[kN][kN];
      for (int j = 0; j < kN; ++j) {
        vec d[kN], o[kN];
        for (int i = 0; i < kN; ++i) {
          d[i] = load(x + (i * kPadded + j) * kC + c);
        }
        inputLine<kM>(d, o);
        for (int i = 0; i < kN; ++i) {
          t[i][j] = o[i];
        }
      }
      for (int i = 0; i < kN; ++i) {
        vec o[kN];
        inputLine<kM>(t[i], o);
        for (int j = 0; j < kN; ++j) {
          store(v + (i * kN + j) * kPointStride + c, o[j]);
        }
      }
    }
  }

  /// Rows and columns beyond the picture are not written.
  static __attribute__((noinline)) void transformOutput(const float* m, float* y, const float* bias,
                                                        const float* residual, int rows,
                                                        int columns, int first, int last) {
    for (int c = first; c < last; c += kLanes) {
      vec t[kM][kN];
      for (int j = 0; j < kN; ++j) {
        vec d[kN], o[kM];
        for (int i = 0; i < kN; ++i) {
          d[i] = load(m + (i * kN + j) * kPointStride + c);
        }
        outputLine<kM>(d, o);
        for (int i = 0; i < kM; ++i) {
          t[i][j] = o[i];
        }
      }
      const vec b = load(bias + c);
      for (int i = 0; i < rows; ++i) {
        vec o[kM];
        outputLine<kM>(t[i], o);
        for (int j = 0; j < kM; ++j) {
          if (j < columns) {
            const int64_t at = static_cast<int64_t>(i * kPadded + j) * kC + c;
            store(y + at, relu(o[j] + b + (residual != nullptr ? load(residual + at) : vec{})));
          }
        }
      }
    }
  }

  static __attribute__((noinline)) void multiply(const float* v, const float* w, float* m,
                                                 int tiles, int first, int last) {
    for (int point = 0; point < kPoints; ++point) {
      for (int column = first; column < last; column += kColumns) {
        const float* panel = w + (static_cast<int64_t>(point) * kC + column) * kC;
        const float* next = panel + kC * kColumns;
        balancedBlocks(tiles, [&]<int kRows>(int row) {
          tile<kRows, 2, 1, kC>(
              v + point * kPointStride + row * kC, kC, panel, kColumns, nullptr,
              m + point * kPointStride + row * kC + column, kC,
              [](vec x, const float*) { return x; }, row == 0 ? next : nullptr);
        });
      }
    }
  }

  static void finish(const float* m, int from, int count, float* y, const float* bias,
                     const float* residual, int first, int last) {
    for (int i = 0; i < count; ++i) {
      const int number = from + i, row = number % kTiles / kSide, column = number % kSide;
      const int64_t at = place(number) + (kPadded + 1) * kC;
      transformOutput(m + i * kC, y + at, bias, residual != nullptr ? residual + at : nullptr,
                      std::min(kM, kSize - row * kM), std::min(kM, kSize - column * kM), first,
                      last);
    }
  }

  /// Shares are tiles; `scratch` is the thread's own, twice kScratch floats.
  static void byTiles(const float* x, Weights w, const float* residual, float* y, float* scratch,
                      int images, int part, int parts) {
    float* m = scratch + kScratch;
    const int begin = shareOf(images * kTiles, part, parts),
              end = shareOf(images * kTiles, part + 1, parts);
    const int chunks = (end - begin + kChunk - 1) / kChunk;
    for (int i = 0; i < chunks; ++i) {
      const int first = begin + (end - begin) * i / chunks,
                count = begin + (end - begin) * (i + 1) / chunks - first;
      for (int j = 0; j < count; ++j) {
        transformInput(x + place(first + j), scratch + j * kC);
      }
      multiply(scratch, w.values, m, count, 0, kC);
      finish(m, first, count, y, w.bias, residual, 0, kC);
    }
    barrier(part, parts);
  }

  /// Shares are channels of the result, so that each thread reads its part of the weights; all
  /// tiles are one chunk, and `scratch` is shared.
  static void byChannels(const float* x, Weights w, const float* residual, float* y, float* scratch,
                         int images, int part, int parts) {
    float* m = scratch + kScratch;
    const int count = images * kTiles;
    for (int j = shareOf(count, part, parts); j < shareOf(count, part + 1, parts); ++j) {
      transformInput(x + place(j), scratch + j * kC);
    }
    barrier(part, parts);
    const int first = shareOf(kC / kColumns, part, parts) * kColumns,
              last = shareOf(kC / kColumns, part + 1, parts) * kColumns;
    multiply(scratch, w.values, m, count, first, last);
    finish(m, 0, count, y, w.bias, residual, first, last);
    barrier(part, parts);
  }
};

}  // namespace floor_code
