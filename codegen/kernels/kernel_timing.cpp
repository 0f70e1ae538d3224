// SPDX-License-Identifier: Apache-2.0
// Times the memory-bound families on one thread. Not a test: prints microseconds (best of several)
// and GB/s.
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/pool.h"
#include "straightline/kernels/row_reduction.h"

namespace {

template <class F>
void report(const char* name, double bytes, F f) {
  double best = 1e30;
  for (int i = 0; i < 30; ++i) {
    auto start = std::chrono::steady_clock::now();
    f();
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = time.count() < best ? time.count() : best;
  }
  printf("%-40s %9.2f us %7.2f GB/s\n", name, best * 1e6, bytes / best * 1e-9);
}

constexpr sl_team kAlone{nullptr, 0, 1};
sl_ctx context{};

__attribute__((noinline)) void softmax(const float* x, float* y, char* workspace, int64_t rows,
                                       int64_t columns) {
  sl::RowReductionShape shape{
      .outer = {rows}, .inner = {columns}, .stride = {{{columns}, {1}}, {{columns}, {1}}}};
  sl::row_reduction<sl::RowReductionTune{.outerRank = 1,
                                         .innerRank = 1,
                                         .inputs = 1,
                                         .elementOutputs = 1,
                                         .kept = 1,
                                         .keptStage = 1,
                                         .stages = 2,
                                         .combine = {sl::Combine::max, sl::Combine::sum}}>(
      &context, kAlone, shape, [](auto a, auto& value) SL_LAMBDA { value = a; },
      [](auto a, auto m, auto& value, auto& keep) SL_LAMBDA {
        auto e = sl::exp(a - m);
        value = e;
        keep = e;
      },
      [](auto, auto, auto s, auto k, auto& out) SL_LAMBDA { out = k / s; }, x, y, workspace);
}
__attribute__((noinline)) void layerNorm(const float* x, const float* w, const float* b, float* y,
                                         int64_t rows, int64_t columns) {
  sl::RowReductionShape shape{
      .outer = {rows},
      .inner = {columns},
      .stride = {{{columns}, {1}}, {{0}, {1}}, {{0}, {1}}, {{columns}, {1}}}};
  float inverse = 1.0f / float(columns);
  sl::row_reduction<sl::RowReductionTune{.outerRank = 1,
                                         .innerRank = 1,
                                         .inputs = 3,
                                         .elementOutputs = 1,
                                         .stages = 2,
                                         .combine = {sl::Combine::sum, sl::Combine::sum}}>(
      &context, kAlone, shape, [](auto a, auto, auto, auto& value) SL_LAMBDA { value = a; },
      [inverse](auto a, auto, auto, auto s, auto& value) SL_LAMBDA {
        auto d = a - s * sl::constant(s, inverse);
        value = d * d;
      },
      [inverse](auto a, auto g, auto c, auto s, auto v, auto& out) SL_LAMBDA {
        auto i = sl::constant(s, inverse);
        out = (a - s * i) * sl::rsqrt(v * i + sl::constant(v, 1e-5f)) * g + c;
      },
      x, w, b, y);
}
__attribute__((noinline)) void sum(const float* x, float* y, int64_t rows, int64_t columns,
                                   int64_t rowStride, int64_t columnStride) {
  sl::RowReductionShape shape{
      .outer = {rows}, .inner = {columns}, .stride = {{{rowStride}, {columnStride}}, {{1}, {0}}}};
  sl::row_reduction<sl::RowReductionTune{
      .outerRank = 1, .innerRank = 1, .inputs = 1, .rowOutputs = 1}>(
      &context, kAlone, shape, [](auto a, auto& value) SL_LAMBDA { value = a; },
      [](auto r, auto& o) SL_LAMBDA { o = r; }, x, y);
}
template <class F>
__attribute__((noinline)) void unary(const float* x, float* y, int64_t n, F f) {
  sl::PointwiseShape shape{.extent = {n}, .stride = {{1}, {1}}};
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1}>(&context, kAlone, shape, f, x, y);
}
__attribute__((noinline)) void transpose(const float* x, float* y, int64_t rows, int64_t columns) {
  sl::PointwiseShape shape{.extent = {columns, rows}, .stride = {{1, columns}, {rows, 1}}};
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1}>(
      &context, kAlone, shape, [](auto a, auto& b) SL_LAMBDA { b = a; }, x, y);
}
template <sl::PoolTune T>
__attribute__((noinline)) void pool(const float* x, float* y, sl::PoolShape s) {
  sl::pool<T>(&context, kAlone, s, x, y);
}

}  // namespace

int main() {
  constexpr int64_t kMost = 4096 * 1024;
  std::vector<float> x(kMost);
  std::vector<float> y(kMost);
  std::vector<char> workspace(4096 * 64);
  std::mt19937 random(1);
  for (float& v : x) {
    v = std::uniform_real_distribution<float>(-4, 4)(random);
  }
  for (int64_t columns : {16, 64, 197, 1000, 4096}) {
    char name[64];
    int64_t rows = 262144 / columns;
    double bytes = double(rows * columns) * 8;
    snprintf(name, sizeof(name), "softmax %ld x %ld", rows, columns);
    report(name, bytes, [&] { softmax(x.data(), y.data(), workspace.data(), rows, columns); });
    snprintf(name, sizeof(name), "layer norm %ld x %ld", rows, columns);
    report(name, bytes, [&] { layerNorm(x.data(), x.data(), x.data(), y.data(), rows, columns); });
    snprintf(name, sizeof(name), "sum %ld x %ld", rows, columns);
    report(name, bytes / 2, [&] { sum(x.data(), y.data(), rows, columns, columns, 1); });
    snprintf(name, sizeof(name), "sum over the outer dim, %ld x %ld", rows, columns);
    report(name, bytes / 2, [&] { sum(x.data(), y.data(), columns, rows, 1, columns); });
  }
  constexpr int64_t kN = 262144;
  auto time = [&](const char* name, auto f) {
    report(name, kN * 8.0, [&] { unary(x.data(), y.data(), kN, f); });
  };
  time("relu", [](auto a, auto& b) SL_LAMBDA { b = sl::maximum(a, sl::constant(a, 0.0f)); });
  time("exp", [](auto a, auto& b) SL_LAMBDA { b = sl::exp(a); });
  time("sigmoid", [](auto a, auto& b)
                      SL_LAMBDA { b = sl::constant(a, 1) / (sl::constant(a, 1) + sl::exp(-a)); });
  time("tanh", [](auto a, auto& b) SL_LAMBDA { b = sl::tanh(a); });
  time("erf", [](auto a, auto& b) SL_LAMBDA { b = sl::erf(a); });
  time("log", [](auto a, auto& b) SL_LAMBDA { b = sl::log(sl::abs(a)); });
  time("sin", [](auto a, auto& b) SL_LAMBDA { b = sl::sin(a); });
  time("pow", [](auto a, auto& b) SL_LAMBDA { b = sl::pow(sl::abs(a), sl::constant(a, 1.7f)); });
  time("expm1", [](auto a, auto& b) SL_LAMBDA { b = sl::expm1(a); });
  time("floor", [](auto a, auto& b) SL_LAMBDA { b = sl::floor(a); });
  report("transpose 512 x 512", kN * 8.0, [&] { transpose(x.data(), y.data(), 512, 512); });
  report("transpose 2048 x 2048", 16.0 * kN * 8,
         [&] { transpose(x.data(), y.data(), 2048, 2048); });
  sl::PoolShape s{.batch = 1,
                  .channels = 64,
                  .inH = 112,
                  .inW = 112,
                  .outH = 56,
                  .outW = 56,
                  .kernelH = 3,
                  .kernelW = 3,
                  .strideH = 2,
                  .strideW = 2,
                  .padH = 1,
                  .padW = 1,
                  .inStride = {0, 12544, 112, 1},
                  .outStride = {0, 3136, 56, 1}};
  report("max_pool2d 64x112x112 3x3/2", 64 * 15680.0 * 4,
         [&] { pool<sl::PoolTune{.kind = sl::PoolKind::max}>(x.data(), y.data(), s); });
  s.inStride[1] = s.outStride[1] = 1;
  s.inStride[2] = 112 * 64, s.inStride[3] = 64, s.outStride[2] = 56 * 64, s.outStride[3] = 64;
  report("max_pool2d channels last", 64 * 15680.0 * 4, [&] {
    pool<sl::PoolTune{.kind = sl::PoolKind::max, .channelsLast = 1}>(x.data(), y.data(), s);
  });
  return 0;
}
