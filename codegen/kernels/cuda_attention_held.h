// SPDX-License-Identifier: Apache-2.0
// Attention of few queries in CUDA C++ (AttentionTune.held > 0); included by cuda_attention.h.
//
// No tiles: a group of lanes holds a query of `depth` elements between its lanes, requests `held`
// keys and their values at once, directly into registers, and continues with the next ones. A warp
// has as many groups as fit: first for different rows (queries of the heads that share keys), then
// for different keys. With early = 1 keys and values are requested before the previous kernel has
// ended, except those of the second part. The sums of groups are merged in shared memory; a block
// of a cluster sends its sums to the block that writes the result.
#ifndef STRAIGHTLINE_KERNELS_CUDA_ATTENTION_HELD_H
#define STRAIGHTLINE_KERNELS_CUDA_ATTENTION_HELD_H

#include "straightline/kernels/cuda_attention_block.h"
#include "straightline/kernels/cuda_cluster.h"
#include "straightline/kernels/cuda_request.h"

namespace sl::attention_detail {

/// How work is spread over a block.
template <AttentionTune Tune, class T>
struct Held {
  static constexpr int V = kWholePiece<T>;
  static constexpr int kPieces = Tune.depth / V;  ///< of a line
  static constexpr int powerOf2(int n) {
    int power = 1;
    while (power < n) {
      power *= 2;
    }
    return power;
  }
  /// of a group
  static constexpr int kLanes = powerOf2(kPieces) < kWarp ? powerOf2(kPieces) : kWarp;
  /// pieces of a line that a lane has
  static constexpr int kEach = (kPieces + kLanes - 1) / kLanes;
  static constexpr int kGroups = kWarp / kLanes;
  static constexpr int kRowGroups = powerOf2(Tune.rows) < kGroups ? powerOf2(Tune.rows) : kGroups;
  static constexpr int kKeyGroups = kGroups / kRowGroups;
  static constexpr int kRowsEach = (Tune.rows + kRowGroups - 1) / kRowGroups;  ///< of a group
  static constexpr int kWarps = Tune.threads / kWarp;
  static constexpr int kParts = kWarps * kKeyGroups;  ///< groups that share a row's keys
  static constexpr int kStep = kParts * Tune.held;    ///< keys of a block at once
  static constexpr int kResults = Tune.rows * Tune.depth;
  /// results that a block of a cluster writes
  static constexpr int kMine = (kResults + Tune.splits - 1) / Tune.splits;
};

/// Shared memory of a block: what its groups have, and what the blocks of the cluster have sent.
template <AttentionTune Tune, class T, class Sum>
struct HeldMemory {
  using H = Held<Tune, T>;
  Sum parts[H::kParts][Tune.rows][Tune.depth];
  Sum highest[H::kParts][Tune.rows];
  Sum total[H::kParts][Tune.rows];
  Sum weight[H::kParts][Tune.rows];
  Sum sent[Tune.splits][H::kMine];
  Sum sentHighest[Tune.splits][Tune.rows];
  Sum sentTotal[Tune.splits][Tune.rows];
  uint64_t arrived;  ///< the barrier that what is sent completes
};

/// The first of `lanes` lanes that has sum `number` of `count` after LaneSum<count, lanes>, and
/// which of that lane's sums it is (placeOfSum).
constexpr int laneOfSum(int count, int lanes, int number) {
  if (lanes == 1) {
    return 0;
  }
  if (count % 2 != 0) {
    return laneOfSum(count, lanes / 2, number);
  }
  const bool upper = number >= count / 2;
  return (upper ? lanes / 2 : 0) +
         laneOfSum(count / 2, lanes / 2, upper ? number - count / 2 : number);
}
constexpr int placeOfSum(int count, int lanes, int number) {
  if (lanes == 1 || count % 2 != 0) {
    return lanes == 1 ? number : placeOfSum(count, lanes / 2, number);
  }
  return placeOfSum(count / 2, lanes / 2, number >= count / 2 ? number - count / 2 : number);
}

/// Softmax state and sums of a group of lanes for its rows, over the keys taken so far.
template <AttentionTune Tune, class T, class Sum>
struct Progress {
  using H = Held<Tune, T>;
  Sum highest[H::kRowsEach];
  Sum total[H::kRowsEach];
  alignas(16) Sum sums[H::kRowsEach][H::kEach * H::V];

  SL_INLINE_MEMBER void begin() {
    SL_UNROLL
    for (int r = 0; r < H::kRowsEach; ++r) {
      highest[r] = -elementary::Format<Sum>::kInfinity;
      total[r] = 0;
      SL_UNROLL
      for (int j = 0; j < H::kEach * H::V; ++j) {
        sums[r][j] = 0;
      }
    }
  }
};

/// Whether a lane has a piece number e of a line.
template <AttentionTune Tune, class T>
SL_INLINE bool isPiece(int lane, int e) {
  using H = Held<Tune, T>;
  return H::kPieces % H::kLanes == 0 || lane + e * H::kLanes < H::kPieces;
}

/// Adds COUNT keys and their values to the sums of row r. `kept(i, score)`: the score of key i with
/// scale and masks applied.
template <AttentionTune Tune, class T, class Sum, int COUNT, class Kept>
SL_INLINE void takeKeys(Progress<Tune, T, Sum>& progress, int r, Piece16 (&q)[Held<Tune, T>::kEach],
                        Piece16 (&k)[COUNT][Held<Tune, T>::kEach],
                        Piece16 (&v)[COUNT][Held<Tune, T>::kEach], const Kept& kept) {
  using H = Held<Tune, T>;
  using Lanes = LaneSum<COUNT, H::kLanes>;
  constexpr Sum kNothing = -elementary::Format<Sum>::kInfinity;
  Sum scores[COUNT] = {};
  SL_UNROLL
  for (int e = 0; e < H::kEach; ++e) {
    q[e].pin();
    SL_UNROLL
    for (int i = 0; i < COUNT; ++i) {
      k[i][e].pin();
    }
    SL_UNROLL
    for (int j = 0; j < H::V; ++j) {
      SL_UNROLL
      for (int i = 0; i < COUNT; ++i) {
        scores[i] = fma(partAs<Sum, T>(q[e].word, j), partAs<Sum, T>(k[i][e].word, j), scores[i]);
      }
    }
  }
  Lanes::sum(scores);
  Sum top = progress.highest[r];
  SL_UNROLL
  for (int i = 0; i < Lanes::kLeft; ++i) {
    scores[i] = kept(Lanes::first() + i, scores[i]);
    top = scores[i] > top ? scores[i] : top;
  }
  SL_UNROLL
  for (int distance = H::kLanes / 2; distance > 0; distance /= 2) {
    const Sum other = laneAt(top, distance);
    top = other > top ? other : top;
  }
  const Sum shift = top == kNothing ? Sum(0) : top;
  const Sum factor = exp(progress.highest[r] - shift);
  SL_UNROLL
  for (int i = 0; i < Lanes::kLeft; ++i) {
    scores[i] = exp(scores[i] - shift);
  }
  progress.highest[r] = top;
  progress.total[r] *= factor;
  SL_UNROLL
  for (int j = 0; j < H::kEach * H::V; ++j) {
    progress.sums[r][j] *= factor;
  }
  const int group = int(threadIdx.x) % kWarp / H::kLanes * H::kLanes;
  unrolled<COUNT>([&](auto number) {
    constexpr int i = decltype(number)::value;
    constexpr int kPlace = placeOfSum(COUNT, H::kLanes, i), kLane = laneOfSum(COUNT, H::kLanes, i);
    const Sum weight = __shfl_sync(0xffffffffu, scores[kPlace], group + kLane);
    progress.total[r] += weight;
    SL_UNROLL
    for (int e = 0; e < H::kEach; ++e) {
      v[i][e].pin();
      SL_UNROLL
      for (int j = 0; j < H::V; ++j) {
        Sum& sum = progress.sums[r][e * H::V + j];
        sum = fma(weight, partAs<Sum, T>(v[i][e].word, j), sum);
      }
    }
  });
}

/// The highest score of `row` in the first `count` parts; NaN where one is.
template <class Sum, class Scores>
SL_INLINE Sum highestOf(const Scores& scores, int count, int row) {
  Sum top = -elementary::Format<Sum>::kInfinity;
  for (int i = 0; i < count; ++i) {
    const Sum other = scores[i][row];
    top = other > top || other != other ? other : top;
  }
  return top;
}

/// The weight of a part in the sum of all; 0 for a part without keys, also where no part has keys.
template <class Sum>
SL_INLINE Sum weightOfPart(Sum highest, Sum top) {
  return highest == -elementary::Format<Sum>::kInfinity ? Sum(0) : exp(highest - top);
}

/// Sends the sums over this block's parts to the blocks of the cluster that write the results.
template <AttentionTune Tune, class T, class Sum>
SL_INLINE void sendHeld(HeldMemory<Tune, T, Sum>& memory, int rank) {
  using H = Held<Tune, T>;
  constexpr bool kTogether = Tune.splits > 1;
  SL_NO_UNROLL
  for (int number = int(threadIdx.x); number < H::kResults; number += Tune.threads) {
    const int row = number / Tune.depth;
    Sum sum = 0;
    SL_UNROLL
    for (int i = 0; i < H::kParts; ++i) {
      sum = fma(memory.weight[i][row], memory.parts[i][row][number % Tune.depth], sum);
    }
    cluster::send<kTogether>(number / H::kMine, &memory.sent[rank][number % H::kMine], sum,
                             &memory.arrived);
  }
  SL_NO_UNROLL
  for (int i = int(threadIdx.x); i < Tune.splits * Tune.rows; i += Tune.threads) {
    const int row = i % Tune.rows;
    Sum total = 0;
    SL_UNROLL
    for (int p = 0; p < H::kParts; ++p) {
      total = fma(memory.weight[p][row], memory.total[p][row], total);
    }
    cluster::send<kTogether>(i / Tune.rows, &memory.sentHighest[rank][row],
                             highestOf<Sum>(memory.highest, H::kParts, row), &memory.arrived);
    cluster::send<kTogether>(i / Tune.rows, &memory.sentTotal[rank][row], total, &memory.arrived);
  }
}

/// Merges the parts of all blocks and writes the results of block `rank`.
template <AttentionTune Tune, class T, class Sum, class Epilogue, class Ops>
SL_INLINE void writeHeld(const AttentionShape& s, const HeldMemory<Tune, T, Sum>& memory,
                         const Block<Tune, T>& block, const Epilogue& epilogue, const Ops& ops,
                         int rank) {
  using H = Held<Tune, T>;
  SL_NO_UNROLL
  for (int number = int(threadIdx.x); number < H::kMine; number += Tune.threads) {
    const int place = rank * H::kMine + number;
    const int row = minOf(place / Tune.depth, Tune.rows - 1);
    const int column = place % Tune.depth;
    const Sum top = highestOf<Sum>(memory.sentHighest, Tune.splits, row);
    Sum sum = 0, total = 0;
    SL_UNROLL
    for (int i = 0; i < Tune.splits; ++i) {
      const Sum weight = Tune.splits == 1 ? Sum(1) : weightOfPart(memory.sentHighest[i][row], top);
      sum = fma(weight, memory.sent[i][number], sum);
      total = fma(weight, memory.sentTotal[i][row], total);
    }
    const Sum result = total == Sum(0) ? resultOfNoKeys<Tune, Sum>(s.t) : sum * (Sum(1) / total);
    const int64_t at = block.row0 + row;
    if (place < H::kResults && at < block.rows && column < s.d) {
      const int64_t head = block.headOf(s, at);
      const int64_t query = at % s.s;
      RowOffsets offsets;
      int64_t steps[kMaxEpilogueOperands];
      SL_UNROLL
      for (int j = 0; j < kMaxEpilogueOperands; ++j) {
        offsets.operand[j] = block.image * s.epilogueStride[j][0] + head * s.epilogueStride[j][1] +
                             query * s.epilogueStride[j][2];
        steps[j] = s.epilogueStride[j][3];
      }
      EpilogueRun<1, Ops> run;
      run.load(ops, offsets, steps, column, 1);
      run.finish(
          epilogue, ops, &result,
          block.image * s.outStride[0] + head * s.outStride[1] + query * s.outStride[2] + column,
          1);
    }
  }
}

/// Merges the sums of the block's groups, sends each block of the cluster its results, and writes
/// this block's.
template <AttentionTune Tune, class T, class Sum, class Epilogue, class Ops>
SL_INLINE void finishHeld(const AttentionShape& s, HeldMemory<Tune, T, Sum>& memory,
                          const Block<Tune, T>& block, const Epilogue& epilogue, const Ops& ops) {
  using H = Held<Tune, T>;
  constexpr bool kTogether = Tune.splits > 1;
  __syncthreads();
  const int rank = kTogether ? cluster::rank() : 0;
  SL_NO_UNROLL
  for (int i = int(threadIdx.x); i < H::kParts * Tune.rows; i += Tune.threads) {
    const int row = i % Tune.rows;
    memory.weight[i / Tune.rows][row] = weightOfPart(
        memory.highest[i / Tune.rows][row], highestOf<Sum>(memory.highest, H::kParts, row));
  }
  __syncthreads();
  if constexpr (kTogether) {
    cluster::wait();  // all blocks have started: their shared memory may be written
  }
  sendHeld(memory, rank);
  if constexpr (kTogether) {
    cluster::awaitSent(&memory.arrived);
  } else {
    __syncthreads();
  }
  writeHeld(s, memory, block, epilogue, ops, rank);
}

/// A thread's place in its block.
template <AttentionTune Tune, class T>
struct HeldPlace {
  using H = Held<Tune, T>;
  int lane;      ///< in its group
  int rowGroup;  ///< which of the groups of a warp with different rows
  int part;      ///< which part of the keys

  SL_INLINE_MEMBER HeldPlace() {
    const int warp = int(threadIdx.x) / kWarp;
    lane = int(threadIdx.x) % H::kLanes;
    rowGroup = int(threadIdx.x) % kWarp / H::kLanes % H::kRowGroups;
    part = warp * H::kKeyGroups + int(threadIdx.x) % kWarp / (H::kLanes * H::kRowGroups);
  }
};

/// Requests the queries of a group's rows.
template <AttentionTune Tune, class T>
SL_INLINE void requestRows(const AttentionShape& s, const Block<Tune, T>& block, const T* q,
                           const HeldPlace<Tune, T>& place,
                           Piece16 (&rows)[Held<Tune, T>::kRowsEach][Held<Tune, T>::kEach]) {
  using H = Held<Tune, T>;
  SL_UNROLL
  for (int r = 0; r < H::kRowsEach; ++r) {
    const int64_t row = minOf(block.row0 + place.rowGroup + r * H::kRowGroups, block.rows - 1);
    const T* line = q + block.image * s.qStride[0] + block.headOf(s, row) * s.qStride[1] +
                    row % s.s * s.qStride[2];
    SL_UNROLL
    for (int e = 0; e < H::kEach; ++e) {
      rows[r][e] = Piece16{};
      rows[r][e].requestIf(isPiece<Tune, T>(place.lane, e),
                           line + (place.lane + e * H::kLanes) * H::V);
    }
  }
}

/// Requests key number `key` of the second part and its value, where `key` is below `last`.
template <AttentionTune Tune, class T>
SL_INLINE void requestNew(const AttentionShape& s, const Block<Tune, T>& block, int lane,
                          int64_t key, int64_t last, Piece16 (&k)[1][Held<Tune, T>::kEach],
                          Piece16 (&v)[1][Held<Tune, T>::kEach]) {
  using H = Held<Tune, T>;
  SL_UNROLL
  for (int e = 0; e < H::kEach; ++e) {
    k[0][e] = v[0][e] = Piece16{};
    const bool wanted = key < last && isPiece<Tune, T>(lane, e);
    k[0][e].requestIf(wanted, block.k.second + (key - s.split) * block.k.secondStride +
                                  (lane + e * H::kLanes) * H::V);
    v[0][e].requestIf(wanted, block.v.second + (key - s.split) * block.v.secondStride +
                                  (lane + e * H::kLanes) * H::V);
  }
}

/// Writes a group's sums into shared memory.
template <AttentionTune Tune, class T, class Sum>
SL_INLINE void storeProgress(const Progress<Tune, T, Sum>& progress,
                             const HeldPlace<Tune, T>& place, HeldMemory<Tune, T, Sum>& memory) {
  using H = Held<Tune, T>;
  SL_UNROLL
  for (int r = 0; r < H::kRowsEach; ++r) {
    const int row = place.rowGroup + r * H::kRowGroups;
    if (row < Tune.rows) {
      SL_UNROLL
      for (int e = 0; e < H::kEach; ++e) {
        const int at = (place.lane + e * H::kLanes) * H::V;
        if (isPiece<Tune, T>(place.lane, e)) {
          SL_UNROLL
          for (int j = 0; j < H::V; j += kWholePiece<Sum>) {
            *reinterpret_cast<Piece<Sum, kWholePiece<Sum>>*>(
                &memory.parts[place.part][row][at + j]) =
                *reinterpret_cast<const Piece<Sum, kWholePiece<Sum>>*>(
                    &progress.sums[r][e * H::V + j]);
          }
        }
      }
      if (place.lane == 0) {
        memory.highest[place.part][row] = progress.highest[r];
        memory.total[place.part][row] = progress.total[r];
      }
    }
  }
}

/// Computes the rows of `block` over its part [from, last) of the keys. All lines begin at
/// multiples of 16 bytes, and d is depth.
template <AttentionTune Tune, class T, class Sum, class Epilogue, class M, class Ops>
SL_INLINE void attendHeld(const AttentionShape& s, HeldMemory<Tune, T, Sum>& memory,
                          const Epilogue& epilogue, const Block<Tune, T>& block, int64_t from,
                          int64_t last, const T* q, const M* mask, const Ops& ops) {
  using H = Held<Tune, T>;
  if constexpr (Tune.splits > 1) {
    if (threadIdx.x == 0) {
      const int64_t mine = maxOf(0, minOf(H::kMine, H::kResults - cluster::rank() * H::kMine));
      cluster::expect(&memory.arrived,
                      int(Tune.splits * (mine + 2 * Tune.rows) * int64_t(sizeof(Sum))));
    }
    cluster::arriveFirst();
  }
  const HeldPlace<Tune, T> place;
  const int lane = place.lane, part = place.part;
  // Keys before `end` are in the first part of the keys, those from `end` to `last` in the second.
  const int64_t end = Tune.parts == 2 ? maxOf(from, minOf(s.split, last)) : last;
  Piece16 k[Tune.held][H::kEach], v[Tune.held][H::kEach];
  const auto request = [&](int64_t first) {
    const T* keys = block.k.first + (first + part) * block.k.stride + lane * H::V;
    const T* values = block.v.first + (first + part) * block.v.stride + lane * H::V;
    SL_UNROLL
    for (int i = 0; i < Tune.held; ++i) {
      SL_UNROLL
      for (int e = 0; e < H::kEach; ++e) {
        const bool wanted = first + part + i * H::kParts < end && isPiece<Tune, T>(lane, e);
        k[i][e] = v[i][e] = Piece16{};
        k[i][e].requestIf(wanted, keys + i * H::kParts * block.k.stride + e * H::kLanes * H::V);
        v[i][e].requestIf(wanted, values + i * H::kParts * block.v.stride + e * H::kLanes * H::V);
      }
    }
  };
  if constexpr (Tune.early != 0) {
    request(from);
  }
  letNextComeAndAwaitPrevious();
  Piece16 rows[H::kRowsEach][H::kEach];
  requestRows(s, block, q, place, rows);
  if constexpr (Tune.early == 0) {
    request(from);
  }
  const Sum scale = s.scale != 0 ? Sum(s.scale) : Sum(1) / sqrt(Sum(s.d));
  Progress<Tune, T, Sum> progress;
  progress.begin();
  const auto take = [&](auto& keys, auto& values, int64_t first, int64_t stop) {
    SL_UNROLL
    for (int r = 0; r < H::kRowsEach; ++r) {
      const int64_t row = block.row0 + place.rowGroup + r * H::kRowGroups;
      takeKeys<Tune>(progress, r, rows[r], keys, values, [&](int i, Sum score) {
        const int64_t key = first + i * H::kParts;
        return key < stop && row < block.rows
                   ? masked<Tune>(s, block, mask, score * scale, row, key)
                   : -elementary::Format<Sum>::kInfinity;
      });
    }
  };
  if constexpr (Tune.parts == 2) {  // the second part: a key at a time
    SL_NO_UNROLL
    for (int64_t first = maxOf(from, s.split); first < last; first += H::kParts) {
      const int64_t key = first + part;
      Piece16 newK[1][H::kEach], newV[1][H::kEach];
      requestNew(s, block, lane, key, last, newK, newV);
      take(newK, newV, key, last);
    }
  }
  SL_NO_UNROLL
  for (int64_t first = from; first < end; first += H::kStep) {
    take(k, v, first + part, end);
    if (first + H::kStep < end) {
      request(first + H::kStep);
    }
  }
  storeProgress(progress, place, memory);
  finishHeld<Tune, T, Sum>(s, memory, block, epilogue, ops);
}

}  // namespace sl::attention_detail

#endif  // STRAIGHTLINE_KERNELS_CUDA_ATTENTION_HELD_H
