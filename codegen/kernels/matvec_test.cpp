// SPDX-License-Identifier: Apache-2.0
// matvec against sums in double: matrices along their rows and along their columns with gaps
// between them, blocks of rows and their remainders, batches that share a vector, outputs with
// gaps, matrices of 16-bit floats, teams of 1 to 3.
#include "straightline/kernels/matvec.h"

#include <algorithm>

#include "straightline/kernels/kernel_testing.h"

namespace sl::testing {
namespace {

template <MatvecTune Tune, class M, class T>
void check(int64_t b0, int64_t b1, int64_t rows, int64_t k, bool alongColumns, int threads) {
  const int64_t gap = pick(0, 3), outStep = pick(1, 2);
  const int64_t mRow = alongColumns ? 1 : k + gap, mCol = alongColumns ? rows + gap : 1;
  const int64_t item = std::max<int64_t>((rows - 1) * mRow + (k - 1) * mCol + 1, 1) + gap;
  const std::vector<M> matrix = randomMatrix<M, T>(b0 * b1 * item);
  // shared by all b0 items
  const std::vector<T> x = randomVector<T>(b1 * std::max<int64_t>(k, 1));
  const std::vector<T> bias = randomVector<T>(rows);
  Guarded<T> y(b0 * b1 * rows * outStep);
  const MatvecShape shape{.batch = {1, b0, b1},
                          .rows = rows,
                          .k = k,
                          .mBatch = {0, b1 * item, item},
                          .mRow = mRow,
                          .mCol = mCol,
                          .xBatch = {0, 0, k},
                          .outBatch = {0, b1 * rows * outStep, rows * outStep},
                          .outStep = outStep,
                          .epilogueStride = {{0, 0, 0, 1}}};
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    matvec<Tune>(
        ctx, team, shape, [](auto acc, auto add, auto& result) { result = acc + add; },
        matrix.data(), x.data(), static_cast<const T*>(bias.data()), y.data());
  });
  const std::string where = "rows=" + std::to_string(rows) + " k=" + std::to_string(k) +
                            " b0=" + std::to_string(b0) + " b1=" + std::to_string(b1) +
                            " columns=" + std::to_string(int(alongColumns)) +
                            " threads=" + std::to_string(threads);
  for (int64_t i = 0; i < b0 * b1; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = double(bias[r]), magnitude = 1;
      for (int64_t q = 0; q < k; ++q) {
        const double product =
            numberOf(matrix[i * item + r * mRow + q * mCol]) * double(x[i % b1 * k + q]);
        sum += product;
        magnitude += std::abs(product);
      }
      const double bound = kEpsilon<T> * (4 + std::sqrt(double(k))) * magnitude;
      if (!y.expect((i * rows + r) * outStep, sum, bound, where)) {
        return;
      }
    }
  }
  y.expectRestUntouched(where);
}

TEST(Matvec, MatchesDoubleReference) {
  for (int64_t rows : {0, 1, 7, 16, 33, 100}) {
    for (int64_t k : {0, 1, 5, 16, 31, 70}) {
      for (bool alongColumns : {false, true}) {
        const int64_t b0 = pick(1, 2), b1 = pick(1, 3);
        check<MatvecTune{.rows = 8}, float, float>(b0, b1, rows, k, alongColumns, int(pick(1, 3)));
        check<MatvecTune{.rows = 2}, float, float>(b0, b1, rows, k, alongColumns, int(pick(1, 3)));
        check<MatvecTune{.rows = 4}, double, double>(b0, b1, rows, k, alongColumns,
                                                     int(pick(1, 3)));
        check<MatvecTune{.rows = 8}, bfloat16, float>(b0, b1, rows, k, alongColumns,
                                                      int(pick(1, 3)));
      }
    }
  }
}

TEST(Matvec, MoreRowsThanABlockOfSums) {
  for (bool alongColumns : {false, true}) {
    for (int threads : {1, 2, 3}) {
      check<MatvecTune{.rows = 8}, float, float>(1, 2, 5003, 9, alongColumns, threads);
      check<MatvecTune{.rows = 4}, double, double>(1, 2, 2500, 6, alongColumns, threads);
    }
  }
}

}  // namespace
}  // namespace sl::testing
