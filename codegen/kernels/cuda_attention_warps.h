// SPDX-License-Identifier: Apache-2.0
// Attention by tensor cores in CUDA C++ (AttentionTune.warps > 0); included by cuda_attention.h.
//
// `warps` warps compute 16 rows of the result (queries of the heads that share keys): each takes a
// part of every tile of `keys` keys, and they merge their sums in the end. Where there are many
// rows, one warp computes 16 of them. Tiles of keys and of values are copied to shared memory, the
// next tile of one while the other is used. Scores, weights and sums stay in registers: the
// fragment of scores that a product leaves is the fragment of weights that the next one takes
// (FlashAttention-2, Dao, 2023). Factors are bfloat16, half, or float rounded to 10 bits of
// mantissa, to nearest; sums, and the softmax, are float. Weights are rounded to the type of the
// values.
#ifndef STRAIGHTLINE_KERNELS_CUDA_ATTENTION_WARPS_H
#define STRAIGHTLINE_KERNELS_CUDA_ATTENTION_WARPS_H

#include "straightline/kernels/cuda_attention_block.h"

namespace sl::attention_detail {

/// The sums of a warp, by lane.
template <AttentionTune Tune>
struct WarpSums {
  float highest[2][kWarp];
  float total[2][kWarp];
  float sums[Tune.depth / 8][4][kWarp];
};

/// Shared memory of a block. Lines are padded by one piece, so that a piece of each of 8
/// neighbouring lines, and the elements of lines two apart that a product of floats reads, lie in
/// different banks.
template <AttentionTune Tune, class T>
struct WarpsMemory {
  static constexpr int kPitch = Tune.depth + kWholePiece<T>;
  static constexpr int kSent = Tune.warps > 1 ? Tune.threads / kWarp : 1;
  union {
    struct {
      T k[Tune.keys][kPitch];
      T v[Tune.keys][kPitch];
    };
    WarpSums<Tune> sent[kSent];  ///< of each warp
  };
};

/// Keys of a tile that a warp takes.
template <AttentionTune Tune>
inline constexpr int kShare = Tune.keys / (Tune.warps > 0 ? Tune.warps : 1);
/// Which share of a tile's keys this thread's warp takes.
template <AttentionTune Tune>
SL_INLINE int shareOfWarp() {
  return int(threadIdx.x) / kWarp % Tune.warps;
}

/// Fragments as mma takes them: elements of the reduction in one product, and elements in a 32-bit
/// word of a lane.
template <class T>
struct Fragment {
  static constexpr int kDepth = 32 / int(sizeof(T));
  static constexpr int kInWord = 4 / int(sizeof(T));
};

SL_INLINE int laneNumber() { return int(threadIdx.x) % kWarp; }

/// One element of 32 bits, or two of 16 bits, the first of them low.
SL_INLINE uint32_t wordOf(float x) { return bitcast<uint32_t>(x); }
template <class T>
SL_INLINE uint32_t wordOf(T x, T y) {
  return uint32_t(bitcast<uint16_t>(x)) | uint32_t(bitcast<uint16_t>(y)) << 16;
}

/// The two rows that a lane has results of: lane / 4 and lane / 4 + 8 of its warp's 16.
template <AttentionTune Tune, class M>
struct LaneRows {
  bool exists[2];
  int query[2];  ///< of its head; of a row that does not exist, those of the last one
  int head[2];
  const M* mask[2];

  template <class T>
  SL_INLINE_MEMBER void find(const AttentionShape& s, const Block<Tune, T>& block, const M* first) {
    SL_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int64_t row =
          block.row0 + int(threadIdx.x) / kWarp / Tune.warps * 16 + laneNumber() / 4 + i * 8;
      const int64_t existing = minOf(row, block.rows - 1);
      exists[i] = row < block.rows;
      head[i] = int(block.headOf(s, existing));
      query[i] = int(existing % s.s);
      mask[i] = first;
      if constexpr (Tune.mask != 0) {
        mask[i] += maskOffset(s, block.image, head[i], query[i]);
      }
    }
  }
};

/// The fragments of a warp's queries. Elements beyond d are zero.
template <AttentionTune Tune, class T, class M>
SL_INLINE void loadQueries(uint32_t (&to)[Tune.depth / Fragment<T>::kDepth][4],
                           const AttentionShape& s, const LaneRows<Tune, M>& rows, const T* q) {
  constexpr int W = Fragment<T>::kInWord;
  SL_UNROLL
  for (int i = 0; i < 2; ++i) {
    const T* line = q + rows.head[i] * s.qStride[1] + rows.query[i] * s.qStride[2];
    SL_UNROLL
    for (int step = 0; step < Tune.depth / Fragment<T>::kDepth; ++step) {
      SL_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int at = step * Fragment<T>::kDepth + half * 4 * W + laneNumber() % 4 * W;
        const T first = at < s.d ? line[at] : T{};
        if constexpr (W == 1) {
          to[step][i + 2 * half] = wordOf(first);
        } else {
          to[step][i + 2 * half] = wordOf(first, at + 1 < s.d ? line[at + 1] : T{});
        }
      }
    }
  }
  if constexpr (sizeof(T) == 4) {
    tensor_core::roundFactors(to);
  }
}

/// Rounds the pieces of a tile that this thread has fetched, as `fetch` distributes them.
template <AttentionTune Tune, class T, int PITCH>
SL_INLINE void roundFetched(T (&tile)[Tune.keys][PITCH]) {
  if constexpr (sizeof(T) == 4) {
    constexpr int V = kWholePiece<T>;
    constexpr int kPieces = Tune.depth / V;
    constexpr int kEach = (Tune.keys * kPieces + Tune.threads - 1) / Tune.threads;
    constexpr bool kAll = Tune.keys * kPieces % Tune.threads == 0;
    uint32_t factors[kEach][V];
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int number = i * Tune.threads + int(threadIdx.x);
      loadPieces<V>(factors[i],
                    reinterpret_cast<const uint32_t*>(
                        &tile[kAll || number < Tune.keys * kPieces ? number / kPieces : 0]
                             [number % kPieces * V]));
    }
    tensor_core::roundFactors(factors);
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int number = i * Tune.threads + int(threadIdx.x);
      if (kAll || number < Tune.keys * kPieces) {
        storePieces<V>(reinterpret_cast<uint32_t*>(&tile[number / kPieces][number % kPieces * V]),
                       factors[i]);
      }
    }
  }
}

/// scores = queries * keys of a tile.
template <AttentionTune Tune, class T, int PITCH>
SL_INLINE void multiplyKeys(float (&scores)[kShare<Tune> / 8][4],
                            const uint32_t (&q)[Tune.depth / Fragment<T>::kDepth][4],
                            const T (&k)[Tune.keys][PITCH]) {
  constexpr int V = kWholePiece<T>;
  const int key = shareOfWarp<Tune>() * kShare<Tune> + laneNumber() % 8 + laneNumber() / 16 * 8;
  const int at = laneNumber() / 8 % 2 * V;
  SL_UNROLL
  for (int step = 0; step < Tune.depth / Fragment<T>::kDepth; ++step) {
    SL_UNROLL
    for (int j = 0; j < kShare<Tune> / 8; j += 2) {
      uint32_t both[4];
      tensor_core::loadParts<false>(both, &k[j * 8 + key][step * Fragment<T>::kDepth + at]);
      const uint32_t first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
      tensor_core::multiply<T>(scores[j], q[step], first);
      tensor_core::multiply<T>(scores[j + 1], q[step], second);
    }
  }
}

/// Scales the scores of a warp's share of the tile of keys [from, last) and applies the masks.
template <AttentionTune Tune, class M>
SL_INLINE void maskScores(float (&scores)[kShare<Tune> / 8][4], const LaneRows<Tune, M>& rows,
                          int64_t keyStride, float scale, int64_t from, int64_t last) {
  constexpr float kNothing = -elementary::Format<float>::kInfinity;
  const int first = shareOfWarp<Tune>() * kShare<Tune> + laneNumber() % 4 * 2;
  // How many keys of the tile, its first ones, each of the two rows may keep.
  const int count = int(minOf(last - from, int64_t(Tune.keys)));
  int upper = count, lower = count;
  if constexpr (Tune.causal != 0) {
    upper = int(minOf(int64_t(count), rows.query[0] + 1 - from));
    lower = int(minOf(int64_t(count), rows.query[1] + 1 - from));
  }
  SL_UNROLL
  for (int j = 0; j < kShare<Tune> / 8; ++j) {
    SL_UNROLL
    for (int c = 0; c < 4; ++c) {
      const int key = first + j * 8 + c % 2;
      const bool kept = key < (c < 2 ? upper : lower);
      float& score = scores[j][c];
      score *= scale;
      if constexpr (Tune.mask != 0) {
        const M m = kept ? rows.mask[c / 2][(from + key) * keyStride] : M{};
        if constexpr (kSame<M, bool>) {
          score = m ? score : kNothing;
        } else {
          score += cast<float>(m);
        }
      }
      score = kept ? score : kNothing;
    }
  }
}

/// Scores become weights exp(score - highest so far), of which `total` is this lane's sum; earlier
/// sums are scaled accordingly.
template <AttentionTune Tune>
SL_INLINE void weighScores(float (&scores)[kShare<Tune> / 8][4], float (&highest)[2],
                           float (&total)[2], float (&sums)[Tune.depth / 8][4]) {
  SL_UNROLL
  for (int i = 0; i < 2; ++i) {
    float top = highest[i];
    SL_UNROLL
    for (int j = 0; j < kShare<Tune> / 8; ++j) {
      top = scores[j][2 * i] > top ? scores[j][2 * i] : top;
      top = scores[j][2 * i + 1] > top ? scores[j][2 * i + 1] : top;
    }
    SL_UNROLL
    for (int distance = 2; distance > 0; distance /= 2) {  // the four lanes of a row
      const float other = laneAt(top, distance);
      top = other > top ? other : top;
    }
    const float shift = top == -elementary::Format<float>::kInfinity ? 0.0f : top;
    const float factor = exp(highest[i] - shift);
    highest[i] = top;
    total[i] *= factor;
    SL_UNROLL
    for (int j = 0; j < kShare<Tune> / 8; ++j) {
      SL_UNROLL
      for (int c = 2 * i; c < 2 * i + 2; ++c) {
        scores[j][c] = exp(scores[j][c] - shift);
        total[i] += scores[j][c];
      }
    }
    SL_UNROLL
    for (int n = 0; n < Tune.depth / 8; ++n) {
      sums[n][2 * i] *= factor;
      sums[n][2 * i + 1] *= factor;
    }
  }
}

/// sums += weights * values of a tile.
template <AttentionTune Tune, class T, int PITCH>
SL_INLINE void multiplyValues(float (&sums)[Tune.depth / 8][4],
                              const float (&weights)[kShare<Tune> / 8][4],
                              const T (&v)[Tune.keys][PITCH]) {
  const int share = shareOfWarp<Tune>() * kShare<Tune>;
  SL_UNROLL
  for (int step = 0; step < kShare<Tune> / Fragment<T>::kDepth; ++step) {
    if constexpr (sizeof(T) == 4) {
      // Of eight keys, a lane has the weights of keys 2 * (lane % 4) and the next one, where mma
      // expects lane % 4 and lane % 4 + 4. The reduction may run in any order, so the values are
      // loaded in the order of the weights.
      uint32_t w[1][4] = {{bitcast<uint32_t>(weights[step][0]), bitcast<uint32_t>(weights[step][2]),
                           bitcast<uint32_t>(weights[step][1]),
                           bitcast<uint32_t>(weights[step][3])}};
      tensor_core::roundFactors(w);
      const int key = share + step * 8 + laneNumber() % 4 * 2;
      SL_UNROLL
      for (int n = 0; n < Tune.depth / 8; ++n) {
        const int column = n * 8 + laneNumber() / 4;
        const uint32_t factors[2] = {bitcast<uint32_t>(v[key][column]),
                                     bitcast<uint32_t>(v[key + 1][column])};
        tensor_core::multiply<T>(sums[n], w[0], factors);
      }
    } else {
      uint32_t w[4];
      SL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float (&tile)[4] = weights[2 * step + i / 2];
        w[i] = wordOf(cast<T>(tile[i % 2 * 2]), cast<T>(tile[i % 2 * 2 + 1]));
      }
      const int key = share + step * 16 + laneNumber() % 16;
      SL_UNROLL
      for (int n = 0; n < Tune.depth / 8; n += 2) {
        uint32_t both[4];
        tensor_core::loadParts<true>(both, &v[key][n * 8 + laneNumber() / 16 * 8]);
        const uint32_t first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
        tensor_core::multiply<T>(sums[n], w, first);
        tensor_core::multiply<T>(sums[n + 1], w, second);
      }
    }
  }
}

/// Merges the sums of the warps that share rows into those of the first of them.
template <AttentionTune Tune, class T>
SL_INLINE void mergeWarps(WarpsMemory<Tune, T>& memory, const float (&highest)[2],
                          float (&total)[2], float (&sums)[Tune.depth / 8][4]) {
  constexpr float kNothing = -elementary::Format<float>::kInfinity;
  const int warp = int(threadIdx.x) / kWarp;
  const int lane = laneNumber();
  if (shareOfWarp<Tune>() != 0) {
    WarpSums<Tune>& mine = memory.sent[warp];
    SL_UNROLL
    for (int i = 0; i < 2; ++i) {
      mine.highest[i][lane] = highest[i];
      mine.total[i][lane] = total[i];
    }
    SL_UNROLL
    for (int n = 0; n < Tune.depth / 8; ++n) {
      SL_UNROLL
      for (int c = 0; c < 4; ++c) {
        mine.sums[n][c][lane] = sums[n][c];
      }
    }
  }
  __syncthreads();
  if (shareOfWarp<Tune>() != 0) {
    return;
  }
  SL_UNROLL
  for (int i = 0; i < 2; ++i) {
    float top = highest[i];
    SL_UNROLL
    for (int w = 1; w < Tune.warps; ++w) {
      const float other = memory.sent[warp + w].highest[i][lane];
      top = other > top ? other : top;
    }
    const float shift = top == kNothing ? 0.0f : top;
    const float factor = exp(highest[i] - shift);
    total[i] *= factor;
    SL_UNROLL
    for (int n = 0; n < Tune.depth / 8; ++n) {
      sums[n][2 * i] *= factor;
      sums[n][2 * i + 1] *= factor;
    }
    SL_UNROLL
    for (int w = 1; w < Tune.warps; ++w) {
      const WarpSums<Tune>& other = memory.sent[warp + w];
      const float weight = exp(other.highest[i][lane] - shift);
      total[i] = fma(weight, other.total[i][lane], total[i]);
      SL_UNROLL
      for (int n = 0; n < Tune.depth / 8; ++n) {
        SL_UNROLL
        for (int c = 2 * i; c < 2 * i + 2; ++c) {
          sums[n][c] = fma(weight, other.sums[n][c][lane], sums[n][c]);
        }
      }
    }
  }
}

/// Writes the rows of a warp.
template <AttentionTune Tune, class T, class M, class Epilogue, class Ops>
SL_INLINE void finishRows(const AttentionShape& s, const Block<Tune, T>& block,
                          const LaneRows<Tune, M>& rows, const float (&total)[2],
                          const float (&sums)[Tune.depth / 8][4], const Epilogue& epilogue,
                          const Ops& ops) {
  int64_t steps[kMaxEpilogueOperands];
  SL_UNROLL
  for (int j = 0; j < kMaxEpilogueOperands; ++j) {
    steps[j] = s.epilogueStride[j][3];
  }
  SL_UNROLL
  for (int i = 0; i < 2; ++i) {
    float whole = total[i];
    SL_UNROLL
    for (int distance = 2; distance > 0; distance /= 2) {
      whole += laneAt(whole, distance);
    }
    const float inverse = whole == 0.0f ? 0.0f : 1.0f / whole;
    RowOffsets offsets;
    SL_UNROLL
    for (int j = 0; j < kMaxEpilogueOperands; ++j) {
      offsets.operand[j] = block.image * s.epilogueStride[j][0] +
                           rows.head[i] * s.epilogueStride[j][1] +
                           rows.query[i] * s.epilogueStride[j][2];
    }
    const int64_t output = block.image * s.outStride[0] + rows.head[i] * s.outStride[1] +
                           rows.query[i] * s.outStride[2];
    SL_UNROLL
    for (int n = 0; n < Tune.depth / 8; ++n) {
      const int column = n * 8 + laneNumber() % 4 * 2;
      if (rows.exists[i] && column < s.d) {
        const float none = resultOfNoKeys<Tune, float>(s.t);
        const float result[2] = {whole == 0.0f ? none : sums[n][2 * i] * inverse,
                                 whole == 0.0f ? none : sums[n][2 * i + 1] * inverse};
        const int count = int(minOf(2, s.d - column));
        EpilogueRun<2, Ops> run;
        run.load(ops, offsets, steps, column, count);
        run.finish(epilogue, ops, result, output + column, count);
      }
    }
  }
}

/// Computes the rows of `block` over keys [from, last).
template <AttentionTune Tune, class T, class Epilogue, class M, class Ops>
SL_INLINE void attendByWarps(const AttentionShape& s, WarpsMemory<Tune, T>& memory,
                             const Epilogue& epilogue, const Block<Tune, T>& block, int64_t from,
                             int64_t last, const T* q, const M* mask, const Ops& ops,
                             bool inPieces) {
  static_assert(Tune.rows % 16 == 0 && Tune.threads == Tune.rows / 16 * Tune.warps * kWarp &&
                Tune.depth % 16 == 0 && Tune.keys % (16 * Tune.warps) == 0 && Tune.splits == 1);
  LaneRows<Tune, M> rows;
  rows.find(s, block, mask);
  // Without keys there is no loop that waits for copies, and warps merge their sums in this memory.
  if (from < last) {
    fetch<Tune>(memory.k, block.k, s.d, from, last, inPieces);
    tensor_core::closeGroup();
    fetch<Tune>(memory.v, block.v, s.d, from, last, inPieces);
    tensor_core::closeGroup();
  }
  uint32_t queries[Tune.depth / Fragment<T>::kDepth][4];
  loadQueries<Tune, T>(queries, s, rows, q + block.image * s.qStride[0]);
  const float scale = s.scale != 0 ? float(s.scale) : 1.0f / sqrt(float(s.d));
  float highest[2] = {-elementary::Format<float>::kInfinity, -elementary::Format<float>::kInfinity};
  float total[2] = {};
  float sums[Tune.depth / 8][4] = {};
  SL_NO_UNROLL
  for (; from < last; from += Tune.keys) {
    const bool more = from + Tune.keys < last;
    tensor_core::waitForGroups<1>();  // the keys are there
    roundFetched<Tune>(memory.k);
    __syncthreads();
    float scores[kShare<Tune> / 8][4] = {};
    multiplyKeys<Tune, T>(scores, queries, memory.k);
    __syncthreads();
    if (more) {
      fetch<Tune>(memory.k, block.k, s.d, from + Tune.keys, last, inPieces);
    }
    tensor_core::closeGroup();
    maskScores<Tune>(scores, rows, s.maskStride[3], scale, from, last);
    weighScores<Tune>(scores, highest, total, sums);
    tensor_core::waitForGroups<1>();  // the values are there
    roundFetched<Tune>(memory.v);
    __syncthreads();
    multiplyValues<Tune, T>(sums, scores, memory.v);
    __syncthreads();
    if (more) {
      fetch<Tune>(memory.v, block.v, s.d, from + Tune.keys, last, inPieces);
    }
    tensor_core::closeGroup();
  }
  if constexpr (Tune.warps > 1) {
    mergeWarps<Tune, T>(memory, highest, total, sums);
    if (shareOfWarp<Tune>() != 0) {
      return;
    }
  }
  finishRows<Tune>(s, block, rows, total, sums, epilogue, ops);
}

}  // namespace sl::attention_detail

#endif  // STRAIGHTLINE_KERNELS_CUDA_ATTENTION_WARPS_H
