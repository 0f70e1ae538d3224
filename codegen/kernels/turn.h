// SPDX-License-Identifier: Apache-2.0
// Squares whose rows and columns are exchanged in registers.
#ifndef STRAIGHTLINE_KERNELS_TURN_H
#define STRAIGHTLINE_KERNELS_TURN_H

#include "straightline/kernels/operands.h"

#if !defined(__CUDACC__)

namespace sl {

/// A type of the same size that vectors can hold.
template <int Bytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = uint8_t;
};
template <>
struct BitsOf<2> {
  using type = uint16_t;
};
template <>
struct BitsOf<4> {
  using type = uint32_t;
};
template <>
struct BitsOf<8> {
  using type = uint64_t;
};

/// a0 b0 a1 b1 ... from the first (or the second) halves of a and b.
template <bool Second, class V, int... I>
SL_INLINE V interleave(V a, V b, Ints<I...>) {
  constexpr int N = sizeof...(I);
  return __builtin_shufflevector(a, b, ((Second ? N / 2 : 0) + I / 2 + (I % 2) * N)...);
}

/// Exchanges rows and lanes of N vectors of N lanes. Each round rotates the bits of (row, lane) by
/// one place, so that after log2(N) rounds the two are exchanged.
template <int N, class U>
SL_INLINE void turnLanes(vec<U, N> (&rows)[N]) {
  vec<U, N> next[N];
  SL_UNROLL
  for (int round = 1; round < N; round *= 2) {
    SL_UNROLL
    for (int r = 0; r < N / 2; ++r) {
      next[2 * r] = interleave<false>(rows[r], rows[r + N / 2], IntsUpTo<N>{});
      next[2 * r + 1] = interleave<true>(rows[r], rows[r + N / 2], IntsUpTo<N>{});
    }
    SL_UNROLL
    for (int r = 0; r < N; ++r) {
      rows[r] = next[r];
    }
  }
}

/// Turns one block of N x N.
template <int N, class U>
SL_INLINE void transposeBlock(const U* in, int64_t inRow, U* out, int64_t outCol) {
  vec<U, N> rows[N];
  for (int r = 0; r < N; ++r) {
    rows[r] = load<N>(in + r * inRow);
  }
  turnLanes<N, U>(rows);
  for (int c = 0; c < N; ++c) {
    store(out + c * outCol, rows[c]);
  }
}

/// The side of a square of elements of a type: as many as a register holds, at most 16.
template <class E>
inline constexpr int kTurnedSide =
    kVectorBytes / int(sizeof(E)) < 1    ? 1
    : kVectorBytes / int(sizeof(E)) < 16 ? kVectorBytes / int(sizeof(E))
                                         : 16;

/// out[c][r] = in[r][c] for r < rows and c < cols, with strides between the rows of each; both are
/// contiguous otherwise and do not overlap. N: side of the squares, at most a register's lanes;
/// what they leave at both edges is turned in smaller ones.
template <int N, class E>
SL_INLINE void turnSquare(const E* in, int64_t inRow, E* out, int64_t outRow, int64_t rows,
                          int64_t cols) {
  if constexpr (sizeof(E) <= 8 && N > 1) {
    using U = typename BitsOf<sizeof(E)>::type;
    const int64_t wholeRows = rows - rows % N, wholeCols = cols - cols % N;
    for (int64_t r = 0; r < wholeRows; r += N) {
      for (int64_t c = 0; c < wholeCols; c += N) {
        // As bytes, so that the other type breaks no rule of aliasing.
        transposeBlock<N>(reinterpret_cast<const U*>(in + r * inRow + c), inRow,
                          reinterpret_cast<U*>(out + c * outRow + r), outRow);
      }
    }
    // Right of the squares, then below all: one piece of code for both.
    SL_NO_UNROLL
    for (int64_t edge = 0; edge < 2; ++edge) {
      const int64_t r = edge == 0 ? 0 : wholeRows, c = edge == 0 ? wholeCols : 0;
      const int64_t ofRows = edge == 0 ? wholeRows : rows - wholeRows;
      if (ofRows > 0 && c < cols) {
        turnSquare<N / 2>(in + r * inRow + c, inRow, out + c * outRow + r, outRow, ofRows,
                          cols - c);
      }
    }
  } else {
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = 0; r < rows; ++r) {
        out[c * outRow + r] = in[r * inRow + c];
      }
    }
  }
}

}  // namespace sl

#endif  // !__CUDACC__
#endif  // STRAIGHTLINE_KERNELS_TURN_H
