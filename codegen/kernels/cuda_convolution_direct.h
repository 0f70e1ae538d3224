// SPDX-License-Identifier: Apache-2.0
// The body of family `convolution_direct` in CUDA C++; included by convolution_direct.h, which says
// what it does. There is no workspace, and no border is read: a tap outside of the image is zero.
//
//   sl::convolution_direct<ConvolutionDirectTune{.transposed, .pixels, .taps, .step, .mr, .nr,
//   .rows, .columns, .threads, .splits, .tf32}>(
//       shape, epilogue, in, weight, operands..., outputs...)
//
// - rows > 0: a product, computed by the tiles of family `matmul` (cuda_matmul.h): rows are output
//   pixels, columns the output channels of a group; the reduction goes over (kh, kw, c) and is
//   gathered from the image while it is copied to shared memory, in pieces of 16 bytes where the
//   channels of a pixel are contiguous. The weight's layout is [group][k][kh][kw][c]. The grid has
//   `splits` blocks for every tile of every group.
// - taps > 0: depthwise, a thread computes `pixels` neighbours of an output row, reads each input
//   of a row of taps once; with splits > 1 it has a share of the rows of taps. Where the channels
//   of a pixel are contiguous, the weight's layout should be [kh][kw][k].
// - neither: a thread computes one output element, from any weight; for few channels a group, and
//   transposed convolutions.
#ifndef STRAIGHTLINE_KERNELS_CUDA_CONVOLUTION_DIRECT_H
#define STRAIGHTLINE_KERNELS_CUDA_CONVOLUTION_DIRECT_H

#include "straightline/kernels/matmul.h"

namespace sl {
namespace convolution_detail {

/// Whether the pixels of all images lie one behind the other, so that pixel number i begins at
/// i * stride[2]. strides: of images, rows, pixels.
SL_INLINE bool areDense(const int64_t* stride, int64_t rows, int64_t columns) {
  return stride[1] == columns * stride[2] && stride[0] == rows * stride[1];
}

/// The patches that a block's output pixels read, as a source of family `matmul`: rows are pixels,
/// depth is [kh][kw][c].
template <class T>
struct Patches {
  const ConvolutionDirectShape& s;
  const T* p;      ///< the first channel of the group, in image 0
  int64_t image;   ///< of the block's first row
  uint32_t pixel;  ///< of the block's first row within that image
  int64_t rows, depth;
  uint32_t channels;  ///< of a group
  bool alongDepth, inPieces;
  bool isMatrix;  ///< a patch is a pixel, and pixels are the rows of a matrix

  SL_INLINE_MEMBER Patches(const ConvolutionDirectShape& s, const T* in, int64_t group,
                           int64_t firstRow)
      : s(s), channels(uint32_t(s.c / s.groups)) {
    constexpr int V = kWholePiece<T>;
    p = in + group * channels * s.inStride[3];
    image = firstRow / (s.ho * s.wo);
    pixel = uint32_t(firstRow % (s.ho * s.wo));
    rows = s.n * s.ho * s.wo - firstRow;
    isMatrix = s.kh == 1 && s.kw == 1 && s.strideH == 1 && s.strideW == 1 && s.padH == 0 &&
               s.padW == 0 && areDense(s.inStride, s.h, s.w);
    p += isMatrix ? firstRow * s.inStride[2] : 0;
    depth = s.kh * s.kw * channels;
    alongDepth = s.inStride[3] == 1 || s.inStride[2] != 1;
    inPieces = s.inStride[3] == 1 && channels % V == 0 && s.inStride[0] % V == 0 &&
               s.inStride[1] % V == 0 && s.inStride[2] % V == 0 && isAligned<V>(p);
  }
  /// NULL where there is nothing: beyond the rows, the depth, or the image.
  SL_INLINE_MEMBER const T* find(int64_t row, int64_t at) const {
    if (row >= rows || at >= depth) {
      return nullptr;
    }
    if (isMatrix) {
      return p + row * s.inStride[2] + at * s.inStride[3];
    }
    const uint32_t number = pixel + uint32_t(row);
    const uint32_t columns = uint32_t(s.wo);
    const uint32_t x = number % columns;
    const uint32_t y = number / columns % uint32_t(s.ho);
    const int64_t n = image + number / columns / uint32_t(s.ho);
    const uint32_t tap = uint32_t(at) / channels;
    const int32_t fromY =
        int32_t(y * uint32_t(s.strideH) + tap / uint32_t(s.kw) * uint32_t(s.dilationH)) -
        int32_t(s.padH);
    const int32_t fromX =
        int32_t(x * uint32_t(s.strideW) + tap % uint32_t(s.kw) * uint32_t(s.dilationW)) -
        int32_t(s.padW);
    if (uint32_t(fromY) >= uint32_t(s.h) || uint32_t(fromX) >= uint32_t(s.w)) {
      return nullptr;
    }
    return p + n * s.inStride[0] + fromY * s.inStride[1] + fromX * s.inStride[2] +
           uint32_t(at) % channels * s.inStride[3];
  }
  SL_INLINE_MEMBER bool exists(int64_t row, int64_t at) const { return find(row, at) != nullptr; }
  SL_INLINE_MEMBER const T* address(int64_t row, int64_t at) const { return find(row, at); }
  template <int V>
  SL_INLINE_MEMBER void load(T* to, int64_t row, int64_t at) const {
    if (inPieces) {
      loadPiecesOrZeros<V>(to, find(row, at));
      return;
    }
    SL_UNROLL
    for (int j = 0; j < V; ++j) {
      const T* from = alongDepth ? find(row, at + j) : find(row + j, at);
      to[j] = from ? *from : T{};
    }
  }
};

/// Innermost strides of the epilogue's operands.
struct Steps {
  int64_t of[kMaxEpilogueOperands];

  SL_INLINE_MEMBER explicit Steps(const ConvolutionDirectShape& s) {
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      of[j] = s.epilogueStride[j][3];
    }
  }
};

/// Offsets of the pixel at (n, y, x).
SL_INLINE RowOffsets placeAt(const ConvolutionDirectShape& s, int64_t n, int64_t y, int64_t x) {
  RowOffsets at;
  at.output = n * s.outStride[0] + y * s.outStride[1] + x * s.outStride[2];
  SL_UNROLL
  for (int j = 0; j < kMaxEpilogueOperands; ++j) {
    at.operand[j] =
        n * s.epilogueStride[j][0] + y * s.epilogueStride[j][1] + x * s.epilogueStride[j][2];
  }
  return at;
}
/// The same for pixel number `pixel` of all images. Shapes are mostly constants, so the test costs
/// nothing, and saves the divisions of most convolutions.
SL_INLINE RowOffsets placeOf(const ConvolutionDirectShape& s, int64_t pixel) {
  bool dense = areDense(s.outStride, s.ho, s.wo);
  SL_UNROLL
  for (int j = 0; j < kMaxEpilogueOperands; ++j) {
    dense = dense && areDense(s.epilogueStride[j], s.ho, s.wo);
  }
  return dense ? placeAt(s, 0, 0, pixel)
               : placeAt(s, pixel / (s.wo * s.ho), pixel / s.wo % s.ho, pixel % s.wo);
}

/// Loads what N output channels from `channel` on of a pixel need, and finishes them.
template <int N, class Ops>
SL_INLINE void loadAt(const ConvolutionDirectShape& s, const Ops& ops, EpilogueRun<N, Ops>& run,
                      const RowOffsets& at, int64_t channel, int count) {
  const Steps steps(s);
  run.load(ops, at, steps.of, channel, count);
}
template <int N, class Sum, class Epilogue, class Ops>
SL_INLINE void finishAt(const ConvolutionDirectShape& s, const Epilogue& epilogue, const Ops& ops,
                        EpilogueRun<N, Ops>& run, const Sum* sums, const RowOffsets& at,
                        int64_t channel, int count) {
  run.finish(epilogue, ops, sums, at.output + channel * s.outStride[3], count, s.outStride[3]);
}
template <int N, class Sum, class Epilogue, class Ops>
SL_INLINE void finishAt(const ConvolutionDirectShape& s, const Epilogue& epilogue, const Ops& ops,
                        const Sum* sums, const RowOffsets& at, int64_t channel, int count) {
  EpilogueRun<N, Ops> run;
  loadAt<N>(s, ops, run, at, channel, count);
  finishAt<N>(s, epilogue, ops, run, sums, at, channel, count);
}

/// Which tile a block computes: an item of family `matmul`.
template <ConvolutionDirectTune Tune>
struct Tile {
  const ConvolutionDirectShape& s;
  int64_t group, row, column;
  int64_t outputs;  ///< of a group

  SL_INLINE_MEMBER explicit Tile(const ConvolutionDirectShape& s) : s(s), outputs(s.k / s.groups) {
    const int64_t down = ceilDiv(s.n * s.ho * s.wo, Tune.rows);
    const int64_t across = ceilDiv(outputs, Tune.columns);
    int64_t number = int64_t(blockIdx.x) / Tune.splits;
    row = number % down * Tune.rows;
    number /= down;
    column = number % across * Tune.columns;
    group = number / across;
  }
  template <int N, class Ops>
  SL_INLINE_MEMBER void load(const Ops& ops, EpilogueRun<N, Ops>& run, int i, int j) const {
    if (exists(i, j)) {
      loadAt<N>(s, ops, run, placeOf(s, row + i), channel(j), count(N, j));
    }
  }
  template <int N, class Sum, class Epilogue, class Ops>
  SL_INLINE_MEMBER void finish(const Epilogue& epilogue, const Ops& ops, EpilogueRun<N, Ops>& run,
                               const Sum* sums, int i, int j) const {
    if (exists(i, j)) {
      finishAt<N>(s, epilogue, ops, run, sums, placeOf(s, row + i), channel(j), count(N, j));
    }
  }

 private:
  SL_INLINE_MEMBER bool exists(int i, int j) const {
    return row + i < s.n * s.ho * s.wo && column + j < outputs;
  }
  SL_INLINE_MEMBER int64_t channel(int j) const { return group * outputs + column + j; }
  SL_INLINE_MEMBER int count(int most, int j) const {
    return int(minOf(most, outputs - column - j));
  }
};

template <ConvolutionDirectTune Tune, class T, class Epilogue, class Ops>
SL_INLINE void byTiles(const ConvolutionDirectShape& s, const Epilogue& epilogue, const T* in,
                       const T* weight, const Ops& ops) {
  constexpr MatmulTune kTiles{.mr = Tune.mr,
                              .nr = Tune.nr,
                              .rows = Tune.rows,
                              .columns = Tune.columns,
                              .threads = Tune.threads,
                              .splits = Tune.splits,
                              .tf32 = Tune.tf32};
  namespace products = matmul_detail;
  const Tile<Tune> tile(s);
  const Patches<T> patches(s, in, tile.group, tile.row);
  const products::Source<T> columns(
      weight + tile.group * s.weightStride[0] + tile.column * s.weightStride[1], s.weightStride[1],
      1, tile.outputs - tile.column, patches.depth);
  if constexpr (products::kByWarps<kTiles>) {
    products::byWarps<kTiles, T>(tile, patches, columns, patches.depth, epilogue, ops);
  } else {
    products::byThreads<kTiles, T>(tile, patches, columns, patches.depth, epilogue, ops);
  }
}

/// Neighbouring threads have neighbouring channels where these lie side by side in the output, else
/// neighbouring pixels.
template <ConvolutionDirectTune Tune, class T, class Epilogue, class Ops>
SL_INLINE void byElements(const ConvolutionDirectShape& s, const Epilogue& epilogue, const T* in,
                          const T* weight, const Ops& ops) {
  using Sum = SumOf<T>;
  const int64_t pixels = s.n * s.ho * s.wo;
  const int64_t number = threadNumber();
  if (number >= pixels * s.k) {
    return;
  }
  const bool alongChannels = s.outStride[3] == 1;
  const int64_t channel = alongChannels ? number % s.k : number / (s.ho * s.wo) % s.k;
  const int64_t pixel = alongChannels
                            ? number / s.k
                            : number / (s.ho * s.wo * s.k) * (s.ho * s.wo) + number % (s.ho * s.wo);
  const int64_t y = pixel / s.wo % s.ho;
  const int64_t x = pixel % s.wo;
  const int64_t inputs = s.c / s.groups;
  const int64_t outputs = s.k / s.groups;
  const T* image =
      in + pixel / (s.wo * s.ho) * s.inStride[0] + channel / outputs * inputs * s.inStride[3];
  const T* filter =
      weight + channel / outputs * s.weightStride[0] + channel % outputs * s.weightStride[1];
  Sum sum{};
  for (int64_t i = 0; i < s.kh; ++i) {
    const int64_t row = tapSource<Tune.transposed != 0>(y, i, s.strideH, s.padH, s.dilationH, s.h);
    for (int64_t j = 0; row >= 0 && j < s.kw; ++j) {
      const int64_t column =
          tapSource<Tune.transposed != 0>(x, j, s.strideW, s.padW, s.dilationW, s.w);
      for (int64_t c = 0; column >= 0 && c < inputs; ++c) {
        sum =
            fma(cast<Sum>(image[row * s.inStride[1] + column * s.inStride[2] + c * s.inStride[3]]),
                cast<Sum>(
                    filter[c * s.weightStride[2] + i * s.weightStride[3] + j * s.weightStride[4]]),
                sum);
      }
    }
  }
  finishAt<1>(s, epilogue, ops, &sum, placeOf(s, pixel), channel, 1);
}

/// Adds the sums of a line's PIXELS pixels that SPLITS threads of a block have; every thread of the
/// block calls it, and gets those of its own pixels, number share, share + SPLITS, ...
template <int SPLITS, int PIXELS, int LINES, class Sum>
SL_INLINE void addShares(Sum* sums, int share) {
  __shared__ Sum partial[SPLITS][PIXELS][LINES];
  const int line = int(threadIdx.x) % LINES;
  SL_UNROLL
  for (int p = 0; p < PIXELS; ++p) {
    partial[share][p][line] = sums[p];
  }
  __syncthreads();
  SL_UNROLL
  for (int p = 0; p < PIXELS; ++p) {
    if (p % SPLITS == share) {
      sums[p] = partial[0][p][line];
      SL_UNROLL
      for (int from = 1; from < SPLITS; ++from) {
        sums[p] = sums[p] + partial[from][p][line];
      }
    }
  }
}

/// A part of a row of a depthwise convolution's output.
struct Line {
  int64_t channel, part, y, n;
};

/// Line `number` of `all`, of which a row of pixels has `parts` for each channel.
SL_INLINE Line findLine(const ConvolutionDirectShape& s, int64_t number, int64_t parts,
                        int64_t all) {
  const bool alongChannels = s.inStride[3] == 1;
  const auto find = [&](auto at, auto k, auto across, auto rows) SL_LAMBDA {
    return Line{int64_t(alongChannels ? at % k : at / (rows * across) % k),
                int64_t(alongChannels ? at / k % across : at % across),
                int64_t(alongChannels ? at / (k * across) % rows : at / across % rows),
                int64_t(at / (rows * across * k))};
  };
  // a division of 32 bits takes a third of the instructions
  return all <= 0x7fffffff ? find(uint32_t(number), uint32_t(s.k), uint32_t(parts), uint32_t(s.ho))
                           : find(number, s.k, parts, s.ho);
}

/// Depthwise, dilation 1 along rows. Neighbouring threads have neighbouring channels where these
/// lie side by side in the image (not in the output: most accesses are reads), else neighbouring
/// parts of a row. With splits > 1 so many threads of a block share the rows of taps of a part, and
/// add their sums in shared memory, in the same order in every call.
template <ConvolutionDirectTune Tune, class T, class Epilogue, class Ops>
SL_INLINE void byLines(const ConvolutionDirectShape& s, const Epilogue& epilogue, const T* in,
                       const T* weight, const Ops& ops) {
  using Sum = SumOf<T>;
  constexpr int kLine = (Tune.pixels - 1) * Tune.step + Tune.taps;
  constexpr int kSplits = Tune.splits;
  constexpr int kBlock = kSplits > 1 ? Tune.threads / kSplits : 1;  // lines of a block
  const int share = kSplits > 1 ? int(threadIdx.x) / kBlock : 0;
  const int64_t parts = ceilDiv(s.wo, Tune.pixels);
  const int64_t number =
      kSplits > 1 ? int64_t(blockIdx.x) * kBlock + int(threadIdx.x) % kBlock : threadNumber();
  const int64_t all = s.n * s.ho * parts * s.k;
  const bool exists = number < all;
  if (kSplits == 1 && !exists) {
    return;
  }
  const auto [channel, part, y, n] = findLine(s, number, parts, all);
  const int64_t outputs = s.k / s.groups;
  const T* image = in + n * s.inStride[0] + channel / outputs * s.inStride[3];
  const T* filter =
      weight + channel / outputs * s.weightStride[0] + channel % outputs * s.weightStride[1];
  const int64_t first = part * Tune.pixels;
  const auto left = int32_t(first * Tune.step - s.padW);
  Sum sums[Tune.pixels] = {};
  for (int64_t i = share; i < s.kh; i += kSplits) {
    const int64_t row = y * s.strideH - s.padH + i * s.dilationH;
    if (!exists || row < 0 || row >= s.h) {
      continue;
    }
    const T* from = image + row * s.inStride[1] + left * s.inStride[2];
    Sum line[kLine];
    SL_UNROLL
    for (int e = 0; e < kLine; ++e) {
      line[e] = uint32_t(left + e) < uint32_t(s.w) ? cast<Sum>(from[e * s.inStride[2]]) : Sum{};
    }
    SL_UNROLL
    for (int j = 0; j < Tune.taps; ++j) {
      const Sum factor = cast<Sum>(filter[i * s.weightStride[3] + j * s.weightStride[4]]);
      SL_UNROLL
      for (int p = 0; p < Tune.pixels; ++p) {
        sums[p] = fma(line[p * Tune.step + j], factor, sums[p]);
      }
    }
  }
  if constexpr (kSplits > 1) {
    addShares<kSplits, Tune.pixels, kBlock>(sums, share);
  }
  // With shares a thread finishes every kSplits-th pixel of its line.
  SL_UNROLL
  for (int p = 0; p < Tune.pixels; ++p) {
    if (exists && p % kSplits == share && first + p < s.wo) {
      finishAt<1>(s, epilogue, ops, &sums[p], placeAt(s, n, y, first + p), channel, 1);
    }
  }
}

}  // namespace convolution_detail

/// pointers: epilogue operands, then outputs.
template <ConvolutionDirectTune Tune, class Epilogue, class T, class... P>
SL_INLINE void convolution_direct(ConvolutionDirectShape s, Epilogue epilogue, const T* in,
                                  const T* weight, P... pointers) {
  const auto ops = epilogueOperands(pointers...);
  if constexpr (Tune.rows > 0) {
    static_assert(Tune.transposed == 0);
    convolution_detail::byTiles<Tune>(s, epilogue, in, weight, ops);
  } else if constexpr (Tune.taps > 0) {
    static_assert(Tune.transposed == 0);
    convolution_detail::byLines<Tune>(s, epilogue, in, weight, ops);
  } else {
    convolution_detail::byElements<Tune>(s, epilogue, in, weight, ops);
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_CONVOLUTION_DIRECT_H
