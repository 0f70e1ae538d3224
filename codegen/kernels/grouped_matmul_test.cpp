// SPDX-License-Identifier: Apache-2.0
// grouped_matmul against sums in double: groups with no, few and many rows, rows behind the last
// group, ends outside of the rows, matrices along k and along their columns, 16-bit floats, panels
// that are not full, teams of 1 to 3.
#include "straightline/kernels/grouped_matmul.h"

#include <algorithm>

#include "straightline/kernels/kernel_testing.h"

namespace sl::testing {
namespace {

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
  const auto clamped = [&](int64_t end) { return std::clamp<int64_t>(end, 0, m); };
  for (int64_t i = 0; i < m; ++i) {
    while (group < groups && i >= clamped(ends[size_t(group)])) {
      first = clamped(ends[size_t(group++)]);
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

}  // namespace
}  // namespace sl::testing
