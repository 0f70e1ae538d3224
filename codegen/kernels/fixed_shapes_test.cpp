// SPDX-License-Identifier: Apache-2.0
// A shape that is a constant (sl::Fixed), or but for one extent (sl::Batched), gives the same bits
// as the same shape at run time, on each way that a family can take, over teams of one to three
// threads.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "straightline/kernels/convolution.h"
#include "straightline/kernels/convolution_direct.h"
#include "straightline/kernels/gemm_int8.h"
#include "straightline/kernels/matmul.h"
#include "straightline/kernels/row_reduction.h"
#include "straightline/kernels/zero_border.h"
#include "team_for_tests.h"

namespace {

constexpr int64_t kPlace = 40000;   ///< where the first element lies in its memory
constexpr int64_t kMemory = 80000;  ///< elements

std::vector<float> randomMemory() {
  static std::mt19937_64 random = [] {
    uint64_t seed = std::random_device{}();
    printf("seed %lu\n", seed);
    return std::mt19937_64(seed);
  }();
  std::uniform_real_distribution<float> range(-3, 3);
  std::vector<float> memory(kMemory);
  for (float& x : memory) {
    x = range(random);
  }
  return memory;
}

/// Of the call of a body: a body is a type of its own, of no shape, so that what takes a shape at
/// run time is compiled once for all shapes, and knows none of them.
#define SL_APART __attribute__((noinline))

/// Runs body(ctx, team, shape, out) with both forms of the shape; all of the memory must be the
/// same after it.
template <auto SHAPE, class T, class Body>
void compare(const std::vector<T>& before, Body body) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<T> given = before;
    std::vector<T> fixed = before;
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      auto shape = SHAPE;
      body(ctx, team, shape, given.data() + kPlace);
    });
    runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
      body(ctx, team, sl::Fixed<SHAPE>{}, fixed.data() + kPlace);
    });
    EXPECT_EQ(std::memcmp(given.data(), fixed.data(), given.size() * sizeof(T)), 0)
        << "threads " << threads;
  }
}

/// The same for each of `DIMS` extents that is found at run time while the others are constants.
template <auto SHAPE, int... DIMS, class T, class Body>
void compareBatched(const std::vector<T>& before, Body body, sl::Ints<DIMS...>) {
  auto one = [&](auto dim) {
    constexpr int D = decltype(dim)::value;
    constexpr auto slice = [] {
      auto shape = SHAPE;
      extentsOf(shape)[D] = 1;
      return shape;
    }();
    for (int threads = 1; threads <= 3; ++threads) {
      std::vector<T> given = before;
      std::vector<T> batched = before;
      auto shape = SHAPE;
      runTeam(threads,
              [&](sl_ctx* ctx, sl_team team) { body(ctx, team, shape, given.data() + kPlace); });
      runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
        body(ctx, team, sl::Batched<slice, D>{extentsOf(shape)[D]}, batched.data() + kPlace);
      });
      EXPECT_EQ(std::memcmp(given.data(), batched.data(), given.size() * sizeof(T)), 0)
          << "threads " << threads << ", dim " << D;
    }
  };
  (one(std::integral_constant<int, DIMS>{}), ...);
}

template <int RANK>
struct PointwiseBody {
  const float *a, *b;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    sl::pointwise<sl::PointwiseTune{.rank = RANK, .inputs = 2}>(
        ctx, team, shape, [](auto x, auto y, auto& z) SL_LAMBDA { z = x * y + x; }, a, b, out);
  }
};

template <int RANK, sl::PointwiseShape SHAPE>
void pointwise() {
  const std::vector<float> a = randomMemory();
  const std::vector<float> b = randomMemory();
  const PointwiseBody<RANK> body{a.data() + kPlace, b.data() + kPlace};
  compare<SHAPE>(randomMemory(), body);
  compareBatched<SHAPE>(randomMemory(), body, sl::IntsUpTo<RANK>{});
}

TEST(FixedShapes, Pointwise) {
  using Shape = sl::PointwiseShape;
  pointwise<0, Shape{}>();
  pointwise<1, Shape{.extent = {0}, .stride = {{1}, {1}, {1}}}>();
  pointwise<1, Shape{.extent = {5}, .stride = {{1}, {1}, {1}}}>();
  pointwise<1, Shape{.extent = {16}, .stride = {{1}, {0}, {1}}}>();
  pointwise<1, Shape{.extent = {64}, .stride = {{1}, {1}, {1}}}>();
  pointwise<1, Shape{.extent = {10001}, .stride = {{1}, {1}, {1}}}>();
  pointwise<1, Shape{.extent = {8192}, .stride = {{1}, {1}, {1}}}>();
  pointwise<1, Shape{.extent = {9001}, .stride = {{-1}, {2}, {-3}}}>();
  pointwise<2, Shape{.extent = {33, 70}, .stride = {{70, 1}, {0, 1}, {70, 1}}}>();
  pointwise<2, Shape{.extent = {33, 70}, .stride = {{1, 33}, {1, 0}, {70, 1}}}>();
  pointwise<2, Shape{.extent = {200, 170}, .stride = {{1, 200}, {170, 1}, {170, 1}}}>();
  pointwise<2, Shape{.extent = {200, 170}, .stride = {{170, 1}, {1, 200}, {1, 200}}}>();
  pointwise<3, Shape{.extent = {4, 0, 5}, .stride = {{1, 1, 1}, {1, 1, 1}, {5, 5, 1}}}>();
  pointwise<3, Shape{.extent = {7, 1, 3}, .stride = {{-6, 5, 2}, {1, 9, 0}, {3, 3, 1}}}>();
  pointwise<4, Shape{.extent = {2, 40, 5, 6},
                     .stride = {{1200, 1, 240, 40}, {1200, 30, 6, 1}, {1200, 30, 6, 1}}}>();
  pointwise<4, Shape{.extent = {2, 40, 5, 6},
                     .stride = {{1200, 30, 6, 1}, {0, 1, 0, 0}, {1200, 1, 240, 40}}}>();
  pointwise<4, Shape{.extent = {3, 5, 2, 9},
                     .stride = {{90, 18, 9, 1}, {0, 0, 9, 1}, {400, 50, 20, 2}}}>();
  // Images with a bias of channels, slices that are one loop, and many short ones.
  pointwise<3, Shape{.extent = {9, 20, 21}, .stride = {{420, 21, 1}, {0, 1, 0}, {420, 21, 1}}}>();
  pointwise<2, Shape{.extent = {40, 90}, .stride = {{90, 1}, {90, 1}, {90, 1}}}>();
  pointwise<2, Shape{.extent = {900, 3}, .stride = {{3, 1}, {0, 1}, {3, 1}}}>();
}

template <int RANK, sl::ZeroBorderShape SHAPE>
void zeroBorder() {
  compare<SHAPE>(randomMemory(), [](sl_ctx* ctx, sl_team team, auto shape, float* out) {
    sl::zero_border<sl::ZeroBorderTune{.rank = RANK}>(ctx, team, shape, out);
  });
}

TEST(FixedShapes, ZeroBorder) {
  using Shape = sl::ZeroBorderShape;
  zeroBorder<1, Shape{.extent = {5}, .stride = {1}, .low = {3}, .high = {0}}>();
  zeroBorder<2, Shape{.extent = {6, 7}, .stride = {20, 1}, .low = {1, 2}, .high = {2, 1}}>();
  zeroBorder<4, Shape{.extent = {2, 3, 9, 8},
                      .stride = {700, 1, 45, 3},
                      .low = {0, 0, 1, 3},
                      .high = {0, 0, 2, 2}}>();
}

TEST(FixedShapes, Fill) {
  constexpr sl::FillShape shape{.extent = {3, 5}, .stride = {40, 2}};
  compare<shape>(randomMemory(), [](sl_ctx* ctx, sl_team team, auto given, float* out) {
    sl::fill<sl::FillTune{.rank = 2}>(
        ctx, team, given, [](auto& y) SL_LAMBDA { y = sl::constant(y, 1.5f); }, out);
  });
}

/// A sum of squares, and an output of each element.
template <int OUTER, int INNER>
struct SumBody {
  const float* a;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    sl::row_reduction<sl::RowReductionTune{.outerRank = OUTER,
                                           .innerRank = INNER,
                                           .inputs = 1,
                                           .elementOutputs = 1,
                                           .combine = {sl::Combine::sum}}>(
        ctx, team, shape, [](auto x, auto& value) SL_LAMBDA { value = x * x; },
        [](auto x, auto sum, auto& y) SL_LAMBDA { y = x + sum; }, a, out);
  }
};

/// Softmax.
template <int OUTER, int INNER>
struct SoftmaxBody {
  const float* a;
  char* workspace;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    using sl::Combine;
    sl::row_reduction<sl::RowReductionTune{.outerRank = OUTER,
                                           .innerRank = INNER,
                                           .inputs = 1,
                                           .elementOutputs = 1,
                                           .kept = 1,
                                           .keptStage = 1,
                                           .stages = 2,
                                           .combine = {Combine::max, Combine::sum}}>(
        ctx, team, shape, [](auto x, auto& value) SL_LAMBDA { value = x; },
        [](auto x, auto most, auto& value, auto& keep) SL_LAMBDA {
          auto e = sl::exp(x - most);
          value = e;
          keep = e;
        },
        [](auto, auto, auto sum, auto kept, auto& y) SL_LAMBDA { y = kept / sum; }, a, out,
        workspace);
  }
};

template <sl::RowReductionShape SHAPE, int OUTER = 1, int INNER = 1>
void reduction() {
  const std::vector<float> a = randomMemory();
  std::vector<char> workspace(3 * 64 * 20000);
  const auto both = [](auto body) {
    compare<SHAPE>(randomMemory(), body);
    compareBatched<SHAPE>(randomMemory(), body, sl::IntsUpTo<OUTER>{});
  };
  both(SumBody<OUTER, INNER>{a.data() + kPlace});
  both(SoftmaxBody<OUTER, INNER>{a.data() + kPlace, workspace.data()});
}

/// argmax or a product of rows: the output has a value a row.
template <sl::Combine COMBINE>
struct RowBody {
  const float* a;

  template <class Shape, class T>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, T* out) const {
    sl::row_reduction<sl::RowReductionTune{
        .outerRank = 1, .innerRank = 1, .inputs = 1, .rowOutputs = 1, .combine = {COMBINE}}>(
        ctx, team, shape, [](auto x, auto& value) SL_LAMBDA { value = x; },
        [](auto found, auto& y) SL_LAMBDA { y = found; }, a, out);
  }
};

template <sl::RowReductionShape SHAPE>
void rowOutputs() {
  const std::vector<float> a = randomMemory();
  const RowBody<sl::Combine::argmax> places{a.data() + kPlace};
  compare<SHAPE>(std::vector<int64_t>(kMemory, 7), places);
  compareBatched<SHAPE>(std::vector<int64_t>(kMemory, 7), places, sl::Ints<0>{});
  compare<SHAPE>(randomMemory(), RowBody<sl::Combine::prod>{a.data() + kPlace});
}

TEST(FixedShapes, RowReduction) {
  using Shape = sl::RowReductionShape;
  reduction<Shape{.outer = {3}, .inner = {1}, .stride = {{{1}, {1}}, {{1}, {1}}}}>();
  reduction<Shape{.outer = {4}, .inner = {7}, .stride = {{{7}, {1}}, {{7}, {1}}}}>();
  reduction<Shape{.outer = {5}, .inner = {16}, .stride = {{{16}, {1}}, {{16}, {1}}}}>();
  reduction<Shape{.outer = {3}, .inner = {83}, .stride = {{{100}, {1}}, {{83}, {1}}}}>();
  reduction<Shape{.outer = {3}, .inner = {9001}, .stride = {{{9001}, {1}}, {{9001}, {1}}}}>();
  reduction<Shape{.outer = {50}, .inner = {33}, .stride = {{{1}, {50}}, {{1}, {50}}}}>();
  reduction<Shape{.outer = {9}, .inner = {400}, .stride = {{{1}, {9}}, {{1}, {9}}}}>();
  reduction<Shape{.outer = {6}, .inner = {11}, .stride = {{{50}, {2}}, {{50}, {-2}}}}>();
  reduction<Shape{.outer = {0}, .inner = {5}, .stride = {{{5}, {1}}, {{5}, {1}}}}>();
  reduction<
      Shape{.outer = {2, 3}, .inner = {5, 7}, .stride = {{{210, 7}, {42, 1}}, {{105, 35}, {7, 1}}}},
      2, 2>();
  reduction<Shape{.outer = {}, .inner = {40, 70}, .stride = {{{}, {100, 1}}, {{}, {70, 1}}}}, 0,
            2>();
  rowOutputs<Shape{.outer = {5}, .inner = {70}, .stride = {{{70}, {1}}, {{1}, {0}}}}>();
  rowOutputs<Shape{.outer = {70}, .inner = {5}, .stride = {{{1}, {70}}, {{1}, {0}}}}>();
  rowOutputs<Shape{.outer = {70}, .inner = {0}, .stride = {{{1}, {70}}, {{1}, {0}}}}>();
}

/// acc + bias, where it is positive.
constexpr auto kBiasRelu = [](auto acc, auto bias, auto& y) SL_LAMBDA {
  auto sum = acc + bias;
  y = sl::maximum(sl::constant(sum, 0.0f), sum);
};

template <int MR, int KC>
struct GemmBody {
  const float *a, *b;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    sl::gemm<sl::GemmTune{.mr = MR, .nr = 16, .kc = KC, .mc = 12}>(ctx, team, shape, kBiasRelu, a,
                                                                   b, a + kPlace, out);
  }
};

template <int MR, int KC, int64_t M, int64_t N, int64_t K>
void gemm() {
  const std::vector<float> a = randomMemory();
  const std::vector<float> b = randomMemory();
  constexpr sl::GemmShape shape{
      .m = M, .n = N, .k = K, .lda = K + 1, .ldc = N + 3, .epilogueStride = {{0, 1}}};
  compare<shape>(randomMemory(), GemmBody<MR, KC>{a.data(), b.data()});
}

struct DirectBody {
  const float *a, *b;
  char* workspace;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    sl::convolution_direct<sl::ConvolutionDirectTune{}>(ctx, team, shape, kBiasRelu, a, b,
                                                        a + kPlace, out, workspace);
  }
};

/// Depthwise where C is the number of groups; row-major planes, or pixels of adjacent channels.
template <int64_t C, int64_t K, int64_t GROUPS, int64_t SIDE, int64_t STRIDE, bool LAST>
void convolutionDirect() {
  constexpr int64_t kSize = 11;
  constexpr int64_t kOut = (kSize + 2 - SIDE) / STRIDE + 1;
  constexpr int64_t kIn = C / GROUPS;
  constexpr sl::ConvolutionDirectShape shape{
      .n = 3,
      .h = kSize,
      .w = kSize,
      .c = C,
      .k = K,
      .ho = kOut,
      .wo = kOut,
      .kh = SIDE,
      .kw = SIDE,
      .groups = GROUPS,
      .strideH = STRIDE,
      .strideW = STRIDE,
      .padH = 1,
      .padW = 1,
      .dilationH = 1,
      .dilationW = 1,
      .inStride = {kSize * kSize * C, LAST ? kSize * C : kSize, LAST ? C : 1,
                   LAST ? 1 : kSize * kSize},
      .outStride = {kOut * kOut * K, LAST ? kOut * K : kOut, LAST ? K : 1, LAST ? 1 : kOut * kOut},
      .weightStride = {K / GROUPS * kIn * SIDE * SIDE, kIn * SIDE * SIDE, SIDE * SIDE, SIDE, 1},
      .epilogueStride = {{0, 0, 0, 1}}};
  const std::vector<float> a = randomMemory();
  const std::vector<float> b = randomMemory();
  std::vector<char> workspace(sl::convolutionDirectWorkspace<float>(shape, sl::kVectorBytes, 3) +
                              64);
  char* aligned = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64) % 64;
  const DirectBody body{a.data(), b.data(), aligned};
  compare<shape>(randomMemory(), body);
  compareBatched<shape>(randomMemory(), body, sl::Ints<0>{});
}

TEST(FixedShapes, ConvolutionDirect) {
  convolutionDirect<6, 6, 6, 3, 1, false>();
  convolutionDirect<6, 12, 6, 3, 2, false>();
  convolutionDirect<5, 5, 5, 5, 1, false>();
  convolutionDirect<20, 20, 20, 3, 1, true>();
  convolutionDirect<6, 9, 3, 3, 1, false>();
  convolutionDirect<8, 20, 2, 2, 2, true>();
}

/// Blocks of one size and of two, fewer rows than a tile; whole panels and a part of one.
TEST(FixedShapes, Gemm) {
  gemm<6, 0, 0, 16, 5>();
  gemm<6, 0, 1, 16, 5>();
  gemm<6, 0, 6, 32, 40>();
  gemm<6, 0, 7, 20, 33>();
  gemm<6, 16, 16, 48, 70>();
  gemm<4, 16, 29, 15, 70>();
  gemm<1, 0, 3, 17, 9>();
}

struct GemmInt8Body {
  const int8_t *a, *b;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, int32_t* out) const {
    sl::gemm_int8<sl::GemmInt8Tune{.mr = 6, .nr = 16, .mc = 12}>(
        ctx, team, shape, [](auto acc, auto& y) SL_LAMBDA { y = acc; }, a, b, out);
  }
};

template <int64_t M, int64_t N, int64_t K>
void gemmInt8() {
  std::mt19937 random{std::random_device{}()};
  std::vector<int8_t> a(kMemory), b(kMemory);
  for (int64_t i = 0; i < kMemory; ++i) {
    a[i] = int8_t(random());
    b[i] = int8_t(random());
  }
  constexpr sl::GemmInt8Shape shape{.m = M, .n = N, .k = K, .lda = K + 1, .ldc = N + 3};
  compare<shape>(std::vector<int32_t>(kMemory, 7), GemmInt8Body{a.data(), b.data()});
}

TEST(FixedShapes, GemmInt8) {
  gemmInt8<0, 16, 8>();
  gemmInt8<1, 16, 8>();
  gemmInt8<12, 32, 41>();
  gemmInt8<16, 19, 30>();
}

struct MatmulBody {
  const float *a, *b;
  char* workspace;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    sl::matmul<sl::MatmulTune{.mr = 6, .nr = 16, .kc = 0, .mc = 12}>(ctx, team, shape, kBiasRelu, a,
                                                                     b, a + kPlace, out, workspace);
  }
};

template <int64_t M, int64_t N, int64_t K>
void matmul() {
  const std::vector<float> a = randomMemory();
  const std::vector<float> b = randomMemory();
  std::vector<float> workspace(3 * 16 * 128);
  constexpr sl::MatmulShape shape{.batch = {1, 2, 3},
                                  .m = M,
                                  .n = N,
                                  .k = K,
                                  .aBatch = {0, 3 * M * K, M * K},
                                  .aRow = K,
                                  .aCol = 1,
                                  .bBatch = {0, 0, N * K},
                                  .bRow = N,
                                  .bCol = 1,
                                  .cBatch = {0, 3 * M * N, M * N},
                                  .cRow = N,
                                  .epilogueStride = {{0, 0, 0, 0, 1}}};
  compare<shape>(randomMemory(),
                 MatmulBody{a.data(), b.data(), reinterpret_cast<char*>(workspace.data())});
}

TEST(FixedShapes, Matmul) {
  matmul<0, 16, 4>();
  matmul<1, 16, 70>();
  matmul<12, 32, 33>();
  matmul<32, 41, 64>();
}

struct ConvolutionBody {
  const float *in, *weight;

  template <class Shape>
  SL_APART void operator()(sl_ctx* ctx, sl_team team, Shape shape, float* out) const {
    sl::convolution<sl::ConvolutionTune{.mr = 6, .nr = 16, .kh = 3, .kw = 3, .mc = 12}>(
        ctx, team, shape, kBiasRelu, in, weight, in + kPlace, out);
  }
};

template <int64_t HO, int64_t WO, int64_t O>
void convolution() {
  const std::vector<float> in = randomMemory();
  const std::vector<float> weight = randomMemory();
  constexpr int64_t c = 5, h = HO + 2, w = WO + 2;
  constexpr sl::ConvolutionShape shape{.n = 2,
                                       .h = h,
                                       .w = w,
                                       .c = c,
                                       .k = O,
                                       .ho = HO,
                                       .wo = WO,
                                       .strideH = 1,
                                       .strideW = 1,
                                       .dilationH = 1,
                                       .dilationW = 1,
                                       .inStride = {h * w * c, w * c, c},
                                       .outStride = {HO * WO * O, WO * O, O},
                                       .epilogueStride = {{0, 0, 0, 1}}};
  compare<shape>(randomMemory(), ConvolutionBody{in.data(), weight.data()});
}

TEST(FixedShapes, Convolution) {
  convolution<1, 1, 16>();
  convolution<3, 5, 16>();
  convolution<6, 7, 19>();
}

}  // namespace
