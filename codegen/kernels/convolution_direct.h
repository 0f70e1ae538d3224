// SPDX-License-Identifier: Apache-2.0
// Family `convolution_direct`: every convolution that the fast families refuse. Grouped, depthwise,
// transposed (with any output padding), 1-D (as h = 1, kh = 1), any strides of input and output, no
// border: padding is tested per tap. The weight is the framework's own; threads copy the part that
// they use into a small workspace.
//
// Cost: vectorised over output channels of a group (or over channels when each group has one
// output): 10-30% of peak with contiguous channels, 3-10% otherwise. Depthwise over row-major
// images: along rows of pixels (depthwise_planes.h), 20-50%. For depthwise (memory-bound anyway),
// transposed and small problems. In CUDA C++ (cuda_convolution_direct.h) it serves every
// convolution, as a product of tiles where a group has enough channels.
#ifndef STRAIGHTLINE_KERNELS_CONVOLUTION_DIRECT_H
#define STRAIGHTLINE_KERNELS_CONVOLUTION_DIRECT_H

#include "straightline/kernels/epilogue.h"

namespace sl {

/// transposed: 0 or 1. pixels: output pixels of a row done at once; on a CPU where all their taps
/// are inside. side: 5 or 7 where only a call knows the sizes of images, for depthwise kernels of
/// that side whose stride and dilation are 1; else 0. The others are for CUDA only. taps > 0:
/// depthwise, a row of taps at a time; `taps` is kw and `step` the stride along a row; with
/// splits > 1 so many of a block's `threads` share the kh rows of taps. rows > 0: by the tiles of
/// MatmulTune. Neither: a thread computes one output element.
struct ConvolutionDirectTune {
  int transposed = 0;
  int pixels = 4;
  int side = 0;
  int taps = 0;
  int step = 1;
  int mr = 0;
  int nr = 0;
  int rows = 0;
  int columns = 0;
  int threads = 0;
  int splits = 1;
  int tf32 = 0;
};

/// c, k: channels of all groups. Strides in elements: input (n, h, w, c), output and epilogue
/// operands (n, h, w, k), weight (group, output in group, input in group, kh, kw). For a transposed
/// convolution padH.. are ATen's; ho and wo already include output_padding.
struct ConvolutionDirectShape {
  int64_t n = 0, h = 0, w = 0, c = 0, k = 0, ho = 0, wo = 0, kh = 0, kw = 0, groups = 0;
  int64_t strideH = 0, strideW = 0, padH = 0, padW = 0, dilationH = 0, dilationW = 0;
  int64_t inStride[4] = {}, outStride[4] = {}, weightStride[5] = {};
  int64_t epilogueStride[kMaxEpilogueOperands][4] = {};
};
/// Images, for Batched shapes.
SL_INLINE constexpr int64_t* extentsOf(ConvolutionDirectShape& shape) { return &shape.n; }

/// The input position, of `size`, that tap `tap` of output position `out` reads; -1 if it is
/// outside.
template <bool Transposed>
SL_INLINE int64_t tapSource(int64_t out, int64_t tap, int64_t stride, int64_t pad, int64_t dilation,
                            int64_t size) {
  int64_t at;
  if constexpr (Transposed) {
    const int64_t spread = out + pad - tap * dilation;
    at = spread / stride;
    if (spread < 0 || at * stride != spread) {
      return -1;
    }
  } else {
    at = out * stride - pad + tap * dilation;
  }
  return at >= 0 && at < size ? at : -1;
}

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_convolution_direct.h"
#else
#include "straightline/kernels/depthwise_planes.h"

namespace sl {

/// Bytes of workspace: the weights of one vector of output channels per thread, or a few rows of a
/// plane.
template <class T = float>
SL_INLINE constexpr int64_t convolutionDirectWorkspace(const ConvolutionDirectShape& s,
                                                       int64_t vectorBytes, int64_t threads) {
  const int64_t weights = (s.c / s.groups * s.kh * s.kw * vectorBytes + 127) / 128 * 128;
  const int64_t rows = s.c == s.groups ? depthwisePlanesWorkspace(s, sizeof(T), vectorBytes) : 0;
  return threads * (weights < rows ? rows : weights);
}

/// A vector of output channels: `count` channels from `first` on, read from input channels `input`
/// (of lane 0).
struct ChannelBlock {
  int64_t first, count;
  int64_t input;
  bool
      /// depthwise: lane l reads input channel input + l instead of the group's channels
      perLane;
};

/// Accumulates pixels x0 .. x0 + Pixels - 1 of one output row; taps outside the input are skipped.
/// With Pixels > 1 all taps in w are inside and the convolution is not transposed.
template <bool Transposed, int Pixels, int N, class T>
SL_INLINE void accumulatePixels(const ConvolutionDirectShape& s, const ChannelBlock& block,
                                const T* in, const T* weight, int64_t y, int64_t x0,
                                vec<T, N> (&acc)[Pixels]) {
  using V = vec<T, N>;
  const int64_t inputs = s.c / s.groups;
  SL_NO_UNROLL
  for (int64_t i = 0; i < s.kh; ++i) {
    const int64_t row = tapSource<Transposed>(y, i, s.strideH, s.padH, s.dilationH, s.h);
    if (row < 0) {
      continue;
    }
    SL_NO_UNROLL
    for (int64_t j = 0; j < s.kw; ++j) {
      const int64_t column = tapSource<Transposed>(x0, j, s.strideW, s.padW, s.dilationW, s.w);
      if (column < 0) {
        continue;
      }
      const T* from = in + row * s.inStride[1] + column * s.inStride[2];
      const T* w = weight + (i * s.kw + j) * inputs * N;
      SL_NO_UNROLL
      for (int64_t c = 0; c < inputs; ++c) {
        const V wv = load<N>(w + c * N);
        SL_UNROLL
        for (int p = 0; p < Pixels; ++p) {
          const T* x = from + p * s.strideW * s.inStride[2] + c * s.inStride[3];
          const V xv =
              block.perLane ? V(loadLanes<N>(x, s.inStride[3], int(block.count))) : splat<V>(*x);
          acc[p] = fma(xv, wv, acc[p]);
        }
      }
    }
  }
}

/// First and one past the last output column whose taps in w are all inside.
SL_INLINE Range insideColumns(const ConvolutionDirectShape& s) {
  const int64_t first = ceilDiv(s.padW, s.strideW);
  const int64_t reach = s.w - 1 + s.padW - (s.kw - 1) * s.dilationW;
  const int64_t last = reach < 0 ? 0 : minOf(s.wo, reach / s.strideW + 1);
  return {minOf(first, s.wo), last};
}

template <int N, class T>
SL_INLINE void gatherWeights(const ConvolutionDirectShape& s, const ChannelBlock& block,
                             const T* weight, T* to) {
  const int64_t inputs = s.c / s.groups;
  const int64_t outputs = s.k / s.groups;
  SL_NO_UNROLL
  for (int l = 0; l < N; ++l) {
    const int64_t k = block.first + minOf(l, block.count - 1);
    const T* from = weight + k / outputs * s.weightStride[0] + k % outputs * s.weightStride[1];
    for (int64_t i = 0; i < s.kh; ++i) {
      for (int64_t j = 0; j < s.kw; ++j) {
        SL_NO_UNROLL
        for (int64_t c = 0; c < inputs; ++c) {
          to[((i * s.kw + j) * inputs + c) * N + l] =
              from[c * s.weightStride[2] + i * s.weightStride[3] + j * s.weightStride[4]];
        }
      }
    }
  }
}

/// One output row for one block of channels.
template <ConvolutionDirectTune Tune, int N, class T, class Epilogue, class Ops>
SL_INLINE void directRow(const ConvolutionDirectShape& s, const ChannelBlock& block, const T* in,
                         const T* weight, int64_t image, int64_t y, const Epilogue& epilogue,
                         const Ops& ops) {
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][3], s.epilogueStride[1][3],
                                               s.epilogueStride[2][3], s.epilogueStride[3][3]};
  const auto finishPixel = [&](const vec<T, N>& acc, int64_t x) SL_INLINE_LAMBDA {
    RowOffsets at;
    at.output = image * s.outStride[0] + y * s.outStride[1] + x * s.outStride[2];
    SL_UNROLL
    for (int q = 0; q < Ops::kInputs; ++q) {
      at.operand[q] =
          image * s.epilogueStride[q][0] + y * s.epilogueStride[q][1] + x * s.epilogueStride[q][2];
    }
    finish<N>(epilogue, ops, acc, at, steps, block.first, s.outStride[3], block.count);
  };
  const Range inside = insideColumns(s);
  int64_t x = 0;
  SL_NO_UNROLL
  while (x < s.wo) {
    if (Tune.transposed == 0 && x >= inside.begin && x + Tune.pixels <= inside.end) {
      vec<T, N> acc[Tune.pixels] = {};
      accumulatePixels<false, Tune.pixels, N>(s, block, in, weight, y, x, acc);
      SL_NO_UNROLL
      for (int p = 0; p < Tune.pixels; ++p) {
        finishPixel(acc[p], x + p);
      }
      x += Tune.pixels;
    } else {
      vec<T, N> acc[1] = {};
      accumulatePixels<Tune.transposed != 0, 1, N>(s, block, in, weight, y, x, acc);
      finishPixel(acc[0], x);
      ++x;
    }
  }
}

/// A shape that is known when the kernel is compiled: a constant object, so that the compiler knows
/// the extents of all loops.
template <auto SHAPE>
SL_INLINE const ConvolutionDirectShape& shapeOf(const Fixed<SHAPE>&) {
  return SHAPE;
}
/// The same for a number of images that is found at run time: n is 1 in it, and `imagesOf` counts.
template <auto SHAPE>
SL_INLINE const ConvolutionDirectShape& shapeOf(const Batched<SHAPE, 0>&) {
  return SHAPE;
}
SL_INLINE const ConvolutionDirectShape& shapeOf(const ConvolutionDirectShape& s) { return s; }

template <auto SHAPE>
SL_INLINE int64_t imagesOf(const Batched<SHAPE, 0>& batch) {
  return batch.count;
}
SL_INLINE int64_t imagesOf(const ConvolutionDirectShape& s) { return s.n; }

/// Whether depthwisePlanes takes the shape; N: lanes of a vector. Always inlined, as all that is
/// given a shape by reference: a call that is not would keep what is known of it from the loops.
SL_INLINE constexpr bool takesPlanes(const ConvolutionDirectShape& s, int64_t N) {
  const bool inPlanes =
      s.inStride[2] == 1 && s.outStride[2] == 1 && (s.inStride[3] != 1 || s.c == 1);
  // Rows shorter than half a vector leave most lanes idle: gathering as many channels takes less
  // then.
  const bool isWorth = s.wo > N / 2 || s.k > s.groups || s.c < N;
  return inPlanes && s.c == s.groups && isWorth;
}

/// What is known of the above when the kernel is compiled: the other form is not compiled then.
enum class Planes { perhaps, always, never };
template <auto SHAPE>
constexpr Planes knownPlanes(const Fixed<SHAPE>&, int64_t N) {
  return takesPlanes(SHAPE, N) ? Planes::always : Planes::never;
}
template <auto SHAPE>
constexpr Planes knownPlanes(const Batched<SHAPE, 0>&, int64_t N) {
  return knownPlanes(Fixed<SHAPE>{}, N);
}
constexpr Planes knownPlanes(const ConvolutionDirectShape&, int64_t) { return Planes::perhaps; }

/// Every output row of `images`, for blocks of channels. `own`: the thread's copy of a block's
/// weights.
template <ConvolutionDirectTune Tune, int N, class T, class Epilogue, class Ops>
SL_INLINE void directRows(sl_team team, const ConvolutionDirectShape& s, int64_t images,
                          const Epilogue& epilogue, const T* in, const T* weight, const Ops& ops,
                          T* own) {
  const int64_t inputs = s.c / s.groups;
  const int64_t outputs = s.k / s.groups;
  // Depthwise: one input and one output per group, so a vector spans groups.
  const bool perLane = inputs == 1 && outputs == 1;
  const int64_t each = perLane ? s.k : outputs;
  const int64_t perGroup = ceilDiv(each, N);
  const int64_t blocks = perLane ? perGroup : perGroup * s.groups;
  // Units: blocks of channels x output rows; a thread's share is contiguous, so it copies few
  // weights.
  const int64_t rows = images * s.ho;
  const Range mine = split(blocks * rows, team, 1);
  int64_t copied = -1;
  SL_NO_UNROLL
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t index = unit / rows;
    const int64_t group = perLane ? 0 : index / perGroup;
    const int64_t start = index % perGroup * N;
    // Where all blocks are whole the compiler sees it: k is a number also where the image is none.
    const int64_t count = each % N == 0 ? N : minOf(N, each - start);
    const ChannelBlock block{group * outputs + start, count, perLane ? start : group * inputs,
                             perLane};
    if (index != copied) {
      gatherWeights<N>(s, block, weight, own);
      copied = index;
    }
    const int64_t image = unit % rows / s.ho;
    directRow<Tune, N>(s, block, in + image * s.inStride[0] + block.input * s.inStride[3], own,
                       image, unit % rows % s.ho, epilogue, ops);
  }
}

template <ConvolutionDirectTune Tune, class Shape, class T, class Epilogue, class Ops>
SL_INLINE void convolutionDirectWith(sl_team team, const Shape& shape, const Epilogue& epilogue,
                                     const T* in, const T* weight, const Ops& ops,
                                     char* workspace) {
  const ConvolutionDirectShape& s = shapeOf(shape);
  constexpr int N = kNativeLanes<T>;
  T* own = reinterpret_cast<T*>(workspace +
                                team.index * convolutionDirectWorkspace<T>(s, kVectorBytes, 1));
  constexpr Planes kPlanes = Tune.transposed != 0 ? Planes::never : knownPlanes(Shape{}, N);
  if constexpr (kPlanes != Planes::never) {
    if (kPlanes == Planes::always || takesPlanes(s, N)) {
      depthwisePlanes<knownPlaneLoops(Shape{}, N, Tune.side)>(
          team, s, imagesOf(shape), epilogue, in, weight, ops, reinterpret_cast<char*>(own));
      return;
    }
  }
  if constexpr (kPlanes != Planes::always) {
    directRows<Tune, N>(team, s, imagesOf(shape), epilogue, in, weight, ops, own);
  }
}

/// pointers: epilogue operands, outputs, `char* workspace` (64-byte aligned).
template <ConvolutionDirectTune Tune, class Shape, class Epilogue, class T, class... P>
SL_INLINE void convolution_direct(sl_ctx*, sl_team team, Shape s, Epilogue epilogue, const T* in,
                                  const T* weight, P... pointers) {
  withWorkspace(
      [&](const auto& ops, char* workspace) SL_INLINE_LAMBDA {
        convolutionDirectWith<Tune>(team, s, epilogue, in, weight, ops, workspace);
      },
      pointers...);
}

}  // namespace sl

#endif  // __CUDACC__
#endif  // STRAIGHTLINE_KERNELS_CONVOLUTION_DIRECT_H
