// SPDX-License-Identifier: Apache-2.0
// Family `row_reduction`: for each row (position in the outer dims), stages of reductions over the
// inner dims, then outputs per row and per element. Softmax is: max; sum of exp (kept); element =
// kept / sum.
//
//   sl::row_reduction<RowReductionTune{...}>(ctx, team, shape, lambdas..., inputs...,
//   rowOutputs..., elementOutputs...[, workspace])
//
// Lambdas, in this order:
//   stage i       (elements of all inputs..., r0 .. r(i-1), [kept when i > keptStage], auto& value
//                  [, auto& keep when i == keptStage])
//   row           (values of the last rowInputs inputs..., r0 ..., auto& out...) when rowOutputs >
//                 0; called once per row
//   element       (elements of all inputs..., r0 ..., [kept], auto& out...) when elementOutputs > 0
// `value` and `keep` take what is assigned to them and convert it to the stage's value type. A
// per-row input is an input whose inner strides are 0; those that the row lambda reads come last.
//
// Value type of a stage (`value`): automatic is bool for any and all, otherwise float when an input
// is floating (double when one is double), otherwise int64. It is the type of r_i, but argmax and
// argmin give int64 (position in the inner dims, first occurrence, NaN wins). An empty row gives
// the identity (0, 1, -inf or the lowest integer, false, true; 0 for arg).
//
// Two variants, chosen by strides: lanes along the inner dims, or (inner dims not contiguous, outer
// ones are) lanes along rows. Sums are taken by lanes in blocks whose sums are added pairwise, so
// the error grows with log(n) and the result depends on the vector width of the target only.
//
// Workspace, only with kept = 1: per thread roundUp(inner elements * sizeof(value type), 64) bytes.
// With kept = 1 lanes go along rows only where tune.columns says how many; the workspace then has
// so many values per inner element. Rows are split over the team. An element output may be an
// input's buffer when their strides are equal. With Fixed<RowReductionShape{...}> the variant that
// this shape does not take is not compiled; with Batched<RowReductionShape{...}, dim> all but one
// extent of the outer dims is known. In CUDA C++ (cuda_row_reduction.h) there is no ctx, no
// team, no workspace and nothing kept: `threads` threads of the grid share a row and keep its
// inputs in registers.
#ifndef STRAIGHTLINE_KERNELS_ROW_REDUCTION_H
#define STRAIGHTLINE_KERNELS_ROW_REDUCTION_H

#include "straightline/kernels/accumulator.h"
#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct RowReductionTune {
  int outerRank = 0;
  int innerRank = 0;
  int inputs = 1;
  int rowInputs = 0;  ///< inputs that the row lambda reads
  int rowOutputs = 0;
  int elementOutputs = 0;
  int kept = 0;       ///< 1: one stage hands a value per element to the later lambdas
  int keptStage = 0;  ///< which
  int stages = 1;
  /// lanes along rows, a power of two; 0: a few registers, none with kept = 1
  int columns = 0;
  Combine combine[4] = {};
  Value value[4] = {};
  /// CUDA only: threads a row, a power of two; more than 32 are the whole block
  int threads = 1;
  int vector = 1;  ///< CUDA only: neighbours along the innermost loop that a thread takes
  /// CUDA only: vectors of each input that a thread keeps in registers; 0: read anew by every stage
  int each = 0;
  /// CUDA only: blocks of a cluster that share a row, a power of two up to 32
  int splits = 1;
  /// CUDA only: rows of a block, a power of two, of which neighbouring threads take neighbours; 1:
  /// the threads of a row are neighbours
  int beside = 1;
  int firstBlock = 0;  ///< CUDA only: of the grid, that computes this
};

struct RowReductionShape {
  int64_t outer[SL_MAX_RANK] = {};
  int64_t inner[SL_MAX_RANK] = {};
  /// Elements; [operand][0]: along outer dims, [1]: along inner dims. Inputs, row outputs (inner
  /// unused), element outputs.
  int64_t stride[kMaxOperands][2][SL_MAX_RANK] = {};
};
SL_INLINE constexpr int64_t* extentsOf(RowReductionShape& shape) { return shape.outer; }

/// What a lambda assigns its result to: converts any value to V.
template <class V>
struct Slot {
  V content;
  template <class U>
  SL_INLINE_MEMBER void operator=(U u) {
    if constexpr (kLanes<U> == 1 && kLanes<V> != 1) {
      content = splat<V>(cast<Element<V>>(u));
    } else {
      content = cast<Element<V>>(u);
    }
  }
};
template <class V, class T>
SL_INLINE V constant(const Slot<V>&, T value) {
  return splat<V>(cast<Element<V>>(value));
}

namespace reduction {

template <RowReductionTune T, int I, class P>
using InputType =
    Pointee<typename RemoveReference<decltype(get<I>(*static_cast<P*>(nullptr)))>::type>;

template <RowReductionTune T, int STAGE, class P, class S = IntsUpTo<T.inputs>>
struct StageType;
template <RowReductionTune T, int STAGE, class P, int... I>
struct StageType<T, STAGE, P, Ints<I...>> {
  using type = typename ValueTypeOf<T.value[STAGE], T.combine[STAGE], InputType<T, I, P>...>::type;
  using Result = typename Conditional<isArg(T.combine[STAGE]), int64_t, type>::type;
};

/// Results of the stages before STAGE, N lanes each.
template <RowReductionTune T, class P, int N, class S>
struct ResultsOf;
template <RowReductionTune T, class P, int N, int... S>
struct ResultsOf<T, P, N, Ints<S...>> {
  using type = Tuple<Wide<typename StageType<T, S, P>::Result, N>...>;
};

/// The type of a kept value.
template <RowReductionTune T, class P>
using KeptType = typename StageType<T, T.keptStage, P>::type;

/// Calls f(elements..., results..., [kept], outputs...).
template <class F, class E, class R, class K, class O, int... I, int... J, int... M, int... Q>
SL_INLINE void invoke(F& f, E& elements, R& results, K& kept, O& outputs, Ints<I...>, Ints<J...>,
                      Ints<M...>, Ints<Q...>) {
  f(get<I>(elements)..., get<J>(results)..., get<M>(kept)..., get<Q>(outputs)...);
}

}  // namespace reduction
}  // namespace sl

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_row_reduction.h"
#else
#include "straightline/kernels/row_walk.h"

namespace sl {
namespace reduction {

/// The first M lanes: all of them, or one as a scalar.
template <int M, class V>
SL_INLINE auto narrow(V v) {
  if constexpr (M == 1) {
    return lane(v, 0);
  } else {
    return v;
  }
}

template <int N, RowReductionTune T, class Q, class At, int... I>
SL_INLINE auto loadInputs(const Q& q, const At& at, Ints<I...>) {
  return tupleOf(loadLanes<N>(get<I>(q.pointers) + at.offset[I], at.laneStride[I], at.count)...);
}

/// Elements of one chunk through the lambda of a stage into an accumulator. `position`: of lane 0
/// in the inner dims.
template <int N, RowReductionTune T, int STAGE, class Q, class At, class R, class A, class K>
SL_INLINE void takeChunk(const Q& q, const At& at, R& results, A& accumulator, K* keep,
                         int64_t position, bool alongInner) {
  using P = decltype(q.pointers);
  using V = Wide<typename StageType<T, STAGE, P>::type, N>;
  constexpr bool kKeeps = T.kept != 0 && STAGE == T.keptStage;
  constexpr bool kUses = T.kept != 0 && STAGE > T.keptStage;
  auto elements = loadInputs<N, T>(q, at, IntsUpTo<T.inputs>{});
  // Lanes beyond the row repeat its last value, as those of the inputs do: a maximum may see them.
  auto kept = tupleOf(kUses ? loadLanes<N>(keep, 1, alongInner ? at.count : N) : Wide<K, N>{});
  auto outputs = tupleOf(Slot<V>{}, Slot<Wide<K, N>>{});
  invoke(get<STAGE>(q.lambdas), elements, results, kept, outputs, IntsUpTo<T.inputs>{},
         IntsUpTo<STAGE>{}, IntsUpTo<kUses ? 1 : 0>{}, IntsUpTo<kKeeps ? 2 : 1>{});
  V v = get<0>(outputs).content;
  if constexpr (kKeeps) {
    storeLanes(keep, 1, alongInner ? at.count : N, get<1>(outputs).content);
  }
  constexpr Combine C = T.combine[STAGE];
  if constexpr (N > 1 && (C == Combine::sum || C == Combine::prod)) {
    if (alongInner && at.count < N) {
      Wide<int32_t, N> number{};
      for (int i = 0; i < N; ++i) {
        number[i] = i;
      }
      v = select(lt(number, splat<decltype(number)>(at.count)), v,
                 splat<V>(identity<C, typename StageType<T, STAGE, P>::type>()));
    }
  }
  accumulator.take(v, position, alongInner ? 1 : 0);
}

/// Place of an element's kept value; null when nothing is kept.
template <RowReductionTune T, class K>
SL_INLINE K* keptAt(K* keep, int64_t position) {
  return T.kept != 0 ? keep + position : nullptr;
}

/// Stage STAGE and those after it, for one row (ROWS 1: lanes along the inner dims) or for `rows`
/// rows (one lane each).
template <int N, bool COLUMNS, RowReductionTune T, int STAGE, class Q, class R, class K>
SL_INLINE void runStages(const Q& q, const int64_t* row, int rows, R& results, K* keep) {
  if constexpr (STAGE < T.stages) {
    constexpr Combine C = T.combine[STAGE];
    using P = decltype(q.pointers);
    using Type = typename StageType<T, STAGE, P>::type;
    using A = Accumulator<C, Type, N>;
    constexpr int kUsed = COLUMNS || Q::template isShort<kChains * N>() ? 1 : kChains;
    constexpr bool kCascade = (C == Combine::sum || C == Combine::prod) && kFloating<Type> &&
                              Q::template flushes<kUsed * N, COLUMNS>();
    A chain[kUsed];
    Cascade<A, kCascade> cascade;
    auto flush = [&]() SL_LAMBDA {
      if constexpr (kCascade) {
        cascade.push(mergeChains(chain));
        for (A& a : chain) {
          a = A{};
        }
      }
    };
    if constexpr (COLUMNS) {
      alongRows(
          q, row, rows,
          [&](const auto& at, int64_t position) SL_LAMBDA {
            takeChunk<N, T, STAGE>(q, at, results, chain[0], keptAt<T>(keep, position * N),
                                   position, false);
          },
          flush);
    } else {
      alongInner<N, kUsed>(
          q, row,
          [&](const auto& at, int64_t position, auto number) SL_LAMBDA {
            takeChunk<N, T, STAGE>(q, at, results, chain[number], keptAt<T>(keep, position),
                                   position, true);
          },
          flush);
    }
    A total = mergeChains(chain);
    if constexpr (kCascade) {
      A rest = cascade.total();
      rest.merge(total);
      total = rest;
    }
    if constexpr (COLUMNS) {
      get<STAGE>(results) = total.result();
    } else {
      get<STAGE>(results) = splat<Wide<typename A::Result, N>>(total.fold());
    }
    runStages<N, COLUMNS, T, STAGE + 1>(q, row, rows, results, keep);
  }
}

/// The row lambda on M rows: M is N for lanes along rows and 1 otherwise.
template <int M, RowReductionTune T, class Q, class R, int... G, int... J, int... I>
SL_INLINE void writeRows(const Q& q, const int64_t* row, int count, R& results, Ints<G...>,
                         Ints<J...>, Ints<I...>) {
  constexpr int kGiven = T.inputs - T.rowInputs;
  auto given = tupleOf(loadLanes<M>(get<kGiven + G>(q.pointers) + row[kGiven + G],
                                    M == 1 ? 0 : q.outer.innerStride(kGiven + G), count)...);
  auto values = tupleOf(narrow<M>(get<J>(results))...);
  auto outputs = tupleOf(Wide<InputType<T, T.inputs + I, decltype(q.pointers)>, M>{}...);
  get<T.stages>(q.lambdas)(get<G>(given)..., get<J>(values)..., get<I>(outputs)...);
  (storeLanes(get<T.inputs + I>(q.pointers) + row[T.inputs + I],
              M == 1 ? 1 : q.outer.innerStride(T.inputs + I), count, get<I>(outputs)),
   ...);
}

/// The element lambda on one chunk.
template <int N, RowReductionTune T, class Q, class At, class R, class K, int... I>
SL_INLINE void writeElements(const Q& q, const At& at, R& results, K* keep, Ints<I...> all) {
  constexpr int kFirst = T.inputs + T.rowOutputs;
  auto elements = loadInputs<N, T>(q, at, IntsUpTo<T.inputs>{});
  auto outputs = tupleOf(Wide<InputType<T, kFirst + I, decltype(q.pointers)>, N>{}...);
  auto kept = tupleOf(T.kept != 0 ? loadLanes<N>(keep, 1, N) : Wide<K, N>{});
  invoke(get<T.stages + (T.rowOutputs > 0 ? 1 : 0)>(q.lambdas), elements, results, kept, outputs,
         IntsUpTo<T.inputs>{}, IntsUpTo<T.stages>{}, IntsUpTo<T.kept>{}, all);
  (storeLanes(get<kFirst + I>(q.pointers) + at.offset[kFirst + I], at.laneStride[kFirst + I],
              at.count, get<I>(outputs)),
   ...);
}

/// Everything for one row, or for `rows` rows in lanes.
template <int N, bool COLUMNS, RowReductionTune T, class Q, class K>
SL_INLINE void doRows(const Q& q, const int64_t* row, int rows, K* keep) {
  typename ResultsOf<T, decltype(q.pointers), N, IntsUpTo<T.stages>>::type results{};
  runStages<N, COLUMNS, T, 0>(q, row, rows, results, keep);
  if constexpr (T.rowOutputs > 0) {
    writeRows<COLUMNS ? N : 1, T>(q, row, COLUMNS ? rows : 1, results, IntsUpTo<T.rowInputs>{},
                                  IntsUpTo<T.stages>{}, IntsUpTo<T.rowOutputs>{});
  }
  if constexpr (T.elementOutputs > 0) {
    constexpr IntsUpTo<T.elementOutputs> kAll;
    auto nothing = [] {};
    if constexpr (COLUMNS) {
      alongRows(
          q, row, rows,
          [&](const auto& at, int64_t position) SL_LAMBDA {
            writeElements<N, T>(q, at, results, keptAt<T>(keep, position * N), kAll);
          },
          nothing);
    } else {
      alongInner<N, 1>(
          q, row,
          [&](const auto& at, int64_t position, auto)
              SL_LAMBDA { writeElements<N, T>(q, at, results, keptAt<T>(keep, position), kAll); },
          nothing);
    }
  }
}

template <RowReductionTune T>
inline constexpr int kOperandsOf = T.inputs + T.rowOutputs + T.elementOutputs;

template <RowReductionTune T>
SL_INLINE constexpr auto outerNest(const RowReductionShape& shape) {
  constexpr int O = kOperandsOf<T>;
  Nest<T.outerRank, O> nest;
  int64_t strides[O] = {};
  for (int d = 0; d < T.outerRank; ++d) {
    for (int o = 0; o < O; ++o) {
      strides[o] = shape.stride[o][0][d];
    }
    nest.append(shape.outer[d], strides);
  }
  return nest;
}
template <RowReductionTune T>
SL_INLINE constexpr auto innerNest(const RowReductionShape& shape) {
  constexpr int O = kOperandsOf<T>;
  Nest<T.innerRank, O> nest;
  int64_t strides[O] = {};
  for (int d = 0; d < T.innerRank; ++d) {
    for (int o = 0; o < O; ++o) {
      bool perRow = o >= T.inputs && o < T.inputs + T.rowOutputs;
      strides[o] = perRow ? 0 : shape.stride[o][1][d];
    }
    nest.append(shape.inner[d], strides);
  }
  return nest;
}
/// Whether lanes are neighbouring rows. A row output that has an inner stride of 0 would keep
/// merged loops apart; that costs nothing, as 0 == 0 * n.
template <RowReductionTune T, class Outer, class Inner>
SL_INLINE constexpr bool rowsInLanes(const Outer& outer, const Inner& inner) {
  bool possible = T.kept == 0 || T.columns != 0;
  return possible && !inner.innerIsVector() && outer.innerIsVector() &&
         outer.innerExtent() >= (T.columns != 0 ? T.columns : 2);
}

/// The loops of a call.
template <RowReductionTune T>
struct GivenNests {
  static constexpr bool kFixed = false;       ///< whether the inner dims are known
  static constexpr bool kFixedOuter = false;  ///< and the outer ones
  Nest<T.outerRank, kOperandsOf<T>> outer;
  Nest<T.innerRank, kOperandsOf<T>> inner;

  SL_INLINE_MEMBER static GivenNests of(const RowReductionShape& shape) {
    return {outerNest<T>(shape), innerNest<T>(shape)};
  }
  SL_INLINE_MEMBER bool lanesAlongRows() const { return rowsInLanes<T>(outer, inner); }
  template <int LANES>
  SL_INLINE_MEMBER static constexpr bool isShort() {
    return false;
  }
  template <int EACH, bool COLUMNS>
  SL_INLINE_MEMBER static constexpr bool flushes() {
    return true;
  }
};

template <int O>
struct Strides {
  int64_t values[O];
};
/// Those of a known shape.
template <RowReductionTune T, RowReductionShape S>
struct FixedInner {
  static constexpr bool kFixed = true;
  static constexpr auto inner = innerNest<T>(S);
  static constexpr auto kInnerStrides = [] {
    Strides<kOperandsOf<T>> result{};
    for (int o = 0; o < kOperandsOf<T>; ++o) {
      result.values[o] = inner.innerStride(o);
    }
    return result;
  }();

  /// Whether runs along the inner dims have fewer than LANES elements.
  template <int LANES>
  SL_INLINE_MEMBER static constexpr bool isShort() {
    return inner.innerExtent() < LANES;
  }
  /// Whether sums are long enough for the cascade.
  template <int EACH, bool COLUMNS>
  SL_INLINE_MEMBER static constexpr bool flushes() {
    return (COLUMNS ? inner.count() : roundsAlong(inner.innerExtent(), inner.count(), EACH)) >=
           kBlock;
  }
};
template <RowReductionTune T, RowReductionShape S>
struct FixedNests : FixedInner<T, S> {
  static constexpr bool kFixedOuter = true;
  static constexpr auto outer = outerNest<T>(S);

  SL_INLINE_MEMBER static FixedNests of(Fixed<S>) { return {}; }
  SL_INLINE_MEMBER static constexpr bool lanesAlongRows() {
    return rowsInLanes<T>(outer, FixedInner<T, S>::inner);
  }
};
/// The rows are known, but for their number.
template <RowReductionTune T, RowReductionShape S, int D>
struct BatchedNests : FixedInner<T, S> {
  static constexpr bool kFixedOuter = false;
  Nest<T.outerRank, kOperandsOf<T>> outer;

  SL_INLINE_MEMBER static BatchedNests of(Batched<S, D> batch) { return {{}, outerNest<T>(batch)}; }
  SL_INLINE_MEMBER bool lanesAlongRows() const {
    return rowsInLanes<T>(outer, FixedInner<T, S>::inner);
  }
};

template <RowReductionTune T, class Nests, class L, class P, class S = IntsUpTo<T.stages>,
          class I = IntsUpTo<kOperandsOf<T>>>
struct Problem;
/// The pieces of a call that stay the same from row to row.
template <RowReductionTune T, class Nests, class L, class P, int... S, int... I>
struct Problem<T, Nests, L, P, Ints<S...>, Ints<I...>> : Nests {
  static constexpr int kOperands = kOperandsOf<T>;
  /// Lanes along a row; along rows a few registers per operand, so that a cache line is used at
  /// once, unless the tunables say how many.
  static constexpr int kLanesInner =
      lanesFor<InputType<T, I, P>..., typename StageType<T, S, P>::type...>();
  static constexpr int kLanesRows = T.columns != 0 ? T.columns
                                    : T.kept != 0  ? kLanesInner
                                                   : kLanesInner * 4;
  using InnerCursor = Cursor<T.innerRank, kOperands>;
  L lambdas;   ///< tuple
  P pointers;  ///< tuple
};

/// Lanes are neighbouring rows.
template <RowReductionTune T, class Q, class K>
SL_INLINE void runColumns(const Q& q, sl_team team, K* keep) {
  constexpr int O = Q::kOperands;
  constexpr int N = Q::kLanesRows;
  Cursor<T.outerRank, O> cursor;
  int dims = q.outer.rank - 1;
  int64_t run = q.outer.innerExtent();
  int64_t groups = ceilDiv(run, N);
  Range part = split(q.outer.count() / maxOf(run, 1) * groups, team, 1);
  for (int64_t group = part.begin; group < part.end; ++group) {
    int64_t first = group % groups * N;
    cursor.seek(q.outer, dims, group / groups);
    int64_t at[O];
    for (int o = 0; o < O; ++o) {
      at[o] = cursor.offset[o] + first * q.outer.innerStride(o);
    }
    doRows<N, true, T>(q, at, int(minOf(N, run - first)), keep);
  }
}

/// Lanes are neighbours along a row.
template <RowReductionTune T, class Q, class K>
SL_INLINE void runAlong(const Q& q, sl_team team, K* keep) {
  int64_t each = maxOf(q.inner.count(), 1);
  Cursor<T.outerRank, Q::kOperands> cursor;
  Range part = split(q.outer.count(), team, ceilDiv(1024, each));
  cursor.seek(q.outer, q.outer.rank, part.begin < part.end ? part.begin : 0);
  for (int64_t row = part.begin; row < part.end; ++row) {
    doRows<Q::kLanesInner, false, T>(q, cursor.offset, 1, keep);
    cursor.advance(q.outer, q.outer.rank);
  }
}

template <RowReductionTune T, class Q, class K>
SL_INLINE void runRows(const Q& q, sl_team team, K* keep) {
  if constexpr (Q::kFixedOuter) {
    if constexpr (Q::lanesAlongRows()) {
      runColumns<T>(q, team, keep);
    } else {
      runAlong<T>(q, team, keep);
    }
  } else if (q.lanesAlongRows()) {
    runColumns<T>(q, team, keep);
  } else {
    runAlong<T>(q, team, keep);
  }
}

template <RowReductionTune T, class Nests, class Shape, class All, int... L, int... P>
SL_INLINE void start(sl_team team, const Shape& shape, All& all, Ints<L...>, Ints<P...>) {
  constexpr int kLambdas = sizeof...(L);
  auto lambdas = tupleOf(get<L>(all)...);
  auto pointers = tupleOf(get<kLambdas + P>(all)...);
  Problem<T, Nests, decltype(lambdas), decltype(pointers)> q{Nests::of(shape), lambdas, pointers};
  using K = KeptType<T, decltype(pointers)>;
  K* keep = nullptr;
  if constexpr (T.kept != 0) {
    int64_t lanes = q.lanesAlongRows() ? q.kLanesRows : 1;
    int64_t bytes = roundUp(q.inner.count() * lanes * int64_t(sizeof(K)), 64);
    keep = reinterpret_cast<K*>(get<kLambdas + int(sizeof...(P))>(all) + bytes * team.index);
  }
  if (q.outer.count() > 0) {
    runRows<T>(q, team, keep);
  }
}

template <RowReductionTune T, class Nests, class Shape, class... A>
SL_INLINE void begin(sl_team team, const Shape& shape, A... lambdasThenPointers) {
  constexpr int kLambdas = T.stages + (T.rowOutputs > 0 ? 1 : 0) + (T.elementOutputs > 0 ? 1 : 0);
  constexpr int kPointers = T.inputs + T.rowOutputs + T.elementOutputs;
  static_assert(int(sizeof...(A)) == kLambdas + kPointers + (T.kept != 0 ? 1 : 0));
  static_assert(T.inputs >= 0 && T.stages >= 1 && T.stages <= 4 &&
                T.rowOutputs + T.elementOutputs > 0);
  auto all = tupleOf(lambdasThenPointers...);
  start<T, Nests>(team, shape, all, IntsUpTo<kLambdas>{}, IntsUpTo<kPointers>{});
}

}  // namespace reduction

template <RowReductionTune T, class... A>
SL_INLINE void row_reduction(sl_ctx*, sl_team team, RowReductionShape shape,
                             A... lambdasThenPointers) {
  reduction::begin<T, reduction::GivenNests<T>>(team, shape, lambdasThenPointers...);
}
template <RowReductionTune T, RowReductionShape S, class... A>
SL_INLINE void row_reduction(sl_ctx*, sl_team team, Fixed<S> shape, A... lambdasThenPointers) {
  reduction::begin<T, reduction::FixedNests<T, S>>(team, shape, lambdasThenPointers...);
}
template <RowReductionTune T, RowReductionShape S, int D, class... A>
SL_INLINE void row_reduction(sl_ctx*, sl_team team, Batched<S, D> shape, A... lambdasThenPointers) {
  reduction::begin<T, reduction::BatchedNests<T, S, D>>(team, shape, lambdasThenPointers...);
}

}  // namespace sl

#endif  // __CUDACC__
#endif  // STRAIGHTLINE_KERNELS_ROW_REDUCTION_H
