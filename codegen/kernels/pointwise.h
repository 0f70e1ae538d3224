// SPDX-License-Identifier: Apache-2.0
// Family `pointwise`: outputs = f(inputs) over an index space of rank <= SL_MAX_RANK, any strides.
//
//   sl::pointwise<PointwiseTune{.rank, .inputs}>(ctx, team, shape, f, inputs..., outputs...)
//   f(in..., auto& out...): inputs by value, as scalars' wide forms; every output is assigned once.
//
// An output may be the same buffer as an input when their strides are equal. Rank 0 is one element;
// an extent of 0 does nothing. Lanes beyond the end repeat a valid element, so f sees no invented
// values. Each thread takes a part of the outer loops (of the only loop, when they all merge).
// f converts between element types itself. With Fixed<PointwiseShape{...}> branches that this shape
// does not take are not compiled. With `repeats` the loops are in the order in which outputs lie in
// memory, no input changes along the innermost one, of so many elements, and along the next each
// input is contiguous or constant and each output has no gaps (images that are enlarged). In CUDA
// C++ (cuda_pointwise.h) there is no ctx and no team, nothing differs with `repeats`, and a
// thread of the grid takes `vector` neighbours.
#ifndef STRAIGHTLINE_KERNELS_POINTWISE_H
#define STRAIGHTLINE_KERNELS_POINTWISE_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/turn.h"

namespace sl {

struct PointwiseTune {
  int rank = 0;
  int inputs = 0;
  int repeats = 1;     ///< CPU only: see above
  int vector = 1;      ///< CUDA only: neighbours along the innermost loop that a thread takes
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct PointwiseShape {
  int64_t extent[SL_MAX_RANK] = {};
  /// elements; inputs then outputs; 0 broadcasts
  int64_t stride[kMaxOperands][SL_MAX_RANK] = {};
};
SL_INLINE constexpr int64_t* extentsOf(PointwiseShape& shape) { return shape.extent; }

}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_pointwise.h"
#else

namespace sl {

namespace pointwise_detail {

inline constexpr int64_t kGrain = 2048;  ///< fewest elements worth a thread
inline constexpr int64_t kTile = 64;     ///< elements per side of a tile of a transposing copy

/// f on lanes [0, count) at the pointers; LANES: every operand is contiguous or constant and count
/// is N.
template <int N, int INPUTS, bool LANES, class F, class Pointers, int... I, int... J>
SL_INLINE void chunk(F f, Pointers& p, const int64_t* strides, int count, Ints<I...>, Ints<J...>) {
  auto values = tupleOf(Wide<Pointee<typename RemoveReference<decltype(get<I>(p))>::type>, N>{}...);
  unrolled<INPUTS>([&](auto i) SL_LAMBDA {
    constexpr int K = decltype(i)::value;
    if constexpr (LANES) {
      get<K>(values) = strides[K] != 0 ? load<N>(get<K>(p)) : loadSplat<N>(get<K>(p));
    } else {
      get<K>(values) = loadLanes<N>(get<K>(p), strides[K], count);
    }
  });
  f(get<J>(values)...);
  constexpr int kOutputs = int(sizeof...(I)) - INPUTS;
  unrolled<kOutputs>([&](auto i) SL_LAMBDA {
    constexpr int K = INPUTS + decltype(i)::value;
    storeLanes(get<K>(p), LANES ? 1 : strides[K], count, get<K>(values));
  });
}

/// One run of `n` elements along a single loop.
template <int N, int INPUTS, class F, class Pointers, int... I>
SL_INLINE void run(F f, Pointers p, const int64_t* strides, bool lanes, int64_t n, Ints<I...> all) {
  int64_t i = 0;
  if (lanes) {
    for (; i + N <= n; i += N) {
      chunk<N, INPUTS, true>(f, p, strides, N, all, all);
      ((get<I>(p) += strides[I] * N), ...);
    }
  }
  for (; i < n; i += N) {
    chunk<N, INPUTS, false>(f, p, strides, int(minOf(N, n - i)), all, all);
    ((get<I>(p) += strides[I] * N), ...);
  }
}

/// The loops as they are given.
template <int RANK, int O>
SL_INLINE constexpr Nest<RANK, O> givenLoops(const PointwiseShape& shape) {
  Nest<RANK, O> loops;
  loops.rank = RANK;
  for (int d = 0; d < RANK; ++d) {
    loops.extent[d] = shape.extent[d];
    for (int o = 0; o < O; ++o) {
      loops.stride[o][d] = shape.stride[o][d];
    }
  }
  return loops;
}

/// Loops ordered for the first output: its largest stride outermost; then merged. Reversed loops
/// stay as they are.
template <int RANK, int O, int OUTPUT>
SL_INLINE constexpr Nest<RANK, O> nestOf(const PointwiseShape& shape) {
  Nest<RANK, O> raw = givenLoops<RANK, O>(shape);
  auto size = [&](int d) {
    int64_t s = raw.stride[OUTPUT][d];
    return raw.extent[d] == 1 ? INT64_MIN_SL : s < 0 ? -s : s;
  };
  for (int i = 1; i < RANK; ++i) {
    for (int d = i; d > 0 && size(d - 1) < size(d); --d) {
      raw.swapDims(d - 1, d);
    }
  }
  Nest<RANK, O> nest;
  for (int d = 0; d < RANK; ++d) {
    int64_t strides[O] = {};
    for (int o = 0; o < O; ++o) {
      strides[o] = raw.stride[o][d];
    }
    nest.append(raw.extent[d], strides);
  }
  return nest;
}

/// Whether every input is contiguous or constant and every output contiguous along the innermost
/// loop.
template <int R, int O>
SL_INLINE constexpr bool lanesOf(const Nest<R, O>& nest, int inputs) {
  bool lanes = nest.innerIsVector();
  for (int o = inputs; o < O; ++o) {
    lanes = lanes && nest.innerStride(o) == 1;
  }
  return lanes;
}

/// The loop along which an input is contiguous that is not contiguous along the innermost loop; -1
/// if there is none.
template <int R, int O>
SL_INLINE constexpr int transposedLoop(const Nest<R, O>& nest, int inputs) {
  int found = -1;
  for (int o = 0; o < inputs; ++o) {
    int64_t inner = nest.innerStride(o);
    for (int d = 0; d + 1 < nest.rank; ++d) {
      bool here = inner != 0 && inner != 1 && nest.stride[o][d] == 1 && nest.extent[d] > 1;
      found = here && nest.extent[d] >= 4 && nest.innerExtent() >= 4 ? d : found;
    }
  }
  return found;
}

/// The two innermost loops exchanged, where the innermost is short and the other one is not: a
/// vector along it would be empty for the most part (three channels of an image).
template <int R, int O>
SL_INLINE Nest<R, O> withLongInner(Nest<R, O> nest) {
  if (nest.rank >= 2 && nest.innerExtent() < 4 && nest.extent[nest.rank - 2] >= 8) {
    nest.swapDims(nest.rank - 2, nest.rank - 1);
  }
  return nest;
}

/// The nest with `loop` as the last but one.
template <int R, int O>
SL_INLINE constexpr Nest<R, O> crossed(Nest<R, O> nest, int loop) {
  for (int d = loop; d + 2 < nest.rank; ++d) {
    nest.swapDims(d, d + 1);
  }
  return nest;
}

/// A square of an input that is not contiguous along the innermost loop, transposed so that it is.
template <class E>
struct Tile {
  E cell[kTile][kTile + 1];
};

/// Runs the two innermost loops in tiles. Inputs that are contiguous along the outer of the two are
/// transposed in a buffer first: each of their cache lines is read once and in full, whatever the
/// strides are.
template <int N, int INPUTS, int R, int O, class F, class Pointers, int... I>
SL_INLINE void runTiles(const Nest<R, O>& nest, sl_team team, F f, Pointers& base, Ints<I...> all) {
  constexpr bool kTurns =
      INPUTS > 0 && INPUTS <= 4;  // more inputs would take too much of the stack
  auto tiles = tupleOf(
      typename Conditional<(kTurns && I < INPUTS),
                           Tile<Pointee<typename RemoveReference<decltype(get<I>(base))>::type> >,
                           int>::type{}...);
  (void)tiles;
  int outerDims = nest.rank - 2;
  int64_t wide = nest.extent[nest.rank - 2];
  int64_t inner = nest.innerExtent();
  int64_t columns = ceilDiv(wide, kTile);
  int64_t rows = ceilDiv(inner, kTile);
  int64_t outer = nest.count() / maxOf(wide * inner, 1);
  Range part = split(outer * columns * rows, team, 1);
  Cursor<R, O> at;
  for (int64_t tile = part.begin; tile < part.end; ++tile) {
    at.seek(nest, outerDims, tile / (columns * rows));
    int64_t firstWide = tile / rows % columns * kTile;
    int64_t first = tile % rows * kTile;
    int64_t across = minOf(kTile, wide - firstWide);
    int64_t along = minOf(kTile, inner - first);
    int64_t innerStride[O];
    int64_t wideStride[O];
    for (int o = 0; o < O; ++o) {
      innerStride[o] = nest.innerStride(o);
      wideStride[o] = nest.stride[o][nest.rank - 2];
    }
    auto corner = tupleOf(
        (get<I>(base) + at.offset[I] + firstWide * wideStride[I] + first * innerStride[I])...);
    if constexpr (kTurns) {
      unrolled<INPUTS>([&](auto input) SL_LAMBDA {
        constexpr int K = decltype(input)::value;
        if (wideStride[K] == 1 && innerStride[K] != 0 && innerStride[K] != 1) {
          auto& cell = get<K>(tiles).cell;
          using E = typename RemoveReference<decltype(cell[0][0])>::type;
          turnSquare<kTurnedSide<E> >(get<K>(corner), innerStride[K], &cell[0][0], kTile + 1, along,
                                      across);
          get<K>(corner) = &cell[0][0];
          innerStride[K] = 1;
          wideStride[K] = kTile + 1;
        }
      });
    }
    bool lanes = true;
    for (int o = 0; o < O; ++o) {
      lanes = lanes && (innerStride[o] == 1 || (innerStride[o] == 0 && o < INPUTS));
    }
    for (int64_t j = 0; j < across; ++j) {
      run<N, INPUTS>(f, corner, innerStride, lanes, along, all);
      ((get<I>(corner) += wideStride[I]), ...);
    }
  }
}

/// One run along the innermost loop of a known nest: `whole` vectors, and after them the rest of
/// the loop if `last`.
template <int N, int INPUTS, const auto& NEST, class F, class Pointers, int... I>
SL_INLINE void runFixed(F f, Pointers p, int64_t whole, bool last, Ints<I...> all) {
  constexpr int64_t kStrides[] = {NEST.innerStride(I)...};
  if constexpr (NEST.innerExtent() >= N) {
    for (int64_t i = 0; i < whole; ++i) {
      chunk<N, INPUTS, lanesOf(NEST, INPUTS)>(f, p, kStrides, N, all, all);
      ((get<I>(p) += kStrides[I] * N), ...);
    }
  }
  constexpr int kRest = int(NEST.innerExtent() % N);
  if constexpr (kRest != 0) {
    if (last) {
      chunk<N, INPUTS, false>(f, p, kStrides, kRest, all, all);
    }
  }
}

/// N elements, each TIMES times.
template <int TIMES, class E, int... I>
SL_INLINE void storeRepeated(const E* cells, E* to, Ints<I...>) {
  constexpr int N = sizeof...(I);
  using U = typename BitsOf<sizeof(E)>::type;
  if constexpr (N == 1) {
    for (int i = 0; i < TIMES; ++i) {
      to[i] = cells[0];
    }
  } else {
    const vec<U, N> values = load<N>(reinterpret_cast<const U*>(cells));
    unrolled<TIMES>([&](auto part) SL_LAMBDA {
      constexpr int kFirst = decltype(part)::value * N;
      store(reinterpret_cast<U*>(to) + kFirst,
            __builtin_shufflevector(values, values, ((kFirst + I) / TIMES)...));
    });
  }
}

template <class E, int N>
struct Cells {
  E at[N];
};

/// One run along the last loop but one, `n` elements of inputs, of which each result is repeated.
template <int N, int INPUTS, int TIMES, class F, class Pointers, int... I>
SL_INLINE void runRepeated(F f, Pointers p, const int64_t* strides, int64_t n, Ints<I...> all) {
  constexpr int kOutputs = int(sizeof...(I)) - INPUTS;
  auto cells = tupleOf(Cells<Pointee<typename RemoveReference<decltype(get<I>(p))>::type>, N>{}...);
  for (int64_t i = 0; i < n; i += N) {
    const int count = int(minOf(N, n - i));
    Pointers at = p;
    unrolled<kOutputs>([&](auto output) SL_LAMBDA {
      constexpr int K = INPUTS + decltype(output)::value;
      get<K>(at) = get<K>(cells).at;
    });
    if (count == N) {
      chunk<N, INPUTS, true>(f, at, strides, N, all, all);
    } else {
      chunk<N, INPUTS, false>(f, at, strides, count, all, all);
    }
    unrolled<kOutputs>([&](auto output) SL_LAMBDA {
      constexpr int K = INPUTS + decltype(output)::value;
      auto* to = get<K>(p) + i * TIMES;
      if (count == N) {
        storeRepeated<TIMES>(get<K>(at), to, IntsUpTo<N>{});
      } else {
        for (int j = 0; j < count * TIMES; ++j) {
          to[j] = get<K>(at)[j / TIMES];
        }
      }
    });
    unrolled<INPUTS>([&](auto input) SL_LAMBDA {
      constexpr int K = decltype(input)::value;
      get<K>(p) += strides[K] * N;
    });
  }
}

/// All runs of a shape whose results are repeated.
template <PointwiseTune T, int N, class F, class Base, int... I>
SL_INLINE void repeated(const PointwiseShape& shape, sl_team team, F f, const Base& base,
                        Ints<I...> all) {
  constexpr int O = sizeof...(I);
  constexpr int kOuter = T.rank - 2;
  const Nest<T.rank, O> nest = givenLoops<T.rank, O>(shape);
  int64_t strides[O];
  for (int o = 0; o < O; ++o) {
    strides[o] = o < T.inputs ? nest.stride[o][kOuter] : 1;
  }
  const int64_t line = nest.extent[kOuter];
  const auto run = [&](const int64_t* offsets, int64_t n) SL_LAMBDA {
    runRepeated<N, T.inputs, T.repeats>(f, tupleOf((get<I>(base) + offsets[I])...), strides, n,
                                        all);
  };
  if constexpr (kOuter == 0) {
    const Range part = split(line, team, ceilDiv(kGrain, T.repeats));
    int64_t offsets[O];
    for (int o = 0; o < O; ++o) {
      offsets[o] = part.begin * nest.stride[o][0];
    }
    run(offsets, part.end - part.begin);
  } else {
    const int64_t count = line == 0 ? 0 : nest.count() / (line * T.repeats);
    const Range part = split(count, team, ceilDiv(kGrain, maxOf(line * T.repeats, 1)));
    Cursor<T.rank, O> at;
    if (part.begin < part.end) {
      at.seek(nest, kOuter, part.begin);
    }
    for (int64_t row = part.begin; row < part.end; ++row) {
      run(at.offset, line);
      at.template advanceFixed<kOuter>(nest);
    }
  }
}

}  // namespace pointwise_detail

template <PointwiseTune T, PointwiseShape S, class F, class... P>
SL_INLINE void pointwise(sl_ctx*, sl_team team, Fixed<S>, F f, P... pointers) {
  namespace detail = pointwise_detail;
  constexpr int O = sizeof...(P);
  constexpr int R = T.rank;
  constexpr int N = lanesFor<Pointee<P>...>();
  static_assert(O > T.inputs && O <= kMaxOperands && R <= SL_MAX_RANK);
  static constexpr Nest<R, O> kNest = detail::nestOf<R, O, T.inputs>(S);
  constexpr int64_t kInner = kNest.innerExtent();
  constexpr int64_t kOuter = kInner == 0 ? 0 : kNest.count() / kInner;
  constexpr int kAcross = kNest.rank <= 1 ? -1 : detail::transposedLoop(kNest, T.inputs);
  auto base = tupleOf(pointers...);
  using All = IntsUpTo<O>;
  if constexpr (kOuter == 0) {
    return;
  } else if constexpr (kAcross >= 0) {
    static constexpr Nest<R, O> kCrossed = detail::crossed(kNest, kAcross);
    detail::runTiles<N, T.inputs>(kCrossed, team, f, base, All{});
  } else if constexpr (kNest.rank <= 1) {
    static_assert(detail::kGrain % N == 0);
    Range part = split(kInner, team, detail::kGrain);
    if (part.begin < part.end) {
      auto at = [&]<int... I>(Ints<I...>) SL_LAMBDA {
        return tupleOf((get<I>(base) + part.begin * kNest.innerStride(I))...);
      }(All{});
      detail::runFixed<N, T.inputs, kNest>(f, at, (part.end - part.begin) / N, part.end == kInner,
                                           All{});
    }
  } else {
    constexpr int kDims = kNest.rank - 1;
    Range part = split(kOuter, team, ceilDiv(detail::kGrain, kInner));
    Cursor<R, O> cursor;
    cursor.seek(kNest, kDims, part.begin);
    for (int64_t row = part.begin; row < part.end; ++row) {
      auto at = [&]<int... I>(Ints<I...>)
                    SL_LAMBDA { return tupleOf((get<I>(base) + cursor.offset[I])...); }(All{});
      detail::runFixed<N, T.inputs, kNest>(f, at, kInner / N, true, All{});
      cursor.template advanceFixed<kDims>(kNest);
    }
  }
}

template <PointwiseTune T, class F, class... P>
SL_INLINE void pointwise(sl_ctx*, sl_team team, PointwiseShape shape, F f, P... pointers) {
  namespace detail = pointwise_detail;
  constexpr int O = sizeof...(P);
  constexpr int R = T.rank;
  constexpr int N = lanesFor<Pointee<P>...>();
  static_assert(O > T.inputs && O <= kMaxOperands && R <= SL_MAX_RANK);
  auto base = tupleOf(pointers...);
  using All = IntsUpTo<O>;
  auto runAt = [&]<int... I>(Ints<I...> all, const int64_t* offsets, const int64_t* strides,
                             bool lanes, int64_t n) SL_LAMBDA {
    detail::run<N, T.inputs>(f, tupleOf((get<I>(base) + offsets[I])...), strides, lanes, n, all);
  };

  if constexpr (T.repeats > 1) {
    return detail::repeated<T, N>(shape, team, f, base, All{});
  }
  Nest<R, O> nest = detail::withLongInner(detail::nestOf<R, O, T.inputs>(shape));
  int64_t inner = nest.innerExtent();
  int64_t strides[O];
  bool lanes = detail::lanesOf(nest, T.inputs);
  for (int o = 0; o < O; ++o) {
    strides[o] = nest.innerStride(o);
  }
  if (nest.rank <= 1) {
    Range part = split(inner, team, detail::kGrain);
    int64_t offsets[O];
    for (int o = 0; o < O; ++o) {
      offsets[o] = part.begin * strides[o];
    }
    runAt(All{}, offsets, strides, lanes, part.end - part.begin);
    return;
  }

  int across = detail::transposedLoop(nest, T.inputs);
  if (across >= 0) {
    detail::runTiles<N, T.inputs>(detail::crossed(nest, across), team, f, base, All{});
    return;
  }

  int outerDims = nest.rank - 1;
  int64_t outer = inner == 0 ? 0 : nest.count() / inner;
  Range part = split(outer, team, ceilDiv(detail::kGrain, maxOf(inner, 1)));
  if (part.begin >= part.end) {
    return;
  }
  Cursor<R, O> at;
  at.seek(nest, outerDims, part.begin);
  for (int64_t row = part.begin; row < part.end; ++row) {
    runAt(All{}, at.offset, strides, lanes, inner);
    at.advance(nest, outerDims);
  }
}

namespace pointwise_detail {

/// What is known of a batch of slices: each is the nest of S, where dim D has one iteration.
template <PointwiseTune T, PointwiseShape S, int D, int O>
struct Slices {
  static constexpr Nest<T.rank, O> nest = nestOf<T.rank, O, T.inputs>(S);

  /// Whether slice after slice is the order in which each output lies in memory, and no input is to
  /// be transposed against it.
  static constexpr bool areOrdered() {
    for (int o = T.inputs; o < O; ++o) {
      for (int d = 0; d < nest.rank; ++d) {
        if (S.stride[o][D] < nest.stride[o][d] * nest.extent[d]) {
          return false;
        }
      }
    }
    for (int i = 0; i < T.inputs; ++i) {
      if (nest.rank > 0 && S.stride[i][D] == 1 && nest.innerStride(i) != 0) {
        return false;
      }
    }
    return nest.count() > 0;
  }
  /// Whether all slices together are one loop.
  static constexpr bool areOneLoop() {
    bool one = nest.rank <= 1;
    for (int o = 0; o < O; ++o) {
      one = one && (nest.rank == 0 || S.stride[o][D] == nest.innerExtent() * nest.innerStride(o));
    }
    return one;
  }
  /// That loop, of `count` slices.
  static constexpr PointwiseShape loop(int64_t count) {
    PointwiseShape shape;
    shape.extent[0] = count * nest.innerExtent();
    for (int o = 0; o < O; ++o) {
      shape.stride[o][0] = nest.rank == 0 ? S.stride[o][D] : nest.innerStride(o);
    }
    return shape;
  }
};

}  // namespace pointwise_detail

/// A known nest for each of `batch.count` slices.
template <PointwiseTune T, PointwiseShape S, int D, class F, class... P>
SL_INLINE void pointwise(sl_ctx* ctx, sl_team team, Batched<S, D> batch, F f, P... pointers) {
  namespace detail = pointwise_detail;
  using Slices = detail::Slices<T, S, D, int(sizeof...(P))>;
  constexpr PointwiseTune kLoop = {.rank = 1, .inputs = T.inputs};
  if constexpr (!Slices::areOrdered()) {
    pointwise<T>(ctx, team, PointwiseShape(batch), f, pointers...);
  } else if constexpr (Slices::areOneLoop()) {
    pointwise<kLoop>(ctx, team, Slices::loop(batch.count), f, pointers...);
  } else {
    auto slice = [&]<int... I>(int64_t i, sl_team threads, Ints<I...>) SL_LAMBDA {
      pointwise<T>(ctx, threads, Fixed<S>{}, f, (pointers + i * S.stride[I][D])...);
    };
    // Few slices are split themselves.
    const bool whole = batch.count >= 4 * int64_t(team.size);
    Range part = {0, batch.count};
    if (whole) {
      part = split(batch.count, team, ceilDiv(detail::kGrain, Slices::nest.count()));
    }
    for (int64_t i = part.begin; i < part.end; ++i) {
      slice(i, whole ? sl_team{nullptr, 0, 1} : team, IntsUpTo<int(sizeof...(P))>{});
    }
  }
}

}  // namespace sl

#endif  // __CUDACC__
#endif  // STRAIGHTLINE_KERNELS_POINTWISE_H
