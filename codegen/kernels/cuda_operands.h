// SPDX-License-Identifier: Apache-2.0
// Runs of elements between memory and a thread's registers. Included at the end of operands.h.
#ifndef STRAIGHTLINE_KERNELS_CUDA_OPERANDS_H
#define STRAIGHTLINE_KERNELS_CUDA_OPERANDS_H

namespace sl {

/// N neighbouring elements of one operand in registers. Indices must be compile-time constants.
template <class T, int N>
struct Run {
  T at[N];
};

/// An operand's row whose number is read on the device; it takes the place of a pointer to elements
/// that a kernel writes. The number is looked at where the first element is, so that loads of a
/// kernel's inputs do not wait for it. A number outside of [0, extent) ends the kernel.
template <class E>
struct RowPlace {
  E* first;  ///< of row 0
  int64_t row, extent, stride;
  SL_INLINE_MEMBER E* operator+(int64_t offset) const {
    failUnless(uint64_t(row) < uint64_t(extent), "an index lies outside of what is indexed");
    return first + (row * stride + offset);
  }
  SL_INLINE_MEMBER E& operator[](int64_t offset) const { return *(*this + offset); }
};
template <class E>
struct PointeeOf<RowPlace<E>> {
  using type = E;
};
/// The row that `*index` names, of `extent` that lie `stride` elements apart. WRAP: a number below
/// 0 counts from the end.
template <bool WRAP = false, class E, class I>
SL_INLINE RowPlace<E> rowAt(E* first, const I* index, int64_t extent, int64_t stride) {
  const int64_t row = int64_t(*index);
  return {first, WRAP && row < 0 ? row + extent : row, extent, stride};
}

/// N elements that one instruction loads or stores: at most 16 bytes, aligned to their size.
template <class T, int N>
struct alignas(sizeof(T) * N) Piece {
  T at[N];
};
/// Elements of one piece where N neighbours are moved.
template <class T, int N>
inline constexpr int kPiece = N * int(sizeof(T)) <= 16 ? N : 16 / int(sizeof(T));

/// Whether N elements from `p` on can be moved in pieces. It depends on what the call is given
/// (views) and is mostly the same in all threads.
template <int N, class T>
SL_INLINE bool inPieces(const T* p, int64_t stride, int count) {
  constexpr unsigned kMask = unsigned(sizeof(T)) * kPiece<T, N> - 1;
  return N > 1 && stride == 1 && count == N && (reinterpret_cast<uint64_t>(p) & kMask) == 0;
}

/// Loads N neighbours from `p` on, which is aligned for pieces.
template <int N, class T>
SL_INLINE void loadPieces(T* to, const T* p) {
  constexpr int K = kPiece<T, N>;
  SL_UNROLL
  for (int i = 0; i < N; i += K) {
    Piece<T, K> piece = *reinterpret_cast<const Piece<T, K>*>(p + i);
    SL_UNROLL
    for (int j = 0; j < K; ++j) {
      to[i + j] = piece.at[j];
    }
  }
}

/// The same; zeros where `p` is null.
template <int N, class T>
SL_INLINE void loadPiecesOrZeros(T* to, const T* p) {
  if (p) {
    loadPieces<N>(to, p);
    return;
  }
  SL_UNROLL
  for (int i = 0; i < N; ++i) {
    to[i] = T{};
  }
}

/// Element `number` of a 32-bit word that holds several elements.
template <class T>
SL_INLINE T partOf(uint32_t word, int number) {
  return bitcast<T>(
      typename UnsignedOfSize<sizeof(T)>::type(word >> (8 * int(sizeof(T)) * number)));
}

/// N elements T in registers. Those that are narrower than a register are kept as words, from which
/// the compiler can extract them where they are used: extracted where they are loaded, each operand
/// would be waited for before the next one is loaded.
template <class T, int N>
struct Held {
  T values[N];

  /// Loads p[0], p[stride], ..., of which the first `count` exist; the others become like the
  /// first, or zeros where there is none, so that they may be computed with.
  SL_INLINE_MEMBER void load(const T* p, int64_t stride, int count) {
    if (inPieces<N>(p, stride, count)) {
      loadPieces<N>(values, p);
      return;
    }
    values[0] = count > 0 ? p[0] : T{};
    SL_UNROLL
    for (int i = 1; i < N; ++i) {
      values[i] = i < count ? p[i * stride] : values[0];
    }
  }
  /// The same where they lie side by side and begin at a multiple of their size.
  SL_INLINE_MEMBER void loadWhole(const T* p) { loadPieces<N>(values, p); }
  SL_INLINE_MEMBER T at(int i) const { return values[i]; }
};
template <class T, int N>
  requires(sizeof(T) < 4 && N * sizeof(T) % 4 == 0)
struct Held<T, N> {
  static constexpr int kParts = 4 / int(sizeof(T));
  static constexpr int kWords = N / kParts;
  uint32_t words[kWords];

  SL_INLINE_MEMBER void load(const T* p, int64_t stride, int count) {
    if (inPieces<N>(p, stride, count)) {
      loadPieces<kWords>(words, reinterpret_cast<const uint32_t*>(p));
      return;
    }
    using Bits = typename UnsignedOfSize<sizeof(T)>::type;
    const Bits first = count > 0 ? bitcast<Bits>(p[0]) : Bits(0);
    SL_UNROLL
    for (int i = 0; i < kWords; ++i) {
      words[i] = 0;
      SL_UNROLL
      for (int j = 0; j < kParts; ++j) {
        const int at = i * kParts + j;
        const Bits bits = at > 0 && at < count ? bitcast<Bits>(p[at * stride]) : first;
        words[i] |= uint32_t(bits) << (8 * int(sizeof(T)) * j);
      }
    }
  }
  SL_INLINE_MEMBER void loadWhole(const T* p) {
    loadPieces<kWords>(words, reinterpret_cast<const uint32_t*>(p));
  }
  SL_INLINE_MEMBER T at(int i) const { return partOf<T>(words[i / kParts], i % kParts); }
};

/// The same elements of Held::load in an array.
template <int N, class T>
SL_INLINE void loadRun(T* to, const T* p, int64_t stride, int count) {
  Held<T, N> held;
  held.load(p, stride, count);
  SL_UNROLL
  for (int i = 0; i < N; ++i) {
    to[i] = held.at(i);
  }
}

/// loadLanes and storeLanes of operands.h for values of one lane.
template <int N, class T>
SL_INLINE T loadLanes(const T* p, int64_t, int) {
  static_assert(N == 1);
  return *p;
}
template <class T>
SL_INLINE void storeLanes(T* p, int64_t, int, T value) {
  *p = value;
}

/// The number of this block in a one-dimensional grid, counted from block FIRST on: that of the
/// part which the block computes, where a launch has several (tunable `firstBlock`).
template <int FIRST = 0>
SL_INLINE int64_t blockNumber() {
  return int64_t(blockIdx.x) - FIRST;
}
/// The number of this thread, counted from block FIRST on.
template <int FIRST = 0>
SL_INLINE int64_t threadNumber() {
  return blockNumber<FIRST>() * blockDim.x + threadIdx.x;
}

/// Finds this thread's element of RANK nested loops, the last of which is innermost, and adds the
/// offset of each operand there, in elements, to `at`. False for a thread beyond the last element.
template <int RANK, int FIRST = 0, int O, int S>
SL_INLINE bool findElement(const int64_t* extent, const int64_t (&stride)[S][SL_MAX_RANK],
                           int64_t (&at)[O]) {
  static_assert(O <= S);
  int64_t number = threadNumber<FIRST>();
  SL_UNROLL
  for (int d = RANK - 1; d >= 0; --d) {
    const int64_t i = number % extent[d];
    number /= extent[d];
    SL_UNROLL
    for (int o = 0; o < O; ++o) {
      at[o] += i * stride[o][d];
    }
  }
  return number == 0;
}

/// Stores 4, 8 or 16 bytes by one instruction. Of an assignment the compiler makes several where a
/// store to the same address follows in another branch, as in storeRun.
template <int WORDS>
SL_INLINE void storeWords(void* p, const uint32_t (&words)[WORDS]) {
#if defined(__CUDA_ARCH__)
  if constexpr (WORDS == 4) {
    asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
    return;
  }
  if constexpr (WORDS == 2) {
    asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(p), "r"(words[0]), "r"(words[1]) : "memory");
    return;
  }
#endif
  Piece<uint32_t, WORDS> piece;
  SL_UNROLL
  for (int i = 0; i < WORDS; ++i) {
    piece.at[i] = words[i];
  }
  *static_cast<Piece<uint32_t, WORDS>*>(p) = piece;
}
/// The bits of COUNT elements that fill whole words.
template <int COUNT, class T, int WORDS>
SL_INLINE void joinWords(uint32_t (&words)[WORDS], const T* from) {
  using Bits = typename UnsignedOfSize<sizeof(T)>::type;
  SL_UNROLL
  for (int i = 0; i < WORDS; ++i) {
    if constexpr (sizeof(T) == 8) {
      words[i] = uint32_t(bitcast<Bits>(from[i / 2]) >> (i % 2 * 32));
    } else {
      constexpr int kParts = 4 / int(sizeof(T));
      words[i] = 0;
      SL_UNROLL
      for (int j = 0; j < kParts; ++j) {
        words[i] |= uint32_t(bitcast<Bits>(from[i * kParts + j])) << (8 * int(sizeof(T)) * j);
      }
    }
  }
}
/// Stores N neighbours to `p`, which is aligned for pieces.
template <int N, class T>
SL_INLINE void storePieces(T* p, const T* from) {
  constexpr int K = kPiece<T, N>, kBytes = K * int(sizeof(T));
  SL_UNROLL
  for (int i = 0; i < N; i += K) {
    // Of words only runs of several pieces: those of one keep fewer registers as an assignment.
    if constexpr (kBytes % 4 == 0 && (sizeof(T) < 4 || (sizeof(T) <= 8 && N > K))) {
      uint32_t words[kBytes / 4];
      joinWords<K>(words, from + i);
      storeWords(p + i, words);
    } else {
      Piece<T, K> piece;
      SL_UNROLL
      for (int j = 0; j < K; ++j) {
        piece.at[j] = from[i + j];
      }
      *reinterpret_cast<Piece<T, K>*>(p + i) = piece;
    }
  }
}
template <int N, class T>
SL_INLINE void storeRun(T* p, int64_t stride, int count, const T* from) {
  if (inPieces<N>(p, stride, count)) {
    storePieces<N>(p, from);
    return;
  }
  SL_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i < count) {
      p[i * stride] = from[i];
    }
  }
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_OPERANDS_H
