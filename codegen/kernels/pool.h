// SPDX-License-Identifier: Apache-2.0
// Family `pool`: 2-d max and average pooling over any strided layout.
//
//   sl::pool<PoolTune{.kind = PoolKind::max, .channelsLast = 1}>(ctx, team, shape, [epilogue,]
//   input, output) epilogue(value, auto& out): optional; value is the pooled value in the
//   accumulation type (float for 16-bit floats, otherwise the input's type); without it the value
//   is cast to the output's type.
//
// As ATen: a NaN in the window makes the maximum NaN; padding never wins a maximum; the average
// divides by `divisor` when it is not 0, else by the window clipped to the padded image
// (includePad) or to the image. `ceil_mode` is in outH, outW. Lanes run along the channels
// (channelsLast = 1: both channel strides are 1) or along a row of the output. The team splits
// output rows. In CUDA C++ a thread takes one element of the output, neighbours along the same dim.
#ifndef STRAIGHTLINE_KERNELS_POOL_H
#define STRAIGHTLINE_KERNELS_POOL_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

enum class PoolKind { max, avg };
using Kind = PoolKind;  ///< what the printer calls the strings of key `kind`

struct PoolTune {
  PoolKind kind = PoolKind::max;
  int channelsLast = 0;
};

struct PoolShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t inH = 0, inW = 0;
  int64_t outH = 0, outW = 0;
  int64_t kernelH = 1, kernelW = 1;
  int64_t strideH = 1, strideW = 1;
  int64_t padH = 0, padW = 0;
  int64_t dilationH = 1, dilationW = 1;
  int64_t includePad = 1;    ///< average only
  int64_t divisor = 0;       ///< average only; 0: none given
  int64_t inStride[4] = {};  ///< elements: n, c, h, w
  int64_t outStride[4] = {};
};

namespace pool_detail {

/// One axis of one window: taps [first, last) lie inside the image, tap t at start + t * dilation.
struct Window {
  int64_t start;
  int64_t first;
  int64_t last;
  int64_t padded;  ///< extent of the window within the padded image
};
SL_INLINE Window windowAt(int64_t out, int64_t stride, int64_t pad, int64_t dilation,
                          int64_t kernel, int64_t in) {
  int64_t start = out * stride - pad;
  int64_t first = start < 0 ? ceilDiv(-start, dilation) : 0;
  int64_t last = start >= in ? 0 : minOf(kernel, ceilDiv(in - start, dilation));
  return {start, first, last, minOf(start + kernel, in + pad) - start};
}

template <class T>
using Sum = typename Conditional<kPacked16<T>, float, T>::type;

/// Pools N lanes that share one window; lane i of a tap is `laneStride` further.
template <int N, PoolTune T, class In>
SL_INLINE Wide<Sum<In>, N> poolLanes(const PoolShape& s, const In* image, const Window& h,
                                     const Window& w, int64_t laneStride, int count) {
  using A = Sum<In>;
  using V = Wide<A, N>;
  constexpr bool kMax = T.kind == PoolKind::max;
  V result = V{};
  bool empty = true;
  for (int64_t i = h.first; i < h.last; ++i) {
    const In* row = image + (h.start + i * s.dilationH) * s.inStride[2] + w.start * s.inStride[3];
    for (int64_t j = w.first; j < w.last; ++j) {
      V x = cast<A>(loadLanes<N>(row + j * s.dilationW * s.inStride[3], laneStride, count));
      if constexpr (kMax) {
        result = empty ? x : maximum(result, x);
        empty = false;
      } else {
        result = add(result, x);
      }
    }
  }
  if constexpr (kMax) {
    if (empty) {
      if constexpr (kFloating<A>) {
        result = splat<V>(-elementary::Format<A>::kInfinity);
      }
    }
    return result;
  } else {
    int64_t inside = maxOf(h.last - h.first, 0) * maxOf(w.last - w.first, 0);
    int64_t divisor = s.divisor != 0 ? s.divisor : s.includePad != 0 ? h.padded * w.padded : inside;
    if (inside == 0) {
      return V{};
    }
    if constexpr (kFloating<A>) {
      return result / splat<V>(A(divisor));
    } else {
      return trunc_divide(result, splat<V>(A(divisor)));
    }
  }
}

#if defined(__CUDACC__)

}  // namespace pool_detail

template <PoolTune T, class F, class In, class Out>
SL_INLINE void pool(PoolShape s, F f, const In* in, Out* out) {
  namespace detail = pool_detail;
  int64_t number = threadNumber();
  auto next = [&](int64_t extent) {
    const int64_t i = number % extent;
    number /= extent;
    return i;
  };
  int64_t c = T.channelsLast != 0 ? next(s.channels) : 0;
  const int64_t x = next(s.outW);
  const int64_t y = next(s.outH);
  c = T.channelsLast != 0 ? c : next(s.channels);
  if (number >= s.batch) {
    return;
  }
  const detail::Window h = detail::windowAt(y, s.strideH, s.padH, s.dilationH, s.kernelH, s.inH);
  const detail::Window w = detail::windowAt(x, s.strideW, s.padW, s.dilationW, s.kernelW, s.inW);
  const In* image = in + number * s.inStride[0] + c * s.inStride[1];
  f(detail::poolLanes<1, T>(s, image, h, w, 0, 1),
    out[number * s.outStride[0] + c * s.outStride[1] + y * s.outStride[2] + x * s.outStride[3]]);
}
template <PoolTune T, class In, class Out>
SL_INLINE void pool(PoolShape s, const In* in, Out* out) {
  pool<T>(s, [](auto value, auto& y) { y = cast<Out>(value); }, in, out);
}

#else

template <class Out, class V, class F>
SL_INLINE void write(F f, Out* out, int64_t stride, int count, V value) {
  Like<Out, V> y{};
  f(value, y);
  storeLanes(out, stride, count, y);
}

/// One row of the output (all columns, all channels), lanes along channels.
template <PoolTune T, class F, class In, class Out>
SL_INLINE void rowOfChannels(const PoolShape& s, F f, const In* image, Out* row, const Window& h) {
  constexpr int N = lanesFor<Sum<In> >();
  for (int64_t x = 0; x < s.outW; ++x) {
    Window w = windowAt(x, s.strideW, s.padW, s.dilationW, s.kernelW, s.inW);
    for (int64_t c = 0; c < s.channels; c += N) {
      int count = int(minOf(N, s.channels - c));
      auto v = poolLanes<N, T>(s, image + c, h, w, 1, count);
      write(f, row + x * s.outStride[3] + c, 1, count, v);
    }
  }
}

/// One row of one channel, lanes along the row where no window touches the border, one by one
/// elsewhere.
template <PoolTune T, class F, class In, class Out>
SL_INLINE void rowOfOne(const PoolShape& s, F f, const In* image, Out* row, const Window& h) {
  constexpr int N = lanesFor<Sum<In> >();
  int64_t reach = (s.kernelW - 1) * s.dilationW + 1;
  int64_t firstInside = minOf(ceilDiv(s.padW, s.strideW), s.outW);
  int64_t room = s.inW + s.padW - reach;
  int64_t endInside = room < 0 ? 0 : minOf(room / s.strideW + 1, s.outW);
  int64_t x = 0;
  while (x < s.outW) {
    Window w = windowAt(x, s.strideW, s.padW, s.dilationW, s.kernelW, s.inW);
    if (x >= firstInside && x + 1 < endInside) {
      int count = int(minOf(N, endInside - x));
      auto v = poolLanes<N, T>(s, image, h, w, s.strideW * s.inStride[3], count);
      write(f, row + x * s.outStride[3], s.outStride[3], count, v);
      x += count;
    } else {
      auto v = poolLanes<1, T>(s, image, h, w, 0, 1);
      write(f, row + x * s.outStride[3], 1, 1, v);
      ++x;
    }
  }
}

}  // namespace pool_detail

template <PoolTune T, class F, class In, class Out>
SL_INLINE void pool(sl_ctx*, sl_team team, PoolShape s, F f, const In* in, Out* out) {
  namespace detail = pool_detail;
  int64_t planes = T.channelsLast != 0 ? 1 : s.channels;
  Range part = split(s.batch * planes * s.outH, team, 1);
  for (int64_t i = part.begin; i < part.end; ++i) {
    int64_t y = i % s.outH;
    int64_t c = i / s.outH % planes;
    int64_t n = i / (s.outH * planes);
    detail::Window h = detail::windowAt(y, s.strideH, s.padH, s.dilationH, s.kernelH, s.inH);
    const In* image = in + n * s.inStride[0] + c * s.inStride[1];
    Out* row = out + n * s.outStride[0] + c * s.outStride[1] + y * s.outStride[2];
    if constexpr (T.channelsLast != 0) {
      detail::rowOfChannels<T>(s, f, image, row, h);
    } else {
      detail::rowOfOne<T>(s, f, image, row, h);
    }
  }
}
template <PoolTune T, class In, class Out>
SL_INLINE void pool(sl_ctx* ctx, sl_team team, PoolShape s, const In* in, Out* out) {
  pool<T>(ctx, team, s, [](auto value, auto& y) SL_LAMBDA { y = cast<Out>(value); }, in, out);
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_POOL_H
