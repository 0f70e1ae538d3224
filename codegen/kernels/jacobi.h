// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of symmetric matrices and singular values by Jacobi's rotations, for the family
// `linalg` (G. Golub and C. Van Loan, Matrix Computations, 8.5 and 8.6): pairs of rows in turn
// until a whole sweep finds nothing to rotate. Vectors are rows. Every thread of a matrix computes
// the same rotation; rows are divided among them.
#ifndef STRAIGHTLINE_KERNELS_JACOBI_H
#define STRAIGHTLINE_KERNELS_JACOBI_H

#include "straightline/kernels/matrix_rows.h"

namespace sl::linalg_detail::jacobi {

/// Convergence is quadratic; 6 to 10 sweeps are usual.
inline constexpr int kSweeps = 60;

template <class E>
inline constexpr E kEpsilon = sizeof(E) == 4 ? E(0x1p-23) : E(0x1p-52);

/// Sums of products of floats are taken in double: their squares neither overflow nor vanish.
template <class E>
SL_INLINE double dot(const E* a, const E* b, int64_t count) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    SL_UNROLL
    for (int s = 0; s < kSums; ++s) {
      sums[s] += double(a[i + s]) * double(b[i + s]);
    }
  }
  for (; i < count; ++i) {
    sums[0] += double(a[i]) * double(b[i]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// The largest magnitude; NaN where there is one.
template <class E>
SL_INLINE E largest(const E* x, int64_t count) {
  E most = E(0);
  for (int64_t i = 0; i < count; ++i) {
    const E size = magnitude(x[i]);
    most = size > most || size != size ? size : most;
    if (most != most) {
      break;
    }
  }
  return most;
}

template <class E>
SL_INLINE bool isNumber(E x) {
  return x - x == E(0);
}

/// A power of two by which squares of elements, at most `most`, are numbers; 1 for usual ones.
template <class E>
SL_INLINE E scaleOf(E most) {
  if constexpr (sizeof(E) == 4) {
    return most > E(0x1p60f) ? E(0x1p-80f) : most < E(0x1p-60f) ? E(0x1p100f) : E(1);
  } else {
    return most > E(0x1p300) ? E(0x1p-600) : most < E(0x1p-300) ? E(0x1p700) : E(1);
  }
}

/// a, b = cosine a - sine b, sine a + cosine b.
template <class E>
SL_INLINE void rotate(E* a, E* b, E cosine, E sine, int64_t count) {
  SL_LINALG_VECTORS
  for (int64_t i = thisThread(); i < count; i += kThreads) {
    const E x = a[i], y = b[i];
    a[i] = cosine * x - sine * y;
    b[i] = sine * x + cosine * y;
  }
}

/// The smaller root of t * t + 2 * half * t = 1.
SL_INLINE double tangentOf(double half) {
  const double root = 1.0 / (magnitude(half) + sqrt(1.0 + half * half));
  return half < 0 ? -root : root;
}

template <class E>
SL_INLINE void setIdentity(E* x, int64_t n) {
  for (int64_t i = thisThread(); i < n * n; i += kThreads) {
    x[i] = i / n == i % n ? E(1) : E(0);
  }
}

template <class E>
SL_INLINE void setNan(E* x, int64_t count) {
  const E none = E(__builtin_nanf(""));
  for (int64_t i = thisThread(); i < count; i += kThreads) {
    x[i] = none;
  }
}

/// Exchanges values, and rows of both, until the values ascend (descend).
template <bool DESCEND, class E>
SL_INLINE void sortRows(int64_t n, E* values, E* a, int64_t width, E* b) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t best = i;
    for (int64_t j = i + 1; j < n; ++j) {
      best = (DESCEND ? values[j] > values[best] : values[j] < values[best]) ? j : best;
    }
    together();  // every thread has searched
    if (best != i) {
      exchange(values + i, values + best, 1);
      exchange(a + i * width, a + best * width, width);
      if (b != nullptr) {
        exchange(b + i * n, b + best * n, n);
      }
    }
    together();
  }
}

/// One pair of a symmetric matrix `a`; its vectors are turned along. Whether there was work.
template <class E>
SL_INLINE bool turnPair(int64_t n, E* a, E* vectors, int64_t p, int64_t q, E small) {
  E *first = a + p * n, *second = a + q * n;
  const E between = first[q];
  if (!(magnitude(between) > small)) {
    return false;
  }
  const double low = double(first[p]), high = double(second[q]);
  const double tangent = tangentOf((high - low) / (2.0 * double(between)));
  const double cosine = 1.0 / sqrt(1.0 + tangent * tangent);
  const E c = E(cosine), s = E(tangent * cosine);
  together();  // every thread has read the pair
  rotate(first, second, c, s, n);
  rotate(vectors + p * n, vectors + q * n, c, s, n);
  together();
  for (int64_t k = thisThread(); k < n; k += kThreads) {
    a[k * n + p] = first[k];
    a[k * n + q] = second[k];
  }
  together();
  if (thisThread() == 0) {
    first[p] = E(low - tangent * double(between));
    second[q] = E(high + tangent * double(between));
    first[q] = second[p] = E(0);
  }
  together();
  return true;
}

/// Ascending values of the symmetric matrix whose upper (lower) triangle x holds, and a row for
/// each. Returns 1, and NaN everywhere, where x is not finite.
template <bool UPPER, class E>
SL_INLINE int eigh(int64_t n, const E* x, E* vectors, E* values, E* a) {
  E most = E(0);
  for (int64_t i = 0; i < n; ++i) {
    const E size = UPPER ? largest(x + i * n + i, n - i) : largest(x + i * n, i + 1);
    most = size > most || size != size ? size : most;
    if (most != most) {
      break;
    }
  }
  const E scale = scaleOf(most);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + thisThread(); j < n; j += kThreads) {
      const E element = (UPPER ? x[i * n + j] : x[j * n + i]) * scale;
      a[i * n + j] = element;
      a[j * n + i] = element;
    }
  }
  setIdentity(vectors, n);
  together();
  const E small = most * scale * kEpsilon<E> / E(n > 0 ? n : 1);
  bool turned = isNumber(most);
  for (int sweep = 0; turned && sweep < kSweeps; ++sweep) {
    turned = false;
    for (int64_t p = 0; p + 1 < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        turned = turnPair(n, a, vectors, p, q, small) || turned;
      }
    }
  }
  if (turned || !isNumber(most)) {
    setNan(values, n);
    setNan(vectors, n * n);
    return 1;
  }
  for (int64_t i = thisThread(); i < n; i += kThreads) {
    values[i] = a[i * n + i] / scale;
  }
  together();
  sortRows<false>(n, values, vectors, n, static_cast<E*>(nullptr));
  return 0;
}

/// Makes row `j` a unit vector that is orthogonal to those before it.
template <class E>
SL_INLINE void fillRow(int64_t j, int64_t n, E* w) {
  E* row = w + j * n;
  for (int64_t start = 0; start < n; ++start) {
    for (int64_t i = thisThread(); i < n; i += kThreads) {
      row[i] = i == start ? E(1) : E(0);
    }
    together();
    double squares = 0;
    for (int pass = 0; pass < 2; ++pass) {  // the second for what rounding left
      for (int64_t k = 0; k < j; ++k) {
        const E part = E(dot(row, w + k * n, n));
        together();
        subtractRow(row, w + k * n, part, n);
        together();
      }
      squares = pass == 0 ? dot(row, row, n) : squares;
    }
    if (squares * double(2 * n) < 1.0) {
      continue;  // most of it lies within the others; some other unit vector does not
    }
    const E size = E(sqrt(dot(row, row, n)));
    together();
    divideRow(row, size, n);
    together();
    return;
  }
}

/// One pair of rows of w, and of `left`; the longer one comes first. Whether there was work.
template <class E>
SL_INLINE bool separatePair(int64_t rows, int64_t n, E* w, E* left, int64_t p, int64_t q,
                            double tiny) {
  E *first = w + p * n, *second = w + q * n;
  const double a = dot(first, first, n), b = dot(second, second, n);
  const double between = dot(first, second, n);
  together();  // every thread has read the rows
  if (a < b && b > tiny) {
    exchange(first, second, n);
    exchange(left + p * rows, left + q * rows, rows);
    together();
  }
  const double longer = a < b ? b : a, shorter = a < b ? a : b;
  const double limit = double(kEpsilon<E>) * (n > 16 ? sqrt(double(n)) : 4.0);
  if (!(shorter > tiny) || !(magnitude(between) > limit * sqrt(longer) * sqrt(shorter))) {
    return false;
  }
  const double tangent = tangentOf((shorter - longer) / (2.0 * between));
  const double cosine = 1.0 / sqrt(1.0 + tangent * tangent);
  const E c = E(cosine), s = E(tangent * cosine);
  rotate(first, second, c, s, n);
  rotate(left + p * rows, left + q * rows, c, s, rows);
  together();
  return true;
}

/// x [rows, n] = left^T diag(values) right with rows <= n: values descend, `right` (w) and `left`
/// have a row for each. Returns 1, and NaN everywhere, where x is not finite.
template <class E>
SL_INLINE int svd(int64_t rows, int64_t n, const E* x, E* w, E* values, E* left) {
  const E most = largest(x, rows * n), scale = scaleOf(most);
  for (int64_t i = thisThread(); i < rows * n; i += kThreads) {
    w[i] = x[i] * scale;
  }
  setIdentity(left, rows);
  together();
  const double least = double(most) * double(scale) * 0x1p-60;  // rows below are rounding's
  const double tiny = least * least;
  bool turned = isNumber(most);
  for (int sweep = 0; turned && sweep < kSweeps; ++sweep) {
    turned = false;
    for (int64_t p = 0; p + 1 < rows; ++p) {
      for (int64_t q = p + 1; q < rows; ++q) {
        turned = separatePair(rows, n, w, left, p, q, tiny) || turned;
      }
    }
  }
  if (turned || !isNumber(most)) {
    setNan(values, rows);
    setNan(w, rows * n);
    setNan(left, rows * rows);
    return 1;
  }
  for (int64_t i = thisThread(); i < rows; i += kThreads) {
    values[i] = E(sqrt(dot(w + i * n, w + i * n, n)));
  }
  together();
  sortRows<true>(rows, values, w, n, left);
  for (int64_t i = 0; i < rows; ++i) {
    const E size = values[i];
    if (double(size) > least) {
      divideRow(w + i * n, size, n);
      together();
    } else {
      fillRow(i, n, w);
    }
    if (thisThread() == 0) {
      values[i] = size / scale;
    }
  }
  together();
  return 0;
}

}  // namespace sl::linalg_detail::jacobi

#endif  // STRAIGHTLINE_KERNELS_JACOBI_H
