// SPDX-License-Identifier: Apache-2.0
// The body of family `row_reduction` in CUDA C++; included by row_reduction.h, which says what it
// does.
//
//   sl::row_reduction<RowReductionTune{...}>(shape, lambdas..., inputs..., rowOutputs...,
//   elementOutputs...)
//
// `threads` threads share a row: up to 32 are neighbours in one warp and a block has several rows;
// more are the whole block. The innermost loop is cut into runs of `vector` neighbours, which are
// distributed cyclically over the threads of the row. With each > 0 a thread reads its runs once
// (at most `each` of them) and keeps them in registers; with each == 0 every stage reads them
// again. The grid has a block for every blockDim.x / threads rows. With splits > 1 a cluster
// computes a row: `threads` threads of each of its blocks share it, and the blocks exchange their
// partial results through shared memory. With beside > 1 a block has `beside` rows, and
// neighbouring threads take neighbouring rows: for rows that lie side by side while the elements of
// each do not, such as the channels of an image whose pixels are reduced.
//
// Every thread of a row has equal results of all stages, bit by bit: partial results are combined
// in a butterfly, in the same order in every call.
#ifndef STRAIGHTLINE_KERNELS_CUDA_ROW_REDUCTION_H
#define STRAIGHTLINE_KERNELS_CUDA_ROW_REDUCTION_H

#include "straightline/kernels/cuda_cluster.h"
#include "straightline/kernels/operands.h"

namespace sl {
namespace reduction {

inline constexpr int kWarp = 32;

template <class T>
SL_INLINE T fromLane(T value, int distance) {
  constexpr unsigned kAll = 0xffffffffu;
  if constexpr (sizeof(T) == 8) {
    return bitcast<T>(__shfl_xor_sync(kAll, bitcast<int64_t>(value), distance));
  } else if constexpr (sizeof(T) == 4) {
    return bitcast<T>(__shfl_xor_sync(kAll, bitcast<int32_t>(value), distance));
  } else {
    return T(__shfl_xor_sync(kAll, int32_t(value), distance));
  }
}

/// Merges the partial results of two lanes that far apart; both get the same bits.
template <Combine C, class A>
SL_INLINE void mergeLane(A& mine, int distance) {
  A other;
  other.best = fromLane(mine.best, distance);
  if constexpr (isArg(C)) {
    other.where = fromLane(mine.where, distance);
  }
  mine.merge(other);
}

/// Merges the partial results of `count` neighbouring lanes; all of them get the same bits.
template <Combine C, class A>
SL_INLINE void mergeLanes(A& mine, int count) {
  SL_UNROLL
  for (int distance = count / 2; distance > 0; distance /= 2) {
    mergeLane<C>(mine, distance);
  }
}

/// Merges the partial results of the THREADS threads of a row. Each STAGE has shared memory of its
/// own, so that one barrier is enough.
template <int THREADS, int STAGE, Combine C, class A>
SL_INLINE void mergeThreads(A& mine) {
  if constexpr (THREADS <= kWarp) {
    mergeLanes<C>(mine, THREADS);
  } else {
    constexpr int kWarps = THREADS / kWarp;
    __shared__ alignas(16) char memory[kWarps * sizeof(A)];
    A* partial = reinterpret_cast<A*>(memory);
    mergeLanes<C>(mine, kWarp);
    if (threadIdx.x % kWarp == 0) {
      partial[threadIdx.x / kWarp] = mine;
    }
    __syncthreads();
    mine = partial[threadIdx.x % kWarps];
    mergeLanes<C>(mine, kWarps);
  }
}

/// The same for a block of BESIDE rows, where thread t is of row t % BESIDE.
template <int THREADS, int BESIDE, int STAGE, Combine C, class A>
SL_INLINE void mergeThreadsBeside(A& mine) {
  constexpr int kLine = BESIDE < kWarp ? kWarp : BESIDE;  // threads that end in one part
  constexpr int kParts = THREADS * BESIDE / kLine;
  SL_UNROLL
  for (int distance = kWarp / 2; distance >= BESIDE; distance /= 2) {
    mergeLane<C>(mine, distance);
  }
  if constexpr (kParts > 1) {
    __shared__ alignas(16) char memory[kParts * BESIDE * sizeof(A)];
    A* partial = reinterpret_cast<A*>(memory);
    const int row = int(threadIdx.x) % BESIDE;
    if (int(threadIdx.x) % kLine < BESIDE) {
      partial[int(threadIdx.x) / kLine * BESIDE + row] = mine;
    }
    __syncthreads();
    mine = partial[row];
    SL_UNROLL
    for (int part = 1; part < kParts; ++part) {
      mine.merge(partial[part * BESIDE + row]);
    }
  }
}

template <class T>
SL_INLINE uint64_t asWord(T value) {
  if constexpr (sizeof(T) == 8) {
    return bitcast<uint64_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return bitcast<uint32_t>(value);
  } else {
    return uint64_t(value);
  }
}
template <class T>
SL_INLINE void fromWord(T& value, uint64_t word) {
  if constexpr (sizeof(T) == 8) {
    value = bitcast<T>(word);
  } else if constexpr (sizeof(T) == 4) {
    value = bitcast<T>(uint32_t(word));
  } else {
    value = T(word);
  }
}

/// Merges the partial results that the blocks of a cluster have of each of BESIDE rows. Every
/// thread of the cluster calls it. Other blocks may read `offered` until the next barrier of the
/// cluster.
template <int SPLITS, int BESIDE, int STAGE, Combine C, class A>
SL_INLINE void mergeBlocksBeside(A& mine) {
  __shared__ uint64_t offered[BESIDE][2];
  const int row = int(threadIdx.x) % BESIDE;
  if (int(threadIdx.x) < BESIDE) {
    offered[row][0] = asWord(mine.best);
    if constexpr (isArg(C)) {
      offered[row][1] = asWord(mine.where);
    }
  }
  cluster::sync();
  SL_UNROLL
  for (int block = 0; block < SPLITS; ++block) {
    A other;
    fromWord(other.best, cluster::oneFrom<true>(block, offered[row]));
    if constexpr (isArg(C)) {
      fromWord(other.where, cluster::oneFrom<true>(block, offered[row] + 1));
    }
    if (block == 0) {
      mine = other;
    } else {
      mine.merge(other);
    }
  }
}

/// Merges the partial results of the blocks of a cluster; all threads of a block have the same one.
/// Every thread of the cluster calls it. Other blocks may read `offered` until the next barrier of
/// the cluster.
template <int SPLITS, int STAGE, Combine C, class A>
SL_INLINE void mergeBlocks(A& mine) {
  __shared__ uint64_t offered[2];
  if (threadIdx.x == 0) {
    offered[0] = asWord(mine.best);
    if constexpr (isArg(C)) {
      offered[1] = asWord(mine.where);
    }
  }
  cluster::sync();
  const int from = int(threadIdx.x) % SPLITS;
  fromWord(mine.best, cluster::oneFrom<true>(from, offered));
  if constexpr (isArg(C)) {
    fromWord(mine.where, cluster::oneFrom<true>(from, offered + 1));
  }
  mergeLanes<C>(mine, SPLITS);
}

/// Where one run lies.
template <int O>
struct Place {
  int64_t offset[O];
  int64_t position;  ///< of its first element in the inner dims
  int count;         ///< elements that exist, 0 for a run beyond the row
};

template <RowReductionTune T, class L, class P, class I = IntsUpTo<T.inputs>>
struct Rows;
/// One row of one thread.
template <RowReductionTune T, class L, class P, int... I>
struct Rows<T, L, P, Ints<I...>> {
  static constexpr int kOperands = T.inputs + T.rowOutputs + T.elementOutputs;
  static constexpr int kLast = T.innerRank > 0 ? T.innerRank - 1 : 0;
  static constexpr int kKept = T.each > 0 ? T.each : 1;
  static constexpr int kSharers = T.threads * T.splits;  ///< threads of a row
  using Values = Tuple<Run<InputType<T, I, P>, T.vector>...>;
  L lambdas;   ///< tuple
  P pointers;  ///< tuple
  const RowReductionShape& shape;
  int64_t row[kOperands];  ///< offsets of the row
  /// false: a thread beyond the last row, which only takes part in merging
  bool active;
  int thread;  ///< among those of the row
  Values kept[kKept];

  SL_INLINE_MEMBER int64_t innerExtent() const { return T.innerRank > 0 ? shape.inner[kLast] : 1; }
  SL_INLINE_MEMBER int64_t innerStride(int o) const {
    bool perRow = o >= T.inputs && o < T.inputs + T.rowOutputs;
    return T.innerRank > 0 && !perRow ? shape.stride[o][1][kLast] : 0;
  }
  /// Finds the row; false when there is none.
  SL_INLINE_MEMBER bool seek(int64_t number) {
    SL_UNROLL
    for (int o = 0; o < kOperands; ++o) {
      row[o] = 0;
    }
    SL_UNROLL
    for (int d = T.outerRank - 1; d >= 0; --d) {
      int64_t at = number % shape.outer[d];
      number /= shape.outer[d];
      SL_UNROLL
      for (int o = 0; o < kOperands; ++o) {
        row[o] += at * shape.stride[o][0][d];
      }
    }
    return number == 0;
  }
  SL_INLINE_MEMBER int64_t runs() const {
    int64_t count = ceilDiv(innerExtent(), T.vector);
    SL_UNROLL
    for (int d = 0; d < T.innerRank - 1; ++d) {
      count *= shape.inner[d];
    }
    return count;
  }
  /// Whether every thread of a row has `each` whole runs, so that no element needs a check of its
  /// own.
  SL_INLINE_MEMBER bool isWhole() const {
    return T.each > 0 && T.innerRank == 1 && innerExtent() == int64_t(T.each) * kSharers * T.vector;
  }
  SL_INLINE_MEMBER Place<kOperands> place(int64_t number, int64_t count) const {
    Place<kOperands> at;
    if (isWhole()) {
      at.position = number * T.vector;
      at.count = active ? T.vector : 0;
      SL_UNROLL
      for (int o = 0; o < kOperands; ++o) {
        at.offset[o] = row[o] + at.position * innerStride(o);
      }
      return at;
    }
    bool exists = active && number < count;
    int64_t first = number * T.vector;
    int64_t rest = 0;
    if constexpr (T.innerRank > 1) {
      int64_t each = ceilDiv(innerExtent(), T.vector);
      first = each > 0 ? number % each * T.vector : 0;
      rest = each > 0 ? number / each : 0;
    }
    at.position = rest * innerExtent() + first;
    const bool whole = innerExtent() % T.vector == 0;
    at.count = !exists ? 0 : whole ? T.vector : int(minOf(T.vector, innerExtent() - first));
    SL_UNROLL
    for (int o = 0; o < kOperands; ++o) {
      at.offset[o] = row[o] + first * innerStride(o);
    }
    SL_UNROLL
    for (int d = T.innerRank - 2; d >= 0; --d) {
      int64_t index = rest % shape.inner[d];
      rest /= shape.inner[d];
      SL_UNROLL
      for (int o = 0; o < kOperands; ++o) {
        bool perRow = o >= T.inputs && o < T.inputs + T.rowOutputs;
        at.offset[o] += perRow ? 0 : index * shape.stride[o][1][d];
      }
    }
    return at;
  }
  SL_INLINE_MEMBER void load(Values& values, const Place<kOperands>& at) const {
    (loadRun<T.vector>(get<I>(values).at, get<I>(pointers) + at.offset[I], innerStride(I),
                       at.count),
     ...);
  }
  SL_INLINE_MEMBER void keepInputs() {
    int64_t count = runs();
    SL_UNROLL
    for (int i = 0; i < T.each; ++i) {
      load(kept[i], place(thread + i * kSharers, count));
    }
  }
  /// Calls visit(values, place) for each run of this thread.
  template <class Visit>
  SL_INLINE_MEMBER void forRuns(Visit visit) {
    int64_t count = runs();
    if constexpr (T.each > 0) {
      SL_UNROLL
      for (int i = 0; i < T.each; ++i) {
        visit(kept[i], place(thread + i * kSharers, count));
      }
    } else {
      // Several runs are loaded before the first is used.
      constexpr int kBytes = int((sizeof(InputType<T, I, P>) + ... + 0)) * T.vector;
      constexpr int kAhead = kBytes > 32 ? 1
                             : kBytes > 16 || ((sizeof(InputType<T, I, P>) == 8) || ... || false)
                                 ? 2
                                 : 4;
      for (int64_t number = thread; active && number < count; number += kSharers * kAhead) {
        Values values[kAhead];
        Place<kOperands> at[kAhead];
        SL_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          at[i] = place(number + i * kSharers, count);
          load(values[i], at[i]);
        }
        SL_UNROLL
        for (int i = 0; i < kAhead; ++i) {
          visit(values[i], at[i]);
        }
      }
    }
  }
  SL_INLINE_MEMBER static auto elements(Values& values, int j) {
    return tupleOf(get<I>(values).at[j]...);
  }
};

template <int STAGE, RowReductionTune T, class Q, class R>
SL_INLINE void runStages(Q& q, R& results) {
  if constexpr (STAGE < T.stages) {
    using P = decltype(q.pointers);
    using Type = typename StageType<T, STAGE, P>::type;
    using A = Accumulator<T.combine[STAGE], Type, 1>;
    A chain[T.vector];
    q.forRuns([&](auto& values, const auto& at) {
      SL_UNROLL
      for (int j = 0; j < T.vector; ++j) {
        if (q.isWhole() || j < at.count) {
          auto elements = Q::elements(values, j);
          auto nothing = tupleOf();
          auto outputs = tupleOf(Slot<Type>{});
          invoke(get<STAGE>(q.lambdas), elements, results, nothing, outputs, IntsUpTo<T.inputs>{},
                 IntsUpTo<STAGE>{}, Ints<>{}, Ints<0>{});
          chain[j].take(get<0>(outputs).content, at.position + j, 1);
        }
      }
    });
    A total = mergeChains(chain);
    if constexpr (T.beside > 1) {
      mergeThreadsBeside<T.threads, T.beside, STAGE, T.combine[STAGE]>(total);
    } else {
      mergeThreads<T.threads, STAGE, T.combine[STAGE]>(total);
    }
    if constexpr (T.splits > 1 && T.beside > 1) {
      mergeBlocksBeside<T.splits, T.beside, STAGE, T.combine[STAGE]>(total);
    } else if constexpr (T.splits > 1) {
      mergeBlocks<T.splits, STAGE, T.combine[STAGE]>(total);
    }
    get<STAGE>(results) = total.result();
    runStages<STAGE + 1, T>(q, results);
  }
}

/// What the row lambda reads of its inputs.
template <RowReductionTune T, class Q, int... G>
SL_INLINE auto loadRowInputs(const Q& q, Ints<G...>) {
  constexpr int kGiven = T.inputs - T.rowInputs;
  return tupleOf((q.active && q.thread == 0 ? get<kGiven + G>(q.pointers)[q.row[kGiven + G]]
                                            : InputType<T, kGiven + G, decltype(q.pointers)>{})...);
}
template <RowReductionTune T, class Q, class R, class Given, int... G, int... J, int... I>
SL_INLINE void writeRow(Q& q, R& results, Given& given, Ints<G...>, Ints<J...>, Ints<I...>) {
  auto outputs = tupleOf(InputType<T, T.inputs + I, decltype(q.pointers)>{}...);
  get<T.stages>(q.lambdas)(get<G>(given)..., get<J>(results)..., get<I>(outputs)...);
  ((get<T.inputs + I>(q.pointers)[q.row[T.inputs + I]] = get<I>(outputs)), ...);
}

template <RowReductionTune T, class Q, class R, int... I>
SL_INLINE void writeElements(Q& q, R& results, Ints<I...> all) {
  constexpr int kFirst = T.inputs + T.rowOutputs;
  q.forRuns([&](auto& values, const auto& at) {
    auto written = tupleOf(Run<InputType<T, kFirst + I, decltype(q.pointers)>, T.vector>{}...);
    SL_UNROLL
    for (int j = 0; j < T.vector; ++j) {
      if (q.isWhole() || j < at.count) {
        auto elements = Q::elements(values, j);
        auto nothing = tupleOf();
        auto outputs = tupleOf(InputType<T, kFirst + I, decltype(q.pointers)>{}...);
        invoke(get<T.stages + (T.rowOutputs > 0 ? 1 : 0)>(q.lambdas), elements, results, nothing,
               outputs, IntsUpTo<T.inputs>{}, IntsUpTo<T.stages>{}, Ints<>{}, all);
        ((get<I>(written).at[j] = get<I>(outputs)), ...);
      }
    }
    (storeRun<T.vector>(get<kFirst + I>(q.pointers) + at.offset[kFirst + I],
                        q.innerStride(kFirst + I), at.count, get<I>(written).at),
     ...);
  });
}

template <RowReductionTune T, class All, int... L, int... P>
SL_INLINE void start(const RowReductionShape& shape, All& all, Ints<L...>, Ints<P...>) {
  constexpr int kLambdas = sizeof...(L);
  auto lambdas = tupleOf(get<L>(all)...);
  auto pointers = tupleOf(get<kLambdas + P>(all)...);
  Rows<T, decltype(lambdas), decltype(pointers)> q{lambdas, pointers, shape};
  if constexpr (T.beside > 1) {
    q.thread = int(threadIdx.x) / T.beside;
    if constexpr (T.splits > 1) {
      q.thread += cluster::rank() * T.threads;
    }
    q.active = q.seek(blockNumber<T.firstBlock>() / T.splits * T.beside + threadIdx.x % T.beside);
  } else if constexpr (T.splits > 1) {
    q.thread = cluster::rank() * T.threads + int(threadIdx.x);
    q.active = q.seek(blockNumber<T.firstBlock>() / T.splits);
  } else {
    q.thread = int(threadIdx.x) % T.threads;
    q.active =
        q.seek(blockNumber<T.firstBlock>() * (blockDim.x / T.threads) + threadIdx.x / T.threads);
  }
  q.keepInputs();
  auto given = loadRowInputs<T>(q, IntsUpTo<T.rowInputs>{});
  typename ResultsOf<T, decltype(pointers), 1, IntsUpTo<T.stages>>::type results{};
  runStages<0, T>(q, results);
  if constexpr (T.splits > 1) {
    cluster::arrive();  // this block reads no other block's memory any more
  }
  if constexpr (T.rowOutputs > 0) {
    if (q.active && q.thread == 0) {
      writeRow<T>(q, results, given, IntsUpTo<T.rowInputs>{}, IntsUpTo<T.stages>{},
                  IntsUpTo<T.rowOutputs>{});
    }
  }
  if constexpr (T.elementOutputs > 0) {
    writeElements<T>(q, results, IntsUpTo<T.elementOutputs>{});
  }
  if constexpr (T.splits > 1) {
    cluster::wait();
  }
}

}  // namespace reduction

template <RowReductionTune T, class... A>
SL_INLINE void row_reduction(RowReductionShape shape, A... lambdasThenPointers) {
  constexpr int kLambdas = T.stages + (T.rowOutputs > 0 ? 1 : 0) + (T.elementOutputs > 0 ? 1 : 0);
  constexpr int kPointers = T.inputs + T.rowOutputs + T.elementOutputs;
  static_assert(int(sizeof...(A)) == kLambdas + kPointers);
  static_assert(T.inputs >= 0 && T.stages >= 1 && T.stages <= 4 && T.kept == 0 &&
                T.rowOutputs + T.elementOutputs > 0);
  static_assert((T.threads & (T.threads - 1)) == 0 && (T.splits & (T.splits - 1)) == 0 &&
                (T.beside & (T.beside - 1)) == 0);
  static_assert(T.beside == 1 || T.threads * T.beside % reduction::kWarp == 0);
  static_assert(T.splits == 1 ||
                (T.threads * T.beside >= reduction::kWarp && T.splits <= reduction::kWarp));
  auto all = tupleOf(lambdasThenPointers...);
  reduction::start<T>(shape, all, IntsUpTo<kLambdas>{}, IntsUpTo<kPointers>{});
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_ROW_REDUCTION_H
