// SPDX-License-Identifier: Apache-2.0
// gemm, gemv and matmul against double references: remainders everywhere, teams of 1 to 3, canaries
// around outputs.
#include "straightline/kernels/gemm.h"

#include <set>

#include "straightline/kernels/gemv.h"
#include "straightline/kernels/kernel_testing.h"
#include "straightline/kernels/matmul.h"
#include "straightline/kernels/pack.h"

namespace sl::testing {
namespace {

/// y = relu(acc + bias + residual)
constexpr auto kBiasResidualRelu = [](auto acc, auto bias, auto residual, auto& y) {
  auto t = acc + bias + residual;
  y = t < Element<decltype(t)>(0) ? decltype(t){} : t;
};

std::string describe(const char* what, int64_t m, int64_t n, int64_t k, int threads) {
  return std::string(what) + " m=" + std::to_string(m) + " n=" + std::to_string(n) +
         " k=" + std::to_string(k) + " threads=" + std::to_string(threads);
}

/// Operands of one linear problem: x [m][lda], w [n][ldw], bias [n], residual [m][ldr], y [m][ldc].
template <class T>
struct Linear {
  int64_t m, n, k, lda, ldw, ldr, ldc;
  std::vector<T> x, w, bias, residual;
  Guarded<T> y;

  Linear(int64_t rows, int64_t columns, int64_t depth)
      : m(rows),
        n(columns),
        k(depth),
        lda(depth + pick(0, 3)),
        ldw(depth + pick(0, 2)),
        ldr(columns + pick(0, 3)),
        ldc(columns + pick(0, 5)),
        // Exactly as long as what may be read, so that AddressSanitizer sees one element too far.
        x(randomVector<T>((rows - 1) * lda + depth)),
        w(randomVector<T>((columns - 1) * ldw + depth)),
        bias(randomVector<T>(columns)),
        residual(randomVector<T>((rows - 1) * ldr + columns)),
        y((rows - 1) * ldc + columns) {}

  void check(const std::string& where) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        double magnitude = 0;
        for (int64_t q = 0; q < k; ++q) {
          const double product = double(x[i * lda + q]) * double(w[j * ldw + q]);
          sum += product;
          magnitude += std::abs(product);
        }
        sum += double(bias[j]) + double(residual[i * ldr + j]);
        const double bound = kEpsilon<T> * (4 + std::sqrt(double(k))) * (magnitude + 2);
        if (!y.expect(i * ldc + j, std::max(sum, 0.0), bound, where)) {
          return;
        }
      }
    }
    y.expectRestUntouched(where);
  }
};

template <GemmTune Tune, class T>
void runGemm(int64_t m, int64_t n, int64_t k, int threads) {
  Linear<T> p(m, n, k);
  const std::string where = describe("gemm", m, n, k, threads);
  Guarded<T> packed((n + Tune.nr - 1) / Tune.nr * Tune.nr * k);
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    pack_gemm<PackGemmTune{.nr = Tune.nr}>(
        ctx, team, PackGemmShape{.n = n, .k = k, .strideN = p.ldw, .strideK = 1}, p.w.data(),
        packed.data());
  });
  // A copy of exactly the packed size, for AddressSanitizer.
  const std::vector<T> b(packed.data(), packed.data() + (n + Tune.nr - 1) / Tune.nr * Tune.nr * k);
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    gemm<Tune>(ctx, team,
               GemmShape{.m = m,
                         .n = n,
                         .k = k,
                         .lda = p.lda,
                         .ldc = p.ldc,
                         .epilogueStride = {{0, 1}, {p.ldr, 1}}},
               kBiasResidualRelu, p.x.data(), b.data(), static_cast<const T*>(p.bias.data()),
               static_cast<const T*>(p.residual.data()), p.y.data());
  });
  p.check(where);
}

/// The weight stored as W, with the values that W has rounded to.
template <class W, class T>
std::vector<W> stored(std::vector<T>& weight) {
  std::vector<W> narrow;
  for (T& value : weight) {
    narrow.push_back(cast<W>(value));
    value = cast<T>(narrow.back());
  }
  return narrow;
}

template <GemvTune Tune, class T, class W = T>
void runGemv(int64_t m, int64_t n, int64_t k, int threads) {
  Linear<T> p(m, n, k);
  const std::vector<W> w = stored<W>(p.w);
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    gemv<Tune>(ctx, team,
               GemvShape{.m = m,
                         .n = n,
                         .k = k,
                         .lda = p.lda,
                         .ldw = p.ldw,
                         .ldc = p.ldc,
                         .epilogueStride = {{0, 1}, {p.ldr, 1}}},
               kBiasResidualRelu, p.x.data(), w.data(), static_cast<const T*>(p.bias.data()),
               static_cast<const T*>(p.residual.data()), p.y.data());
  });
  p.check(describe("gemv", m, n, k, threads));
}

/// The packed weight stored as W; with pairs = 2 (k rounded up to an even number) x is bfloat16
/// too.
template <GemmTune Tune, class W>
void runNarrowGemm(int64_t m, int64_t n, int64_t k, int threads) {
  constexpr bool kPairs = Tune.pairs == 2;
  k = (k + Tune.pairs - 1) / Tune.pairs * Tune.pairs;
  Linear<float> p(m, n, k);
  const std::vector<W> w = stored<W>(p.w);
  std::vector<W> narrowX;
  if (kPairs) {
    narrowX = stored<W>(p.x);
  }
  Guarded<W> packed((n + Tune.nr - 1) / Tune.nr * Tune.nr * k);
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    pack_gemm<PackGemmTune{.nr = Tune.nr, .pairs = Tune.pairs}>(
        ctx, team, PackGemmShape{.n = n, .k = k, .strideN = p.ldw, .strideK = 1}, w.data(),
        packed.data());
  });
  const std::vector<W> b(packed.data(), packed.data() + (n + Tune.nr - 1) / Tune.nr * Tune.nr * k);
  const GemmShape shape{
      .m = m, .n = n, .k = k, .lda = p.lda, .ldc = p.ldc, .epilogueStride = {{0, 1}, {p.ldr, 1}}};
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    const float *bias = p.bias.data(), *residual = p.residual.data();
    if constexpr (kPairs) {
      gemm<Tune>(ctx, team, shape, kBiasResidualRelu, narrowX.data(), b.data(), bias, residual,
                 p.y.data());
    } else {
      gemm<Tune>(ctx, team, shape, kBiasResidualRelu, p.x.data(), b.data(), bias, residual,
                 p.y.data());
    }
  });
  p.check(describe(kPairs ? "gemm of pairs" : "gemm of a narrow weight", m, n, k, threads));
}

constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 48};

template <class F>
void forManyShapes(const F& f) {
  for (int64_t m : kSizes) {
    for (int64_t n : {1, 7, 16, 17, 33, 70}) {
      f(m, n, pick(1, 70), int(pick(1, 3)));
    }
  }
  f(1, 10, 64, 1);
  f(64, 100, 127, 2);
  f(101, 37, 1, 3);
}

// The blocks of a panel fetch one part of the next panel each, and together all of it.
TEST(Ahead, LinesAreDividedByBlocks) {
  constexpr int64_t kSteps = 64;
  constexpr int64_t kPanelBytes = kSteps * 32 * sizeof(float);
  const char* panel = reinterpret_cast<const char*>(uint64_t(1) << 30);  // never read
  for (int64_t blocks = 1; blocks <= 9; ++blocks) {
    const int64_t lines = ceilDiv(panelLines<float>(32), blocks);
    const char* end = panel + kPanelBytes;
    for (int64_t block = 0; block < blocks; ++block) {
      const Ahead ahead =
          aheadOf<kByBlocks, 1>(panel, kPanelBytes, kSteps, block, blocks == 1, lines);
      EXPECT_EQ(ahead.at, end) << blocks << " blocks, block " << block;
      EXPECT_EQ(ahead.lines, lines);
      end = ahead.at + ahead.lines * ahead.streamBytes;
    }
    EXPECT_GE(end - panel, 2 * kPanelBytes) << blocks << " blocks";
  }
}

TEST(Gemm, ThePackedWeightIsNarrow) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    runNarrowGemm<GemmTune{.mr = 6, .nr = 16, .kc = 0, .mc = 96}, bfloat16>(m, n, k, threads);
    runNarrowGemm<GemmTune{.mr = 4, .nr = 32, .kc = 16, .mc = 12, .prefetch = 2}, half>(m, n, k,
                                                                                        threads);
  });
}

TEST(Gemm, PairsOfBfloat16) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    runNarrowGemm<GemmTune{.mr = 6, .nr = 32, .kc = 0, .mc = 96, .pairs = 2}, bfloat16>(m, n, k,
                                                                                        threads);
    runNarrowGemm<GemmTune{.mr = 4, .nr = 16, .kc = 8, .mc = 12, .prefetch = 2, .pairs = 2},
                  bfloat16>(m, n, k, threads);
  });
}

TEST(Gemm, MatchesDoubleReference) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    runGemm<GemmTune{.mr = 6, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0}, float>(m, n, k, threads);
  });
}

TEST(Gemm, EmptyReductionGivesTheEpilogueOfZero) {
  runGemm<GemmTune{.mr = 4, .nr = 16, .kc = 16, .mc = 12, .prefetch = 0}, float>(5, 20, 0, 2);
  runGemv<GemvTune{.rows = 4, .mr = 4}, float>(3, 20, 0, 2);
}

TEST(Gemm, NoRowsWriteNothing) {
  Guarded<float> y(16);
  const std::vector<float> b(64, 1.0f);
  runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    gemm<GemmTune{.mr = 4, .nr = 16, .kc = 0, .mc = 12, .prefetch = 0}>(
        ctx, team, GemmShape{.m = 0, .n = 16, .k = 4, .lda = 4, .ldc = 16},
        [](auto acc, auto& out) { out = acc; }, b.data(), b.data(), y.data());
  });
  y.expectRestUntouched("gemm m=0");
}

TEST(Gemm, BlockedReductionAndRowChunks) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    runGemm<GemmTune{.mr = 4, .nr = 32, .kc = 16, .mc = 12, .prefetch = 2, .prefetchStreams = 2},
            float>(m, n, k, threads);
  });
}

TEST(Gemm, NarrowPanelsAndManyRows) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    runGemm<GemmTune{.mr = 12, .nr = 8, .kc = 64, .mc = 24, .prefetch = 1}, float>(m, n, k,
                                                                                   threads);
  });
}

TEST(Gemm, Float64) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    runGemm<GemmTune{.mr = 6, .nr = 8, .kc = 32, .mc = 96, .prefetch = 0}, double>(m, n, k,
                                                                                   threads);
  });
}

TEST(Gemv, WeightsOf16BitFloats) {
  forManyShapes([](int64_t m, int64_t n, int64_t k, int threads) {
    if (m <= 4) {
      runGemv<GemvTune{.rows = 4, .mr = 4}, float, bfloat16>(m, n, k, threads);
      runGemv<GemvTune{.rows = 2, .mr = 1}, float, half>(m, n, k, threads);
    }
  });
}

TEST(Gemm, PackReadsTransposedWeight) {
  // Weight [K, N]: strides swapped; packing must give the same bytes as packing its transpose.
  const int64_t n = 19, k = 23;
  const std::vector<float> kn = randomVector<float>(k * n);
  std::vector<float> nk(kn.size());
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      nk[j * k + i] = kn[i * n + j];
    }
  }
  std::vector<float> a(32 * k, -1), b(32 * k, -2);
  const sl_team one{nullptr, 0, 1};
  pack_gemm<PackGemmTune{.nr = 16}>(
      nullptr, one, PackGemmShape{.n = n, .k = k, .strideN = 1, .strideK = n}, kn.data(), a.data());
  pack_gemm<PackGemmTune{.nr = 16}>(
      nullptr, one, PackGemmShape{.n = n, .k = k, .strideN = k, .strideK = 1}, nk.data(), b.data());
  EXPECT_EQ(a, b);
  EXPECT_EQ(a[16 * k + 3], 0.0f) << "columns beyond n are zero";
}

TEST(Gemm, ResidualMayBeTheOutput) {
  // In-place reuse by the planner: the epilogue operand and C are one buffer, with a blocked
  // reduction.
  const int64_t m = 13, n = 21, k = 50;
  const std::vector<float> x = randomVector<float>(m * k), w = randomVector<float>(n * k);
  std::vector<float> packed(32 * k), c = randomVector<float>(m * n);
  const std::vector<float> before = c;
  const sl_team one{nullptr, 0, 1};
  pack_gemm<PackGemmTune{.nr = 16}>(nullptr, one,
                                    PackGemmShape{.n = n, .k = k, .strideN = k, .strideK = 1},
                                    w.data(), packed.data());
  gemm<GemmTune{.mr = 6, .nr = 16, .kc = 16, .mc = 12, .prefetch = 0}>(
      nullptr, one,
      GemmShape{.m = m, .n = n, .k = k, .lda = k, .ldc = n, .epilogueStride = {{n, 1}}},
      [](auto acc, auto residual, auto& y) { y = acc + residual; }, x.data(),
      static_cast<const float*>(packed.data()), static_cast<const float*>(c.data()), c.data());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = before[i * n + j];
      for (int64_t q = 0; q < k; ++q) {
        sum += double(x[i * k + q]) * double(w[j * k + q]);
      }
      ASSERT_NEAR(c[i * n + j], sum, 2e-5) << i << "," << j;
    }
  }
}

TEST(Gemm, TwoOutputsOfDifferentTypes) {
  const int64_t m = 7, n = 21, k = 9;
  const std::vector<float> x = randomVector<float>(m * k), w = randomVector<float>(n * k);
  std::vector<float> packed(32 * k);
  Guarded<float> y(m * n);
  Guarded<int32_t> z(m * n);
  const sl_team one{nullptr, 0, 1};
  pack_gemm<PackGemmTune{.nr = 16}>(nullptr, one,
                                    PackGemmShape{.n = n, .k = k, .strideN = k, .strideK = 1},
                                    w.data(), packed.data());
  gemm<GemmTune{.mr = 6, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0}>(
      nullptr, one, GemmShape{.m = m, .n = n, .k = k, .lda = k, .ldc = n, .epilogueStride = {}},
      [](auto acc, auto& first, auto& second) {
        first = acc;
        second = convert<int32_t>(acc * 1000.0f);
      },
      x.data(), static_cast<const float*>(packed.data()), y.data(), z.data());
  for (int64_t i = 0; i < m * n; ++i) {
    double sum = 0;
    for (int64_t q = 0; q < k; ++q) {
      sum += double(x[i / n * k + q]) * double(w[i % n * k + q]);
    }
    y.expect(i, sum, 1e-5, "first output");
    z.expect(i, sum * 1000, 1.02, "second output");
  }
  y.expectRestUntouched("first output");
  z.expectRestUntouched("second output");
}

TEST(Gemv, MatchesDoubleReference) {
  for (int64_t m = 1; m <= 6; ++m) {
    for (int64_t n : {1, 3, 4, 5, 16, 17, 50}) {
      for (int64_t k : {1, 5, 8, 16, 31, 64, 100}) {
        runGemv<GemvTune{.rows = 4, .mr = 4}, float>(m, n, k, int(pick(1, 3)));
      }
    }
  }
}

TEST(Gemv, Float64) {
  for (int64_t m = 1; m <= 3; ++m) {
    for (int64_t n : {1, 3, 9, 17}) {
      for (int64_t k : {1, 5, 8, 33}) {
        runGemv<GemvTune{.rows = 2, .mr = 2}, double>(m, n, k, int(pick(1, 3)));
      }
    }
  }
}

/// transposes: bit 0 A is [k][m], bit 1 B is [n][k].
template <MatmulTune Tune, class T>
void runMatmul(int64_t b0, int64_t b1, int64_t m, int64_t n, int64_t k, int transposes,
               int threads) {
  const bool ta = (transposes & 1) != 0, tb = (transposes & 2) != 0;
  const std::vector<T> a = randomVector<T>(b0 * b1 * m * k);
  const std::vector<T> b = randomVector<T>(b1 * n * k);  // shared by all b0 items
  const std::vector<T> bias = randomVector<T>(b1 * m);   // one value per row
  Guarded<T> c(b0 * b1 * m * n);
  const MatmulShape shape{.batch = {1, b0, b1},
                          .m = m,
                          .n = n,
                          .k = k,
                          .aBatch = {0, b1 * m * k, m * k},
                          .aRow = ta ? 1 : k,
                          .aCol = ta ? m : 1,
                          .bBatch = {0, 0, n * k},
                          .bRow = tb ? 1 : n,
                          .bCol = tb ? k : 1,
                          .cBatch = {0, b1 * m * n, m * n},
                          .cRow = n,
                          .epilogueStride = {{0, 0, m, 1, 0}}};
  Workspace work(matmulWorkspace<T>(shape, Tune, threads));
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    matmul<Tune>(
        ctx, team, shape, [](auto acc, auto x, auto& y) { y = acc + x; }, a.data(), b.data(),
        static_cast<const T*>(bias.data()), c.data(), work.data());
  });
  const std::string where = describe("matmul", m, n, k, threads) + " b0=" + std::to_string(b0) +
                            " b1=" + std::to_string(b1) +
                            " transposes=" + std::to_string(transposes);
  for (int64_t i = 0; i < b0 * b1; ++i) {
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 0;
        for (int64_t q = 0; q < k; ++q) {
          const double product = double(a[i * m * k + r * shape.aRow + q * shape.aCol]) *
                                 double(b[i % b1 * n * k + q * shape.bRow + j * shape.bCol]);
          sum += product;
          magnitude += std::abs(product);
        }
        sum += double(bias[i % b1 * m + r]);
        const double bound = kEpsilon<T> * (4 + std::sqrt(double(k))) * (magnitude + 1);
        if (!c.expect(i * m * n + r * n + j, sum, bound, where)) {
          return;
        }
      }
    }
  }
  c.expectRestUntouched(where);
  work.expectIntact(where);
}

TEST(Matmul, MatchesDoubleReference) {
  for (int64_t m : {1, 2, 6, 7, 25, 33}) {
    for (int64_t n : {1, 15, 16, 33, 48}) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        const int64_t k = pick(1, 40), b0 = pick(1, 2), b1 = pick(1, 3);
        const int threads = int(pick(1, 3));
        runMatmul<MatmulTune{.mr = 6, .nr = 16, .kc = 0, .mc = 12}, float>(b0, b1, m, n, k,
                                                                           transposes, threads);
        runMatmul<MatmulTune{.mr = 4, .nr = 16, .kc = 8, .mc = 96}, double>(b0, b1, m, n, k,
                                                                            transposes, threads);
      }
    }
  }
}

TEST(Ahead, RowBlocksAndTheirStreamsAskForEachLineOfTheNextPanelOnce) {
  constexpr int64_t kSteps = 64, kPanel = kSteps * 32 * 4;
  std::set<const char*> lines;
  const char* panel = reinterpret_cast<const char*>(uint64_t{1} << 20);
  for (int64_t block = 0; block < 2; ++block) {
    const Ahead ahead = aheadOf<4, 4>(panel, kPanel, kSteps, block, false);
    for (int64_t step = 0; step < kSteps; step += 4) {
      for (int64_t stream = 0; stream < 4; ++stream) {
        EXPECT_TRUE(lines.insert(ahead.at + stream * ahead.streamBytes + step / 4 * 64).second);
      }
    }
  }
  EXPECT_EQ(lines.size(), kPanel / 64);
  EXPECT_EQ(*lines.begin(), panel + kPanel);
  EXPECT_EQ(*lines.rbegin(), panel + 2 * kPanel - 64);
  EXPECT_EQ((aheadOf<2, 1>(panel, kPanel, kSteps, 0, true).at), panel + 2048);
}

}  // namespace
}  // namespace sl::testing
