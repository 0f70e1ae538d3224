// SPDX-License-Identifier: Apache-2.0
// The body of family `attention` in CUDA C++; included by attention.h, which says what it does.
// There is no workspace.
//
//   sl::attention<AttentionTune{.rows, .keys, .mask, .causal, .depth, .threads, .splits}>(shape,
//   epilogue, q, k, v, [mask],
//       operands..., outputs...)
//
// The queries of all heads that share a head of k and v are the rows of one matrix. A block
// computes `rows` of them, `keys` keys at a time: k and v are copied to shared memory as they are
// stored, a thread computes the products of one key with the rows, a warp turns a row of scores
// into weights, and each thread sums `kRun` columns of the result over a share of the keys. The
// grid has `splits` blocks (a cluster) for every `rows` rows of every head of k: each handles a
// part of the keys, and they merge their results through each other's shared memory. `depth` is d,
// rounded up to a multiple of 16 bytes. With `held` or `warps` the body is another one
// (cuda_attention_held.h, cuda_attention_warps.h).
#ifndef STRAIGHTLINE_KERNELS_CUDA_ATTENTION_H
#define STRAIGHTLINE_KERNELS_CUDA_ATTENTION_H

#include "straightline/kernels/cuda_attention_held.h"
#include "straightline/kernels/cuda_attention_warps.h"

namespace sl {
namespace attention_detail {

inline constexpr int kRun = 4;  ///< neighbours along d that a thread sums

/// Shared memory of a block.
template <AttentionTune Tune, class T, class Sum>
struct Memory {
  /// Lines are padded by one piece, so that neighbouring lines begin in different banks.
  static constexpr int kPitch = Tune.depth + kWholePiece<T>;
  static constexpr int kParts =
      Tune.threads / (Tune.depth / kRun) > 0 ? Tune.threads / (Tune.depth / kRun) : 1;
  union {
    struct {
      T k[Tune.keys][kPitch];
      T v[Tune.keys][kPitch];
    } tile;
    Sum parts[kParts][Tune.rows][Tune.depth];  ///< sums over the keys of each part
  };
  Sum q[Tune.rows][Tune.depth];
  Sum scores[Tune.rows][Tune.keys];
  Sum highest[Tune.rows];
  Sum total[Tune.rows];
  Sum factor[Tune.rows];
};

/// Scores of one tile of keys.
template <AttentionTune Tune, class T, class Sum, class M>
SL_INLINE void score(const AttentionShape& s, Memory<Tune, T, Sum>& memory,
                     const Block<Tune, T>& block, const M* mask, Sum scale, int64_t from,
                     int64_t last) {
  constexpr int V = kWholePiece<T>;
  constexpr int kShares = Tune.threads / Tune.keys;  // threads of one key
  constexpr int kEach = (Tune.rows + kShares - 1) / kShares;
  const int key = int(threadIdx.x) % Tune.keys;
  const int share = int(threadIdx.x) / Tune.keys;
  Sum sums[kEach] = {};
  SL_UNROLL
  for (int at = 0; at < Tune.depth; at += V) {
    T piece[V];
    loadPieces<V>(piece, &memory.tile.k[key][at]);
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int row = share + i * kShares;
      if (Tune.rows % kShares == 0 || row < Tune.rows) {
        SL_UNROLL
        for (int j = 0; j < V; ++j) {
          sums[i] = fma(memory.q[row][at + j], cast<Sum>(piece[j]), sums[i]);
        }
      }
    }
  }
  SL_UNROLL
  for (int i = 0; i < kEach; ++i) {
    const int row = share + i * kShares;
    if (Tune.rows % kShares == 0 || row < Tune.rows) {
      const bool exists = from + key < last && block.row0 + row < block.rows;
      memory.scores[row][key] =
          exists ? masked<Tune>(s, block, mask, sums[i] * scale, block.row0 + row, from + key)
                 : -elementary::Format<Sum>::kInfinity;
    }
  }
}

/// Scores become weights exp(score - highest so far); earlier sums are to be multiplied by
/// `factor`.
template <AttentionTune Tune, class T, class Sum>
SL_INLINE void weigh(Memory<Tune, T, Sum>& memory) {
  constexpr int kEach = (Tune.keys + kWarp - 1) / kWarp;
  const int lane = int(threadIdx.x) % kWarp;
  SL_NO_UNROLL
  for (int row = int(threadIdx.x) / kWarp; row < Tune.rows; row += Tune.threads / kWarp) {
    Sum x[kEach];
    Sum top = memory.highest[row];
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      x[i] = lane + i * kWarp < Tune.keys ? memory.scores[row][lane + i * kWarp]
                                          : -elementary::Format<Sum>::kInfinity;
      top = x[i] > top ? x[i] : top;
    }
    SL_UNROLL
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const Sum other = laneAt(top, distance);
      top = other > top ? other : top;
    }
    const Sum shift = top == -elementary::Format<Sum>::kInfinity ? Sum(0) : top;
    Sum total = 0;
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      x[i] = exp(x[i] - shift);
      total += x[i];
      if (lane + i * kWarp < Tune.keys) {
        memory.scores[row][lane + i * kWarp] = x[i];
      }
    }
    SL_UNROLL
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      total += laneAt(total, distance);
    }
    // the others have read highest[row]; exchanges between lanes order nothing (CUDA, "Warp Shuffle
    // Functions")
    __syncwarp();
    if (lane == 0) {
      const Sum factor = exp(memory.highest[row] - shift);
      memory.factor[row] = factor;
      memory.highest[row] = top;
      memory.total[row] = memory.total[row] * factor + total;
    }
    __syncwarp();
  }
}

/// sums = sums * factor + weights * v, over this thread's share of the keys.
template <AttentionTune Tune, class T, class Sum>
SL_INLINE void accumulate(const Memory<Tune, T, Sum>& memory, Sum (&sums)[Tune.rows][kRun],
                          int part, int column) {
  constexpr int kKeys = 4;  // loaded at once
  SL_UNROLL
  for (int row = 0; row < Tune.rows; ++row) {
    const Sum factor = memory.factor[row];
    SL_UNROLL
    for (int j = 0; j < kRun; ++j) {
      sums[row][j] *= factor;
    }
  }
  SL_NO_UNROLL
  for (int key = part * kKeys; key < Tune.keys; key += Memory<Tune, T, Sum>::kParts * kKeys) {
    T value[kKeys][kRun];
    SL_UNROLL
    for (int i = 0; i < kKeys; ++i) {
      loadPieces<kRun>(value[i], &memory.tile.v[key + i][column]);
    }
    SL_UNROLL
    for (int row = 0; row < Tune.rows; ++row) {
      Sum weight[kKeys];
      loadPieces<kKeys>(weight, &memory.scores[row][key]);
      SL_UNROLL
      for (int i = 0; i < kKeys; ++i) {
        SL_UNROLL
        for (int j = 0; j < kRun; ++j) {
          sums[row][j] = fma(weight[i], cast<Sum>(value[i][j]), sums[row][j]);
        }
      }
    }
  }
}

/// Merges the sums of the blocks of the cluster and writes this block's part of the rows.
template <AttentionTune Tune, class T, class Sum, class Epilogue, class Ops>
SL_INLINE void finish(const AttentionShape& s, Memory<Tune, T, Sum>& memory,
                      const Block<Tune, T>& block, const Epilogue& epilogue, const Ops& ops) {
  constexpr int N = kWholePiece<Sum>;
  int64_t steps[kMaxEpilogueOperands];
  SL_UNROLL
  for (int j = 0; j < kMaxEpilogueOperands; ++j) {
    steps[j] = s.epilogueStride[j][3];
  }
  int rank = 0;
  if constexpr (Tune.splits > 1) {
    cluster::sync();
    rank = cluster::rank();
  } else {
    __syncthreads();
  }
  SL_NO_UNROLL
  for (int number = rank * Tune.threads + int(threadIdx.x); number < Tune.rows * Tune.depth / N;
       number += Tune.splits * Tune.threads) {
    const int row = number / (Tune.depth / N);
    const int column = number % (Tune.depth / N) * N;
    Sum highest[Tune.splits], result[N] = {};
    Sum top = -elementary::Format<Sum>::kInfinity, total = 0;
    SL_UNROLL
    for (int i = 0; i < Tune.splits; ++i) {
      highest[i] = cluster::oneFrom<(Tune.splits > 1)>(i, &memory.highest[row]);
      top = highest[i] > top || highest[i] != highest[i] ? highest[i] : top;
    }
    SL_UNROLL
    for (int i = 0; i < Tune.splits; ++i) {
      // A part without keys weighs nothing, also where all parts are such.
      const Sum weight = Tune.splits == 1 ? Sum(1)
                         : highest[i] == -elementary::Format<Sum>::kInfinity
                             ? Sum(0)
                             : exp(highest[i] - top);
      Sum part[N];
      cluster::someFrom<(Tune.splits > 1)>(i, part, &memory.parts[0][row][column]);
      total = fma(weight, cluster::oneFrom<(Tune.splits > 1)>(i, &memory.total[row]), total);
      SL_UNROLL
      for (int j = 0; j < N; ++j) {
        result[j] = fma(weight, part[j], result[j]);
      }
    }
    const Sum inverse = total == Sum(0) ? Sum(0) : Sum(1) / total;
    SL_UNROLL
    for (int j = 0; j < N; ++j) {
      result[j] = total == Sum(0) ? resultOfNoKeys<Tune, Sum>(s.t) : result[j] * inverse;
    }
    const int64_t at = block.row0 + row;
    if (at < block.rows && column < s.d) {
      const int64_t head = block.headOf(s, at);
      const int64_t query = at % s.s;
      RowOffsets offsets;
      SL_UNROLL
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        offsets.operand[j] = block.image * s.epilogueStride[j][0] + head * s.epilogueStride[j][1] +
                             query * s.epilogueStride[j][2];
      }
      EpilogueRun<N, Ops> run;
      const int count = int(minOf(N, s.d - column));
      run.load(ops, offsets, steps, column, count);
      run.finish(
          epilogue, ops, result,
          block.image * s.outStride[0] + head * s.outStride[1] + query * s.outStride[2] + column,
          count);
    }
  }
  if constexpr (Tune.splits > 1) {
    cluster::sync();  // other blocks may still read this block's sums
  }
}

/// Computes the rows of `block` over its part [from, last) of the keys, a tile of keys at a time.
template <AttentionTune Tune, class T, class Sum, class Epilogue, class M, class Ops>
SL_INLINE void attendTiles(const AttentionShape& s, Memory<Tune, T, Sum>& memory,
                           const Epilogue& epilogue, const Block<Tune, T>& block, int64_t from,
                           int64_t last, const T* q, const M* mask, const Ops& ops, bool inPieces) {
  using Shared = Memory<Tune, T, Sum>;
  constexpr int kColumns = Tune.depth / kRun;
  static_assert(Tune.depth % kRun == 0 && Tune.keys % 4 == 0 && Tune.threads % Tune.keys == 0 &&
                kColumns <= Tune.threads);
  SL_NO_UNROLL
  for (int i = int(threadIdx.x); i < Tune.rows * Tune.depth; i += Tune.threads) {
    const int64_t row = minOf(block.row0 + i / Tune.depth, block.rows - 1);
    const int at = i % Tune.depth;
    const T* line = q + block.image * s.qStride[0] + block.headOf(s, row) * s.qStride[1] +
                    row % s.s * s.qStride[2];
    memory.q[i / Tune.depth][at] = at < s.d ? cast<Sum>(line[at]) : Sum(0);
  }
  if (int(threadIdx.x) < Tune.rows) {
    memory.highest[threadIdx.x] = -elementary::Format<Sum>::kInfinity;
    memory.total[threadIdx.x] = 0;
  }
  const Sum scale = s.scale != 0 ? Sum(s.scale) : Sum(1) / sqrt(Sum(s.d));
  const int column = int(threadIdx.x) % kColumns * kRun;
  const int part = int(threadIdx.x) / kColumns;
  const bool sumsColumns = part < Shared::kParts;
  Sum sums[Tune.rows][kRun] = {};
  SL_NO_UNROLL
  for (; from < last; from += Tune.keys) {
    fetch<Tune>(memory.tile.k, block.k, s.d, from, last, inPieces);
    tensor_core::closeGroup();
    fetch<Tune>(memory.tile.v, block.v, s.d, from, last, inPieces);
    tensor_core::closeGroup();
    tensor_core::waitForGroups<1>();
    __syncthreads();
    score<Tune>(s, memory, block, mask, scale, from, last);
    __syncthreads();
    weigh<Tune>(memory);
    tensor_core::waitForGroups<0>();
    __syncthreads();
    if (sumsColumns) {
      accumulate<Tune>(memory, sums, part, column);
    }
    __syncthreads();
  }
  __syncthreads();
  if (sumsColumns) {
    SL_UNROLL
    for (int row = 0; row < Tune.rows; ++row) {
      storeRun<kRun>(&memory.parts[part][row][column], 1, kRun, sums[row]);
    }
  }
  if constexpr (Shared::kParts > 1) {
    __syncthreads();
    SL_NO_UNROLL
    for (int i = int(threadIdx.x); i < Tune.rows * Tune.depth; i += Tune.threads) {
      Sum sum = 0;
      SL_UNROLL
      for (int p = 0; p < Shared::kParts; ++p) {
        sum += memory.parts[p][i / Tune.depth][i % Tune.depth];
      }
      memory.parts[0][i / Tune.depth][i % Tune.depth] = sum;
    }
  }
  finish<Tune>(s, memory, block, epilogue, ops);
}

template <AttentionTune Tune, class Epilogue, class T, class M, class Ops>
SL_INLINE void attend(const AttentionShape& s, const Epilogue& epilogue, const T* q, const T* k,
                      const T* v, const T* k2, const T* v2, const M* mask, const Ops& ops) {
  using Sum = SumOf<T>;
  constexpr int V = kWholePiece<T>;
  static_assert(Tune.depth % V == 0);
  Block<Tune, T> block;
  block.rows = s.h / s.hk * s.s;
  const int64_t tiles = ceilDiv(block.rows, Tune.rows);
  int64_t number = int64_t(blockIdx.x) / Tune.splits;
  block.row0 = number % tiles * Tune.rows;
  number /= tiles;
  block.head = number % s.hk;
  block.image = number / s.hk;
  const auto source = [&](const T* first, const int64_t (&stride)[3], const T* second,
                          const int64_t (&secondStride)[3]) {
    return Source<Tune, T>{first + block.image * stride[0] + block.head * stride[1],
                           second + block.image * secondStride[0] + block.head * secondStride[1],
                           stride[2], secondStride[2], s.split};
  };
  block.k = source(k, s.kStride, k2, s.k2Stride);
  block.v = source(v, s.vStride, v2, s.v2Stride);
  const bool inPieces = s.d % V == 0 && block.k.isInPieces() && block.v.isInPieces();
  // The keys that any row of this block keeps, and this block's part of them.
  int64_t last = s.t;
  if constexpr (Tune.causal != 0) {
    const int64_t end = minOf(block.row0 + Tune.rows, block.rows) - 1;
    last = minOf(last, end / s.s == block.row0 / s.s ? end % s.s + 1 : s.s);
  }
  int64_t from = 0;
  if constexpr (Tune.splits > 1) {
    const int64_t each = ceilDiv(ceilDiv(last, Tune.keys), Tune.splits) * Tune.keys;
    from = minOf(cluster::rank() * each, last);
    last = minOf(from + each, last);
  }
  using Tiles = Memory<Tune, T, Sum>;
  if constexpr (Tune.warps > 0) {
    using Shared = WarpsMemory<Tune, T>;
    __shared__ alignas(16) char bytes[sizeof(Shared)];
    attendByWarps<Tune, T>(s, *reinterpret_cast<Shared*>(bytes), epilogue, block, from, last, q,
                           mask, ops, inPieces);
  } else if constexpr (Tune.held > 0) {
    using Shared = HeldMemory<Tune, T, Sum>;
    __shared__ alignas(
        16) char bytes[sizeof(Shared) > sizeof(Tiles) ? sizeof(Shared) : sizeof(Tiles)];
    const bool rowsInPieces =
        s.qStride[0] % V == 0 && s.qStride[1] % V == 0 && s.qStride[2] % V == 0 && isAligned<V>(q);
    if (inPieces && rowsInPieces) {
      attendHeld<Tune, T, Sum>(s, *reinterpret_cast<Shared*>(bytes), epilogue, block, from, last, q,
                               mask, ops);
      return;
    }
    awaitPrevious();
    attendTiles<Tune, T, Sum>(s, *reinterpret_cast<Tiles*>(bytes), epilogue, block, from, last, q,
                              mask, ops, inPieces);
  } else {
    __shared__ alignas(16) char bytes[sizeof(Tiles)];
    attendTiles<Tune, T, Sum>(s, *reinterpret_cast<Tiles*>(bytes), epilogue, block, from, last, q,
                              mask, ops, inPieces);
  }
}

template <AttentionTune Tune, class Epilogue, class T, class First, class... P>
SL_INLINE void attendMasked(const AttentionShape& s, const Epilogue& epilogue, const T* q,
                            const T* k, const T* v, const T* k2, const T* v2, First first,
                            P... pointers) {
  if constexpr (Tune.mask != 0) {
    attend<Tune>(s, epilogue, q, k, v, k2, v2, first, epilogueOperands(pointers...));
  } else {
    attend<Tune>(s, epilogue, q, k, v, k2, v2, static_cast<const bool*>(nullptr),
                 epilogueOperands(first, pointers...));
  }
}

}  // namespace attention_detail

/// pointers: [second parts of k and v when Tune.parts is 2], [mask when Tune.mask], epilogue
/// operands, outputs.
template <AttentionTune Tune, class Epilogue, class T, class... P>
  requires(Tune.parts == 1)
SL_INLINE void attention(AttentionShape s, Epilogue epilogue, const T* q, const T* k, const T* v,
                         P... pointers) {
  attention_detail::attendMasked<Tune>(s, epilogue, q, k, v, k, v, pointers...);
}
template <AttentionTune Tune, class Epilogue, class T, class... P>
  requires(Tune.parts == 2)
SL_INLINE void attention(AttentionShape s, Epilogue epilogue, const T* q, const T* k, const T* v,
                         const T* k2, const T* v2, P... pointers) {
  attention_detail::attendMasked<Tune>(s, epilogue, q, k, v, k2, v2, pointers...);
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_ATTENTION_H
