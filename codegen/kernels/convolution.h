// SPDX-License-Identifier: Apache-2.0
// Family `convolution`: implicit GEMM over NHWC activations. Any kernel size, stride and dilation,
// groups = 1.
//
// The input's zero border is part of its buffer: every tap of every output pixel must be readable,
// that is at least padH / padW zero elements before the logical image and (ho - 1) * strideH + (kh
// - 1) * dilationH - padH - (h - 1) after it (likewise for w). So the inner loops have no edge
// code; stores touch logical elements only.
//
// Cost: 2*n*ho*wo*k*c*kh*kw flops at 85-93% of peak (1x1 with few channels less: 60-80%). For 3x3,
// stride 1, many channels Winograd needs 2.25x (m = 2) or 4x (m = 4) fewer multiplications.
#ifndef STRAIGHTLINE_KERNELS_CONVOLUTION_H
#define STRAIGHTLINE_KERNELS_CONVOLUTION_H

#include "straightline/kernels/gemm.h"

namespace sl {

/// mr output pixels x nr output channels in registers; nr as packed. mc: pixels per pass over a
/// weight panel. prefetch, prefetchStreams: as for gemm, for layers whose weights do not stay in
/// L2.
struct ConvolutionTune {
  int mr = 6;
  int nr = 16;
  int kh = 3;
  int kw = 3;
  int mc = 96;
  int prefetch = 0;
  int prefetchStreams = 1;
};

/// Input [n][h][w][c], output [n][ho][wo][k]: strides of n, h, w in elements, channels contiguous.
/// Pointers are to element (0,0,0,0) of the logical images. Epilogue operands are indexed
/// [n][ho][wo][k].
struct ConvolutionShape {
  int64_t n = 0, h = 0, w = 0, c = 0, k = 0, ho = 0, wo = 0;
  int64_t strideH = 0, strideW = 0, padH = 0, padW = 0, dilationH = 0, dilationW = 0;
  int64_t inStride[3] = {}, outStride[3] = {};
  int64_t epilogueStride[kMaxEpilogueOperands][4] = {};

  SL_INLINE_MEMBER constexpr int64_t rows() const { return n * ho * wo; }
  SL_INLINE_MEMBER constexpr int64_t columns() const { return k; }
};

/// Output pixels [n][ho][wo] as rows; the offsets of a chunk are computed once and used for all
/// panels. The tables are apart from the rest, so that the compiler can keep the shape's literals.
template <int Inputs, class T>
struct PixelRows {
  static constexpr bool kOpaque = true;
  const ConvolutionShape s;
  const T* const in;
  int64_t* const source;
  RowOffsets* const at;
  int64_t firstRow;

  SL_INLINE_MEMBER void prepare(int64_t first, int64_t last) {
    firstRow = first;
    int64_t x = first % s.wo;
    int64_t y = first / s.wo % s.ho;
    int64_t image = first / s.wo / s.ho;
    SL_NO_UNROLL
    for (int64_t i = 0; i < last - first; ++i) {
      source[i] = image * s.inStride[0] + (y * s.strideH - s.padH) * s.inStride[1] +
                  (x * s.strideW - s.padW) * s.inStride[2];
      at[i].output = image * s.outStride[0] + y * s.outStride[1] + x * s.outStride[2];
      SL_UNROLL
      for (int j = 0; j < Inputs; ++j) {
        at[i].operand[j] = image * s.epilogueStride[j][0] + y * s.epilogueStride[j][1] +
                           x * s.epilogueStride[j][2];
      }
      if (++x == s.wo) {
        x = 0;
        if (++y == s.ho) {
          y = 0;
          ++image;
        }
      }
    }
  }
  SL_INLINE_MEMBER const T* pointer(int64_t row) const { return in + source[row - firstRow]; }
  SL_INLINE_MEMBER const RowOffsets& offsets(int64_t row) const { return at[row - firstRow]; }
};

/// in: NHWC with border, weight packed by pack_convolution; pointers: epilogue operands, then
/// outputs.
template <ConvolutionTune Tune, class Shape, class Epilogue, class T, class... P>
SL_INLINE void convolution(sl_ctx*, sl_team team, Shape shape, Epilogue epilogue, const T* in,
                           const T* weight, P... pointers) {
  constexpr TileSizes kSizes = tileSizes(Shape{}, Tune.mr, Tune.nr);
  const ConvolutionShape s = shape;
  constexpr GemmTune kGemm{.mr = Tune.mr,
                           .nr = Tune.nr,
                           .kc = 0,
                           .mc = Tune.mc,
                           .prefetch = Tune.prefetch,
                           .prefetchStreams = Tune.prefetchStreams};
  using Ops = EpilogueOperands<P...>;
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][3], s.epilogueStride[1][3],
                                               s.epilogueStride[2][3], s.epilogueStride[3][3]};
  constexpr int kCapacity = Tune.mc < Tune.mr ? Tune.mr : Tune.mc;
  int64_t offsets[kCapacity];
  RowOffsets at[kCapacity];
  PixelRows<Ops::kInputs, T> source{s, in, offsets, at, 0};
  Reduction reduction{.outer = Tune.kh,
                      .outerStride = s.dilationH * s.inStride[1],
                      .inner = Tune.kw,
                      .innerStride = s.dilationW * s.inStride[2],
                      .run = s.c,
                      .step = 1};
  if (s.dilationW == 1 && s.inStride[2] == s.c) {  // the taps of a kernel row are neighbours
    reduction.inner = 1;
    reduction.run = Tune.kw * s.c;
  }
  runPanels<kGemm, kSizes>(team, source, s.rows(), s.columns(), reduction, weight, steps, 1,
                           epilogue, epilogueOperands(pointers...));
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CONVOLUTION_H
