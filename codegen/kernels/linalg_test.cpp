// SPDX-License-Identifier: Apache-2.0
// Family `linalg` against products of what it finds: factors multiplied give the matrix, solutions
// the right side; pivots, failures, sizes from 0 on, batches and threads.
#include "straightline/kernels/linalg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernel_testing.h"

namespace {

using sl::LinalgShape;
using sl::LinalgTune;
using sl::MatrixStep;

template <class E>
double tolerance(int64_t n) {
  return 16.0 * double(n + 1) * double(std::numeric_limits<E>::epsilon());
}

/// Matrices of a batch, positive definite where they are to be.
template <class E>
std::vector<E> matrices(int64_t batch, int64_t n, bool positive) {
  std::vector<E> x = sl::testing::randomVector<E>(batch * n * n);
  if (!positive) {
    return x;
  }
  std::vector<E> square(x.size());
  for (int64_t b = 0; b < batch; ++b) {
    const E* from = x.data() + b * n * n;
    E* to = square.data() + b * n * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = i == j ? 1.0 : 0.0;
        for (int64_t k = 0; k < n; ++k) {
          sum += double(from[i * n + k]) * double(from[j * n + k]);
        }
        to[i * n + j] = E(sum);
      }
    }
  }
  return square;
}

template <class E, int UPPER>
void checkCholesky(int64_t batch, int64_t n, int team) {
  constexpr LinalgTune kTune{.matrixStep = MatrixStep::cholesky, .upper = UPPER};
  const auto x = matrices<E>(batch, n, true);
  std::vector<E> half = x;  // the other triangle is not read
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        half[size_t(b * n * n + (UPPER ? i * n + j : j * n + i))] = E(NAN);
      }
    }
  }
  std::vector<E> factor(x.size(), E(77));
  std::vector<int32_t> info(size_t(batch), 77);
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<kTune>(ctx, members, LinalgShape{.batch = batch, .n = n}, half.data(), factor.data(),
                      info.data());
  });
  for (int64_t b = 0; b < batch; ++b) {
    EXPECT_EQ(info[size_t(b)], 0);
    const E* f = factor.data() + b * n * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) {
          sum += UPPER ? double(f[k * n + i]) * double(f[k * n + j])
                       : double(f[i * n + k]) * double(f[j * n + k]);
        }
        ASSERT_NEAR(sum, double(x[size_t(b * n * n + i * n + j)]), tolerance<E>(n) * double(n + 1));
        if (UPPER ? j < i : j > i) {
          ASSERT_EQ(f[i * n + j], E(0));
        }
      }
    }
  }
}

template <class E>
void checkLu(int64_t batch, int64_t n, int team) {
  constexpr LinalgTune kTune{.matrixStep = MatrixStep::lu};
  const auto x = matrices<E>(batch, n, false);
  std::vector<E> factors(x.size(), E(77));
  std::vector<int32_t> pivots(size_t(batch * n), 77), info(size_t(batch), 77);
  std::vector<int64_t> permutation(size_t(batch * n), 77);
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<kTune>(ctx, members, LinalgShape{.batch = batch, .n = n}, x.data(), factors.data(),
                      pivots.data(), permutation.data(), info.data());
  });
  for (int64_t b = 0; b < batch; ++b) {
    EXPECT_EQ(info[size_t(b)], 0);
    const E* f = factors.data() + b * n * n;
    std::vector<int64_t> rows(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      rows[size_t(i)] = i;
    }
    for (int64_t i = 0; i < n; ++i) {
      std::swap(rows[size_t(i)], rows[size_t(pivots[size_t(b * n + i)] - 1)]);
    }
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(permutation[size_t(b * n + i)], rows[size_t(i)]);
      for (int64_t j = 0; j < n; ++j) {
        double sum = i <= j ? double(f[i * n + j]) : 0;
        for (int64_t k = 0; k < std::min(i, j + 1); ++k) {
          sum += double(f[i * n + k]) * double(f[k * n + j]);
        }
        ASSERT_NEAR(sum, double(x[size_t(b * n * n + rows[size_t(i)] * n + j)]), tolerance<E>(n));
        if (j < i) {
          ASSERT_LE(std::fabs(f[i * n + j]), E(1)) << "a row with a larger pivot was below";
        }
      }
    }
  }
}

template <class E, int UPPER, int TRANSPOSE, int UNIT>
void checkSolve(int64_t batch, int64_t n, int64_t columns, int team) {
  constexpr LinalgTune kTune{
      .matrixStep = MatrixStep::solve, .upper = UPPER, .transpose = TRANSPOSE, .unit = UNIT};
  std::vector<E> a = sl::testing::randomVector<E>(batch * n * n, E(-0.5), E(0.5));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        E& element = a[size_t(b * n * n + i * n + j)];
        const bool read = UPPER ? j > i : j < i;
        element = i == j ? (UNIT ? E(NAN) : E(2) + element) : read ? element / E(n) : E(NAN);
      }
    }
  }
  const std::vector<E> right = sl::testing::randomVector<E>(batch * n * columns);
  std::vector<E> x(right.size(), E(77));
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<kTune>(ctx, members, LinalgShape{.batch = batch, .n = n, .columns = columns},
                      a.data(), right.data(), x.data());
  });
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          const int64_t row = TRANSPOSE ? j : i, column = TRANSPOSE ? i : j;
          if (i != j && (UPPER ? column < row : column > row)) {
            continue;
          }
          const double element =
              i == j && UNIT ? 1.0 : double(a[size_t(b * n * n + row * n + column)]);
          sum += element * double(x[size_t((b * n + j) * columns + c)]);
        }
        ASSERT_NEAR(sum, double(right[size_t((b * n + i) * columns + c)]), tolerance<E>(n));
      }
    }
  }
}

template <class E>
void checkReflections(int64_t batch, int64_t rows, int64_t n, int team) {
  const int64_t count = std::min(rows, n);
  std::vector<E> x = sl::testing::randomVector<E>(batch * rows * n);
  for (int64_t i = 0; batch > 0 && n > 2 && i < rows; ++i) {
    x[size_t(i * n + 1)] = E(0);  // no reflection
    x[size_t(i * n + 2)] *= E(1e-20);
  }
  const LinalgShape shape{.batch = batch, .n = n, .rows = rows, .reflections = count};
  std::vector<E> factors(x.size(), E(77)), taus(size_t(batch * count), E(77));
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<LinalgTune{.matrixStep = MatrixStep::geqrf}>(
        ctx, members, shape, static_cast<const E*>(x.data()), factors.data(), taus.data());
  });
  // all of Q: the factors in rows x rows
  LinalgShape whole = shape;
  whole.n = rows;
  std::vector<E> wide(size_t(batch * rows * rows)), q(wide.size(), E(77));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        wide[size_t((b * rows + i) * rows + j)] = factors[size_t((b * rows + i) * n + j)];
      }
    }
  }
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<LinalgTune{.matrixStep = MatrixStep::orgqr}>(
        ctx, members, whole, static_cast<const E*>(wide.data()), static_cast<const E*>(taus.data()),
        q.data());
  });
  for (int64_t b = 0; b < batch; ++b) {
    const E* of = q.data() + b * rows * rows;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < rows; ++k) {
          sum += double(of[k * rows + i]) * double(of[k * rows + j]);
        }
        ASSERT_NEAR(sum, i == j ? 1.0 : 0.0, tolerance<E>(rows)) << "of Q^T Q";
      }
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < std::min(count, j + 1); ++k) {
          sum += double(of[i * rows + k]) * double(factors[size_t((b * rows + k) * n + j)]);
        }
        ASSERT_NEAR(sum, double(x[size_t((b * rows + i) * n + j)]), tolerance<E>(rows));
      }
    }
  }
}

/// Rows that are orthogonal, and of length 1.
template <class E>
void expectOrthogonal(const E* rows, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        sum += double(rows[i * n + k]) * double(rows[j * n + k]);
      }
      ASSERT_NEAR(sum, i == j ? 1.0 : 0.0, tolerance<E>(n)) << i << ", " << j;
    }
  }
}

template <class E, int UPPER>
void checkEigenvalues(int64_t batch, int64_t n, double scale, int team) {
  constexpr LinalgTune kTune{.matrixStep = MatrixStep::eigh, .upper = UPPER};
  std::vector<E> x = sl::testing::randomVector<E>(batch * n * n), whole = x;
  for (int64_t at = 0; at < batch * n * n; ++at) {
    const int64_t i = at / n % n, j = at % n, other = at - i * n - j + j * n + i;
    x[size_t(at)] = E(double(x[size_t(at)]) * scale);
    const bool read = UPPER ? j >= i : j <= i;
    whole[size_t(read ? at : other)] = x[size_t(read ? at : other)];
  }
  for (int64_t at = 0; at < batch * n * n; ++at) {
    const int64_t i = at / n % n, j = at % n, other = at - i * n - j + j * n + i;
    if (UPPER ? j < i : j > i) {
      whole[size_t(at)] = x[size_t(other)];
      x[size_t(at)] = E(NAN);
    }
  }
  std::vector<E> vectors(x.size(), E(77)), values(size_t(batch * n), E(77)), work(x.size());
  std::vector<int32_t> info(size_t(batch), 77);
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<kTune>(ctx, members, LinalgShape{.batch = batch, .n = n},
                      static_cast<const E*>(x.data()), vectors.data(), values.data(), work.data(),
                      info.data());
  });
  for (int64_t b = 0; b < batch; ++b) {
    ASSERT_EQ(info[size_t(b)], 0);
    const E *v = vectors.data() + b * n * n, *w = values.data() + b * n;
    expectOrthogonal(v, n, n);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_LE(i == 0 ? w[0] : w[i - 1], w[i]);
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) {
          sum += double(v[k * n + i]) * double(w[k]) * double(v[k * n + j]);
        }
        ASSERT_NEAR(sum / scale, double(whole[size_t((b * n + i) * n + j)]) / scale,
                    tolerance<E>(n));
      }
    }
  }
}

/// Of the given rank at most: rows are sums of the first ones.
template <class E>
void checkSingularValues(int64_t batch, int64_t rows, int64_t n, int64_t rank, double scale,
                         int team) {
  std::vector<E> x = sl::testing::randomVector<E>(batch * rows * n);
  for (int64_t at = 0; at < batch * rows * n; ++at) {
    const int64_t i = at / n % rows;
    const double element = i < rank   ? double(x[size_t(at)]) * scale
                           : rank > 0 ? double(x[size_t(at - i * n)]) * double(i)
                                      : 0.0;
    x[size_t(at)] = E(element);
  }
  std::vector<E> right(x.size(), E(77)), left(size_t(batch * rows * rows), E(77)),
      values(size_t(batch * rows), E(77));
  std::vector<int32_t> info(size_t(batch), 77);
  sl::testing::runTeam(team, [&](sl_ctx* ctx, sl_team members) {
    sl::linalg<LinalgTune{.matrixStep = MatrixStep::svd}>(
        ctx, members, LinalgShape{.batch = batch, .n = n, .rows = rows},
        static_cast<const E*>(x.data()), right.data(), values.data(), left.data(), info.data());
  });
  for (int64_t b = 0; b < batch; ++b) {
    ASSERT_EQ(info[size_t(b)], 0);
    const E *r = right.data() + b * rows * n, *l = left.data() + b * rows * rows;
    const E* w = values.data() + b * rows;
    expectOrthogonal(r, rows, n);
    expectOrthogonal(l, rows, rows);
    const double most = rows > 0 ? double(w[0]) : 0;
    for (int64_t i = 0; i < rows; ++i) {
      ASSERT_GE(i == 0 ? w[0] : w[i - 1], w[i]);
      ASSERT_LE(double(w[i]), i < rank ? most : most * tolerance<E>(n)) << i;
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < rows; ++k) {
          sum += double(l[k * rows + i]) * double(w[k]) * double(r[k * n + j]);
        }
        ASSERT_NEAR(sum, double(x[size_t((b * rows + i) * n + j)]), most * tolerance<E>(n));
      }
    }
  }
}

template <class E>
void checkRotations() {
  constexpr double kMost = sizeof(E) == 4 ? 1e37 : 1e305;
  for (const int64_t n : {0, 1, 2, 3, 8, 17, 40}) {
    for (const double scale : {1.0, kMost, 1 / kMost}) {
      const int64_t batch = sl::testing::pick(0, 3), more = sl::testing::pick(0, 9);
      SCOPED_TRACE("n " + std::to_string(n) + ", batch " + std::to_string(batch) + ", more " +
                   std::to_string(more) + ", scale " + std::to_string(scale));
      const int team = int(sl::testing::pick(1, 3));
      checkEigenvalues<E, 0>(batch, n, scale, team);
      checkEigenvalues<E, 1>(batch, n, scale, team);
      checkSingularValues<E>(batch, n, n + more, n, scale / double(n + more + 1), team);
      checkSingularValues<E>(batch, n, n + more, n / 2, scale / double(n * n + 1), team);
      checkSingularValues<E>(batch, n, n + more, 0, scale, team);
    }
  }
}

TEST(Linalg, RotationsOfFloats) { checkRotations<float>(); }
TEST(Linalg, RotationsOfDoubles) { checkRotations<double>(); }

TEST(Linalg, NothingIsFoundOfInfinities) {
  const std::vector<double> x = {1, 0, 0, INFINITY};
  std::vector<double> vectors(4), values(2), other(4);
  int32_t info = 77;
  const LinalgShape shape{.batch = 1, .n = 2, .rows = 2};
  const auto expectNothing = [&] {
    EXPECT_EQ(info, 1);
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]) && std::isnan(vectors[3]));
  };
  sl::testing::runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::linalg<LinalgTune{.matrixStep = MatrixStep::eigh}>(
        ctx, team, shape, x.data(), vectors.data(), values.data(), other.data(), &info);
  });
  expectNothing();
  info = 77;
  values = vectors = {0, 0, 0, 0};
  sl::testing::runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::linalg<LinalgTune{.matrixStep = MatrixStep::svd}>(
        ctx, team, shape, x.data(), vectors.data(), values.data(), other.data(), &info);
  });
  expectNothing();
}

template <class E>
void checkAll() {
  for (const int64_t n : {0, 1, 2, 3, 4, 7, 16, 33, 70}) {
    for (int team = 1; team <= 3; ++team) {
      const int64_t batch = sl::testing::pick(0, 3), columns = sl::testing::pick(1, 9);
      SCOPED_TRACE("n " + std::to_string(n) + ", batch " + std::to_string(batch) + ", columns " +
                   std::to_string(columns));
      checkCholesky<E, 0>(batch, n, team);
      checkCholesky<E, 1>(batch, n, team);
      checkLu<E>(batch, n, team);
      checkReflections<E>(batch, n, n, team);
      checkReflections<E>(batch, n + columns, n, team);
      checkReflections<E>(batch, n, n + columns, team);
      for (const int64_t k : {int64_t{1}, columns}) {
        checkSolve<E, 0, 0, 0>(batch, n, k, team);
        checkSolve<E, 0, 0, 1>(batch, n, k, team);
        checkSolve<E, 0, 1, 0>(batch, n, k, team);
        checkSolve<E, 0, 1, 1>(batch, n, k, team);
        checkSolve<E, 1, 0, 0>(batch, n, k, team);
        checkSolve<E, 1, 0, 1>(batch, n, k, team);
        checkSolve<E, 1, 1, 0>(batch, n, k, team);
        checkSolve<E, 1, 1, 1>(batch, n, k, team);
      }
    }
  }
}

TEST(Linalg, Floats) { checkAll<float>(); }
TEST(Linalg, Doubles) { checkAll<double>(); }

TEST(Linalg, Failures) {
  // Of rank 1: the second pivot is 0; and -1 in the diagonal.
  const std::vector<float> x = {1, 2, 4, 2, 4, 8, 4, 8, 16};
  std::vector<float> factor(9);
  std::vector<int32_t> pivots(3);
  std::vector<int64_t> permutation(3);
  int32_t info = 77;
  const LinalgShape shape{.batch = 1, .n = 3};
  sl::testing::runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::linalg<LinalgTune{.matrixStep = MatrixStep::lu}>(ctx, team, shape, x.data(), factor.data(),
                                                         pivots.data(), permutation.data(), &info);
  });
  EXPECT_EQ(info, 2);
  EXPECT_EQ(pivots[0], 3);
  sl::testing::runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::linalg<LinalgTune{}>(ctx, team, shape, x.data(), factor.data(), &info);
  });
  EXPECT_EQ(info, 2);
  const std::vector<float> negative = {-1, 0, 0, 0, 1, 0, 0, 0, 1};
  sl::testing::runTeam(1, [&](sl_ctx* ctx, sl_team team) {
    sl::linalg<LinalgTune{}>(ctx, team, shape, negative.data(), factor.data(), &info);
  });
  EXPECT_EQ(info, 1);
}

}  // namespace
