// SPDX-License-Identifier: Apache-2.0
// Family `linalg` (factors of matrices, triangular systems, eigenvalues and singular values), of a
// batch of matrices in row-major order:
//
//   sl::linalg<LinalgTune{MatrixStep::cholesky}>(ctx, team, shape, x, factor, info)
//   sl::linalg<LinalgTune{MatrixStep::lu}>(ctx, team, shape, x, factors, pivots, permutation, info)
//   sl::linalg<LinalgTune{MatrixStep::solve}>(ctx, team, shape, a, b, x)
//   sl::linalg<LinalgTune{MatrixStep::geqrf}>(ctx, team, shape, x, factors, taus)
//   sl::linalg<LinalgTune{MatrixStep::orgqr}>(ctx, team, shape, x, taus, q)
//   sl::linalg<LinalgTune{MatrixStep::eigh}>(ctx, team, shape, x, vectors, values, work, info)
//   sl::linalg<LinalgTune{MatrixStep::svd}>(ctx, team, shape, x, right, values, left, info)
//
//   x, factor, factors, a   [batch, n, n] float, double; geqrf, orgqr, svd: [batch, rows, n], as q
//   b, x                    [batch, n, columns]
//   pivots, permutation     [batch, n] int32, int64 (op::LuOp says what they hold)
//   taus                    [batch, reflections]
//   vectors, work           [batch, n, n]; values [batch, n]
//   right                   [batch, rows, n]; left [batch, rows, rows]; values [batch, rows]
//   info                    [batch] int32: 0, or the row (from 1) of the first pivot that is 0 or,
//                           of a Cholesky factor, not positive; eigh, svd: 1 where nothing is found
//
// Outputs overlap no input. Both factors are taken by rows from the first one on, each subtracting
// its multiples from the rows below (outer products; G. Golub and C. Van Loan, Matrix Computations,
// 3.2 and 4.2), and rows are exchanged by the largest pivot of the column, of equal ones the first:
// all loops but the search run along rows. Reflections are LAPACK's (xGEQR2, xORG2R), each applied
// to all columns behind it, and to those of the identity from the last one on. Eigenvalues and
// singular values are found by rotations (jacobi.h). The family is meant
// for small matrices, which stay in the cache. The team splits the batch; in CUDA C++ a warp takes
// a matrix, its lanes elements of rows.
#ifndef STRAIGHTLINE_KERNELS_LINALG_H
#define STRAIGHTLINE_KERNELS_LINALG_H

#include "straightline/kernels/jacobi.h"
#include "straightline/kernels/matrix_rows.h"

namespace sl {

enum class MatrixStep { cholesky, lu, solve, geqrf, orgqr, eigh, svd };

struct LinalgTune {
  MatrixStep matrixStep = MatrixStep::cholesky;
  int upper = 0;      ///< 1: the upper triangle is read, and a Cholesky factor is upper
  int transpose = 0;  ///< solve, 1: by the transposed matrix
  int unit = 0;       ///< solve, 1: ones in the diagonal
};

struct LinalgShape {
  int64_t batch = 0;
  int64_t n = 0;
  int64_t columns = 1;  ///< of b
  int64_t rows = 0;     ///< geqrf, orgqr, svd
  int64_t reflections = 0;
};

namespace linalg_detail {

/// The upper factor in the upper triangle of `u`, then as the tune says. Returns info.
template <LinalgTune T, class E>
SL_INLINE int cholesky(int64_t n, const E* x, E* u) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + thisThread(); j < n; j += kThreads) {
      u[i * n + j] = T.upper != 0 ? x[i * n + j] : x[j * n + i];
    }
  }
  together();
  int info = 0;
  for (int64_t k = 0; k < n; ++k) {
    E* row = u + k * n;
    const E pivot = row[k];
    if (!(pivot > E(0))) {
      info = int(k) + 1;
      break;
    }
    const E root = sqrt(pivot);
    together();  // every thread has read the pivot
    if (thisThread() == 0) {
      row[k] = root;
    }
    divideRow(row + k + 1, root, n - k - 1);
    together();
    for (int64_t i = k + 1; i < n; ++i) {
      subtractRow(u + i * n + i, row + i, row[i], n - i);
    }
    together();
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1 + thisThread(); j < n; j += kThreads) {
      u[j * n + i] = T.upper != 0 ? E(0) : u[i * n + j];
      if constexpr (T.upper == 0) {
        u[i * n + j] = E(0);
      }
    }
  }
  return info;
}

template <class E>
SL_INLINE int lu(int64_t n, const E* x, E* f, int32_t* pivots, int64_t* permutation) {
  for (int64_t i = thisThread(); i < n * n; i += kThreads) {
    f[i] = x[i];
  }
  for (int64_t i = thisThread(); i < n; i += kThreads) {
    permutation[i] = i;
  }
  together();
  int info = 0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t best = k;
    E most = magnitude(f[k * n + k]);
    for (int64_t i = k + 1; i < n; ++i) {
      const E size = magnitude(f[i * n + k]);
      best = size > most ? i : best;
      most = size > most ? size : most;
    }
    together();  // every thread has searched
    if (thisThread() == 0) {
      pivots[k] = int32_t(best) + 1;
    }
    if (best != k) {
      exchange(f + k * n, f + best * n, n);
      if (thisThread() == 0) {
        const int64_t other = permutation[k];
        permutation[k] = permutation[best];
        permutation[best] = other;
      }
      together();
    }
    const E* row = f + k * n;
    const E pivot = row[k];
    if (pivot == E(0)) {
      info = info == 0 ? int(k) + 1 : info;
      continue;
    }
    for (int64_t i = k + 1 + thisThread(); i < n; i += kThreads) {
      f[i * n + k] /= pivot;
    }
    together();
    for (int64_t i = k + 1; i < n; ++i) {
      subtractRow(f + i * n + k + 1, row + k + 1, f[i * n + k], n - k - 1);
    }
    together();
  }
  return info;
}

/// Element (row, column) of the triangle, transposed or not.
template <LinalgTune T, class E>
SL_INLINE E at(const E* a, int64_t n, int64_t row, int64_t column) {
  return T.transpose != 0 ? a[column * n + row] : a[row * n + column];
}

/// Whether the first row has one term.
template <LinalgTune T>
inline constexpr bool kForward = (T.upper != 0) == (T.transpose != 0);

#if !defined(__CUDACC__)

/// One column, a row of the triangle at a time, whose elements lie side by side.
template <LinalgTune T, class E>
SL_INLINE void solveByRows(int64_t n, const E* a, E* x) {
  constexpr int kSums = 4;  // enough to hide the latency of additions
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = kForward<T> ? step : n - 1 - step;
    const E* row = a + i * n;
    const int64_t begin = kForward<T> ? 0 : i + 1;
    const int64_t end = kForward<T> ? i : n;
    E sums[kSums] = {};
    int64_t j = begin;
    for (; j + kSums <= end; j += kSums) {
      SL_UNROLL
      for (int s = 0; s < kSums; ++s) {
        sums[s] += row[j + s] * x[j + s];
      }
    }
    for (; j < end; ++j) {
      sums[0] += row[j] * x[j];
    }
    const E rest = x[i] - ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    x[i] = T.unit != 0 ? rest : rest / row[i];
  }
}

#endif  // __CUDACC__

template <LinalgTune T, class E>
SL_INLINE void solve(int64_t n, int64_t columns, const E* a, const E* b, E* x) {
  for (int64_t i = thisThread(); i < n * columns; i += kThreads) {
    x[i] = b[i];
  }
  together();
#if !defined(__CUDACC__)
  if constexpr (T.transpose == 0) {
    if (columns == 1) {
      return solveByRows<T>(n, a, x);
    }
  }
#endif
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = kForward<T> ? step : n - 1 - step;
    E* row = x + i * columns;
    if constexpr (T.unit == 0) {
      const E pivot = a[i * n + i];
      divideRow(row, pivot, columns);
      together();
    }
    const int64_t first = kForward<T> ? i + 1 : 0;
    const int64_t rows = kForward<T> ? n - 1 - i : i;
#if defined(__CUDACC__)
    for (int64_t e = thisThread(); e < rows * columns; e += kThreads) {
      const int64_t r = first + e / columns, c = e % columns;
      x[r * columns + c] -= at<T>(a, n, r, i) * row[c];
    }
#else
    for (int64_t r = first; r < first + rows; ++r) {
      subtractRow(x + r * columns, row, at<T>(a, n, r, i), columns);
    }
#endif
    together();
  }
}

/// a -= tau v (v^T a) for columns [first, last) of rows [at, rows) of a; v is 1, and v[i * stride]
/// for the rows behind the first one.
template <class E>
SL_INLINE void reflect(E* a, int64_t width, int64_t at, int64_t rows, int64_t first, int64_t last,
                       const E* v, int64_t stride, E tau) {
#if defined(__CUDACC__)
  constexpr int kColumns = 1;  // a lane takes one at a time
#else
  constexpr int kColumns = 64;
#endif
  for (int64_t j = first + thisThread() * kColumns; j < last; j += kThreads * kColumns) {
    // one where a lane takes one: the sums are in registers then
    const int64_t count = kColumns == 1 ? 1 : minOf(int64_t(kColumns), last - j);
    E sums[kColumns];
    for (int64_t c = 0; c < count; ++c) {
      sums[c] = a[at * width + j + c];
    }
    for (int64_t i = at + 1; i < rows; ++i) {
      const E factor = v[(i - at - 1) * stride];
      SL_LINALG_VECTORS
      for (int64_t c = 0; c < count; ++c) {
        sums[c] += factor * a[i * width + j + c];
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      sums[c] *= tau;
      a[at * width + j + c] -= sums[c];
    }
    for (int64_t i = at + 1; i < rows; ++i) {
      const E factor = v[(i - at - 1) * stride];
      SL_LINALG_VECTORS
      for (int64_t c = 0; c < count; ++c) {
        a[i * width + j + c] -= factor * sums[c];
      }
    }
  }
  together();
}

template <class E>
SL_INLINE void geqrf(const LinalgShape& s, const E* x, E* a, E* taus) {
  for (int64_t i = thisThread(); i < s.rows * s.n; i += kThreads) {
    a[i] = x[i];
  }
  together();
  for (int64_t k = 0; k < s.reflections; ++k) {
    E* column = a + k * s.n + k;
    // The norm behind the first element, by the largest one: squares neither overflow nor vanish.
    E most = E(0);
    for (int64_t i = 1; i < s.rows - k; ++i) {
      const E size = magnitude(column[i * s.n]);
      most = size > most || size != size ? size : most;
    }
    E squares = E(0);
    for (int64_t i = 1; i < s.rows - k && most > E(0); ++i) {
      const E part = column[i * s.n] / most;
      squares += part * part;
    }
    const E alpha = column[0];
    E tau = E(0);
    together();  // every thread has read the column
    if (!(most == E(0))) {
      const E behind = most * sqrt(squares);
      const E larger = magnitude(alpha) > behind ? magnitude(alpha) : behind;
      const E p = alpha / larger, q = behind / larger;
      const E norm = larger * sqrt(p * p + q * q);
      const E beta = alpha < E(0) ? norm : -norm;
      tau = (beta - alpha) / beta;
      for (int64_t i = 1 + thisThread(); i < s.rows - k; i += kThreads) {
        column[i * s.n] /= alpha - beta;
      }
      if (thisThread() == 0) {
        column[0] = beta;
      }
      together();
      reflect(a, s.n, k, s.rows, k + 1, s.n, column + s.n, s.n, tau);
    }
    if (thisThread() == 0) {
      taus[k] = tau;
    }
  }
}

template <class E>
SL_INLINE void orgqr(const LinalgShape& s, const E* x, const E* taus, E* q) {
  for (int64_t i = thisThread(); i < s.rows * s.n; i += kThreads) {
    q[i] = i / s.n == i % s.n ? E(1) : E(0);
  }
  together();
  for (int64_t k = s.reflections - 1; k >= 0; --k) {
    reflect(q, s.n, k, s.rows, k, s.n, x + (k + 1) * s.n + k, s.n, taus[k]);
  }
}

/// Calls take(matrix) for each matrix of this thread's share.
template <class Team, class Take>
SL_INLINE void forEach(const LinalgShape& s, [[maybe_unused]] Team team, Take take) {
#if defined(__CUDACC__)
  const int64_t number = threadNumber() / kThreads;
  if (number < s.batch) {  // as do all lanes of the warp
    take(number);
  }
#else
  const Range part = split(s.batch, team, 1);
  for (int64_t i = part.begin; i < part.end; ++i) {
    take(i);
  }
#endif
}

template <LinalgTune T, class Team, class E>
SL_INLINE void run(Team team, const LinalgShape& s, const E* x, E* factor, int32_t* info) {
  static_assert(T.matrixStep == MatrixStep::cholesky);
  const int64_t size = s.n * s.n;
  forEach(s, team, [&](int64_t i) SL_LAMBDA {
    const int found = cholesky<T>(s.n, x + i * size, factor + i * size);
    if (thisThread() == 0) {
      info[i] = found;
    }
  });
}

template <LinalgTune T, class Team, class E>
SL_INLINE void run(Team team, const LinalgShape& s, const E* x, E* factors, int32_t* pivots,
                   int64_t* permutation, int32_t* info) {
  static_assert(T.matrixStep == MatrixStep::lu);
  const int64_t size = s.n * s.n;
  forEach(s, team, [&](int64_t i) SL_LAMBDA {
    const int found =
        lu(s.n, x + i * size, factors + i * size, pivots + i * s.n, permutation + i * s.n);
    if (thisThread() == 0) {
      info[i] = found;
    }
  });
}

template <LinalgTune T, class Team, class E>
SL_INLINE void run(Team team, const LinalgShape& s, const E* a, const E* b, E* x) {
  static_assert(T.matrixStep == MatrixStep::solve || T.matrixStep == MatrixStep::orgqr);
  if constexpr (T.matrixStep == MatrixStep::orgqr) {
    const int64_t size = s.rows * s.n;
    forEach(s, team, [&](int64_t i) SL_LAMBDA {
      orgqr(s, a + i * size, b + i * s.reflections, x + i * size);
    });
  } else {
    const int64_t size = s.n * s.columns;
    forEach(s, team, [&](int64_t i) SL_LAMBDA {
      solve<T>(s.n, s.columns, a + i * s.n * s.n, b + i * size, x + i * size);
    });
  }
}

template <LinalgTune T, class Team, class E>
SL_INLINE void run(Team team, const LinalgShape& s, const E* x, E* factors, E* taus) {
  static_assert(T.matrixStep == MatrixStep::geqrf);
  const int64_t size = s.rows * s.n;
  forEach(s, team, [&](int64_t i) SL_LAMBDA {
    geqrf(s, x + i * size, factors + i * size, taus + i * s.reflections);
  });
}

/// `other` is the copy of x that eigh works in, and the left vectors of svd.
template <LinalgTune T, class Team, class E>
SL_INLINE void run(Team team, const LinalgShape& s, const E* x, E* vectors, E* values, E* other,
                   int32_t* info) {
  static_assert(T.matrixStep == MatrixStep::eigh || T.matrixStep == MatrixStep::svd);
  constexpr bool kEigh = T.matrixStep == MatrixStep::eigh;
  const int64_t rows = kEigh ? s.n : s.rows, size = rows * s.n;
  forEach(s, team, [&](int64_t i) SL_LAMBDA {
    const E* from = x + i * size;
    E *to = vectors + i * size, *found = values + i * rows, *rest = other + i * rows * rows;
    int failed = 0;
    if constexpr (kEigh) {
      failed = jacobi::eigh<(T.upper != 0)>(s.n, from, to, found, rest);
    } else {
      failed = jacobi::svd(rows, s.n, from, to, found, rest);
    }
    if (thisThread() == 0) {
      info[i] = failed;
    }
  });
}

}  // namespace linalg_detail

#if defined(__CUDACC__)

template <LinalgTune T, class... Operands>
SL_INLINE void linalg(LinalgShape s, Operands*... operands) {
  linalg_detail::run<T>(0, s, operands...);  // no team
}

#else

template <LinalgTune T, class... Operands>
SL_INLINE void linalg(sl_ctx*, sl_team team, LinalgShape s, Operands*... operands) {
  linalg_detail::run<T>(team, s, operands...);
}

#endif  // __CUDACC__

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_LINALG_H
