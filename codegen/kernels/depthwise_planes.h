// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of row-major images, for convolution_direct: vectors lie along the rows of
// one channel's plane. A few rows are copied, with zeros around them, into a workspace in the first
// cache, so that no tap needs a test whether it is inside; with a stride the columns of each phase
// are neighbours, so that every tap reads whole vectors.
#ifndef STRAIGHTLINE_KERNELS_DEPTHWISE_PLANES_H
#define STRAIGHTLINE_KERNELS_DEPTHWISE_PLANES_H

#include "straightline/kernels/epilogue.h"
#include "straightline/kernels/micro_kernel.h"

namespace sl {

/// The copied rows: [rows][strideW phases][phase] elements. Column q of phase p is column (first +
/// q) * strideW + p - padW of the image, where `first` is the first column of a strip of the
/// result.
struct PlaneRows {
  int64_t columns;  ///< of the result in a strip: all, or whole groups of vectors
  int64_t phase;    ///< columns of a phase, zeros included
  int64_t length;   ///< elements of a row
  int64_t rows;     ///< of the image, for `outputs` rows of the result
  int64_t outputs;  ///< rows of the result that are made of them

  template <class S>
  SL_INLINE_MEMBER constexpr PlaneRows(const S& s, int64_t elementBytes, int64_t vectorBytes) {
    const int64_t lanes = vectorBytes / elementBytes;
    const int64_t span = (s.kh - 1) * s.dilationH + 1;
    const auto whole = [lanes](int64_t n) { return (n + lanes - 1) / lanes * lanes; };
    // what the taps of a vector read beside it, and a vector of zeros behind
    const int64_t reach = whole((s.kw - 1) * s.dilationW / s.strideW + 1) + lanes;
    const int64_t group = kVectors * lanes;
    const int64_t room = (kBytes / elementBytes / (span * s.strideW) - reach) / group;
    const int64_t strip = (room < 1 ? 1 : room) * group;
    columns = s.wo < strip ? s.wo : strip;
    phase = whole(columns) + reach;
    length = phase * s.strideW;
    const int64_t most = kBytes / elementBytes / length;
    outputs = most > span ? (most - span) / s.strideH + 1 : 1;
    outputs = outputs < s.ho ? outputs : s.ho < 1 ? 1 : s.ho;
    rows = (outputs - 1) * s.strideH + span;
  }

  /// beside what streams through a first cache of 32 KiB
  static constexpr int64_t kBytes = 16 << 10;
  /// vectors of a row that are made at once
  static constexpr int64_t kVectors = 4;
};

/// Bytes for a thread.
template <class S>
SL_INLINE constexpr int64_t depthwisePlanesWorkspace(const S& s, int64_t elementBytes,
                                                     int64_t vectorBytes) {
  const PlaneRows plane(s, elementBytes, vectorBytes);
  return (plane.rows * plane.length * elementBytes + s.kh * s.kw * 16 + 127) / 128 * 128;
}

/// One row of the image, or zeros where `from` is null, for the strip of the result that begins at
/// column `first`.
template <int N, class T, class S>
SL_INLINE void copyPlaneRow(const S& s, const PlaneRows& plane, int64_t first, const T* from,
                            T* to) {
  const vec<T, N> zero{};
  const int64_t pad = s.padW - first * s.strideW;  // negative inside the image
  const int64_t room = plane.phase - N;
  for (int64_t p = 0; p < s.strideW; ++p, to += plane.phase) {
    const int64_t begin = p < pad ? minOf(ceilDiv(pad - p, s.strideW), room) : 0;
    const int64_t last = s.w - 1 + pad - p;
    const int64_t end =
        from == nullptr || last < 0 ? begin : maxOf(minOf(last / s.strideW + 1, room), begin);
    for (int64_t q = 0; q < begin; ++q) {
      to[q] = T(0);
    }
    int64_t q = begin;
    const T* source = from + (from == nullptr ? 0 : q * s.strideW + p - pad);
    for (; q + N <= end; q += N, source += N * s.strideW) {
      store(to + q, loadLanes<N>(source, s.strideW, N));
    }
    if (q < end && end - begin >= N) {  // some elements a second time
      store(to + end - N, loadLanes<N>(source - (q - (end - N)) * s.strideW, s.strideW, N));
    } else if (q < end) {
      storeLanes(to + q, 1, int(end - q), loadLanes<N>(source, s.strideW, int(end - q)));
    }
    for (q = end; q + N <= plane.phase; q += N) {
      store(to + q, zero);
    }
    store(to + plane.phase - N, zero);
  }
}

/// A tap of one output channel: how far its rows are from the first tap's, and its weight.
template <class T>
struct PlaneTap {
  int64_t offset;
  T weight;
};

/// sums[0..V) += one tap of V vectors.
template <int V, int N, class T>
SL_INLINE void addTap(const vec<T, N> (&from)[V], T weight, vec<T, N> (&sums)[V]) {
  const auto factor = splat<vec<T, N>>(weight);
  SL_UNROLL
  for (int v = 0; v < V; ++v) {
    sums[v] = fma(from[v], factor, sums[v]);
  }
}

/// Computes V vectors of a row of the result into `results`. `rows`: where the first tap of the
/// first vector reads.
template <int V, int N, class T>
SL_INLINE void sumRow(const PlaneTap<T>* taps, int64_t count, const T* rows, T* results) {
  vec<T, N> sums[V] = {};
  SL_NO_UNROLL
  for (int64_t t = 0; t < count; ++t) {
    vec<T, N> from[V];
    SL_UNROLL
    for (int v = 0; v < V; ++v) {
      from[v] = load<N>(rows + taps[t].offset + v * N);
    }
    addTap<V, N>(from, taps[t].weight, sums);
  }
  SL_UNROLL
  for (int v = 0; v < V; ++v) {
    store(results + v * N, sums[v]);
  }
}

/// Computes V vectors of each of two rows of the result, for stride and dilation 1: a row of the
/// image is read once for both. The second row's vectors go to `results + next`. KH x KW: the
/// kernel.
template <int KH, int KW, int V, int N, class T>
SL_INLINE void sumTwoRows(const PlaneTap<T>* taps, const T* rows, int64_t length, T* results,
                          int64_t next) {
  vec<T, N> upper[V] = {}, lower[V] = {};
  SL_UNROLL
  for (int i = 0; i <= KH; ++i) {
    SL_UNROLL
    for (int j = 0; j < KW; ++j) {
      vec<T, N> from[V];
      SL_UNROLL
      for (int v = 0; v < V; ++v) {
        from[v] = load<N>(rows + i * length + j + v * N);
      }
      if (i < KH) {
        addTap<V, N>(from, taps[i * KW + j].weight, upper);
      }
      if (i > 0) {
        addTap<V, N>(from, taps[(i - 1) * KW + j].weight, lower);
      }
    }
  }
  SL_UNROLL
  for (int v = 0; v < V; ++v) {
    store(results + v * N, upper[v]);
    store(results + next + v * N, lower[v]);
  }
}

/// Fills the taps of one output channel. `weight`: its first weight.
template <class S, class T>
SL_INLINE void fillTaps(const S& s, const PlaneRows& plane, const T* weight, PlaneTap<T>* taps) {
  for (int64_t i = 0; i < s.kh; ++i) {
    for (int64_t j = 0; j < s.kw; ++j) {
      const int64_t column = j * s.dilationW;
      taps[i * s.kw + j] = {
          i * s.dilationH * plane.length + column % s.strideW * plane.phase + column / s.strideW,
          weight[i * s.weightStride[3] + j * s.weightStride[4]]};
    }
  }
}

/// Finishes `many` vectors of one row of output channel k, from vector v on.
template <int N, class S, class Epilogue, class T, class Ops>
SL_INLINE void finishPlaneRow(const S& s, const Epilogue& epilogue, const T* results,
                              const Ops& ops, const int64_t (&steps)[kMaxEpilogueOperands],
                              int64_t image, int64_t row, int64_t k, int64_t v, int64_t many) {
  RowOffsets at;
  at.output = image * s.outStride[0] + row * s.outStride[1] + k * s.outStride[3];
  SL_UNROLL
  for (int q = 0; q < Ops::kInputs; ++q) {
    at.operand[q] =
        image * s.epilogueStride[q][0] + row * s.epilogueStride[q][1] + k * s.epilogueStride[q][3];
  }
  SL_NO_UNROLL
  for (int64_t i = 0; i < many; ++i) {
    const int64_t x = (v + i) * N;
    finish<N>(epilogue, ops, load<N>(results + i * N), at, steps, x, 1, minOf(N, s.wo - x));
  }
}

/// What the loops of depthwisePlanes know of a shape when they are compiled. side: of a square
/// kernel of stride and dilation 1 whose rows sumTwoRows takes, 0 for other shapes, -1: not known.
/// most, least: vectors of a row at once.
struct PlaneLoops {
  int side = -1;
  int most = int(PlaneRows::kVectors);
  int least = 1;
};

/// The side of sumTwoRows' kernel, or 0. Kernels of 5 and 7 are compiled where the shape is known.
template <class S>
SL_INLINE constexpr int planeSide(const S& s, bool known) {
  const bool dense = s.strideH == 1 && s.strideW == 1 && s.dilationH == 1 && s.dilationW == 1;
  const bool taken = s.kh == 3 || (known && (s.kh == 5 || s.kh == 7));
  return dense && s.kh == s.kw && taken ? int(s.kh) : 0;
}

template <auto SHAPE>
constexpr PlaneLoops knownPlaneLoops(const Fixed<SHAPE>&, int64_t N, int) {
  constexpr int kAtOnce = int(PlaneRows::kVectors);
  const int64_t vectors = (SHAPE.wo + N - 1) / N, left = vectors % kAtOnce;
  const int most = int(vectors < 1 ? 1 : vectors < kAtOnce ? vectors : kAtOnce);
  return {.side = planeSide(SHAPE, true), .most = most, .least = left == 0 ? most : int(left)};
}
template <auto SHAPE>
constexpr PlaneLoops knownPlaneLoops(const Batched<SHAPE, 0>&, int64_t N, int) {
  return knownPlaneLoops(Fixed<SHAPE>{}, N, 0);
}
/// side: of the kernel, where that alone is known and it is not 3; else 0.
template <class S>
constexpr PlaneLoops knownPlaneLoops(const S&, int64_t, int side) {
  return {.side = side > 0 ? side : -1};
}

/// V vectors of a row of the result, or of two.
template <int Side, int V, int N, class T>
SL_INLINE void sumRows(const PlaneTap<T>* taps, int64_t count, bool two, const T* rows,
                       int64_t length, T* results, int64_t next) {
  if constexpr (Side > 0) {
    if (two) {
      return sumTwoRows<Side, Side, V, N>(taps, rows, length, results, next);
    }
  }
  sumRow<V, N>(taps, count, rows, results);
}

/// For one input channel a group and images with adjacent columns. images: their number, in place
/// of s.n.
template <PlaneLoops Known, class S, class Epilogue, class T, class Ops>
SL_INLINE void depthwisePlanes(sl_team team, const S& s, int64_t images, const Epilogue& epilogue,
                               const T* in, const T* weight, const Ops& ops, char* workspace) {
  constexpr int N = kNativeLanes<T>;
  constexpr int kVectors = Known.most;
  constexpr int kSide = Known.side < 0 ? 3 : Known.side;
  const PlaneRows plane(s, sizeof(T), kVectorBytes);
  T* copied = reinterpret_cast<T*>(workspace);
  PlaneTap<T>* taps = reinterpret_cast<PlaneTap<T>*>(copied + plane.rows * plane.length);
  const int64_t steps[kMaxEpilogueOperands] = {s.epilogueStride[0][2], s.epilogueStride[1][2],
                                               s.epilogueStride[2][2], s.epilogueStride[3][2]};
  const int64_t outputs = s.k / s.groups;
  const int64_t parts = ceilDiv(s.ho, plane.outputs);
  const int64_t strips = ceilDiv(s.wo, maxOf(plane.columns, 1));
  const Range mine = split(images * s.c * parts * strips, team, 1);
  SL_NO_UNROLL
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t image = unit / strips / parts / s.c, channel = unit / strips / parts % s.c;
    const int64_t first = unit / strips % parts * plane.outputs;
    const int64_t column = unit % strips * plane.columns;  // whole vectors
    const int64_t vectors = ceilDiv(minOf(plane.columns, s.wo - column), N);
    const int64_t count = minOf(plane.outputs, s.ho - first);
    const T* from = in + image * s.inStride[0] + channel * s.inStride[3];
    const int64_t top = first * s.strideH - s.padH;
    const int64_t rows = (count - 1) * s.strideH + (s.kh - 1) * s.dilationH + 1;
    SL_NO_UNROLL
    for (int64_t r = 0; r < rows; ++r) {
      const bool inside = top + r >= 0 && top + r < s.h;
      copyPlaneRow<N>(s, plane, column, inside ? from + (top + r) * s.inStride[1] : nullptr,
                      copied + r * plane.length);
    }
    SL_NO_UNROLL
    for (int64_t k = channel * outputs; k < (channel + 1) * outputs; ++k) {
      const T* from = weight + channel * s.weightStride[0] + k % outputs * s.weightStride[1];
      fillTaps(s, plane, from, taps);
      const int64_t atOnce = planeSide(s, Known.side >= 0) != 0 ? 2 : 1;
      SL_NO_UNROLL
      for (int64_t y = 0; y < count; y += atOnce) {
        const bool two = y + atOnce <= count && atOnce == 2;
        const T* rowsHere = copied + y * s.strideH * plane.length;
        SL_NO_UNROLL
        for (int64_t v = 0; v < vectors; v += kVectors) {
          const int64_t many = minOf(kVectors, vectors - v);
          alignas(64) T results[2 * kVectors * N];
          withCount<kVectors, Known.least>(many, [&](auto known) SL_INLINE_LAMBDA {
            constexpr int V = decltype(known)::value;
            sumRows<kSide, V, N>(taps, s.kh * s.kw, two, rowsHere + v * N, plane.length, results,
                                 kVectors * N);
          });
          SL_NO_UNROLL
          for (int64_t r = 0; r < (two ? 2 : 1); ++r) {
            finishPlaneRow<N>(s, epilogue, results + r * kVectors * N, ops, steps, image,
                              first + y + r, k, column / N + v, many);
          }
        }
      }
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_DEPTHWISE_PLANES_H
