// SPDX-License-Identifier: Apache-2.0
// Family `convolution_int8`: convolution of signed 8-bit integers as an implicit GEMM over NHWC
// images, summed in 32 bits modulo 2^32. Any kernel size, stride and dilation, groups = 1; channels
// are a multiple of 4, so that four products of one pixel fill a lane. The input's zero border is
// part of its buffer, as convolution's; the weight is packed by pack_convolution_int8.
//
// As in gemm_int8 the packed weight holds w + 128, and a tile's sums begin with -128 times the sums
// of what they read, which a thread takes once for all panels.
//
// Cost: that of gemm_int8 for [n * ho * wo, c * kh * kw] by k; nothing is gathered.
#ifndef STRAIGHTLINE_KERNELS_CONVOLUTION_INT8_H
#define STRAIGHTLINE_KERNELS_CONVOLUTION_INT8_H

#include "straightline/kernels/convolution.h"
#include "straightline/kernels/gemm_int8.h"

namespace sl {

/// mr output pixels x nr output channels in registers; nr as packed. mc: pixels per pass over a
/// weight panel.
struct ConvolutionInt8Tune {
  int mr = 6;
  int nr = 16;
  int kh = 3;
  int kw = 3;
  int mc = 96;
};
using ConvolutionInt8Shape = ConvolutionShape;

/// What a pixel reads: `outer` x `inner` runs of `run` bytes.
struct ByteTaps {
  int64_t outer, outerStride, inner, innerStride, run;
};

/// The sum of all bytes that the pixel at `p` reads.
SL_INLINE int32_t sumOfTaps(const int8_t* p, const ByteTaps& taps) {
  uint32_t sum = 0;
  SL_NO_UNROLL
  for (int64_t i = 0; i < taps.outer; ++i) {
    SL_NO_UNROLL
    for (int64_t j = 0; j < taps.inner; ++j) {
      sum += uint32_t(sumOfBytes(p + i * taps.outerStride + j * taps.innerStride, taps.run));
    }
  }
  return int32_t(sum);
}

/// One panel of the weight times the row blocks [first, last); `start`: what sums of rows begin
/// with.
template <ConvolutionInt8Tune Tune, TileSizes Sizes, class Source, class Epilogue, class Ops>
SL_INLINE void runTapPanel(const Source& source, const RowBlocks& rows, int64_t first, int64_t last,
                           const ByteTaps& taps, const ByteQuad* panel, const int32_t* start,
                           const int64_t* steps, int64_t column, int64_t columns,
                           const Epilogue& epilogue, const Ops& ops) {
  constexpr int N = panelLanes<int32_t>(Tune.nr);
  constexpr int NV = Tune.nr / N;
  for (int64_t block = first; block < last; ++block) {
    withCount<Sizes.most, Sizes.least>(rows.size(block), [&](auto count) SL_INLINE_LAMBDA {
      constexpr int MR = decltype(count)::value;
      const int64_t row = rows.begin(block);
      Tile<int32_t, N, MR, NV> tile;
      SL_UNROLL
      for (int i = 0; i < MR; ++i) {
        SL_UNROLL
        for (int j = 0; j < NV; ++j) {
          tile.v[i][j] = splat<vec<int32_t, N>>(start[row - rows.begin(first) + i]);
        }
      }
      const ByteQuad* b = panel;
      SL_NO_UNROLL
      for (int64_t y = 0; y < taps.outer; ++y) {
        SL_NO_UNROLL
        for (int64_t x = 0; x < taps.inner; ++x) {
          const int64_t offset = y * taps.outerStride + x * taps.innerStride;
          Rows<ByteQuad, MR> a;
          SL_UNROLL
          for (int i = 0; i < MR; ++i) {
            a.p[i] = reinterpret_cast<const ByteQuad*>(source.pointer(row + i) + offset);
          }
          Ahead none{};
          multiply<0, 1>(tile, a, 1, b, Tune.nr, taps.run / 4, none);
        }
      }
      SL_UNROLL
      for (int i = 0; i < MR; ++i) {
        const RowOffsets at = source.offsets(row + i);
        SL_UNROLL
        for (int j = 0; j < NV; ++j) {
          const int64_t valid = Sizes.wholeColumns ? N : minOf(N, columns - j * N);
          if (valid > 0) {
            finish<N>(epilogue, ops, tile.v[i][j], at, steps, column + j * N, 1, valid);
          }
        }
      }
    });
  }
}

/// in: NHWC with border; pointers: epilogue operands, then outputs.
template <ConvolutionInt8Tune Tune, class Shape, class Epilogue, class... P>
SL_INLINE void convolution_int8(sl_ctx*, sl_team team, Shape shape, Epilogue epilogue,
                                const int8_t* in, const int8_t* weight, P... pointers) {
  constexpr TileSizes kSizes = tileSizes(Shape{}, Tune.mr, Tune.nr);
  const ConvolutionInt8Shape s = shape;
  constexpr int64_t kTiles = Tune.mc < Tune.mr ? 1 : Tune.mc / Tune.mr;
  using Ops = EpilogueOperands<P...>;
  const Ops ops = epilogueOperands(pointers...);
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][3], s.epilogueStride[1][3],
                                               s.epilogueStride[2][3], s.epilogueStride[3][3]};
  int64_t offsets[kTiles * Tune.mr];
  RowOffsets at[kTiles * Tune.mr];
  PixelRows<Ops::kInputs, int8_t> source{s, in, offsets, at, 0};
  ByteTaps taps{Tune.kh, s.dilationH * s.inStride[1], Tune.kw, s.dilationW * s.inStride[2], s.c};
  if (s.dilationW == 1 && s.inStride[2] == s.c) {  // the taps of a kernel row are neighbours
    taps.inner = 1;
    taps.run = Tune.kw * s.c;
  }
  const RowBlocks rows(s.rows(), Tune.mr);
  const PanelShare share(rows.blocks, ceilDiv(s.k, Tune.nr), team);
  if (share.panels.begin == share.panels.end) {
    return;
  }
  const int64_t panelSize = s.c / 4 * Tune.kh * Tune.kw * Tune.nr;
  for (int64_t first = share.blocks.begin; first < share.blocks.end; first += kTiles) {
    const int64_t last = minOf(first + kTiles, share.blocks.end);
    int32_t start[kTiles * Tune.mr];
    source.prepare(rows.begin(first), rows.begin(last));
    for (int64_t row = rows.begin(first); row < rows.begin(last); ++row) {
      start[row - rows.begin(first)] =
          int32_t(-128u * uint32_t(sumOfTaps(source.pointer(row), taps)));
    }
    for (int64_t p = share.panels.begin; p < share.panels.end; ++p) {
      runTapPanel<Tune, kSizes>(source, rows, first, last, taps,
                                reinterpret_cast<const ByteQuad*>(weight) + p * panelSize, start,
                                steps, p * Tune.nr, minOf(Tune.nr, s.k - p * Tune.nr), epilogue,
                                ops);
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CONVOLUTION_INT8_H
