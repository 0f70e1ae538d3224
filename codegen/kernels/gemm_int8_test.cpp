// SPDX-License-Identifier: Apache-2.0
// gemm_int8 and its packing against sums of integers, number by number: remainders everywhere, all
// numbers of 8 bits, sums that leave 32 bits, either side of the weight contiguous, teams of 1 to
// 3.
#include "straightline/kernels/gemm_int8.h"

#include "straightline/kernels/kernel_testing.h"
#include "straightline/kernels/pack_gemm_int8.h"

namespace sl::testing {
namespace {

/// Random numbers of 8 bits, or the extreme ones alone.
std::vector<int8_t> randomBytes(int64_t count, bool extreme) {
  std::vector<int8_t> bytes(static_cast<size_t>(count));
  for (int8_t& byte : bytes) {
    byte = static_cast<int8_t>(extreme ? (pick(0, 3) == 0 ? 127 : -128) : pick(-128, 127));
  }
  return bytes;
}

struct Sizes {
  int64_t m, n, k;
};

enum class Contiguous { k, n, neither };

template <GemmInt8Tune Tune>
void check(Sizes s, int threads, Contiguous contiguous, bool extreme) {
  const std::string where = "m=" + std::to_string(s.m) + " n=" + std::to_string(s.n) +
                            " k=" + std::to_string(s.k) + " threads=" + std::to_string(threads) +
                            " contiguous=" + std::to_string(int(contiguous));
  const int64_t lda = s.k + pick(0, 5), ldc = s.n + pick(0, 5), around = pick(0, 3);
  const int64_t strideN = contiguous == Contiguous::n   ? 1
                          : contiguous == Contiguous::k ? s.k + around
                                                        : 2 * s.k + 1;
  const int64_t strideK = contiguous == Contiguous::k   ? 1
                          : contiguous == Contiguous::n ? s.n + around
                                                        : 2;
  const std::vector<int8_t> a = randomBytes((s.m - 1) * lda + s.k, extreme);
  const std::vector<int8_t> w = randomBytes((s.n - 1) * strideN + (s.k - 1) * strideK + 1, extreme);
  std::vector<int32_t> bias;
  for (int64_t j = 0; j < s.n; ++j) {
    bias.push_back(static_cast<int32_t>(pick(-100000, 100000)));
  }
  const int64_t packedSize = (s.n + Tune.nr - 1) / Tune.nr * Tune.nr * ((s.k + 3) / 4 * 4);
  Guarded<int8_t> packed(packedSize);
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    pack_gemm_int8<PackGemmInt8Tune{.nr = Tune.nr}>(
        ctx, team, PackGemmInt8Shape{.n = s.n, .k = s.k, .strideN = strideN, .strideK = strideK},
        w.data(), packed.data());
  });
  // exactly that size, for AddressSanitizer
  const std::vector<int8_t> b(packed.data(), packed.data() + packedSize);
  std::vector<int32_t> y(static_cast<size_t>((s.m - 1) * ldc + s.n), 77);
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    gemm_int8<Tune>(
        ctx, team,
        GemmInt8Shape{
            .m = s.m, .n = s.n, .k = s.k, .lda = lda, .ldc = ldc, .epilogueStride = {{0, 1}}},
        [](auto sum, auto add, auto& result) { result = sum + add; }, a.data(), b.data(),
        static_cast<const int32_t*>(bias.data()), y.data());
  });
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < ldc && i * ldc + j < int64_t(y.size()); ++j) {
      int64_t sum = j < s.n ? bias[j] : 77;
      for (int64_t q = 0; q < s.k && j < s.n; ++q) {
        sum += int64_t(a[i * lda + q]) * int64_t(w[j * strideN + q * strideK]);
      }
      ASSERT_EQ(y[i * ldc + j], static_cast<int32_t>(sum))
          << where << ": row " << i << ", column " << j;
    }
  }
}

template <GemmInt8Tune Tune>
void checkShapes() {
  const Sizes shapes[] = {{1, 1, 1},
                          {1, 64, 4},
                          {2, 17, 3},
                          {3, 130, 67},
                          {5, 16, 64},
                          {6, 33, 130},
                          {7, 40, 31},
                          {13, 65, 5},
                          {25, 48, 96},
                          {100, 33, 258},
                          {pick(1, 40), pick(1, 90), pick(1, 300)},
                          {97, 20, 7},
                          {4, 64, 2},
                          {12, 96, 61},
                          {1, 100, 4 * 4097}};
  for (const Sizes& s : shapes) {
    const int threads = static_cast<int>(pick(1, 3));
    check<Tune>(s, threads, Contiguous::k, false);
    check<Tune>(s, threads, Contiguous::n, false);
    check<Tune>(s, 1, Contiguous::neither, true);
  }
}

TEST(GemmInt8, EveryShape) {
  checkShapes<GemmInt8Tune{.mr = 1, .nr = 64, .mc = 96, .prefetch = 2, .prefetchStreams = 2}>();
  checkShapes<GemmInt8Tune{.mr = 12, .nr = 32, .mc = 24, .prefetch = 0}>();
  checkShapes<GemmInt8Tune{.mr = 4, .nr = 16, .mc = 96, .prefetch = 1}>();
  checkShapes<GemmInt8Tune{.mr = 6, .nr = 8, .mc = 4, .prefetch = 0}>();
  checkShapes<GemmInt8Tune{.mr = 3, .nr = 4, .mc = 12, .prefetch = 0}>();
}

TEST(GemmInt8, SumsBeyond32BitsWrap) {
  check<GemmInt8Tune{.mr = 1, .nr = 16, .mc = 96, .prefetch = 0}>({1, 3, 140001}, 1, Contiguous::k,
                                                                  true);
}

/// The first epilogue operand may have another type than the sums, and so may the result.
TEST(GemmInt8, ScalesAndRounds) {
  const int64_t m = 5, n = 37, k = 66;
  const std::vector<int8_t> a = randomBytes(m * k, false), w = randomBytes(n * k, false);
  const std::vector<float> scale = randomVector<float>(n);
  std::vector<int8_t> packed(static_cast<size_t>((n + 15) / 16 * 16 * ((k + 3) / 4 * 4)));
  std::vector<bfloat16> y(static_cast<size_t>(m * n));
  runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    pack_gemm_int8<PackGemmInt8Tune{.nr = 16}>(
        ctx, team, PackGemmInt8Shape{.n = n, .k = k, .strideN = k, .strideK = 1}, w.data(),
        packed.data());
  });
  runTeam(2, [&](sl_ctx* ctx, sl_team team) {
    gemm_int8<GemmInt8Tune{.mr = 4, .nr = 16, .mc = 96, .prefetch = 0}>(
        ctx, team,
        GemmInt8Shape{.m = m, .n = n, .k = k, .lda = k, .ldc = n, .epilogueStride = {{0, 1}}},
        [](auto sum, auto by, auto& result) { result = cast<bfloat16>(cast<float>(sum) * by); },
        a.data(), packed.data(), static_cast<const float*>(scale.data()), y.data());
  });
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int64_t q = 0; q < k; ++q) {
        sum += a[i * k + q] * w[j * k + q];
      }
      ASSERT_EQ(y[i * n + j].bits, cast<bfloat16>(float(sum) * scale[j]).bits) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace sl::testing
