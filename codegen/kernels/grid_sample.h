// SPDX-License-Identifier: Apache-2.0
// Family `grid_sample`: values of images between their elements, at places that a grid names.
//
//   sl::grid_sample<GridSampleTune{.interpolation, .padding, .alignCorners, ...}>(ctx, team, shape,
//   input, grid, output)    grid[n][h][w] = (x, y); -1 and 1 are the borders of the image
//
// As ATen on the same kind of device, step by step, so that places that lie between two elements
// fall to the same one: a place is unnormalised, mirrored or clipped, and the elements around it
// are weighted. Elements outside of the image count as 0. A place that is no finite number gives
// NaN with `zeros` (nearest, and on a device linear: 0), else the first element of its row or
// column; nothing outside of the image is read. 16-bit floats are computed in float.
//
// On a CPU lanes run along the places. Weights and offsets of a block of places are found once and
// serve all channels; where a row of the image is contiguous, 2 or 4 neighbours are one load. With
// channelsLast = 1 (the input's channels are contiguous) lanes run along the channels, and blocks
// are turned in registers where the output's are not. The team splits places, and channels where
// there are few places. In CUDA C++ a thread takes `each` channels of a place; neighbours run along
// the places, with channelsLast along the channels.
#ifndef STRAIGHTLINE_KERNELS_GRID_SAMPLE_H
#define STRAIGHTLINE_KERNELS_GRID_SAMPLE_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/transpose.h"

namespace sl {

enum class Interpolation { nearest, bilinear, bicubic };
enum class Padding { zeros, border, reflection };

struct GridSampleTune {
  Interpolation interpolation = Interpolation::bilinear;
  Padding padding = Padding::zeros;
  int alignCorners = 0;
  int channelsLast = 0;  ///< of the input
  int wide = 0;          ///< the last element of a channel may be 2^31 or more behind its first one
  int each = 1;          ///< in CUDA C++: channels of a thread
};

struct GridSampleShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t inH = 0, inW = 0;
  int64_t outH = 0, outW = 0;
  int64_t inStride[4] = {};    ///< elements: n, c, h, w
  int64_t gridStride[4] = {};  ///< n, h, w, and from x to y
  int64_t outStride[4] = {};
};

namespace grid_sample_detail {

/// Elements that are weighted along one dim.
template <GridSampleTune T>
inline constexpr int kTaps = T.interpolation == Interpolation::nearest    ? 1
                             : T.interpolation == Interpolation::bilinear ? 2
                                                                          : 4;
template <class T>
using Compute = typename Conditional<kPacked16<T>, float, T>::type;

// ---- places ----

/// The place in elements; the middle of the first one is 0.
template <GridSampleTune T, class V>
SL_INLINE V unnormalized(V place, int64_t size) {
  using C = Element<V>;
  const V up = place + C(1);
#if defined(__CUDACC__)
  if constexpr (T.alignCorners != 0) {
    return (up / C(2)) * C(size - 1);
  } else {
    return (up * C(size) - C(1)) / C(2);
  }
#else
  const V scale = splat<V>(C(T.alignCorners != 0 ? size - 1 : size) / C(2));
  return T.alignCorners != 0 ? V(up * scale) : fma(up, scale, splat<V>(C(-0.5)));
#endif
}

/// Mirrored at the middles of the outermost elements, or at their outer borders, until it is
/// between them.
template <GridSampleTune T, class V>
SL_INLINE V mirrored(V at, int64_t size) {
  using C = Element<V>;
  const C low = T.alignCorners != 0 ? C(0) : C(-0.5);
  const C span = C(T.alignCorners != 0 ? size - 1 : size);
  const V away = abs(V(at - low));
  if (span == C(0)) {
    return splat<V>(C(0));
  }
#if defined(__CUDACC__)
  const V over = fmod(away, span);
  const V flips = floor(away / span);
  // As a conversion to int does that ends at the largest one, which is odd.
  const bool even = !(flips >= C(2147483648.0)) && (int64_t(flips) & 1) == 0;
  return (even ? over : span - over) + low;
#else
  const V twice = splat<V>(2 * span);
  const V over = fma(-floor(V(away / twice)), twice, away);
  return minimum(over, V(twice - over)) + low;
#endif
}

/// Between the first and the last element; what is no number becomes 0.
template <class V>
SL_INLINE V clipped(V at, int64_t size) {
  using C = Element<V>;
  const V last = splat<V>(C(size - 1)), zero = splat<V>(C(0));
  const V above = select(gt(at, zero), at, zero);
  return select(lt(above, last), above, last);
}

template <GridSampleTune T, class V>
SL_INLINE V bounded(V at, int64_t size) {
  V place = T.padding == Padding::reflection ? mirrored<T>(at, size) : at;
  place = T.padding == Padding::zeros ? place : clipped(place, size);
#if defined(__CUDACC__)
  if (!(place <= Element<V>(2147483646.0)) || place < Element<V>(-2147483648.0)) {
    place = Element<V>(-100);  // outside
  }
#endif
  return place;
}

/// Weights of the four elements around a place that lies `beyond`, in [0, 1), after the second one.
template <class V>
SL_INLINE void cubicWeights(V beyond, V (&weight)[4]) {
  using C = Element<V>;
  const C a = C(-0.75);
  auto near = [&](V x) SL_LAMBDA { return V(((a + 2) * x - (a + 3)) * x * x + C(1)); };
  auto far = [&](V x) SL_LAMBDA { return V(((a * x - 5 * a) * x + 8 * a) * x - 4 * a); };
  const V before = C(1) - beyond;
  weight[0] = far(beyond + C(1));
  weight[1] = near(beyond);
  weight[2] = near(before);
  weight[3] = far(before + C(1));
}

#if defined(__CUDACC__)

/// What a place reads along one dim: offsets in elements, weights, and which exist.
template <class C, int K>
struct Taps {
  int64_t offset[K];
  C weight[K];
  bool inside[K];
};

template <GridSampleTune T, class C>
SL_INLINE Taps<C, kTaps<T>> tapsAt(C place, int64_t size, int64_t stride) {
  constexpr int K = kTaps<T>;
  Taps<C, K> taps;
  C at = unnormalized<T>(place, size);
  auto put = [&](int i, C element) {
    const int64_t whole = int64_t(element);
    taps.inside[i] = whole >= 0 && whole < size;
    taps.offset[i] = whole * stride;
  };
  if constexpr (K == 4) {
    const C first = floor(at);
    cubicWeights(C(at - first), taps.weight);
    SL_UNROLL
    for (int i = 0; i < K; ++i) {
      put(i, bounded<T>(C(first + C(i - 1)), size));
    }
    return taps;
  } else {
    at = bounded<T>(at, size);
    const C first = K == 1 ? round_even(at) : floor(at);
    put(0, first);
    taps.weight[0] = C(1);
    if constexpr (K == 2) {
      put(1, first + C(1));
      taps.weight[0] = first + C(1) - at;
      taps.weight[1] = at - first;
    }
    return taps;
  }
}

template <class In>
SL_INLINE Compute<In> elementAt(const In* from, bool exists) {
  return exists ? cast<Compute<In>>(*from) : Compute<In>(0);
}

#else

inline constexpr int kBlock = 256;  ///< places at most whose weights are found at once

/// What a place reads, of a block of places. Offsets are those of elements that exist, whatever
/// place it is.
template <GridSampleTune T, class C>
struct Block {
  static constexpr bool kCubic = T.interpolation == Interpolation::bicubic;
  static constexpr bool kLinear = T.interpolation == Interpolation::bilinear;
  using Offset = typename Conditional<T.wide != 0, int64_t, int32_t>::type;
  using Bits = typename SignedOfSize<sizeof(C)>::type;
  static constexpr int kPlaces = kCubic ? kBlock / 2 : kBlock;
  /// cubic: of the rows, then of the columns; linear: of the first of 2 x 2 elements
  Offset offset[kCubic ? 8 : 1][kPlaces];
  /// cubic: of the rows, then of the columns; linear: of the 2 x 2 elements, with the sign set
  /// where such an element does not exist
  C weight[kCubic ? 8 : kLinear ? 4 : 1][kPlaces];
  /// cubic: the weights of the columns once more, those of a place side by side
  C columns[kCubic ? 4 * kPlaces : 1];
  /// cubic: whether the four columns follow each other, and all elements exist
  Bits whole[kCubic ? kPlaces : 1];
  /// -1 where the element exists, else 0: nearest, and cubic as the weights; with `zeros` only
  Bits exists[kCubic ? 8 : 1][kPlaces];
};

/// Floats that are whole as int32: what is outside of [-4, 2^30], or no number, becomes a border.
template <class V>
SL_INLINE Like<int32_t, V> wholeOf(V x) {
  using C = Element<V>;
  const V low = splat<V>(C(-4)), high = splat<V>(C(1 << 30));
  const V above = select(gt(x, low), x, low);
  return convert<int32_t>(select(lt(above, high), above, high));
}
template <class I>
SL_INLINE I clamped(I x, int32_t low, int32_t high) {
  return minimum(maximum(x, splat<I>(low)), splat<I>(high));
}

template <class C>
SL_INLINE int32_t sizeOf(int64_t size) {
  return int32_t(minOf(size, 1 << 30));
}

/// Two neighbours that exist, `start` and the next one, and their weights. An element that a place
/// does not read, or that does not exist, has the weight -0 (NaN where the place is not finite).
template <class V>
struct Neighbours {
  Like<int32_t, V> start;
  V weight[2];
};
template <class V>
SL_INLINE Neighbours<V> neighboursOf(V at, int64_t size) {
  using C = Element<V>;
  using I = Like<int32_t, V>;
  const V low = floor(at);
  const V beyond = at - low;
  const V before = C(1) - beyond;
  const V none = -(beyond * C(0));
  const I first = wholeOf(low);
  Neighbours<V> found;
  found.start = clamped(first, 0, int32_t(minOf(maxOf(size - 2, 0), 1 << 30)));
  const I shift = first - found.start;  // of what is read against what exists
  const auto same = eq(shift, I{});
  found.weight[0] = select(same, before, select(eq(shift, splat<I>(-1)), beyond, none));
  found.weight[1] = select(same, beyond, select(eq(shift, splat<I>(1)), before, none));
  found.weight[0] = size < 1 ? none : found.weight[0];
  found.weight[1] = size < 2 ? none : found.weight[1];
  return found;
}

/// The product of weights; its sign is set where one of theirs is.
template <class V>
SL_INLINE V productOf(V a, V b) {
  using I = IntegerLike<V>;
  constexpr Element<I> kSign = Element<I>(1) << (8 * sizeof(Element<I>) - 1);
  return bitcast<V>(I(bitcast<I>(V(a * b)) | ((bitcast<I>(a) | bitcast<I>(b)) & kSign)));
}

template <class I>
SL_INLINE auto isWithin(I whole, int64_t size) {
  return both(ge(whole, I{}), lt(whole, splat<I>(int32_t(minOf(size, 1 << 30)))));
}

/// Sets `columns` from the weights of N places.
template <int N, GridSampleTune T, class C>
SL_INLINE void storeSideBySide(Block<T, C>& block, int i) {
  vec<C, N> by[4], even[2], odd[2];
  SL_UNROLL
  for (int k = 0; k < 4; ++k) {
    by[k] = load<N>(block.weight[4 + k] + i);
  }
  const auto order = IntsUpTo<N>{};
  even[0] = interleave<false>(by[0], by[2], order);
  even[1] = interleave<true>(by[0], by[2], order);
  odd[0] = interleave<false>(by[1], by[3], order);
  odd[1] = interleave<true>(by[1], by[3], order);
  C* to = block.columns + 4 * i;
  SL_UNROLL
  for (int k = 0; k < 2; ++k) {
    store(to + 2 * k * N, interleave<false>(even[k], odd[k], order));
    store(to + (2 * k + 1) * N, interleave<true>(even[k], odd[k], order));
  }
}

/// Finds what N places at (x, y) read; it stands at `i` of the block.
template <int N, GridSampleTune T, class C, class V>
SL_INLINE void find(Block<T, C>& block, const GridSampleShape& s, int i, V x, V y) {
  using Places = Block<T, C>;
  using Offset = typename Places::Offset;
  using Bits = typename Places::Bits;
  using I = vec<int32_t, N>;
  auto elements = [](auto whole, int64_t stride)
                      SL_LAMBDA { return convert<Offset>(whole) * Offset(stride); };
  auto last = [](int64_t size) SL_LAMBDA { return int32_t(minOf(maxOf(size - 1, 0), 1 << 30)); };
  auto flags = [](auto mask) SL_LAMBDA { return vec<Bits, N>(Mask<Bits, N>(mask).bits); };
  const V across = unnormalized<T>(x, s.inW), down = unnormalized<T>(y, s.inH);
  if constexpr (Places::kCubic) {
    auto along = [&](V at, int64_t size, int64_t stride, int first) SL_LAMBDA {
      const V low = floor(at);
      V weight[4];
      cubicWeights(V(at - low), weight);
      SL_UNROLL
      for (int k = 0; k < 4; ++k) {
        const I whole = wholeOf(bounded<T>(V(low + C(k - 1)), size));
        store(block.offset[first + k] + i, elements(clamped(whole, 0, last(size)), stride));
        store(block.weight[first + k] + i, weight[k]);
        if constexpr (T.padding == Padding::zeros) {
          store(block.exists[first + k] + i, flags(isWithin(whole, size)));
        }
      }
    };
    along(down, s.inH, s.inStride[2], 0);
    along(across, s.inW, s.inStride[3], 4);
    storeSideBySide<N>(block, i);
    auto areWhole = [&](V at, int64_t size) SL_LAMBDA {
      const I low = wholeOf(floor(at));
      return both(isWithin(I(low - 1), size), isWithin(I(low + 2), size));
    };
    auto whole = areWhole(across, s.inW);
    if constexpr (T.padding == Padding::zeros) {
      whole = both(whole, areWhole(down, s.inH));
    }
    store(block.whole + i, flags(whole));
  } else if constexpr (Places::kLinear) {
    const Neighbours<V> columns = neighboursOf(bounded<T>(across, s.inW), s.inW);
    const Neighbours<V> rows = neighboursOf(bounded<T>(down, s.inH), s.inH);
    store(block.offset[0] + i,
          elements(rows.start, s.inStride[2]) + elements(columns.start, s.inStride[3]));
    SL_UNROLL
    for (int k = 0; k < 4; ++k) {
      store(block.weight[k] + i, productOf(rows.weight[k / 2], columns.weight[k % 2]));
    }
  } else {
    const I column = wholeOf(round_even(bounded<T>(across, s.inW)));
    const I row = wholeOf(round_even(bounded<T>(down, s.inH)));
    store(block.offset[0] + i, elements(clamped(row, 0, last(s.inH)), s.inStride[2]) +
                                   elements(clamped(column, 0, last(s.inW)), s.inStride[3]));
    if constexpr (T.padding == Padding::zeros) {
      store(block.exists[0] + i, flags(both(isWithin(row, s.inH), isWithin(column, s.inW))));
    }
  }
}

// ---- lanes along places ----

/// Elements of `from` at N offsets.
template <int N, class In, class Offset>
SL_INLINE Wide<In, N> gathered(const In* from, const Offset* offset) {
  using Bits = typename BitsOf<sizeof(In)>::type;
  vec<Bits, N> lanes{};
  SL_UNROLL
  for (int i = 0; i < N; ++i) {
    lanes[i] = bitcast<Bits>(from[offset[i]]);
  }
  return bitcast<Wide<In, N>>(lanes);
}

/// Elements of `from` at N offsets, and their neighbours `step` further.
template <class C, int N>
struct Two {
  vec<C, N> first, second;
};
template <int N, class V, int... I>
SL_INLINE auto lanesOf(V both, int odd, Ints<I...>) {
  return odd != 0 ? __builtin_shufflevector(both, both, (2 * I + 1)...)
                  : __builtin_shufflevector(both, both, (2 * I)...);
}
template <int N, bool CONTIGUOUS, class In, class Offset>
SL_INLINE Two<Compute<In>, N> gatheredTwo(const In* from, const Offset* offset, int64_t step) {
  using C = Compute<In>;
  if constexpr (CONTIGUOUS && sizeof(In) <= 4) {
    using Bits = typename BitsOf<2 * sizeof(In)>::type;
    vec<Bits, N> pairs{};
    SL_UNROLL
    for (int i = 0; i < N; ++i) {
      Bits pair;
      __builtin_memcpy(&pair, from + offset[i], sizeof(pair));
      pairs[i] = pair;
    }
    using Half = typename BitsOf<sizeof(In)>::type;
    const auto halves = bitcast<vec<Half, 2 * N>>(pairs);
    return {cast<C>(bitcast<Wide<In, N>>(lanesOf<N>(halves, 0, IntsUpTo<N>{}))),
            cast<C>(bitcast<Wide<In, N>>(lanesOf<N>(halves, 1, IntsUpTo<N>{})))};
  } else {
    return {cast<C>(gathered<N>(from, offset)), cast<C>(gathered<N>(from + step, offset))};
  }
}

template <class V, int... I>
SL_INLINE auto joined(V a, V b, Ints<I...>) {
  return __builtin_shufflevector(a, b, I...);
}

/// The steps from the first of 2 x 2 elements to its neighbours; 0 where there is none.
struct Steps {
  int64_t row, column;
};
SL_INLINE Steps stepsOf(const GridSampleShape& s) {
  return {s.inH > 1 ? s.inStride[2] : 0, s.inW > 1 ? s.inStride[3] : 0};
}

/// total + weight * x, where the element exists.
template <class V>
SL_INLINE V plusWeighted(V total, V weight, V x) {
  const auto exists = ge(bitcast<IntegerLike<V>>(weight), IntegerLike<V>{});
  return fma(weight, select(exists, x, V{}), total);
}

/// Four columns of a place, each with the sum over the rows, times the weights of the columns.
/// WHOLE: `block.whole` holds.
template <bool WHOLE, GridSampleTune T, class C, class In>
SL_INLINE vec<C, 4> columnsAt(const Block<T, C>& block, int i, const In* plane) {
  vec<C, 4> total{};
  SL_UNROLL
  for (int row = 0; row < 4; ++row) {
    const In* from = plane + block.offset[row][i];
    vec<C, 4> x{};
    if constexpr (WHOLE) {
      x = cast<C>(load<4>(from + block.offset[4][i]));
    } else {
      SL_UNROLL
      for (int column = 4; column < 8; ++column) {
        const bool exists =
            T.padding != Padding::zeros || (block.exists[row][i] & block.exists[column][i]) != 0;
        x[column - 4] = exists ? cast<C>(from[block.offset[column][i]]) : C(0);
      }
    }
    total = fma(splat<vec<C, 4>>(block.weight[row][i]), x, total);
  }
  return total * load<4>(block.columns + 4 * i);
}
/// The same of N places side by side.
template <int N, GridSampleTune T, class C, class In>
SL_INLINE vec<C, 4 * N> columnsOfAll(const Block<T, C>& block, int i, const In* plane) {
  if constexpr (N == 1) {
    return columnsAt<true>(block, i, plane);
  } else {
    return joined(columnsOfAll<N / 2>(block, i, plane),
                  columnsOfAll<N / 2>(block, i + N / 2, plane), IntsUpTo<4 * N>{});
  }
}
/// Sums of neighbouring lanes.
template <class V, int... I>
SL_INLINE auto sumsOfPairs(V v, Ints<I...>) {
  return __builtin_shufflevector(v, v, (2 * I)...) + __builtin_shufflevector(v, v, (2 * I + 1)...);
}
/// Values of a bicubic sample where the columns of the image are contiguous.
template <int N, GridSampleTune T, class C, class In>
SL_INLINE vec<C, N> cubicAt(const Block<T, C>& block, int i, const In* plane) {
  using Bits = typename Block<T, C>::Bits;
  vec<C, 4 * N> columns;
  if (SL_LIKELY(!anyLane(Mask<Bits, N>(load<N>(block.whole + i) == 0)))) {
    columns = columnsOfAll<N>(block, i, plane);
  } else {
    C found[4 * N];
    SL_NO_UNROLL
    for (int k = 0; k < N; ++k) {
      store(found + 4 * k, block.whole[i + k] != 0 ? columnsAt<true>(block, i + k, plane)
                                                   : columnsAt<false>(block, i + k, plane));
    }
    columns = load<4 * N>(found);
  }
  return sumsOfPairs(sumsOfPairs(columns, IntsUpTo<2 * N>{}), IntsUpTo<N>{});
}

/// The values of one channel at N places, of which the first stands at `i` of the block.
template <int N, bool CONTIGUOUS, GridSampleTune T, class C, class In>
SL_INLINE auto valuesAt(const Block<T, C>& block, const Steps& steps, int i, const In* plane) {
  using V = vec<C, N>;
  using Bits = typename Block<T, C>::Bits;
  if constexpr (Block<T, C>::kLinear) {
    V total{};
    SL_UNROLL
    for (int row = 0; row < 2; ++row) {
      const Two<C, N> two =
          gatheredTwo<N, CONTIGUOUS>(plane + row * steps.row, block.offset[0] + i, steps.column);
      total = plusWeighted(total, load<N>(block.weight[2 * row] + i), two.first);
      total = plusWeighted(total, load<N>(block.weight[2 * row + 1] + i), two.second);
    }
    return total;
  } else if constexpr (Block<T, C>::kCubic && CONTIGUOUS) {
    return cubicAt<N>(block, i, plane);
  } else if constexpr (Block<T, C>::kCubic) {
    V total{};
    SL_UNROLL
    for (int row = 0; row < 4; ++row) {
      V sum{};
      SL_UNROLL
      for (int column = 4; column < 8; ++column) {
        using Offset = typename Block<T, C>::Offset;
        Offset offset[N];
        store(offset, load<N>(block.offset[row] + i) + load<N>(block.offset[column] + i));
        V x = cast<C>(gathered<N>(plane, offset));
        if constexpr (T.padding == Padding::zeros) {
          const auto exists = load<N>(block.exists[row] + i) & load<N>(block.exists[column] + i);
          x = select(Mask<Bits, N>(exists), x, V{});
        }
        sum = fma(load<N>(block.weight[column] + i), x, sum);
      }
      total = fma(load<N>(block.weight[row] + i), sum, total);
    }
    return total;
  } else {
    auto x = gathered<N>(plane, block.offset[0] + i);
    if constexpr (T.padding == Padding::zeros) {
      x = select(Mask<Bits, N>(load<N>(block.exists[0] + i)), x, decltype(x){});
    }
    return x;
  }
}

/// Channels of a block of `count` places, whose results are `step` apart.
template <bool CONTIGUOUS, GridSampleTune T, class C, class In, class Out>
SL_INLINE void sampleChannels(const Block<T, C>& block, const GridSampleShape& s, Range channels,
                              int count, const In* image, Out* out, int64_t step) {
  constexpr int N = kNativeLanes<C>;
  const Steps steps = stepsOf(s);
  for (int64_t c = channels.begin; c < channels.end; ++c) {
    const In* plane = image + c * s.inStride[1];
    Out* to = out + c * s.outStride[1];
    for (int i = 0; i < count; i += N) {
      const auto values = valuesAt<N, CONTIGUOUS>(block, steps, i, plane);
      storeLanes(to + i * step, step, int(minOf(N, count - i)), cast<Out>(values));
    }
  }
}

// ---- lanes along channels ----

/// The elements that a place reads and that exist, and 0 (NaN where the place is not finite).
template <GridSampleTune T, class C>
struct Reads {
  static constexpr int kMost = kTaps<T> * kTaps<T>;
  int count = 0;
  C base = C(0);
  int64_t offset[kMost];
  C weight[kMost];
  SL_INLINE_MEMBER void add(int64_t at, C by, bool exists) {
    offset[count] = at;
    weight[count] = by;
    base += exists ? C(0) : by * C(0);
    count += exists ? 1 : 0;
  }
};

template <GridSampleTune T, class C>
SL_INLINE Reads<T, C> readsOf(const Block<T, C>& block, const Steps& steps, int i) {
  using Places = Block<T, C>;
  using Bits = typename Places::Bits;
  constexpr bool kZeros = T.padding == Padding::zeros;
  Reads<T, C> reads;
  if constexpr (Places::kCubic) {
    for (int row = 0; row < 4; ++row) {
      for (int column = 4; column < 8; ++column) {
        const bool exists = !kZeros || (block.exists[row][i] & block.exists[column][i]) != 0;
        reads.add(int64_t(block.offset[row][i]) + block.offset[column][i],
                  block.weight[row][i] * block.weight[column][i], exists);
      }
    }
  } else if constexpr (Places::kLinear) {
    for (int k = 0; k < 4; ++k) {
      const C weight = block.weight[k][i];
      reads.add(block.offset[0][i] + (k / 2) * steps.row + (k % 2) * steps.column, weight,
                bitcast<Bits>(weight) >= 0);
    }
  } else {
    reads.add(block.offset[0][i], C(1), !kZeros || block.exists[0][i] != 0);
  }
  return reads;
}

/// `count` neighbouring channels of one place, as elements of the output.
template <class Out, int N, GridSampleTune T, class C, class In>
SL_INLINE Wide<Out, N> channelsAt(const Reads<T, C>& reads, const In* from, int count) {
  if constexpr (T.interpolation == Interpolation::nearest) {
    return reads.count == 0 ? Wide<Out, N>{}
                            : cast<Out>(loadLanes<N>(from + reads.offset[0], 1, count));
  } else {
    vec<C, N> total = splat<vec<C, N>>(reads.base);
    auto plus = [&](int k) SL_LAMBDA {
      const auto x = cast<C>(loadLanes<N>(from + reads.offset[k], 1, count));
      total = fma(splat<vec<C, N>>(reads.weight[k]), vec<C, N>(x), total);
    };
    if (SL_LIKELY(reads.count == reads.kMost)) {
      SL_UNROLL
      for (int k = 0; k < reads.kMost; ++k) {
        plus(k);
      }
    } else {
      SL_NO_UNROLL
      for (int k = 0; k < reads.count; ++k) {
        plus(k);
      }
    }
    return cast<Out>(total);
  }
}

/// As sampleChannels, where the channels of `image` are contiguous.
template <GridSampleTune T, class C, class In, class Out>
SL_INLINE void sampleLastChannels(const Block<T, C>& block, const GridSampleShape& s,
                                  Range channels, int count, const In* image, Out* out,
                                  int64_t step) {
  constexpr int N = kNativeLanes<C>;
  using Bits = typename BitsOf<sizeof(Out)>::type;
  const Steps steps = stepsOf(s);
  if (s.outStride[1] == 1) {
    for (int i = 0; i < count; ++i) {
      const Reads<T, C> reads = readsOf(block, steps, i);
      for (int64_t c = channels.begin; c < channels.end; c += N) {
        const int lanes = int(minOf(N, channels.end - c));
        storeLanes(out + i * step + c, 1, lanes, channelsAt<Out, N>(reads, image + c, lanes));
      }
    }
    return;
  }
  for (int first = 0; first < count; first += N) {
    const int places = int(minOf(N, count - first));
    Reads<T, C> reads[N];
    for (int i = 0; i < N; ++i) {
      reads[i] = readsOf(block, steps, int(minOf(first + i, count - 1)));
    }
    for (int64_t c = channels.begin; c < channels.end; c += N) {
      const int lanes = int(minOf(N, channels.end - c));
      vec<Bits, N> turned[N];
      for (int i = 0; i < N; ++i) {
        turned[i] = bitcast<vec<Bits, N>>(channelsAt<Out, N>(reads[i], image + c, lanes));
      }
      turnLanes<N, Bits>(turned);
      for (int k = 0; k < lanes; ++k) {
        storeLanes(out + first * step + (c + k) * s.outStride[1], step, places,
                   bitcast<Wide<Out, N>>(turned[k]));
      }
    }
  }
}

#endif  // __CUDACC__

}  // namespace grid_sample_detail

#if defined(__CUDACC__)

template <GridSampleTune T, class In, class G, class Out>
SL_INLINE void grid_sample(GridSampleShape s, const In* in, const G* grid, Out* out) {
  namespace detail = grid_sample_detail;
  using C = detail::Compute<In>;
  constexpr int K = detail::kTaps<T>;
  const int64_t groups = ceilDiv(s.channels, T.each);  // a thread's channels are so far apart
  int64_t number = threadNumber();
  auto next = [&](int64_t extent) {
    const int64_t i = number % extent;
    number /= extent;
    return i;
  };
  int64_t c = T.channelsLast != 0 ? next(groups) : 0;
  const int64_t x = next(s.outW);
  const int64_t y = next(s.outH);
  c = T.channelsLast != 0 ? c : next(groups);
  if (number >= s.batch) {
    return;
  }
  const G* place = grid + number * s.gridStride[0] + y * s.gridStride[1] + x * s.gridStride[2];
  const auto columns = detail::tapsAt<T>(cast<C>(place[0]), s.inW, s.inStride[3]);
  const auto rows = detail::tapsAt<T>(cast<C>(place[s.gridStride[3]]), s.inH, s.inStride[2]);
  const In* image = in + number * s.inStride[0];
  Out* to = out + number * s.outStride[0] + y * s.outStride[2] + x * s.outStride[3];
  SL_UNROLL
  for (int i = 0; i < T.each; ++i, c += groups) {
    if (c >= s.channels) {
      return;
    }
    const In* plane = image + c * s.inStride[1];
    C total = C(0);
    SL_UNROLL
    for (int row = 0; row < K; ++row) {
      C sum = C(0);
      SL_UNROLL
      for (int column = 0; column < K; ++column) {
        const C element = detail::elementAt(plane + (rows.offset[row] + columns.offset[column]),
                                            rows.inside[row] && columns.inside[column]);
        sum = K == 1 ? element : fma(columns.weight[column], element, sum);
      }
      total = K == 1 ? sum : fma(rows.weight[row], sum, total);
    }
    to[c * s.outStride[1]] = cast<Out>(total);
  }
}

#else

template <GridSampleTune T, class In, class G, class Out>
SL_INLINE void grid_sample(sl_ctx*, sl_team team, GridSampleShape s, const In* in, const G* grid,
                           Out* out) {
  namespace detail = grid_sample_detail;
  using C = detail::Compute<In>;
  constexpr int N = kNativeLanes<C>;
  // Where the columns of an image are contiguous, some are one load.
  constexpr bool kMayJoin = T.interpolation == Interpolation::bicubic ||
                            (T.interpolation == Interpolation::bilinear && sizeof(In) <= 4);
  // Places that follow each other in the grid and in the output.
  const bool flat =
      s.outStride[2] == s.outW * s.outStride[3] && s.gridStride[1] == s.outW * s.gridStride[2];
  const int64_t rows = flat ? 1 : s.outH;
  const int64_t length = flat ? s.outH * s.outW : s.outW;
  const int64_t vectors = ceilDiv(length, N);
  const int64_t units = s.batch * rows * vectors;
  if (units == 0 || s.channels == 0) {
    return;
  }
  const In nothing{};
  if (s.inH * s.inW == 0) {  // every place is outside
    in = &nothing;
    s.inStride[0] = s.inStride[1] = s.inStride[2] = s.inStride[3] = 0;
  }
  const int64_t pieces = T.channelsLast != 0 ? ceilDiv(s.channels, N) : s.channels;
  const int64_t groups = team.size == 1 ? 1 : minOf(pieces, ceilDiv(4 * team.size, units));
  const int64_t each = ceilDiv(pieces, groups) * (T.channelsLast != 0 ? N : 1);
  const bool contiguous = s.inStride[3] == 1 && s.inW > 1;
  const Range part = split(units * groups, team, 1);
  detail::Block<T, C> block;
  int64_t run = 0;
  for (int64_t i = part.begin; i < part.end; i += run) {
    const int64_t vector = i % vectors;
    const int64_t row = i / vectors % rows;
    const int64_t n = i / (vectors * rows) % s.batch;
    const int64_t group = i / units;
    run = minOf(minOf(part.end - i, vectors - vector), block.kPlaces / N);
    const int64_t first = vector * N;
    const int count = int(minOf(length - first, run * N));
    const G* places = grid + n * s.gridStride[0] + row * s.gridStride[1] + first * s.gridStride[2];
    for (int k = 0; k < count; k += N) {
      const G* at = places + k * s.gridStride[2];
      const int lanes = int(minOf(N, count - k));
      detail::find<N>(block, s, k, cast<C>(loadLanes<N>(at, s.gridStride[2], lanes)),
                      cast<C>(loadLanes<N>(at + s.gridStride[3], s.gridStride[2], lanes)));
    }
    const Range channels = {minOf(group * each, s.channels), minOf((group + 1) * each, s.channels)};
    const In* image = in + n * s.inStride[0];
    Out* to = out + n * s.outStride[0] + row * s.outStride[2] + first * s.outStride[3];
    if constexpr (T.channelsLast != 0) {
      detail::sampleLastChannels(block, s, channels, count, image, to, s.outStride[3]);
    } else if (kMayJoin && contiguous) {
      detail::sampleChannels<kMayJoin>(block, s, channels, count, image, to, s.outStride[3]);
    } else {
      detail::sampleChannels<false>(block, s, channels, count, image, to, s.outStride[3]);
    }
  }
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_GRID_SAMPLE_H
