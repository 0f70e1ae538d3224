// SPDX-License-Identifier: Apache-2.0
// The body of family `topk` in CUDA C++; included by topk.h, which says what it does and what a
// word is.
//
// `threads` threads hold a row (or a part of one), `each` words in registers. Up to 32 are
// neighbours in one warp and a block has several rows; more are the whole block.
//   variant 0: k times the least word of all lanes (a butterfly), which is then removed: few
//     experts of many rows
//   variant 1: bitonic sort, between registers, between lanes, and above a warp through shared
//     memory
//   variant 2: digits of 11 bits from the top, counted in shared memory, select the words that can
//     be among the k least, until `list` holds them; these are sorted
//   variant 3: all parts are sorted: a thread an element; its rank is its position in its part plus
//     what binary search finds in each of the other parts
// Nothing depends on the order in which threads run, so equal calls give equal bits.
#ifndef STRAIGHTLINE_KERNELS_CUDA_TOPK_H
#define STRAIGHTLINE_KERNELS_CUDA_TOPK_H

namespace sl {
namespace topk_detail {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

/// The word of a 64-bit element.
struct Pair {
  uint64_t key;
  uint64_t place;
};

template <int BYTES>
struct WordOf;
template <>
struct WordOf<4> {
  using type = uint32_t;
};
template <>
struct WordOf<8> {
  using type = uint64_t;
};
template <>
struct WordOf<16> {
  using type = Pair;
};
/// Bits of the place, which are below those of the key.
template <class W>
inline constexpr int kPlaceBits = kSame<W, uint32_t> ? 16
                                  : kSame<W, Pair>   ? 64
                                                     : 32;

/// Comes after the words of all elements; fills places without an element.
template <class W>
SL_INLINE W lastWord() {
  if constexpr (kSame<W, Pair>) {
    return {~uint64_t(0), ~uint64_t(0)};
  } else {
    return ~W(0);
  }
}
template <class W>
SL_INLINE bool less(W a, W b) {
  if constexpr (kSame<W, Pair>) {
    return a.key < b.key || (a.key == b.key && a.place < b.place);
  } else {
    return a < b;
  }
}
template <class W, class K>
SL_INLINE W wordOf(K key, int64_t place) {
  if constexpr (kSame<W, Pair>) {
    return {key, uint64_t(place)};
  } else {
    return W(W(key) << kPlaceBits<W> | W(place));
  }
}
template <class W>
SL_INLINE int64_t placeOf(W word) {
  if constexpr (kSame<W, Pair>) {
    return int64_t(word.place);
  } else {
    return int64_t(word & ((W(1) << kPlaceBits<W>)-1));
  }
}
template <class W>
SL_INLINE W fromLane(W word, int distance) {
  if constexpr (kSame<W, Pair>) {
    return {fromLane(word.key, distance), fromLane(word.place, distance)};
  } else if constexpr (sizeof(W) == 8) {
    return W(__shfl_xor_sync(kAllLanes, (unsigned long long)(word), distance));
  } else {
    return W(__shfl_xor_sync(kAllLanes, unsigned(word), distance));
  }
}

/// The 11 bits of `word` from `shift` on.
inline constexpr int kDigitBits = 11;
inline constexpr int kDigits = 1 << kDigitBits;
template <class W>
SL_INLINE int digitOf(W word, int shift) {
  if constexpr (kSame<W, Pair>) {
    return int((shift >= 64 ? word.key >> (shift - 64) : word.place >> shift) & (kDigits - 1));
  } else {
    return int(word >> shift) & (kDigits - 1);
  }
}
/// Sets the digit at `shift` in the least word `low` that has the digits found so far, whose bits
/// there are 0, and makes `high` the greatest word with these digits.
template <class W>
SL_INLINE void setDigit(W& low, W& high, int shift, int digit) {
  if constexpr (kSame<W, Pair>) {
    const uint64_t bits = uint64_t(digit) << (shift & 63), ones = (uint64_t(1) << (shift & 63)) - 1;
    if (shift >= 64) {
      low.key |= bits;
      high = {low.key | ones, ~uint64_t(0)};
    } else {
      low.place |= bits;
      high = {low.key, low.place | ones};
    }
  } else {
    low |= W(digit) << shift;
    high = W(low | ((W(1) << shift) - 1));
  }
}

/// Shared memory of a kernel: words that threads exchange, and the list that is sorted in the end.
template <int COUNT, class W>
SL_INLINE W* sharedWords() {
  __shared__ alignas(16) char memory[COUNT * sizeof(W)];
  return reinterpret_cast<W*>(memory);
}

/// Sorts the E words of each of THREADS threads, in each group of so many of a block: thread t then
/// has ranks t * E .. t * E + E - 1. With more threads than a warp all threads of the block call
/// it, and `shared` has room for kExchanged words of each thread.
inline constexpr int kExchanged = 2;
template <int THREADS, int E, class W>
SL_INLINE void sortHeld(W (&held)[E], W* shared) {
  const int thread = int(threadIdx.x) % THREADS;
  SL_NO_UNROLL
  for (int size = 2; size <= THREADS * E; size *= 2) {
    SL_NO_UNROLL
    for (int distance = size / 2 / E; distance > 0; distance /= 2) {
      const bool rises = (thread & (size / E)) == 0;
      const bool takesLess = ((thread & distance) == 0) == rises;
      if (THREADS <= kWarp || distance < kWarp) {
        SL_UNROLL
        for (int i = 0; i < E; ++i) {
          const W other = fromLane(held[i], distance);
          held[i] = less(other, held[i]) == takesLess ? other : held[i];
        }
      } else {
        constexpr int K = E < kExchanged ? E : kExchanged;
        SL_UNROLL
        for (int first = 0; first < E; first += K) {
          __syncthreads();
          SL_UNROLL
          for (int i = 0; i < K; ++i) {
            shared[i * blockDim.x + threadIdx.x] = held[first + i];
          }
          __syncthreads();
          SL_UNROLL
          for (int i = 0; i < K; ++i) {
            const W other = shared[i * blockDim.x + (threadIdx.x ^ distance)];
            held[first + i] = less(other, held[first + i]) == takesLess ? other : held[first + i];
          }
        }
      }
    }
    SL_UNROLL
    for (int distance = E / 2; distance > 0; distance /= 2) {
      if (distance < size) {
        SL_UNROLL
        for (int i = 0; i < E; ++i) {
          if ((i & distance) == 0) {
            const bool rises = ((thread * E + i) & size) == 0;
            const W a = held[i], b = held[i | distance];
            const bool stays = less(a, b) == rises;
            held[i] = stays ? a : b;
            held[i | distance] = stays ? b : a;
          }
        }
      }
    }
  }
}

/// Returns a bound of the `need` least words that the threads of a block hold: these are not above
/// the bound, and at most LIST words are not above it.
template <int THREADS, int E, int LIST, class W>
SL_INLINE W boundOf(const W (&held)[E], int need, int keyBits, int placeBits) {
  __shared__ unsigned counts[kDigits];
  __shared__ int warpSums[kWarp];
  __shared__ int found[3];                  // digit, words with a lesser one, words with it
  constexpr int kEach = kDigits / THREADS;  // digits of a thread
  static_assert(kEach >= 1 && THREADS >= kWarp);
  const int thread = int(threadIdx.x), lane = thread % kWarp;
  const W last = lastWord<W>();
  W low{}, high = last;
  int sure = 0;  // words before `low`
  int shift = kPlaceBits<W> + keyBits;
  SL_NO_UNROLL
  while (true) {
    if (shift == kPlaceBits<W>) {
      shift = placeBits;  // the key is known; bits above all places are 0
    }
    const int bottom = shift > kPlaceBits<W> ? kPlaceBits<W> : 0;
    const int bits = shift - bottom < kDigitBits ? shift - bottom : kDigitBits;
    shift -= bits;
    for (int i = thread; i < kDigits; i += THREADS) {
      counts[i] = 0;
    }
    __syncthreads();
    SL_UNROLL
    for (int i = 0; i < E; ++i) {
      if (!less(held[i], low) && !less(high, held[i]) && less(held[i], last)) {
        atomicAdd(&counts[digitOf(held[i], shift) & ((1 << bits) - 1)], 1u);
      }
    }
    __syncthreads();
    int mine = 0;
    SL_UNROLL
    for (int i = 0; i < kEach; ++i) {
      mine += int(counts[thread * kEach + i]);
    }
    int upTo = mine;
    SL_UNROLL
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const int other = __shfl_up_sync(kAllLanes, upTo, distance);
      upTo += lane >= distance ? other : 0;
    }
    if (lane == kWarp - 1) {
      warpSums[thread / kWarp] = upTo;
    }
    __syncthreads();
    int before = sure + upTo - mine;
    SL_UNROLL
    for (int warp = 0; warp < THREADS / kWarp; ++warp) {
      before += warp < thread / kWarp ? warpSums[warp] : 0;
    }
    if (before < need && before + mine >= need) {
      int digit = thread * kEach;
      for (int next = before + int(counts[digit]); next < need; next += int(counts[digit])) {
        before = next;
        ++digit;
      }
      found[0] = digit;
      found[1] = before;
      found[2] = int(counts[digit]);
    }
    __syncthreads();
    setDigit(low, high, shift, found[0]);
    sure = found[1];
    if (sure + found[2] <= LIST || shift == 0) {
      return high;
    }
    // No barrier is needed here: the next round writes `found` after three more barriers, and all
    // threads have read `counts` before the last one.
  }
}

/// The row or part of this thread, and where its operands lie. False for a thread beyond the last
/// row.
template <TopkTune T>
struct Row {
  int64_t at[4] = {};
  int64_t part = 0;
  SL_INLINE_MEMBER bool seek(const TopkShape& s, int64_t number) {
    part = number % s.parts;
    number /= s.parts;
    SL_UNROLL
    for (int d = T.rank - 1; d >= 0; --d) {
      const int64_t i = number % s.outer[d];
      number /= s.outer[d];
      SL_UNROLL
      for (int o = 0; o < 4; ++o) {
        at[o] += i * s.outerStride[o][d];
      }
    }
    return number == 0;
  }
};

SL_INLINE int bitsFor(int64_t count) {
  return count > 1 ? 64 - leadingZeros(uint64_t(count - 1)) : 1;
}

/// Orders the words that the threads hold and calls put(rank, word) for ranks below `need`.
template <TopkTune T, class W, class F>
SL_INLINE void order(W (&held)[T.each], int need, int keyBits, int64_t count, F put) {
  const int thread = int(threadIdx.x) % T.threads;
  if constexpr (T.variant == 0) {
    SL_NO_UNROLL
    for (int rank = 0; rank < need; ++rank) {
      W best = held[0];
      SL_UNROLL
      for (int i = 1; i < T.each; ++i) {
        best = less(held[i], best) ? held[i] : best;
      }
      SL_UNROLL
      for (int distance = T.threads / 2; distance > 0; distance /= 2) {
        const W other = fromLane(best, distance);
        best = less(other, best) ? other : best;
      }
      SL_UNROLL
      for (int i = 0; i < T.each; ++i) {
        held[i] = less(best, held[i]) ? held[i] : lastWord<W>();
      }
      if (thread == rank % T.threads) {
        put(rank, best);
      }
    }
  } else if constexpr (T.variant == 1) {
    constexpr int kRoom =
        T.threads > kWarp ? T.threads * (T.each < kExchanged ? T.each : kExchanged) : 1;
    sortHeld<T.threads>(held, sharedWords<kRoom, W>());
    SL_UNROLL
    for (int i = 0; i < T.each; ++i) {
      const int rank = thread * T.each + i;
      if (rank < need) {
        put(rank, held[i]);
      }
    }
  } else {
    constexpr int kEach = T.list > T.threads    ? T.list / T.threads
                          : T.list <= 4 * kWarp ? (T.list + kWarp - 1) / kWarp
                                                : 1;
    // threads that sort the list: a warp, or all of the block
    constexpr int kSorters = T.list / kEach;
    constexpr int kRoom = T.threads * kExchanged > T.list ? T.threads * kExchanged : T.list;
    __shared__ unsigned listed;
    W* list = sharedWords<kRoom, W>();
    if (thread == 0) {
      listed = 0;
    }
    for (int i = thread; i < T.list; i += T.threads) {
      list[i] = lastWord<W>();
    }
    // boundOf has barriers, after which the list is initialized for all threads
    const W high = boundOf<T.threads, T.each, T.list>(held, need, keyBits, bitsFor(count));
    SL_UNROLL
    for (int i = 0; i < T.each; ++i) {
      if (!less(high, held[i]) && less(held[i], lastWord<W>())) {
        list[atomicAdd(&listed, 1u)] = held[i];
      }
    }
    __syncthreads();
    if (kSorters > kWarp || thread < kSorters) {
      W sorted[kEach];
      SL_UNROLL
      for (int i = 0; i < kEach; ++i) {
        sorted[i] = thread < kSorters ? list[thread + i * kSorters] : lastWord<W>();
      }
      sortHeld<kSorters>(sorted, list);
      SL_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const int rank = thread * kEach + i;
        if (thread < kSorters && rank < need) {
          put(rank, sorted[i]);
        }
      }
    }
  }
}

/// Words of `count` elements of a row from `first` on.
template <TopkTune T, class W, class E>
SL_INLINE void hold(W (&held)[T.each], const E* row, int64_t stride, int64_t first, int64_t count) {
  const int thread = int(threadIdx.x) % T.threads;
  E values[T.each];
  SL_UNROLL
  for (int i = 0; i < T.each; ++i) {
    const int64_t place = thread + i * T.threads;
    values[i] = place < count ? row[(first + place) * stride] : E{};
  }
  SL_UNROLL
  for (int i = 0; i < T.each; ++i) {
    const int64_t place = thread + i * T.threads;
    held[i] =
        place < count ? wordOf<W>(keyOf<T.largest != 0>(values[i]), first + place) : lastWord<W>();
  }
}

/// Words of `parts` sorted parts of `each` (the last of fewer, `count` in all) that come before the
/// one at `element`.
template <class W>
SL_INLINE int64_t rankAmong(const W* words, int64_t element, int64_t count, int64_t parts,
                            int64_t each) {
  constexpr int kTogether = 4;  // searches under way at once
  const W word = words[element];
  const int64_t own = element / each;
  int64_t first = 1;  // twice as far as the first step
  while (first <= each) {
    first *= 2;
  }
  int64_t rank = element % each;
  SL_NO_UNROLL
  for (int64_t part = 0; part < parts; part += kTogether) {
    int64_t before[kTogether] = {}, length[kTogether];
    SL_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      length[i] = part + i == own ? 0 : maxOf(0, minOf(each, count - (part + i) * each));
    }
    SL_NO_UNROLL
    for (int64_t step = first / 2; step > 0; step /= 2) {
      SL_UNROLL
      for (int i = 0; i < kTogether; ++i) {
        const int64_t next = before[i] + step;
        if (next <= length[i] && less(words[(part + i) * each + next - 1], word)) {
          before[i] = next;
        }
      }
    }
    SL_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      rank += before[i];
    }
  }
  return rank;
}

SL_INLINE int64_t rowNumber(int threads) {
  return int64_t(blockIdx.x) * (blockDim.x / threads) + threadIdx.x / threads;
}

}  // namespace topk_detail

/// Whole rows.
template <TopkTune T, class E>
SL_INLINE void topk(TopkShape s, const E* x, E* values, int64_t* indices) {
  using namespace topk_detail;
  using W = typename WordOf<T.word>::type;
  Row<T> row;
  const bool active = row.seek(s, rowNumber(T.threads));
  const E* from = x + row.at[0];
  W held[T.each];
  hold<T>(held, from, s.stride[0], 0, active ? s.count : 0);
  order<T>(held, int(s.k), 8 * int(sizeof(E)), s.count, [&](int rank, W word) {
    if (active) {
      const int64_t place = placeOf(word);
      values[row.at[1] + rank * s.stride[1]] = from[place * s.stride[0]];
      indices[row.at[2] + rank * s.stride[2]] = place;
    }
  });
}

/// Parts of rows. The words of a part are neighbours; a part that has fewer than `kept` elements is
/// filled with lastWord().
template <TopkTune T, class E>
SL_INLINE void topk(TopkShape s, const E* x, int64_t* words) {
  using namespace topk_detail;
  using W = typename WordOf<T.word>::type;
  static_assert(sizeof(W) >= 8 && T.threads >= kWarp, "a part is a block's");
  Row<T> row;
  if (!row.seek(s, rowNumber(T.threads))) {
    return;
  }
  const int64_t each = ceilDiv(s.count, s.parts), first = row.part * each;
  const int64_t count = maxOf(0, minOf(each, s.count - first));
  W* to = reinterpret_cast<W*>(words + row.at[3]) + row.part * s.kept;
  W held[T.each];
  hold<T>(held, x + row.at[0], s.stride[0], first, count);
  const int need = int(minOf(s.kept, count));
  for (int64_t i = need + threadIdx.x; i < s.kept; i += T.threads) {
    to[i] = lastWord<W>();
  }
  if (need > 0) {
    order<T>(held, need, 8 * int(sizeof(E)), s.count, [&](int rank, W word) { to[rank] = word; });
  }
}

/// The k least of the words that the parts have: s.parts * s.kept of each row, of which at least k
/// are elements.
template <TopkTune T, class E>
SL_INLINE void topk(TopkShape s, const int64_t* words, const E* x, E* values, int64_t* indices) {
  using namespace topk_detail;
  using W = typename WordOf<T.word>::type;
  const int64_t parts = s.parts;
  s.parts = 1;
  Row<T> row;
  const int64_t number = T.variant == 3 ? threadNumber() : 0;
  if (!row.seek(s, T.variant == 3 ? number / s.count : rowNumber(T.threads))) {
    return;
  }
  const E* from = x + row.at[0];
  const W* given = reinterpret_cast<const W*>(words + row.at[3]);
  auto put = [&](int64_t rank, W word) {
    const int64_t place = placeOf(word);
    values[row.at[1] + rank * s.stride[1]] = from[place * s.stride[0]];
    indices[row.at[2] + rank * s.stride[2]] = place;
  };
  if constexpr (T.variant == 3) {
    const int64_t element = number % s.count;
    const int64_t rank = rankAmong(given, element, s.count, parts, s.kept);
    if (rank < s.k) {
      put(rank, given[element]);
    }
  } else {
    const int64_t count = parts * s.kept;
    W held[T.each];
    SL_UNROLL
    for (int i = 0; i < T.each; ++i) {
      const int64_t place = threadIdx.x + i * T.threads;
      held[i] = place < count ? given[place] : lastWord<W>();
    }
    order<T>(held, int(s.k), 8 * int(sizeof(E)), s.count, put);
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_TOPK_H
