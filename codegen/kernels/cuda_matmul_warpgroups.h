// SPDX-License-Identifier: Apache-2.0
// Products of large tiles by warpgroups, on Hopper (sm_90a); included by cuda_matmul.h, whose
// sources, items and epilogues it takes.
//
// A warpgroup makes 64 rows of the block's tile. One further warp brings tiles of A and B into
// dynamic shared memory, `stages` steps of the reduction ahead, by the tensor memory accelerator
// (TMA): lines of 128 bytes, permuted as the tensor cores want them, zeros outside, TF32 rounded to
// nearest. A barrier for each stage says that its tiles have come, another that all warpgroups have
// used them. The two descriptions that TMA needs of A and B are made by each block, in `maps`.
// Operands that TMA does not take (their strides or addresses are no multiples of 16 bytes, or
// lines of TF32 lie across the reduction) are brought by that warp's own loads, which is slow.
#ifndef STRAIGHTLINE_KERNELS_CUDA_MATMUL_WARPGROUPS_H
#define STRAIGHTLINE_KERNELS_CUDA_MATMUL_WARPGROUPS_H

#include "straightline/kernels/cuda_warpgroup.h"

namespace sl::matmul_detail {

/// Workspace of a block: a map for A and one for B.
inline constexpr int kMapBytes = 128;

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

/// A block's sums in shared memory, [rows][kPitch]: rows begin in different banks, so that neither
/// stores of a warpgroup's sums nor loads of runs of a row wait for each other.
template <MatmulTune Tune>
struct SumTile {
  static constexpr int kPitch = Tune.columns + 8;
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
/// 8 results in every 64; the 32 lanes have 4 rows at a time.
template <MatmulTune Tune, class Ops>
struct EpilogueRows {
  static constexpr int kRuns = Tune.columns / 64;
  EpilogueRun<8, Ops> runs[kRuns];

  SL_INLINE int row(int number) {
    return int(threadIdx.x) / 32 * 16 + number * 4 + int(threadIdx.x) % 32 / 8;
  }
  SL_INLINE int column(int run) { return run * 64 + int(threadIdx.x) % 8 * 8; }
  template <class Item>
  SL_INLINE_MEMBER void load(const Item& item, const Ops& ops, int number) {
    SL_UNROLL
    for (int i = 0; i < kRuns; ++i) {
      item.template load<8>(ops, runs[i], row(number), column(i));
    }
  }
};

/// Finishes a warp's 16 rows from its sums. `first` has the operands of the first rows; those of
/// the next are loaded before some rows are finished.
template <MatmulTune Tune, class Item, class Epilogue, class Ops>
SL_INLINE void finishRows(const Item& item, const Epilogue& epilogue, const Ops& ops,
                          const float* tile, const EpilogueRows<Tune, Ops>& first) {
  using Rows = EpilogueRows<Tune, Ops>;
  Rows now = first;
  SL_NO_UNROLL
  for (int number = 0; number < 4; ++number) {
    Rows next;
    if (number < 3) {
      next.load(item, ops, number + 1);
    }
    SL_UNROLL
    for (int i = 0; i < Rows::kRuns; ++i) {
      float sums[8];
      loadPieces<8>(sums, tile + Rows::row(number) * SumTile<Tune>::kPitch + Rows::column(i));
      item.template finish<8>(epilogue, ops, now.runs[i], sums, Rows::row(number), Rows::column(i));
    }
    now = next;
  }
}

/// Of each stage: whether its tiles have come, and whether all warpgroups have used them.
template <int STAGES>
struct Barriers {
  uint64_t full[STAGES], empty[STAGES];
};

/// What the warp does that brings tiles of A and B.
template <int STAGES, class A, class B, class T>
SL_INLINE void bring(const A& a, const B& b, T* tileA, T* tileB, Barriers<STAGES>& barriers,
                     int64_t from, int steps) {
  const int bytes = (a.map ? A::kBytes : 0) + (b.map ? B::kBytes : 0);
  a.acquire();
  b.acquire();
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
      warpgroup::expect(full, bytes);
      a.map ? a.fetchByMap(toA, from, full) : void();
      b.map ? b.fetchByMap(toB, from, full) : void();
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

template <MatmulTune Tune, class T, class Item, class A, class B, class Epilogue, class Ops>
SL_INLINE void byWarpgroups(const Item& item, const A& a, const B& b, int64_t depth,
                            const Epilogue& epilogue, const Ops& ops, char* maps) {
  constexpr int kDepth = 128 / int(sizeof(T));
  constexpr int kStages = Tune.stages;
  constexpr int kWarpgroups = Tune.rows / 64;
  static_assert(Tune.threads == kWarpgroups * 128 + 32);
  using CarrierA = Carrier<T, Tune.rows>;
  using CarrierB = Carrier<T, Tune.columns>;
  extern __shared__ char dynamicMemory[];
  char* memory = dynamicMemory + (-int(tensor_core::sharedAddress(dynamicMemory)) & 1023);
  __shared__ Barriers<kStages> barriers;
  __shared__ alignas(128) char sharedMaps[2 * kMapBytes];
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
  // maps begin at multiples of their size
  char* own = maps + (-reinterpret_cast<int64_t>(maps) & (kMapBytes - 1)) +
              int64_t(blockIdx.x) * 2 * kMapBytes;
  const CarrierA carrierA(a, own);
  const CarrierB carrierB(b, own + kMapBytes);
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
    bring<kStages>(carrierA, carrierB, tileA, tileB, barriers, part.first, steps);
    __syncthreads();
  } else {
    float sums[Tune.columns / 2];
    multiplyTiles<kStages, CarrierA, CarrierB>(a, b, tileA + warp / 4 * 64 * kDepth, tileB,
                                               barriers, sums, steps);
    EpilogueRows<Tune, Ops> operands;
    if constexpr (Tune.splits == 1) {
      operands.load(item, ops, 0);
    }
    __syncthreads();  // all warpgroups have used their tiles
    storeSums<Tune>(together, sums);
    if constexpr (Tune.splits == 1) {
      __syncwarp();
      finishRows<Tune>(item, epilogue, ops, together, operands);
    }
  }
  if constexpr (Tune.splits > 1) {
    finishTogether<Tune, 4, SumTile<Tune>::kPitch>(item, epilogue, ops, together);
  }
}

}  // namespace sl::matmul_detail

#endif  // STRAIGHTLINE_KERNELS_CUDA_MATMUL_WARPGROUPS_H
