// SPDX-License-Identifier: Apache-2.0
// What the bodies of family `attention` in CUDA C++ share: which part of the problem a block
// computes, how it loads keys and values into shared memory, and how a score is masked.
#ifndef STRAIGHTLINE_KERNELS_CUDA_ATTENTION_BLOCK_H
#define STRAIGHTLINE_KERNELS_CUDA_ATTENTION_BLOCK_H

#include "straightline/kernels/cuda_tensor_core.h"

namespace sl::attention_detail {

inline constexpr int kWarp = 32;

/// Keys or values of one head; from `split` on they lie in a second part.
template <AttentionTune Tune, class T>
struct Source {
  const T* first;
  const T* second;
  int64_t stride, secondStride, split;

  SL_INLINE_MEMBER const T* line(int64_t key) const {
    if constexpr (Tune.parts == 2) {
      return key < split ? first + key * stride : second + (key - split) * secondStride;
    } else {
      return first + key * stride;
    }
  }
  SL_INLINE_MEMBER bool isInPieces() const {
    constexpr int V = kWholePiece<T>;
    const bool fits = stride % V == 0 && isAligned<V>(first);
    return Tune.parts == 1 ? fits : fits && secondStride % V == 0 && isAligned<V>(second);
  }
};

/// What one block works on.
template <AttentionTune Tune, class T>
struct Block {
  Source<Tune, T> k, v;
  int64_t image, head, row0, rows;  ///< head of k; rows of all queries that it serves

  SL_INLINE_MEMBER int64_t headOf(const AttentionShape& s, int64_t row) const {
    return head * (s.h / s.hk) + row / s.s;
  }
};

/// Loads one piece of 16 bytes of keys [from, last), or of their values, into shared memory; zeros
/// beyond the operand and beyond d. `later`: as an asynchronous copy of the caller's next group.
template <AttentionTune Tune, class T, int PITCH>
SL_INLINE void fetchPiece(T (&tile)[Tune.keys][PITCH], const Source<Tune, T>& source, int64_t d,
                          int64_t from, int64_t last, int number, bool later) {
  constexpr int V = kWholePiece<T>;
  constexpr int kPieces = Tune.depth / V;
  const int key = number / kPieces;
  const int at = number % kPieces * V;
  const bool exists = from + key < last && at < d;
  const T* piece = exists ? source.line(from + key) + at : source.first;
  if (later) {
    tensor_core::copyLater(&tile[key][at], piece, exists);
    return;
  }
  SL_UNROLL
  for (int j = 0; j < V; ++j) {
    tile[key][at + j] = exists && at + j < d ? piece[j] : T{};
  }
}

/// Loads a tile; each thread loads some of its pieces. `inPieces`: by copies of the caller's next
/// group.
template <AttentionTune Tune, class T, int PITCH>
SL_INLINE void fetch(T (&tile)[Tune.keys][PITCH], const Source<Tune, T>& source, int64_t d,
                     int64_t from, int64_t last, bool inPieces) {
  constexpr int kCount = Tune.keys * (Tune.depth / kWholePiece<T>);
  if constexpr (Tune.warps > 0) {
    if (inPieces) {  // unrolled: a thread starts all its copies at once
      SL_UNROLL
      for (int first = 0; first < kCount; first += Tune.threads) {
        const int number = first + int(threadIdx.x);
        if (kCount % Tune.threads == 0 || number < kCount) {
          fetchPiece<Tune>(tile, source, d, from, last, number, true);
        }
      }
      return;
    }
  }
  SL_NO_UNROLL
  for (int number = int(threadIdx.x); number < kCount; number += Tune.threads) {
    fetchPiece<Tune>(tile, source, d, from, last, number, inPieces);
  }
}

/// The score of `row` and `key` with masks applied; -inf where they drop it.
template <AttentionTune Tune, class Sum, class T, class M>
SL_INLINE Sum masked(const AttentionShape& s, const Block<Tune, T>& block, const M* mask, Sum score,
                     int64_t row, int64_t key) {
  constexpr Sum kNothing = -elementary::Format<Sum>::kInfinity;
  const int64_t query = row % s.s;
  if constexpr (Tune.mask != 0) {
    const M m =
        mask[maskOffset(s, block.image, block.headOf(s, row), query) + key * s.maskStride[3]];
    if constexpr (kSame<M, bool>) {
      score = m ? score : kNothing;
    } else {
      score += cast<Sum>(m);
    }
  }
  if constexpr (Tune.causal != 0) {
    score = key <= query ? score : kNothing;
  }
  return score;
}

}  // namespace sl::attention_detail

#endif  // STRAIGHTLINE_KERNELS_CUDA_ATTENTION_BLOCK_H
