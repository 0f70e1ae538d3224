// SPDX-License-Identifier: Apache-2.0
// The body of family `matmul_group`; included by matmul_group.h, which says what it does. The grid
// has a block for every tile of part 0, then of part 1, ... A block finds its part and tile by its
// number and multiplies as one of family `matmul` does by warpgroups (cuda_matmul_warpgroups.h).
// Where a part has two weights, the tile of B has rows of both: the first half of a row of sums
// belongs to the first weight.
//
// PTX for later devices multiplies by warps (cuda_matmul.h). There rows of two weights alternate in
// the tile of B, so that a thread has both sums of a result.
#ifndef STRAIGHTLINE_KERNELS_CUDA_MATMUL_GROUP_H
#define STRAIGHTLINE_KERNELS_CUDA_MATMUL_GROUP_H

#include "straightline/kernels/cuda_matmul.h"

namespace sl {
namespace matmul_group_detail {

using gemv_group_detail::forNumbers;

/// Positions among the kernel's arguments.
template <MatmulGroupTune T>
struct Places {
  static constexpr int kA = T.parts;
  static constexpr int kWeight = kA + 1;
  SL_INLINE_MEMBER static constexpr int operand(int part) {
    int place = kWeight + T.parts * T.weights;
    for (int p = 0; p < part; ++p) {
      place += T.operands[p];
    }
    return place;
  }
  SL_INLINE_MEMBER static constexpr int output(int part) { return operand(T.parts) + part; }
  static constexpr int kMaps = operand(T.parts) + T.parts;
};

/// The tile as family `matmul` names it: its columns are those of all weights.
template <MatmulGroupTune T>
SL_INLINE constexpr MatmulTune tileOf() {
  return {.mr = 64,
          .nr = T.columns * T.weights,
          .rows = T.rows,
          .columns = T.columns * T.weights,
          .threads = T.threads,
          .tf32 = T.tf32,
          .stages = T.stages,
          .early = T.early};
}

/// The part that a block computes, its tile, and its weights from the tile's first column on.
template <MatmulGroupTune T, class W>
struct Work {
  int part = 0;
  int64_t row = 0, column = 0;
  int64_t columns = 0;  ///< of the part, from `column` on
  const W* weight[T.weights] = {};
  int64_t ldw[T.weights] = {};

  template <class All>
  SL_INLINE_MEMBER Work(const MatmulGroupShape& s, const All& all) {
    const int64_t down = ceilDiv(s.m, T.rows);
    int64_t block = blockIdx.x;
    bool found = false;
    forNumbers(
        [&](auto number) {
          constexpr int P = decltype(number)::value;
          const int64_t tiles = down * ceilDiv(s.n[P], T.columns);
          if (!found && (block < tiles || P + 1 == T.parts)) {
            found = true;
            part = P;
            row = block % down * T.rows;
            column = block / down * T.columns;
            columns = s.n[P] - column;
            forNumbers(
                [&](auto which) {
                  constexpr int I = decltype(which)::value;
                  ldw[I] = s.ldw[P][I];
                  weight[I] =
                      get<Places<T>::kWeight + P * T.weights + I>(all) + column * s.ldw[P][I];
                },
                IntsUpTo<T.weights>{});
          }
          block -= found ? 0 : tiles;
        },
        IntsUpTo<T.parts>{});
  }
};

/// Part P as a product of family `matmul`, for the tile's epilogue.
template <int P>
SL_INLINE MatmulShape shapeOf(const MatmulGroupShape& s) {
  MatmulShape shape;
  shape.m = s.m;
  shape.n = s.n[P];
  shape.k = s.k;
  shape.cRow = s.ldc[P];
  SL_UNROLL
  for (int j = 0; j < kMaxEpilogueOperands; ++j) {
    shape.epilogueStride[j][3] = s.epilogueStride[P][j][0];
    shape.epilogueStride[j][4] = s.epilogueStride[P][j][1];
  }
  return shape;
}

SL_INLINE float sumOf(float sum, int) { return sum; }
template <class Sums>
SL_INLINE float sumOf(const Sums& sums, int weight) {
  return sums.at[weight];
}

/// Calls use(item, epilogue, ops) for part P of the tile.
template <MatmulGroupTune T, int P, class All, class W, class Use, int... I, int... J>
SL_INLINE void usePart(const MatmulGroupShape& s, const All& all, const Work<T, W>& work,
                       const Use& use, Ints<I...>, Ints<J...>) {
  using At = Places<T>;
  const MatmulShape shape = shapeOf<P>(s);
  const matmul_detail::Item<W, W> item(shape, nullptr, nullptr, work.row, work.column);
  const auto epilogue = [&](const auto& sums, auto&&... others) {
    get<P>(all)(sumOf(sums, J)..., others...);
  };
  use(item, epilogue, epilogueOperands(get<At::operand(P) + I>(all)..., get<At::output(P)>(all)));
}
template <MatmulGroupTune T, class All, class W, class Use>
SL_INLINE void useWork(const MatmulGroupShape& s, const All& all, const Work<T, W>& work,
                       const Use& use) {
  forNumbers(
      [&](auto number) {
        constexpr int P = decltype(number)::value;
        if (work.part == P) {
          usePart<T, P>(s, all, work, use, IntsUpTo<T.operands[P]>{}, IntsUpTo<T.weights>{});
        }
      },
      IntsUpTo<T.parts>{});
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using matmul_detail::Carrier;
using matmul_detail::kMapBytes;

/// Brings a tile of each weight of a part, one behind the other.
template <class T, int COLUMNS, int WEIGHTS>
struct WeightCarrier {
  using One = Carrier<T, COLUMNS>;
  using Tile = typename One::Tile;
  static constexpr int kDepth = One::kDepth;
  static constexpr int kBytes = WEIGHTS * One::kBytes;
  static constexpr int kElements = WEIGHTS * One::kElements;
  One first, last;  ///< one and the same where there is one weight
  char* map;        ///< null: by loads, as either of them

  SL_INLINE_MEMBER WeightCarrier(const matmul_detail::Source<T>& a,
                                 const matmul_detail::Source<T>& b, char* maps)
      : first(a, maps),
        last(b, WEIGHTS > 1 ? maps + kMapBytes : maps),
        map(first.map && last.map ? maps : nullptr) {}
  SL_INLINE_MEMBER void prepare(char* shared) const {
    if (map) {
      first.prepare(shared);
      if constexpr (WEIGHTS > 1) {
        last.prepare(shared + kMapBytes);
      }
    }
  }
  SL_INLINE_MEMBER void acquire() const {
    if (map) {
      first.acquire();
      last.acquire();
    }
  }
  SL_INLINE_MEMBER void fetchByMap(T* tile, int64_t from, uint64_t* barrier) const {
    first.fetchByMap(tile, from, barrier);
    if constexpr (WEIGHTS > 1) {
      last.fetchByMap(tile + One::kElements, from, barrier);
    }
  }
  SL_INLINE_MEMBER void fetchByLoads(T* tile, int64_t from) const {
    first.fetchByLoads(tile, from);
    if constexpr (WEIGHTS > 1) {
      last.fetchByLoads(tile + One::kElements, from);
    }
  }
};

template <MatmulGroupTune T, class W, class All>
SL_INLINE void multiply(const MatmulGroupShape& s, const All& all, const Work<T, W>& work,
                        const matmul_detail::Source<W>& rows,
                        const matmul_detail::Source<W> (&weights)[T.weights]) {
  constexpr MatmulTune kTile = tileOf<T>();
  char* maps = reinterpret_cast<char*>(get<Places<T>::kMaps>(all));
  char* own = maps + (-reinterpret_cast<int64_t>(maps) & (kMapBytes - 1)) +
              int64_t(blockIdx.x) * (1 + T.weights) * kMapBytes;
  const Carrier<W, T.rows> carrierA(rows, own);
  const WeightCarrier<W, T.columns, T.weights> carrierB(weights[0], weights[T.weights - 1],
                                                        own + kMapBytes);
  const auto finish = [&](const float* sums) {
    useWork(s, all, work, [&](const auto& item, const auto& epilogue, const auto& ops) {
      matmul_detail::finishRows<kTile, T.weights>(item, epilogue, ops, sums);
    });
  };
  matmul_detail::multiplyByWarpgroups<kTile, W>(
      carrierA, carrierB, rows, weights[0], s.k, [] {}, finish);
}

#else

/// Columns of two weights, which alternate: a source of family `matmul`.
template <class T>
struct PairSource {
  using One = matmul_detail::Source<T>;
  static constexpr bool alongDepth = true;
  const One& first;
  const One& last;
  const T* p;
  bool inPieces;

  SL_INLINE_MEMBER PairSource(const One& first, const One& last)
      : first(first), last(last), p(first.p), inPieces(first.inPieces && last.inPieces) {}
  SL_INLINE_MEMBER const One& of(int64_t row) const { return row % 2 != 0 ? last : first; }
  SL_INLINE_MEMBER bool exists(int64_t row, int64_t at) const {
    return of(row).exists(row / 2, at);
  }
  SL_INLINE_MEMBER const T* address(int64_t row, int64_t at) const {
    return of(row).address(row / 2, at);
  }
  template <int V>
  SL_INLINE_MEMBER void load(T* to, int64_t row, int64_t at) const {
    of(row).template load<V>(to, row / 2, at);
  }
};

/// An item whose results have two neighbouring sums each.
template <class One>
struct PairItem {
  const One& one;

  template <int N, class Ops>
  SL_INLINE_MEMBER void load(const Ops& ops, EpilogueRun<N, Ops>& run, int i, int j) const {
    static_assert(N == 2);
    if (exists(i, j)) {
      run.load(ops, one.operandsAt(one.row + i), one.steps, one.column + j / 2, 1);
    }
  }
  template <int N, class Epilogue, class Ops>
  SL_INLINE_MEMBER void finish(const Epilogue& epilogue, const Ops& ops, EpilogueRun<N, Ops>& run,
                               const float* sums, int i, int j) const {
    struct {
      float at[2];
    } both[2] = {{{sums[0], sums[1]}}, {{sums[0], sums[1]}}};
    if (exists(i, j)) {
      run.finish(epilogue, ops, both, (one.row + i) * one.s.cRow + one.column + j / 2, 1);
    }
  }

 private:
  SL_INLINE_MEMBER bool exists(int i, int j) const {
    return one.row + i < one.s.m && one.column + j / 2 < one.s.n;
  }
};

template <MatmulGroupTune T, class W, class All>
SL_INLINE void multiply(const MatmulGroupShape& s, const All& all, const Work<T, W>& work,
                        const matmul_detail::Source<W>& rows,
                        const matmul_detail::Source<W> (&weights)[T.weights]) {
  constexpr MatmulTune kOther = matmul_detail::withoutWarpgroups(tileOf<T>());
  awaitPrevious();
  if (int(threadIdx.x) >= kOther.threads) {
    return;  // the warp that brings tiles has nothing to do
  }
  useWork(s, all, work, [&](const auto& item, const auto& epilogue, const auto& ops) {
    if constexpr (T.weights == 1) {
      matmul_detail::byWarps<kOther, W>(item, rows, weights[0], s.k, epilogue, ops);
    } else {
      using One = typename RemoveReference<decltype(item)>::type;
      const PairItem<One> both{item};
      matmul_detail::byWarps<kOther, W>(both, rows, PairSource<W>(weights[0], weights[1]), s.k,
                                        epilogue, ops);
    }
  });
}

#endif

}  // namespace matmul_group_detail

template <MatmulGroupTune T, class... Given>
SL_INLINE void matmul_group(MatmulGroupShape s, Given... given) {
  namespace detail = matmul_group_detail;
  using At = detail::Places<T>;
  auto all = tupleOf(given...);
  using W = Pointee<typename RemoveReference<decltype(get<At::kA>(all))>::type>;
  using Source = matmul_detail::Source<W>;
  const detail::Work<T, W> work(s, all);
  const Source rows(get<At::kA>(all) + work.row * s.aRow, s.aRow, s.aCol, s.m - work.row, s.k);
  if constexpr (T.weights == 1) {
    const Source weights[1] = {{work.weight[0], work.ldw[0], 1, work.columns, s.k}};
    detail::multiply<T, W>(s, all, work, rows, weights);
  } else {
    const Source weights[2] = {{work.weight[0], work.ldw[0], 1, work.columns, s.k},
                               {work.weight[1], work.ldw[1], 1, work.columns, s.k}};
    detail::multiply<T, W>(s, all, work, rows, weights);
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_MATMUL_GROUP_H
