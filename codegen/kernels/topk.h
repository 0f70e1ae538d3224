// SPDX-License-Identifier: Apache-2.0
// Family `topk`: the k largest (or smallest) elements of each row in their order, and their places;
// with k = count, a stable sort.
//
//   sl::topk<TopkTune{.rank, .largest}>(ctx, team, shape, x, values, indices)
//
// Equal elements come by rising place, so the result is the same in every call. NaN is larger than
// every number, -0 equals 0; values are copied from x, which shares no memory with the results. 1
// <= k <= count <= 2^32 - 2. Along a row indices are neighbours (stride 1): their memory holds the
// candidates while they are put in order. The team splits rows; there is no barrier.
//
// An element is a *word*: its key, an unsigned number that rises in the order wanted, above its
// place. No two are equal. In CUDA C++ a row is held in registers by a few neighbouring lanes or by
// a block (cuda_topk.h), and long rows are cut:
//
//   sl::topk<T>(shape, x, words)                     the `kept` best words of each part of each
//   row, in order
//   sl::topk<T>(shape, words, x, values, indices)    the k best of those
#ifndef STRAIGHTLINE_KERNELS_TOPK_H
#define STRAIGHTLINE_KERNELS_TOPK_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl {

struct TopkTune {
  int rank = 0;     ///< of the other dims
  int largest = 1;  ///< 0: the smallest
  /// CUDA only: 0 the best k times, 1 sorts, 2 selects and sorts what is left, 3 merges sorted
  /// parts
  int variant = 0;
  int threads = 1;  ///< CUDA only: that share a row; a power of two
  int each = 1;     ///< CUDA only: words that one of them holds; of variant 1 a power of two
  /// CUDA only: bytes of a word, 4 (16-bit elements, short rows), 8, or 16 (64-bit elements)
  int word = 8;
  int list = 64;  ///< CUDA only, variant 2: words that are sorted, at least k; a power of two
};

struct TopkShape {
  int64_t outer[SL_MAX_RANK] = {};
  /// elements: x, values, indices, words (8 bytes each)
  int64_t outerStride[4][SL_MAX_RANK] = {};
  int64_t count = 0;  ///< elements of a row
  int64_t k = 0;
  int64_t parts = 1;       ///< of a row, each of ceil(count / parts) elements
  int64_t kept = 0;        ///< words that each part leaves; of variant 3 all
  int64_t stride[3] = {};  ///< along a row: x, values, indices
};

namespace topk_detail {

/// Unsigned number of T's size that rises with x: NaN last, both zeros the same.
template <class T>
SL_INLINE typename UnsignedOfSize<sizeof(T)>::type ascending(T x) {
  using U = typename UnsignedOfSize<sizeof(T)>::type;
  constexpr U kSign = U(U(1) << (8 * sizeof(T) - 1));
  if constexpr (kSame<T, bool>) {
    return U(x ? 1 : 0);
  } else if constexpr (kUnsignedInteger<T>) {
    return x;
  } else {
    const U bits = bitcast<U>(x);
    if constexpr (kSignedInteger<T>) {
      return U(bits ^ kSign);
    } else {
      constexpr U kInfinity = kSame<T, double>     ? U(0x7ffull << 52 & ~U(0))
                              : kSame<T, float>    ? U(0x7f800000ull & ~U(0))
                              : kSame<T, bfloat16> ? U(0x7f80)
                                                   : U(0x7c00);
      const U size = U(bits & U(~kSign));
      const U rising = U((bits & kSign) != 0 ? ~bits : bits | kSign);
      const U number = size == 0 ? kSign : rising;
      return size > kInfinity ? U(~U(0)) : number;
    }
  }
}

/// The same, rising from the element that is wanted first.
template <bool LARGEST, class T>
SL_INLINE typename UnsignedOfSize<sizeof(T)>::type keyOf(T x) {
  using U = typename UnsignedOfSize<sizeof(T)>::type;
  return LARGEST ? U(~ascending(x)) : ascending(x);
}

}  // namespace topk_detail
}  // namespace sl

#if defined(__CUDACC__)

#include "straightline/kernels/cuda_topk.h"

#else

namespace sl {
namespace topk_detail {

/// A row's words as 64-bit numbers: of up to 32 bits the key above the place, of 64 bits the place
/// alone, for which the key is read again.
template <bool LARGEST, class T>
struct RowWords {
  static constexpr bool kLargest = LARGEST;
  static constexpr bool kHoldsKey = sizeof(T) <= 4;
  const T* row;
  int64_t stride;

  SL_INLINE_MEMBER uint64_t at(int64_t place) const {
    if constexpr (kHoldsKey) {
      return uint64_t(keyOf<LARGEST>(row[place * stride])) << 32 | uint64_t(place);
    } else {
      return uint64_t(place);
    }
  }
  SL_INLINE_MEMBER int64_t placeOf(uint64_t word) const {
    return kHoldsKey ? int64_t(word & 0xffffffffu) : int64_t(word);
  }
  /// Whether a comes before b.
  SL_INLINE_MEMBER bool before(uint64_t a, uint64_t b) const {
    if constexpr (kHoldsKey) {
      return a < b;
    } else {
      const uint64_t left = keyOf<LARGEST>(row[int64_t(a) * stride]);
      const uint64_t right = keyOf<LARGEST>(row[int64_t(b) * stride]);
      return left != right ? left < right : a < b;
    }
  }
};

/// words[top] moves down a heap of `count` whose first is the last in order.
template <class R>
SL_INLINE void siftDown(const R& order, uint64_t* words, int64_t top, int64_t count) {
  const uint64_t moved = words[top];
  for (int64_t child = 2 * top + 1; child < count; child = 2 * top + 1) {
    child += child + 1 < count && order.before(words[child], words[child + 1]) ? 1 : 0;
    if (!order.before(moved, words[child])) {
      break;
    }
    words[top] = words[child];
    top = child;
  }
  words[top] = moved;
}
template <class R>
SL_INLINE void makeHeap(const R& order, uint64_t* words, int64_t count) {
  for (int64_t top = count / 2; top-- > 0;) {
    siftDown(order, words, top, count);
  }
}
template <class R>
SL_INLINE void sortHeap(const R& order, uint64_t* words, int64_t count) {
  for (int64_t last = count; last-- > 1;) {
    const uint64_t word = words[0];
    words[0] = words[last];
    words[last] = word;
    siftDown(order, words, 0, last);
  }
}

inline constexpr int64_t kInsert = 16;  ///< so few are sorted by insertion

template <class R>
SL_INLINE void insertAll(const R& order, uint64_t* words, int64_t count) {
  for (int64_t i = 1; i < count; ++i) {
    const uint64_t word = words[i];
    int64_t at = i;
    for (; at > 0 && order.before(word, words[at - 1]); --at) {
      words[at] = words[at - 1];
    }
    words[at] = word;
  }
}

template <class R>
SL_INLINE uint64_t middleOf(const R& order, uint64_t a, uint64_t b, uint64_t c) {
  const bool ab = order.before(a, b), bc = order.before(b, c), ac = order.before(a, c);
  return ab == bc ? b : ab == ac ? c : a;
}

/// Sorts in place, by partitions without branches around a middle one of nine (Lomuto's); a heap
/// where these go wrong.
template <class R>
SL_NOINLINE void sortWords(R order, uint64_t* words, int64_t count, int depth) {
  while (count > kInsert) {
    if (depth-- == 0) {
      makeHeap(order, words, count);
      sortHeap(order, words, count);
      return;
    }
    const int64_t step = count / 8;
    auto three = [&](int64_t from) {
      return middleOf(order, words[from], words[from + step], words[from + 2 * step]);
    };
    uint64_t pivot = count < 128
                         ? middleOf(order, words[0], words[count / 2], words[count - 1])
                         : middleOf(order, three(0), three(3 * step), three(count - 1 - 2 * step));
    int64_t less = 0;  // words[0, less) come before the pivot, words[less, i) do not
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t word = words[i];
      words[i] = words[less];
      words[less] = word;
      less += order.before(word, pivot) ? 1 : 0;
    }
    // The pivot is among the rest, which is never empty; where nothing comes before it, it is the
    // first in order.
    if (less == 0) {
      int64_t at = 0;
      for (; words[at] != pivot; ++at) {
      }
      words[at] = words[0];
      words[0] = pivot;
      less = 1;
    }
    sortWords(order, words, less, depth);
    words += less;
    count -= less;
  }
  insertAll(order, words, count);
}

/// The k first words in order of a row of `count`, as a heap.
template <class R, class T>
SL_INLINE void keepBest(const R& order, const T* row, int64_t stride, int64_t count, int64_t k,
                        uint64_t* words) {
  for (int64_t i = 0; i < k; ++i) {
    words[i] = order.at(i);
  }
  makeHeap(order, words, k);
  auto offer = [&](int64_t i) {
    const uint64_t word = order.at(i);
    if (order.before(word, words[0])) {
      words[0] = word;
      siftDown(order, words, 0, k);
    }
  };
  constexpr int kBlock = 32;
  int64_t i = k;
  if constexpr (R::kHoldsKey) {
    for (; stride == 1 && i + kBlock <= count; i += kBlock) {
      const auto last = decltype(keyOf<R::kLargest>(*row))(words[0] >> 32);
      unsigned better = 0;  // an equal key comes later, so it is not
      for (int j = 0; j < kBlock; ++j) {
        better |= unsigned(keyOf<R::kLargest>(row[i + j]) < last);
      }
      if (SL_UNLIKELY(better != 0)) {
        for (int j = 0; j < kBlock; ++j) {
          offer(i + j);
        }
      }
    }
  }
  for (; i < count; ++i) {
    offer(i);
  }
}

}  // namespace topk_detail

template <TopkTune T, class E>
SL_INLINE void topk(sl_ctx*, sl_team team, TopkShape s, const E* x, E* values, int64_t* indices) {
  constexpr bool kLargest = T.largest != 0;
  int64_t rows = 1;
  for (int d = 0; d < T.rank; ++d) {
    rows *= s.outer[d];
  }
  const Range part = split(rows, team, 1);
  for (int64_t row = part.begin; row < part.end; ++row) {
    int64_t at[3] = {};
    int64_t rest = row;
    for (int d = T.rank - 1; d >= 0; --d) {
      for (int o = 0; o < 3; ++o) {
        at[o] += rest % s.outer[d] * s.outerStride[o][d];
      }
      rest /= s.outer[d];
    }
    const topk_detail::RowWords<kLargest, E> order{x + at[0], s.stride[0]};
    auto* words = reinterpret_cast<uint64_t*>(indices + at[2]);
    if (s.k < s.count) {
      topk_detail::keepBest(order, x + at[0], s.stride[0], s.count, s.k, words);
    } else {
      for (int64_t i = 0; i < s.k; ++i) {
        words[i] = order.at(i);
      }
    }
    int depth = 0;
    for (int64_t n = s.k; n > 0; n /= 2) {
      depth += 3;
    }
    topk_detail::sortWords(order, words, s.k, depth);
    for (int64_t i = 0; i < s.k; ++i) {
      const int64_t place = order.placeOf(words[i]);
      values[at[1] + i * s.stride[1]] = order.row[place * s.stride[0]];
      indices[at[2] + i] = place;
    }
  }
}

}  // namespace sl

#endif  // __CUDACC__

#endif  // STRAIGHTLINE_KERNELS_TOPK_H
