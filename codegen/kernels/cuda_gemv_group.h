// SPDX-License-Identifier: Apache-2.0
// The body of family `gemv_group`; included by gemv_group.h, which says what it does.
// The grid has a block for every threads / lanes * rows results of part 0, then of part 1, ... A
// block
//   1. requests the first `unroll` pieces of 16 bytes of its rows of the weights, into registers,
//   2. waits for the previous kernel (with early = 1 only now, so that the weights are loaded while
//      that kernel still runs),
//   3. computes A [mr][depth] in shared memory: stages over each row, then its elements,
//   4. multiplies and adds, sums over lanes, and finishes each result in one thread.
// So A is read once a block, and the slow loads from memory do not wait for the previous kernel.
// Weights whose rows do not begin at multiples of 16 bytes are read element by element, after the
// wait.
//
// Registers: a block has at most half of a processor's (SL_RESIDENT_KERNEL); otherwise the next
// kernel could not start early.
#ifndef STRAIGHTLINE_KERNELS_CUDA_GEMV_GROUP_H
#define STRAIGHTLINE_KERNELS_CUDA_GEMV_GROUP_H

#include "straightline/kernels/cuda_epilogue.h"
#include "straightline/kernels/cuda_request.h"

namespace sl {
namespace gemv_group_detail {

inline constexpr int kWarp = 32;

/// The sums of one result, one for each weight, which are summed over lanes together.
template <class T, int N>
struct Sums {
  T at[N];
  SL_INLINE_MEMBER Sums& operator+=(const Sums& other) {
    SL_UNROLL
    for (int i = 0; i < N; ++i) {
      at[i] += other.at[i];
    }
    return *this;
  }
  SL_INLINE_MEMBER Sums operator+(const Sums& other) const {
    Sums sum = *this;
    sum += other;
    return sum;
  }
};
template <class T, int N>
SL_INLINE Sums<T, N> laneAt(Sums<T, N> value, int distance) {
  Sums<T, N> other;
  SL_UNROLL
  for (int i = 0; i < N; ++i) {
    other.at[i] = sl::laneAt(value.at[i], distance);
  }
  return other;
}

/// Calls f(Number<0>), f(Number<1>), ...
template <int I>
struct Number {
  static constexpr int value = I;
};
template <class F, int... I>
SL_INLINE void forNumbers(const F& f, Ints<I...>) {
  (f(Number<I>{}), ...);
}

/// Positions among the kernel's arguments: lambdas, then pointers.
template <GemvGroupTune T>
struct Places {
  static constexpr int kElement = T.stages;
  static constexpr int kEpilogue = T.stages + 1;
  static constexpr int kInput = kEpilogue + T.parts;
  static constexpr int kWeight = kInput + T.inputs;
  SL_INLINE_MEMBER static constexpr int operand(int part) {
    int place = kWeight + T.parts * T.weights;
    for (int p = 0; p < part; ++p) {
      place += T.operands[p];
    }
    return place;
  }
  SL_INLINE_MEMBER static constexpr int output(int part) { return operand(T.parts) + part; }
};

/// The tunables with which family row_reduction computes the rows of A: one result for each
/// element, written to shared memory.
template <GemvGroupTune T>
SL_INLINE constexpr RowReductionTune rowTune() {
  RowReductionTune tune;
  tune.outerRank = 1;
  tune.innerRank = 1;
  tune.inputs = T.inputs;
  tune.elementOutputs = 1;
  tune.stages = T.stages;
  for (int i = 0; i < 4; ++i) {
    tune.combine[i] = T.combine[i];
    tune.value[i] = T.value[i];
  }
  tune.threads = T.rowThreads;
  tune.vector = T.vector;
  constexpr int kMostKept = 64;  // elements that a thread keeps in registers
  const int each = (T.depth + T.vector * T.rowThreads - 1) / (T.vector * T.rowThreads);
  tune.each = each * T.vector * T.inputs <= kMostKept ? each : 0;
  return tune;
}

/// Loads the early inputs, or the others, of the row that q is at.
template <GemvGroupTune T, bool EARLY, class Q>
SL_INLINE void keep(Q& q) {
  constexpr RowReductionTune R = rowTune<T>();
  const int64_t count = q.runs();
  SL_UNROLL
  for (int i = 0; i < R.each; ++i) {
    const auto at = q.place(q.thread + i * R.threads, count);
    forNumbers(
        [&](auto number) {
          constexpr int I = decltype(number)::value;
          if constexpr ((T.earlyInputs[I] != 0) == EARLY) {
            loadRun<R.vector>(get<I>(q.kept[i]).at, get<I>(q.pointers) + at.offset[I],
                              q.innerStride(I), at.count);
          }
        },
        IntsUpTo<T.inputs>{});
  }
}

/// Computes the stages and elements of the row that q is at, whose inputs are loaded.
template <GemvGroupTune T, class Q, class Pointers>
SL_INLINE void makeRow(Q& q, const Pointers&) {
  constexpr RowReductionTune R = rowTune<T>();
  typename reduction::ResultsOf<R, Pointers, 1, IntsUpTo<R.stages>>::type results{};
  reduction::runStages<0, R>(q, results);
  reduction::writeElements<R>(q, results, IntsUpTo<1>{});
}

template <GemvGroupTune T, class Staged, class All, int... L, int... I>
SL_INLINE auto rowsOf(const RowReductionShape& shape, Staged* staged, const All& all, Ints<L...>,
                      Ints<I...>) {
  auto lambdas = tupleOf(get<L>(all)...);
  auto pointers = tupleOf(get<Places<T>::kInput + I>(all)..., staged);
  return reduction::Rows<rowTune<T>(), decltype(lambdas), decltype(pointers)>{lambdas, pointers,
                                                                              shape};
}

template <GemvGroupTune T>
SL_INLINE RowReductionShape rowShape(const GemvGroupShape& s) {
  RowReductionShape shape;
  shape.outer[0] = s.m;
  shape.inner[0] = s.k;
  SL_UNROLL
  for (int i = 0; i < T.inputs; ++i) {
    shape.stride[i][0][0] = s.stride[i][0];
    shape.stride[i][1][0] = s.stride[i][1];
  }
  shape.stride[T.inputs][0][0] = T.depth;
  shape.stride[T.inputs][1][0] = 1;
  return shape;
}

/// Independent partial sums of one result in a thread, so that an addition need not wait for the
/// previous one.
template <GemvGroupTune T>
inline constexpr int kChains = T.mr * T.rows * T.weights >= 4   ? 1
                               : T.mr * T.rows * T.weights >= 2 ? 2
                                                                : 4;

/// Adds to the sums of every result the products of `pieces`, which are elements of the weights
/// from k0 on, and the same elements of A.
template <GemvGroupTune T, class Sum, class W>
SL_INLINE void useStep(const Piece16 (&pieces)[T.rows * T.weights], const W* staged, int k0,
                       Sums<Sum, T.weights> (&sums)[kChains<T>][T.mr * T.rows]) {
  constexpr int V = kWholePiece<W>;
  SL_UNROLL
  for (int m = 0; m < T.mr; ++m) {
    uint32_t x[4];
    loadPieces<4>(x, reinterpret_cast<const uint32_t*>(staged + m * T.depth + k0));
    SL_UNROLL
    for (int r = 0; r < T.rows; ++r) {
      SL_UNROLL
      for (int w = 0; w < T.weights; ++w) {
        SL_UNROLL
        for (int j = 0; j < V; ++j) {
          Sum& sum = sums[j % kChains<T>][m * T.rows + r].at[w];
          sum = fma(partAs<Sum, W>(x, j), partAs<Sum, W>(pieces[r * T.weights + w].word, j), sum);
        }
      }
    }
  }
}

/// What a group of lanes computes: the part, the first result in it, and the rows of the weights
/// that it reads.
template <GemvGroupTune T, class W>
struct Work {
  static constexpr int kGroups = T.threads / T.lanes;
  int part = 0;
  int64_t n0 = 0;
  const W* row[T.rows * T.weights];

  template <class All>
  SL_INLINE_MEMBER Work(const GemvGroupShape& s, const All& all) {
    constexpr int kColumns = kGroups * T.rows;
    int64_t block = blockIdx.x;
    bool found = false;
    forNumbers(
        [&](auto number) {
          constexpr int P = decltype(number)::value;
          const int64_t blocks = ceilDiv(s.n[P], kColumns);
          if (!found && (block < blocks || P + 1 == T.parts)) {
            found = true;
            part = P;
            n0 = (block * kGroups + int(threadIdx.x) / T.lanes) * T.rows;
            forNumbers(
                [&](auto which) {
                  constexpr int I = decltype(which)::value;
                  SL_UNROLL
                  for (int r = 0; r < T.rows; ++r) {
                    row[r * T.weights + I] = get<Places<T>::kWeight + P * T.weights + I>(all) +
                                             minOf(n0 + r, s.n[P] - 1) * s.ldw[P][I];
                  }
                },
                IntsUpTo<T.weights>{});
          }
          block -= found ? 0 : blocks;
        },
        IntsUpTo<T.parts>{});
  }
  SL_INLINE_MEMBER bool isAlignedForPieces() const {
    bool aligned = T.depth % kWholePiece<W> == 0;
    SL_UNROLL
    for (int i = 0; i < T.rows * T.weights; ++i) {
      aligned = aligned && isAligned<kWholePiece<W>>(row[i]);
    }
    return aligned;
  }
};

/// The operands and the end of the results of one part.
template <GemvGroupTune T, int P, class All, class I = IntsUpTo<T.operands[P]>>
struct Ending;
template <GemvGroupTune T, int P, class All, int... I>
struct Ending<T, P, All, Ints<I...>> {
  using At = Places<T>;
  using Lanes = LaneSum<T.mr * T.rows, T.lanes>;
  template <int PLACE>
  using Given = typename RemoveReference<decltype(get<PLACE>(*static_cast<All*>(nullptr)))>::type;
  using Ops = EpilogueOperands<Given<At::operand(P) + I>..., Given<At::output(P)>>;
  EpilogueRun<1, Ops> run[Lanes::kLeft];

  SL_INLINE_MEMBER static Ops ops(const All& all) {
    return epilogueOperands(get<At::operand(P) + I>(all)..., get<At::output(P)>(all));
  }
  /// Row of A and column of C of result `number` of a group; false where there is none.
  SL_INLINE_MEMBER static bool place(const GemvGroupShape& s, int64_t n0, int number, int64_t& m,
                                     int64_t& n) {
    m = number / T.rows;
    n = n0 + number % T.rows;
    return n < s.n[P] && Lanes::isFirst();
  }
  SL_INLINE_MEMBER void load(const GemvGroupShape& s, const All& all, int64_t n0) {
    SL_UNROLL
    for (int i = 0; i < Lanes::kLeft; ++i) {
      int64_t m, n;
      const bool exists = place(s, n0, Lanes::first() + i, m, n);
      RowOffsets at;
      int64_t steps[kMaxEpilogueOperands];
      SL_UNROLL
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        at.operand[j] = m * s.epilogueStride[P][j][0];
        steps[j] = s.epilogueStride[P][j][1];
      }
      run[i].load(ops(all), at, steps, n, exists ? 1 : 0);
    }
  }
  template <class Sum, int... W>
  SL_INLINE_MEMBER void finish(const GemvGroupShape& s, const All& all, int64_t n0,
                               const Sums<Sum, T.weights>* sums, Ints<W...>) {
    const auto epilogue = [&](const Sums<Sum, T.weights>& sum, auto&&... others) {
      get<At::kEpilogue + P>(all)(sum.at[W]..., others...);
    };
    SL_UNROLL
    for (int i = 0; i < Lanes::kLeft; ++i) {
      int64_t m, n;
      if (place(s, n0, Lanes::first() + i, m, n)) {
        run[i].finish(epilogue, ops(all), sums + i, m * s.ldc[P] + n, 1);
      }
    }
  }
};
template <GemvGroupTune T, class All, class P = IntsUpTo<T.parts>>
struct EndingsOf;
template <GemvGroupTune T, class All, int... P>
struct EndingsOf<T, All, Ints<P...>> {
  using type = Tuple<Ending<T, P, All>...>;
};

/// Requests a piece of every row of the weights, from element k0 on; zeros beyond their ends.
template <GemvGroupTune T, class W>
SL_INLINE void requestStep(Piece16 (&pieces)[T.rows * T.weights], const Work<T, W>& work, int k0) {
  SL_UNROLL
  for (int i = 0; i < T.rows * T.weights; ++i) {
    if (T.depth % (T.lanes * kWholePiece<W> * T.unroll) == 0 || k0 < T.depth) {
      pieces[i].request(work.row[i] + k0);
    } else {
      pieces[i] = Piece16{};
    }
  }
}

/// Computes the rows of A into shared memory. `rows` is at row `firstRow`, whose early inputs are
/// loaded.
template <GemvGroupTune T, class Q>
SL_INLINE void makeRows(Q& rows, int firstRow) {
  constexpr bool kKeeps = rowTune<T>().each > 0;
  constexpr int kRowsAtOnce = T.threads / T.rowThreads;
  SL_UNROLL
  for (int from = 0; from < T.mr; from += kRowsAtOnce) {
    if (from > 0) {
      rows.active = rows.seek(from + firstRow);
      if constexpr (kKeeps) {
        keep<T, true>(rows);
      }
    }
    if constexpr (kKeeps) {
      keep<T, false>(rows);
    }
    makeRow<T>(rows, rows.pointers);
    if (T.rowThreads > kWarp && from + kRowsAtOnce < T.mr) {
      __syncthreads();  // the next row's stages use the same shared memory
    }
  }
  __syncthreads();
}

/// chains += rows of A times rows of the weights, in pieces of 16 bytes; the first ones were
/// requested before. `request(k0)` requests those from element k0 on.
template <GemvGroupTune T, class Sum, class W, class Request>
SL_INLINE void dotInPieces(Piece16 (&pieces)[T.unroll][T.rows * T.weights], const W* staged,
                           const Request& request,
                           Sums<Sum, T.weights> (&chains)[kChains<T>][T.mr * T.rows]) {
  constexpr int V = kWholePiece<W>, kStep = T.lanes * V;
  const int lane = int(threadIdx.x) % T.lanes;
  SL_NO_UNROLL
  for (int from = 0; from < T.depth; from += kStep * T.unroll) {
    if (from > 0) {
      request(from);
    }
    SL_UNROLL
    for (int u = 0; u < T.unroll; ++u) {
      SL_UNROLL
      for (int i = 0; i < T.rows * T.weights; ++i) {
        pieces[u][i].pin();
      }
      const int k0 = from + u * kStep + lane * V;
      if (T.depth % (kStep * T.unroll) == 0 || k0 < T.depth) {
        useStep<T, Sum, W>(pieces[u], staged, k0, chains);
      }
    }
  }
}

/// The same, element by element.
template <GemvGroupTune T, class Sum, class W>
SL_INLINE void dotByElements(const Work<T, W>& work, const W* staged,
                             Sums<Sum, T.weights> (&chains)[kChains<T>][T.mr * T.rows]) {
  SL_NO_UNROLL
  for (int k0 = int(threadIdx.x) % T.lanes; k0 < T.depth; k0 += T.lanes) {
    SL_UNROLL
    for (int m = 0; m < T.mr; ++m) {
      SL_UNROLL
      for (int i = 0; i < T.rows * T.weights; ++i) {
        Sum& sum = chains[0][m * T.rows + i / T.weights].at[i % T.weights];
        sum = fma(cast<Sum>(staged[m * T.depth + k0]), cast<Sum>(work.row[i][k0]), sum);
      }
    }
  }
}

}  // namespace gemv_group_detail

template <GemvGroupTune T, class... Given>
SL_INLINE void gemv_group(GemvGroupShape s, Given... given) {
  namespace detail = gemv_group_detail;
  using At = detail::Places<T>;
  auto all = tupleOf(given...);
  using All = decltype(all);
  using W = Pointee<typename RemoveReference<decltype(get<At::kWeight>(all))>::type>;
  using Sum = SumOf<W>;
  constexpr int V = kWholePiece<W>;
  constexpr int kStep = T.lanes * V;
  constexpr int kUsed = T.rows * T.weights;
  static_assert(T.lanes <= detail::kWarp && (T.lanes & (T.lanes - 1)) == 0 &&
                T.threads % detail::kWarp == 0);
  static_assert(T.rowThreads == detail::kWarp || T.rowThreads == T.threads);
  __shared__ alignas(16) W staged[T.mr * T.depth];
  const detail::Work<T, W> work(s, all);
  const int lane = int(threadIdx.x) % T.lanes;
  const bool inPieces = work.isAlignedForPieces();
  Piece16 pieces[T.unroll][kUsed];
  const auto request = [&](int from) {
    SL_UNROLL
    for (int u = 0; u < T.unroll; ++u) {
      detail::requestStep<T>(pieces[u], work, from + u * kStep + lane * V);
    }
  };
  const RowReductionShape shape = detail::rowShape<T>(s);
  auto rows =
      detail::rowsOf<T>(shape, &staged[0], all, IntsUpTo<T.stages + 1>{}, IntsUpTo<T.inputs>{});
  constexpr bool kKeeps = detail::rowTune<T>().each > 0;
  constexpr int kRowsAtOnce = T.threads / T.rowThreads;
  rows.thread = int(threadIdx.x) % T.rowThreads;
  const int firstRow = int(threadIdx.x) / T.rowThreads;
  rows.active = rows.seek(firstRow) || T.mr == 1 && kRowsAtOnce == 1;
  if constexpr (kKeeps) {
    detail::keep<T, true>(rows);
  }
  if constexpr (T.early == 0) {
    awaitPrevious();
  }
  if (inPieces) {
    request(0);
  }
  if constexpr (T.early != 0) {
    letNextComeAndAwaitPrevious();
  }

  typename detail::EndingsOf<T, All>::type endings;
  detail::forNumbers(
      [&](auto number) {
        constexpr int P = decltype(number)::value;
        if (work.part == P) {
          get<P>(endings).load(s, all, work.n0);
        }
      },
      IntsUpTo<T.parts>{});

  detail::makeRows<T>(rows, firstRow);
  detail::Sums<Sum, T.weights> chains[detail::kChains<T>][T.mr * T.rows] = {};
  if (inPieces) {
    detail::dotInPieces<T, Sum, W>(pieces, staged, request, chains);
  } else {
    detail::dotByElements<T, Sum>(work, staged, chains);
  }
  auto& sums = chains[0];
  SL_UNROLL
  for (int i = 0; i < T.mr * T.rows; ++i) {
    SL_UNROLL
    for (int c = 1; c < detail::kChains<T>; ++c) {
      sums[i] += chains[c][i];
    }
  }
  LaneSum<T.mr * T.rows, T.lanes>::sum(sums);
  detail::forNumbers(
      [&](auto number) {
        constexpr int P = decltype(number)::value;
        if (work.part == P) {
          get<P>(endings).finish(s, all, work.n0, sums, IntsUpTo<T.weights>{});
        }
      },
      IntsUpTo<T.parts>{});
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_GEMV_GROUP_H
