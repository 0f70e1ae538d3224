// SPDX-License-Identifier: Apache-2.0
// Rows of small matrices, for the family `linalg`: one thread has a matrix, in CUDA C++ a warp,
// whose lanes take elements of rows.
#ifndef STRAIGHTLINE_KERNELS_MATRIX_ROWS_H
#define STRAIGHTLINE_KERNELS_MATRIX_ROWS_H

#include "straightline/kernels/operands.h"
#include "straightline/kernels/scalar.h"

namespace sl::linalg_detail {

#if defined(__CUDACC__)

/// The threads that share a matrix: a warp.
inline constexpr int kThreads = 32;
SL_INLINE int thisThread() { return int(threadIdx.x) % kThreads; }
SL_INLINE void together() { __syncwarp(); }

#else

inline constexpr int kThreads = 1;
SL_INLINE int thisThread() { return 0; }
SL_INLINE void together() {}

#endif  // __CUDACC__

template <class T>
SL_INLINE T magnitude(T x) {
  return x < T(0) ? -x : x;
}

// A loop of known length would be taken apart before it becomes vectors.
#if defined(__clang__) && !defined(__CUDACC__)
#define SL_LINALG_VECTORS _Pragma("clang loop vectorize(enable) unroll(disable)")
#else
#define SL_LINALG_VECTORS
#endif

/// to[i] -= factor * from[i].
template <class T>
SL_INLINE void subtractRow(T* to, const T* from, T factor, int64_t count) {
  SL_LINALG_VECTORS
  for (int64_t i = thisThread(); i < count; i += kThreads) {
    to[i] -= factor * from[i];
  }
}

/// x[i] /= divisor.
template <class T>
SL_INLINE void divideRow(T* x, T divisor, int64_t count) {
  SL_LINALG_VECTORS
  for (int64_t i = thisThread(); i < count; i += kThreads) {
    x[i] /= divisor;
  }
}

/// Exchanges elements of two rows.
template <class T>
SL_INLINE void exchange(T* a, T* b, int64_t count) {
  for (int64_t i = thisThread(); i < count; i += kThreads) {
    const T other = a[i];
    a[i] = b[i];
    b[i] = other;
  }
}

}  // namespace sl::linalg_detail

#endif  // STRAIGHTLINE_KERNELS_MATRIX_ROWS_H
