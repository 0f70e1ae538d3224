// SPDX-License-Identifier: Apache-2.0
// Products of large tiles by warpgroups, on Hopper (sm_90a); included by cuda_matmul.h, whose
// sources, items and epilogues it takes.
//
// A warpgroup makes 64 rows of the block's tile. One further warp brings tiles of A and B into
// dynamic shared memory, `stages` steps of the reduction ahead, by the tensor memory accelerator
// (TMA): lines of 128 bytes, permuted as the tensor cores want them, zeros outside, TF32 rounded to
// nearest. A barrier for each stage says that its tiles have come, another that all warpgroups have
// used them. The two descriptions that TMA needs of A and B are made by each block, in `maps`.
//
// With `early` a block makes its barriers and maps before the previous kernel has ended, and with 2
// it requests its first tiles of B. Its maps are memory that no other kernel of the run uses.
//
// Operands that TMA does not take (their strides or addresses are no multiples of 16 bytes, or
// lines of TF32 lie across the reduction) are brought by that warp's own loads, which is slow.
#ifndef STRAIGHTLINE_KERNELS_CUDA_MATMUL_WARPGROUPS_H
#define STRAIGHTLINE_KERNELS_CUDA_MATMUL_WARPGROUPS_H

#include "straightline/kernels/cuda_warpgroup.h"

namespace sl::matmul_detail {

/// Workspace of a block: a map for A and one for B.
inline constexpr int kMapBytes = 128;
inline constexpr int kMostMaps = 3;  ///< of A and of two weights (family matmul_group)

/// How a block brings ROWS x DEPTH tiles of one operand into shared memory.
template <class T, int ROWS>
struct Carrier {
  static constexpr int kDepth = 128 / int(sizeof(T));
  static constexpr int kBytes = ROWS * 128;
  static constexpr int kElements = ROWS * kDepth;
  using Tile = SwizzledTile<T, ROWS, kDepth>;
  const Source<T>& source;
  char* map;  ///< null: by loads

  SL_INLINE_MEMBER Carrier(const Source<T>& source, char* maps)
      : source(source),
        map(source.inPieces && (source.alongDepth || Tile::kTurns) ? maps : nullptr) {}
  /// Makes the map, first in `shared` memory; called by a whole warp. Another one may use it after
  /// acquire().
  SL_INLINE_MEMBER void prepare(char* shared) const {
    if (map) {
      if (int(threadIdx.x) % 32 == 0) {
        const int64_t stride = source.alongDepth ? source.rowStride : source.depthStride;
        const int64_t inner = source.alongDepth ? source.depth : source.rows;
        const int64_t outer = source.alongDepth ? source.rows : source.depth;
        warpgroup::describeMatrix<T>(shared, source.p, inner, outer, stride,
                                     source.alongDepth ? ROWS : kDepth);
      }
      __syncwarp();
      warpgroup::publishMap(map, shared);
    }
  }
  SL_INLINE_MEMBER void acquire() const {
    if (map) {
      warpgroup::acquireMap(map);
    }
  }
  /// Brings the tile of steps [from, from + DEPTH), whose bytes `barrier` counts; called by one
  /// thread.
  SL_INLINE_MEMBER void fetchByMap(T* tile, int64_t from, uint64_t* barrier) const {
    if (source.alongDepth) {
      warpgroup::fetchTile(tile, map, int(from), 0, barrier);
    } else {
      SL_UNROLL
      for (int row = 0; row < ROWS; row += 64) {
        warpgroup::fetchTile(tile + row * kDepth, map, row, int(from), barrier);
      }
    }
  }
  /// The same by a whole warp, without a map.
  SL_INLINE_MEMBER void fetchByLoads(T* tile, int64_t from) const {
    constexpr int V = kWholePiece<T>;
    SL_NO_UNROLL
    for (int number = int(threadIdx.x) % 32; number < ROWS * kDepth / V; number += 32) {
      const int row = source.alongDepth ? number / (kDepth / V) : number % (ROWS / V) * V;
      const int at = source.alongDepth ? number % (kDepth / V) * V : number / (ROWS / V);
      Piece<T, V> piece;
      source.template load<V>(piece.at, row, from + at);
      if constexpr (Tile::kTurns) {
        *reinterpret_cast<Piece<T, V>*>(tile + Tile::offset(source.alongDepth, row, at)) = piece;
      } else {
        tensor_core::roundFactors(reinterpret_cast<uint32_t (&)[1][V]>(piece));
        SL_UNROLL
        for (int j = 0; j < V; ++j) {
          const int down = source.alongDepth ? 0 : j, along = source.alongDepth ? j : 0;
          tile[Tile::offset(true, row + down, at + along) + (at + along) % V] = piece.at[j];
        }
      }
    }
  }
};

/// Starts the products of one step, tiles of A and B of 128 bytes of the reduction.
template <int TA, int TB, class T, int COUNT>
SL_INLINE void multiplyStep(const T* a, const T* b, float (&sums)[COUNT], bool more) {
  constexpr int kDepth = 128 / int(sizeof(T));
  constexpr int kStep = 32 / int(sizeof(T));  // of one instruction
  const uint64_t fromA = warpgroup::describe(a), fromB = warpgroup::describe(b);
  SL_UNROLL
  for (int k = 0; k < kDepth; k += kStep) {
    // where lines lie across the reduction, those of further steps lie behind
    const uint64_t offsetA = (TA ? k * 128 : k * int(sizeof(T))) >> 4;
    const uint64_t offsetB = (TB ? k * 128 : k * int(sizeof(T))) >> 4;
    warpgroup::multiply<T, TA, TB>(sums, fromA + offsetA, fromB + offsetB, more || k > 0);
  }
}

/// A result's sums, of products by several weights.
template <int WEIGHTS>
struct Sums {
  float at[WEIGHTS];
};

/// A block's sums in shared memory, [rows][kPitch]: rows begin in different banks, so that neither
/// stores of a warpgroup's sums nor loads of runs of a row wait for each other. With several
/// weights (family matmul_group) the columns of the first come first, so that a result has a sum
/// in each of WEIGHTS parts of its row.
template <MatmulTune Tune, int WEIGHTS = 1>
struct SumTile {
  static constexpr int kPitch = Tune.columns + 8;
  static constexpr int kColumns = Tune.columns / WEIGHTS;  ///< of results
  using Sum = typename Conditional<WEIGHTS == 1, float, Sums<WEIGHTS>>::type;

  /// Sums of N neighbouring results.
  template <int N>
  SL_INLINE void load(Sum (&to)[N], const float* tile, int row, int column) {
    const float* from = tile + row * kPitch + column;
    if constexpr (WEIGHTS == 1) {
      loadPieces<N>(to, from);
    } else {
      SL_UNROLL
      for (int w = 0; w < WEIGHTS; ++w) {
        float part[N];
        loadPieces<N>(part, from + w * kColumns);
        SL_UNROLL
        for (int j = 0; j < N; ++j) {
          to[j].at[w] = part[j];
        }
      }
    }
  }
};

/// Writes the sums of a warp's 16 rows. They are finished from there in a loop: finished in
/// registers, each would have instructions of its own, which take longer to come than to run.
template <MatmulTune Tune, int COUNT>
SL_INLINE void storeSums(float* tile, const float (&sums)[COUNT]) {
  const int row = int(threadIdx.x) / 32 * 16 + int(threadIdx.x) % 32 / 4;
  float* to = tile + row * SumTile<Tune>::kPitch + int(threadIdx.x) % 4 * 2;
  SL_UNROLL
  for (int i = 0; i < COUNT; i += 2) {
    const Piece<float, 2> two = {{sums[i], sums[i + 1]}};
    *reinterpret_cast<Piece<float, 2>*>(to + i / 2 % 2 * 8 * SumTile<Tune>::kPitch + i / 4 * 8) =
        two;
  }
}

/// Operands of the epilogue of a warp's 16 rows: 8 lanes share a row, of which a lane has a run of
/// 8 results in every 64; the 32 lanes have 4 rows at a time. Where rows are not so long, 4 lanes
/// share one.
template <int COLUMNS, class Ops>
struct EpilogueRows {
  static constexpr int kLanes = COLUMNS % 64 == 0 ? 8 : 4;
  static constexpr int kRuns = COLUMNS / (kLanes * 8);
  static constexpr int kGroups = kLanes / 2;  ///< of 32 / kLanes rows
  static_assert(COLUMNS % (kLanes * 8) == 0);
  EpilogueRun<8, Ops> runs[kRuns];

  SL_INLINE int row(int number) {
    return int(threadIdx.x) / 32 * 16 + number * (32 / kLanes) + int(threadIdx.x) % 32 / kLanes;
  }
  SL_INLINE int column(int run) { return run * kLanes * 8 + int(threadIdx.x) % kLanes * 8; }
  template <class Item>
  SL_INLINE_MEMBER void load(const Item& item, const Ops& ops, int number) {
    SL_UNROLL
    for (int i = 0; i < kRuns; ++i) {
      item.template loadWhole<8>(ops, runs[i], row(number), column(i));
    }
  }
};

/// A warp's 16 rows of whole pieces (Item::isWhole), some at a time: how many of these groups are
/// loaded ahead, so that they are waited for once. All of them before the products where registers
/// are left then, else behind.
template <int COLUMNS, class Ops>
struct EpilogueAhead {
  using Rows = EpilogueRows<COLUMNS, Ops>;
  static constexpr int kGroups = Rows::kGroups;
  static constexpr int kRegisters = int(sizeof(Rows)) / 4;  // of a group
  static constexpr bool kFirst = COLUMNS <= 64 && kGroups * kRegisters <= 64;
  static constexpr int kAhead = kGroups * kRegisters <= 96 ? kGroups : 2 * kRegisters <= 96 ? 2 : 1;
  Rows rows[kAhead];

  template <class Item>
  SL_INLINE_MEMBER void load(const Item& item, const Ops& ops) {
    SL_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      rows[i].load(item, ops, i);
    }
  }
  /// Finishes the rows from their sums. The groups move up in a loop that is not unrolled, where
  /// each would have instructions of its own.
  template <class Tile, class Item, class Epilogue>
  SL_INLINE_MEMBER void finish(const Item& item, const Epilogue& epilogue, const Ops& ops,
                               const float* tile) {
    SL_NO_UNROLL
    for (int number = 0; number < kGroups; ++number) {
      SL_UNROLL
      for (int i = 0; i < Rows::kRuns; ++i) {
        typename Tile::Sum sums[8];
        Tile::load(sums, tile, Rows::row(number), Rows::column(i));
        item.template finishWhole<8>(epilogue, ops, rows[0].runs[i], sums, Rows::row(number),
                                     Rows::column(i));
      }
      SL_UNROLL
      for (int i = 0; i + 1 < kAhead; ++i) {
        rows[i] = rows[i + 1];
      }
      if (kAhead < kGroups && number + kAhead < kGroups) {
        rows[kAhead - 1].load(item, ops, number + kAhead);
      }
    }
  }
};

/// Finishes a warp's 16 rows of any pieces by single results, eight of a thread at a time.
template <class Tile, class Item, class Epilogue, class Ops>
SL_INLINE void finishEach(const Item& item, const Epilogue& epilogue, const Ops& ops,
                          const float* tile) {
  constexpr int kAtOnce = 8, kColumns = Tile::kColumns;
  const int lane = int(threadIdx.x) % 32;
  const auto row = [](int number) { return int(threadIdx.x) / 32 * 16 + number / kColumns; };
  const auto column = [](int number) { return number % kColumns; };
  SL_NO_UNROLL
  for (int from = lane; from < 16 * kColumns; from += 32 * kAtOnce) {
    EpilogueRun<1, Ops> runs[kAtOnce];
    SL_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      item.template load<1>(ops, runs[i], row(from + i * 32), column(from + i * 32));
    }
    SL_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const int r = row(from + i * 32), c = column(from + i * 32);
      typename Tile::Sum sum[1];
      Tile::load(sum, tile, r, c);
      item.template finish<1>(epilogue, ops, runs[i], sum, r, c);
    }
  }
}

/// Of each stage: whether its tiles have come, and whether all warpgroups have used them.
template <int STAGES>
struct Barriers {
  uint64_t full[STAGES], empty[STAGES];
};

/// What the warp does that brings tiles of A and B. EARLY: MatmulTune::early.
template <int STAGES, int EARLY, class A, class B, class T>
SL_INLINE void bring(const A& a, const B& b, T* tileA, T* tileB, Barriers<STAGES>& barriers,
                     int64_t from, int steps) {
  const int bytes = (a.map ? A::kBytes : 0) + (b.map ? B::kBytes : 0);
  a.acquire();
  b.acquire();
  int requested = 0;  // steps whose tile of B is on its way
  if (EARLY == 2 && a.map && b.map) {
    requested = steps < STAGES ? steps : STAGES;
    if (int(threadIdx.x) % 32 == 0) {
      SL_NO_UNROLL
      for (int stage = 0; stage < requested; ++stage) {
        warpgroup::expect(&barriers.full[stage], bytes);
        b.fetchByMap(tileB + stage * B::kElements, from + stage * A::kDepth, &barriers.full[stage]);
      }
    }
    __syncwarp();
  }
  if constexpr (EARLY != 0) {
    if (a.map && int(threadIdx.x) % 32 == 0) {
      warpgroup::prefetchMap(a.map);
    }
    awaitPrevious();
  }
  int stage = 0, parity = 1;
  SL_NO_UNROLL
  for (int step = 0; step < steps; ++step, from += A::kDepth) {
    uint64_t* full = &barriers.full[stage];
    T* toA = tileA + stage * A::kElements;
    T* toB = tileB + stage * B::kElements;
    warpgroup::await(&barriers.empty[stage], parity);
    if (!a.map || !b.map) {
      a.map ? void() : a.fetchByLoads(toA, from);
      b.map ? void() : b.fetchByLoads(toB, from);
      warpgroup::publish();
      __syncwarp();
    }
    if (int(threadIdx.x) % 32 == 0) {
      if (step < requested) {
        a.fetchByMap(toA, from, full);
      } else {
        warpgroup::expect(full, bytes);
        a.map ? a.fetchByMap(toA, from, full) : void();
        b.map ? b.fetchByMap(toB, from, full) : void();
      }
    }
    __syncwarp();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    parity ^= stage == 0;
  }
}

/// What a warpgroup does: sums = A * B for its 64 rows of the tiles of A.
template <int STAGES, class CarrierA, class CarrierB, class A, class B, class T, int COUNT>
SL_INLINE void multiplyTiles(const A& a, const B& b, const T* tileA, const T* tileB,
                             Barriers<STAGES>& barriers, float (&sums)[COUNT], int steps) {
  int stage = 0, parity = 0;
  SL_NO_UNROLL
  for (int step = 0; step < steps; ++step) {
    const T* nowA = tileA + stage * CarrierA::kElements;
    const T* nowB = tileB + stage * CarrierB::kElements;
    warpgroup::await(&barriers.full[stage], parity);
    warpgroup::begin();
    if (a.alongDepth || !CarrierA::Tile::kTurns) {
      if (b.alongDepth || !CarrierB::Tile::kTurns) {
        multiplyStep<0, 0>(nowA, nowB, sums, step > 0);
      } else {
        multiplyStep<0, 1>(nowA, nowB, sums, step > 0);
      }
    } else if (b.alongDepth) {
      multiplyStep<1, 0>(nowA, nowB, sums, step > 0);
    } else {
      multiplyStep<1, 1>(nowA, nowB, sums, step > 0);
    }
    warpgroup::close();
    warpgroup::wait<1>();
    if (step > 0 && threadIdx.x % 128 == 0) {
      warpgroup::arrive(&barriers.empty[stage == 0 ? STAGES - 1 : stage - 1]);
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    parity ^= stage == 0;
  }
  warpgroup::wait<0>();
  if (steps == 0) {
    SL_UNROLL
    for (float& sum : sums) {
      sum = 0;
    }
  }
}

/// Multiplies the tiles that the carriers bring, whose sources are `a` and `b`. Warpgroups call
/// `before()` behind the wait for the previous kernel, and `finish(sums)` when the sums of their
/// rows are in shared memory, which the function returns.
template <MatmulTune Tune, class T, class CarrierA, class CarrierB, class A, class B, class Before,
          class Finish>
SL_INLINE float* multiplyByWarpgroups(const CarrierA& carrierA, const CarrierB& carrierB,
                                      const A& a, const B& b, int64_t depth, const Before& before,
                                      const Finish& finish) {
  constexpr int kDepth = 128 / int(sizeof(T));
  constexpr int kStages = Tune.stages;
  constexpr int kWarpgroups = Tune.rows / 64;
  static_assert(Tune.threads == kWarpgroups * 128 + 32);
  extern __shared__ char dynamicMemory[];
  char* memory = dynamicMemory + (-int(tensor_core::sharedAddress(dynamicMemory)) & 1023);
  __shared__ Barriers<kStages> barriers;
  __shared__ alignas(128) char sharedMaps[kMostMaps * kMapBytes];
  T* tileA = reinterpret_cast<T*>(memory);
  T* tileB = reinterpret_cast<T*>(memory + kStages * CarrierA::kBytes);
  const Part<kDepth, Tune.splits> part(depth);
  const int warp = int(threadIdx.x) / 32;
  const int steps = int((part.last - part.first) / kDepth);
  if (threadIdx.x == 0) {
    SL_UNROLL
    for (int i = 0; i < kStages; ++i) {
      warpgroup::initialize(&barriers.full[i], 1);
      warpgroup::initialize(&barriers.empty[i], kWarpgroups);
    }
    warpgroup::publishBarriers();
  }
  if constexpr (Tune.early == 0) {
    awaitPrevious();  // which may use the memory of the maps
  }
  // two warps make the maps at the same time
  if (warp == 0) {
    carrierB.prepare(sharedMaps + kMapBytes);
  }
  if (warp == kWarpgroups * 4) {
    carrierA.prepare(sharedMaps);
  }
  __syncthreads();
  float* together = reinterpret_cast<float*>(memory);
  if (warp == kWarpgroups * 4) {
    bring<kStages, Tune.early>(carrierA, carrierB, tileA, tileB, barriers, part.first, steps);
    __syncthreads();
  } else {
    if constexpr (Tune.early != 0) {
      awaitPrevious();
    }
    before();
    float sums[Tune.columns / 2];
    multiplyTiles<kStages, CarrierA, CarrierB>(a, b, tileA + warp / 4 * 64 * kDepth, tileB,
                                               barriers, sums, steps);
    __syncthreads();  // all warpgroups have used their tiles
    storeSums<Tune>(together, sums);
    finish(together);
  }
  return together;
}

/// What warpgroups do before and behind the products of an item: load what its epilogue reads, and
/// finish their rows from the sums.
template <MatmulTune Tune, int WEIGHTS, class Item, class Epilogue, class Ops>
struct WarpgroupEnding {
  using Tile = SumTile<Tune, WEIGHTS>;
  using Ahead = EpilogueAhead<Tile::kColumns, Ops>;
  const Item& item;
  const Epilogue& epilogue;
  const Ops& ops;
  bool isWhole;
  Ahead ahead;

  SL_INLINE_MEMBER WarpgroupEnding(const Item& item, const Epilogue& epilogue, const Ops& ops)
      : item(item), epilogue(epilogue), ops(ops), isWhole(item.template isWhole<8>(ops)) {}
  SL_INLINE_MEMBER void load() {
    if (isWhole) {
      ahead.load(item, ops);
    }
  }
  SL_INLINE_MEMBER void finish(const float* tile) {
    __syncwarp();
    if (isWhole) {
      ahead.template finish<Tile>(item, epilogue, ops, tile);
    } else {
      finishEach<Tile>(item, epilogue, ops, tile);
    }
  }
};

/// Loads and finishes.
template <MatmulTune Tune, int WEIGHTS, class Item, class Epilogue, class Ops>
SL_INLINE void finishRows(const Item& item, const Epilogue& epilogue, const Ops& ops,
                          const float* tile) {
  WarpgroupEnding<Tune, WEIGHTS, Item, Epilogue, Ops> ending(item, epilogue, ops);
  ending.load();
  ending.finish(tile);
}

template <MatmulTune Tune, class T, class Item, class A, class B, class Epilogue, class Ops>
SL_INLINE void byWarpgroups(const Item& item, const A& a, const B& b, int64_t depth,
                            const Epilogue& epilogue, const Ops& ops, char* maps) {
  // maps begin at multiples of their size
  char* own = maps + (-reinterpret_cast<int64_t>(maps) & (kMapBytes - 1)) +
              int64_t(blockIdx.x) * 2 * kMapBytes;
  const Carrier<T, Tune.rows> carrierA(a, own);
  const Carrier<T, Tune.columns> carrierB(b, own + kMapBytes);
  using Ending = WarpgroupEnding<Tune, 1, Item, Epilogue, Ops>;
  Ending ending(item, epilogue, ops);
  const auto before = [&] {
    if constexpr (Tune.splits == 1 && Ending::Ahead::kFirst) {
      ending.load();
    }
  };
  const auto finish = [&](const float* sums) {
    if constexpr (Tune.splits == 1) {
      if constexpr (!Ending::Ahead::kFirst) {
        ending.load();
      }
      ending.finish(sums);
    }
  };
  const float* together =
      multiplyByWarpgroups<Tune, T>(carrierA, carrierB, a, b, depth, before, finish);
  if constexpr (Tune.splits > 1) {
    finishTogether<Tune, 4, SumTile<Tune>::kPitch>(item, epilogue, ops, together);
  }
}

}  // namespace sl::matmul_detail

#endif  // STRAIGHTLINE_KERNELS_CUDA_MATMUL_WARPGROUPS_H
