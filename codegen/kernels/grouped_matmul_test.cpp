// SPDX-License-Identifier: Apache-2.0
// grouped_matmul against sums in double: groups with no, few and many rows or terms, rows behind
// the last group, ends outside of the rows, from the back and out of order, matrices along k and
// along their columns, 16-bit floats, panels that are not full, teams of 1 to 3.
#include "straightline/kernels/grouped_matmul.h"

#include <algorithm>

#include "straightline/kernels/kernel_testing.h"

namespace sl::testing {
namespace {

/// As slices of Python take it.
int64_t endInside(int64_t end, int64_t size) {
  return std::clamp<int64_t>(end < 0 ? end + size : end, 0, size);
}

template <GroupedMatmulTune Tune, class T>
void check(const std::vector<int32_t>& ends, int64_t m, int64_t n, int64_t k, bool alongDepth,
           int threads) {
  const int64_t groups = int64_t(ends.size()), gap = pick(0, 3);
  const int64_t bRow = alongDepth ? 1 : n + gap, bCol = alongDepth ? k + gap : 1;
  const GroupedMatmulShape shape{.groups = groups,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .aRow = k + gap,
                                 .aCol = 1,
                                 .bGroup = n * k + gap * std::max(n, k),
                                 .bRow = bRow,
                                 .bCol = bCol,
                                 .cRow = n + gap,
                                 .endStride = 1};
  const std::vector<T> a = randomMatrix<T, float>(m * shape.aRow + 1);
  const std::vector<T> b = randomMatrix<T, float>(groups * shape.bGroup + 1);
  std::vector<float> c(size_t(m * shape.cRow) + 1, 77);
  Workspace workspace(groupedMatmulWorkspace<T>(shape, Tune, threads));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    grouped_matmul<Tune>(
        ctx, team, shape, [](auto x, auto& y) SL_LAMBDA { y = x; }, a.data(), b.data(), ends.data(),
        c.data(), workspace.data());
  });
  workspace.expectIntact("grouped_matmul");
  int64_t group = 0, first = 0;
  for (int64_t i = 0; i < m; ++i) {
    while (group < groups && i >= endInside(ends[size_t(group)], m)) {
      first = endInside(ends[size_t(group++)], m);
    }
    for (int64_t j = 0; j < n + gap; ++j) {
      double sum = 0, size = 0;
      for (int64_t d = 0; group < groups && j < n && d < k; ++d) {
        const double term = numberOf(a[size_t(i * shape.aRow + d)]) *
                            numberOf(b[size_t(group * shape.bGroup + d * bRow + j * bCol)]);
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(c[size_t(i * shape.cRow + j)], j < n ? sum : 77, 1e-6 * size)
          << "row " << i << " of group " << group << " (from " << first << "), column " << j;
    }
  }
}

template <GroupedMatmulTune Tune, class T>
void checkTerms(const std::vector<int32_t>& ends, int64_t m, int64_t n, int64_t k, bool alongDepth,
                int threads) {
  const int64_t groups = int64_t(ends.size()), gap = pick(0, 3);
  const GroupedMatmulShape shape{.groups = groups,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .aRow = alongDepth ? k + gap : 1,
                                 .aCol = alongDepth ? 1 : m + gap,
                                 .bRow = alongDepth ? 1 : n + gap,
                                 .bCol = alongDepth ? k + gap : 1,
                                 .cRow = n + gap,
                                 .endStride = 1,
                                 .cGroup = m * (n + gap) + gap};
  const std::vector<T> a = randomMatrix<T, float>((m + gap) * (k + gap) + 1);
  const std::vector<T> b = randomMatrix<T, float>((n + gap) * (k + gap) + 1);
  std::vector<float> c(size_t(groups * shape.cGroup) + 1, 77);
  Workspace workspace(groupedMatmulWorkspace<T>(shape, Tune, threads));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    grouped_matmul<Tune>(
        ctx, team, shape, [](auto x, auto& y) SL_LAMBDA { y = x; }, a.data(), b.data(), ends.data(),
        c.data(), workspace.data());
  });
  workspace.expectIntact("grouped_matmul");
  int64_t first = 0;
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t last = endInside(ends[size_t(group)], k);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n + gap; ++j) {
        double sum = 0, size = 0;
        for (int64_t d = first; j < n && d < last; ++d) {
          const double term = numberOf(a[size_t(i * shape.aRow + d * shape.aCol)]) *
                              numberOf(b[size_t(d * shape.bRow + j * shape.bCol)]);
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(c[size_t(group * shape.cGroup + i * shape.cRow + j)], j < n ? sum : 77,
                    1e-6 * size)
            << "group " << group << " of terms " << first << " to " << last << ", row " << i
            << ", column " << j;
      }
    }
    first = last;
  }
}

template <class T>
void checkAllTerms() {
  constexpr GroupedMatmulTune kTune{.mr = 6, .nr = 16, .kc = 0, .mc = 12};
  constexpr GroupedMatmulTune kBlocked{.mr = 4, .nr = 8, .kc = 16, .mc = 48};
  for (int threads = 1; threads <= 3; ++threads) {
    for (bool alongDepth : {false, true}) {
      checkTerms<kTune, T>({0, 1, 9, 9, 40, 45}, 29, 37, 50, alongDepth, threads);
      checkTerms<kBlocked, T>({7, 7, 60, 61}, 50, 16, 61, alongDepth, threads);
      checkTerms<kTune, T>({3, 90, 200}, 7, 5, 70, alongDepth, threads);
      checkTerms<kBlocked, T>({12, 5, -3, -90, 20}, 8, 64, 20, alongDepth, threads);
      checkTerms<kTune, T>({0, 0}, 5, 9, 7, alongDepth, threads);
    }
  }
}

template <class T>
void checkAll() {
  constexpr GroupedMatmulTune kTune{.mr = 6, .nr = 16, .kc = 0, .mc = 12};
  constexpr GroupedMatmulTune kBlocked{.mr = 4, .nr = 8, .kc = 16, .mc = 48};
  for (int threads = 1; threads <= 3; ++threads) {
    for (bool alongDepth : {false, true}) {
      check<kTune, T>({0, 1, 9, 9, 40, 45}, 50, 37, 29, alongDepth, threads);
      check<kBlocked, T>({7, 7, 60, 61}, 61, 16, 50, alongDepth, threads);
      check<kTune, T>({3, 90, 200}, 70, 5, 33, alongDepth, threads);
      check<kBlocked, T>({-3, 20}, 20, 64, 8, alongDepth, threads);
      check<kTune, T>({0, 0}, 5, 9, 7, alongDepth, threads);
    }
  }
}

TEST(GroupedMatmul, Float) { checkAll<float>(); }
TEST(GroupedMatmul, Bfloat16) { checkAll<bfloat16>(); }
TEST(GroupedMatmul, TermsOfFloat) { checkAllTerms<float>(); }
TEST(GroupedMatmul, TermsOfBfloat16) { checkAllTerms<bfloat16>(); }

}  // namespace
}  // namespace sl::testing
