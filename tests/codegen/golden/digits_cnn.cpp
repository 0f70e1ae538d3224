// Program forward for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/pack_convolution.h"
#include "straightline/kernels/pack_winograd.h"
#include "straightline/kernels/pack_gemm.h"
#include "straightline/kernels/zero_border.h"
#include "straightline/kernels/convolution.h"
#include "straightline/kernels/pool.h"
#include "straightline/kernels/winograd.h"
#include "straightline/kernels/gemm.h"
#include "straightline/kernels/program.h"

extern "C" void pointwise_to_dtype_16(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, const float* a3, const float* a4, double* o0, float* o1) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 5}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {16}, .stride = {{1}, {1}, {1}, {1}, {1}, {1}, {1}}}>{},
      [](auto x0, auto x1, auto x2, auto x3, auto x4, auto& y0, auto& y1) SL_LAMBDA {
        auto t0 = sl::cast<double>(x0);
        auto t1 = sl::cast<double>(x1);
        auto t2 = t1 + sl::constantAs<double>(x0, 1e-05);
        auto t3 = sl::sqrt(t2);
        auto t4 = t0 / t3;
        auto t5 = sl::cast<double>(x2);
        auto t6 = t5 * t4;
        auto t7 = sl::cast<double>(x3);
        auto t8 = sl::cast<double>(x4);
        auto t9 = t8 * t4;
        auto t10 = t7 - t9;
        auto t11 = t6 + t10;
        auto t12 = sl::cast<float>(t11);
        y0 = t4;
        y1 = t12;
      },
      a0, a1, a2, a3, a4, o0, o1);
}

extern "C" void pointwise_to_dtype_32(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, const float* a3, const float* a4, double* o0, float* o1) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 5}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {32}, .stride = {{1}, {1}, {1}, {1}, {1}, {1}, {1}}}>{},
      [](auto x0, auto x1, auto x2, auto x3, auto x4, auto& y0, auto& y1) SL_LAMBDA {
        auto t0 = sl::cast<double>(x0);
        auto t1 = sl::cast<double>(x1);
        auto t2 = t1 + sl::constantAs<double>(x0, 1e-05);
        auto t3 = sl::sqrt(t2);
        auto t4 = t0 / t3;
        auto t5 = sl::cast<double>(x2);
        auto t6 = t5 * t4;
        auto t7 = sl::cast<double>(x3);
        auto t8 = sl::cast<double>(x4);
        auto t9 = t8 * t4;
        auto t10 = t7 - t9;
        auto t11 = t6 + t10;
        auto t12 = sl::cast<float>(t11);
        y0 = t4;
        y1 = t12;
      },
      a0, a1, a2, a3, a4, o0, o1);
}

extern "C" void pack_convolution_16x1x3x3_mul(sl_ctx* ctx, sl_team team, const float* a0,
    const double* a1, float* o0) {
  sl::pack_convolution<sl::PackConvolutionTune{.nr = 16}>(
      ctx, team,
      sl::PackConvolutionShape{.o = 16, .i = 1, .kh = 3, .kw = 3, .strideO = 9, .strideI = 9,
          .strideH = 3, .strideW = 1, .prologueStride = {1}},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = sl::cast<double>(x0);
        auto t1 = t0 * x1;
        auto t2 = sl::cast<float>(t1);
        y0 = t2;
      },
      a0, a1, o0);
}

extern "C" void pack_winograd_32x16x3x3_mul(sl_ctx* ctx, sl_team team, const float* a0,
    const double* a1, float* o0) {
  sl::pack_winograd<sl::PackWinogradTune{.m = 4, .nr = 16, .kb = 32, .stream = 1}>(
      ctx, team,
      sl::PackWinogradShape{.o = 32, .i = 16, .strideO = 144, .strideI = 9, .strideH = 3,
          .strideW = 1, .prologueStride = {1}},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = sl::cast<double>(x0);
        auto t1 = t0 * x1;
        auto t2 = sl::cast<float>(t1);
        y0 = t2;
      },
      a0, a1, o0);
}

extern "C" void pack_gemm_10x128(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 16}>(
      ctx, team,
      sl::PackGemmShape{.n = 10, .k = 128, .strideN = 128, .strideK = 1},
      a0, o0);
}

extern "C" void zero_border(sl_ctx* ctx, sl_team team, float* o0) {
  sl::zero_border<sl::ZeroBorderTune{.rank = 4}>(
      ctx, team,
      sl::Fixed<sl::ZeroBorderShape{.extent = {4, 1, 8, 8}, .stride = {100, 1, 10, 1},
          .low = {0, 0, 1, 1}, .high = {0, 0, 1, 1}}>{},
      o0);
}

extern "C" void copy_4x8x8(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 3, .inputs = 1}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {4, 8, 8}, .stride = {{64, 8, 1}, {100, 10, 1}}}>{},
      [](auto x0, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      a0, o0);
}

extern "C" void convolution_4x1x8x8x16_3x3_bias_relu(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0) {
  sl::convolution<sl::ConvolutionTune{.mr = 6, .nr = 16, .kh = 3, .kw = 3, .mc = 96,
      .prefetch = 0, .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::ConvolutionShape{.n = 4, .h = 8, .w = 8, .c = 1, .k = 16, .ho = 8, .wo = 8,
          .strideH = 1, .strideW = 1, .padH = 1, .padW = 1, .dilationH = 1, .dilationW = 1,
          .inStride = {100, 10, 1}, .outStride = {1024, 128, 16},
          .epilogueStride = {{0, 0, 0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0);
}

extern "C" void zero_border_2(sl_ctx* ctx, sl_team team, float* o0) {
  sl::zero_border<sl::ZeroBorderTune{.rank = 4}>(
      ctx, team,
      sl::Fixed<sl::ZeroBorderShape{.extent = {4, 16, 4, 4}, .stride = {576, 1, 96, 16},
          .low = {0, 0, 1, 1}, .high = {0, 0, 1, 1}}>{},
      o0);
}

extern "C" void max_pool2d(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pool<sl::PoolTune{.kind = sl::Kind::max, .channelsLast = 1}>(
      ctx, team,
      sl::PoolShape{.batch = 4, .channels = 16, .inH = 8, .inW = 8, .outH = 4, .outW = 4,
          .kernelH = 2, .kernelW = 2, .strideH = 2, .strideW = 2, .padH = 0, .padW = 0,
          .dilationH = 1, .dilationW = 1, .includePad = 0, .divisor = 0,
          .inStride = {1024, 1, 128, 16}, .outStride = {576, 1, 96, 16}},
      a0, o0);
}

extern "C" void winograd_4x16x4x4x32_3x3_bias_relu(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0, int8_t* w0) {
  sl::winograd<sl::WinogradTune{.m = 4, .tiles = 2, .kb = 32, .mr = 6, .nr = 16, .mode = 0,
      .prefetch = 0, .prefetchStreams = 1}>(
      ctx, team,
      sl::WinogradShape{.n = 4, .h = 4, .w = 4, .c = 16, .k = 32, .inStride = {576, 96, 16},
          .outStride = {512, 128, 32}, .border = {1, 1, 1, 1}, .epilogueStride = {{0, 0, 0, 1}}},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0, w0);
}

extern "C" void max_pool2d_2(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pool<sl::PoolTune{.kind = sl::Kind::max, .channelsLast = 0}>(
      ctx, team,
      sl::PoolShape{.batch = 4, .channels = 32, .inH = 4, .inW = 4, .outH = 2, .outW = 2,
          .kernelH = 2, .kernelW = 2, .strideH = 2, .strideW = 2, .padH = 0, .padW = 0,
          .dilationH = 1, .dilationW = 1, .includePad = 0, .divisor = 0,
          .inStride = {512, 1, 128, 32}, .outStride = {128, 4, 2, 1}},
      a0, o0);
}

extern "C" void gemm_4x10x128_bias(sl_ctx* ctx, sl_team team, const float* a0, const float* a1,
    const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 4, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 4, .n = 10, .k = 128, .lda = 128, .ldc = 10,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, a2, o0);
}

static void thunk_pointwise_to_dtype_16(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pointwise_to_dtype_16(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<const float*>(pointers[3]), static_cast<const float*>(pointers[4]),
      static_cast<double*>(pointers[5]), static_cast<float*>(pointers[6]));
}

static void thunk_pointwise_to_dtype_32(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pointwise_to_dtype_32(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<const float*>(pointers[3]), static_cast<const float*>(pointers[4]),
      static_cast<double*>(pointers[5]), static_cast<float*>(pointers[6]));
}

static void thunk_pack_convolution_16x1x3x3_mul(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_convolution_16x1x3x3_mul(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const double*>(pointers[1]), static_cast<float*>(pointers[2]));
}

static void thunk_pack_winograd_32x16x3x3_mul(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_winograd_32x16x3x3_mul(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const double*>(pointers[1]), static_cast<float*>(pointers[2]));
}

static void thunk_pack_gemm_10x128(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_gemm_10x128(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_zero_border(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  zero_border(ctx, team, static_cast<float*>(pointers[0]));
}

static void thunk_copy_4x8x8(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  copy_4x8x8(ctx, team, static_cast<const float*>(pointers[0]), static_cast<float*>(pointers[1]));
}

static void thunk_convolution_4x1x8x8x16_3x3_bias_relu(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  convolution_4x1x8x8x16_3x3_bias_relu(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

static void thunk_zero_border_2(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  zero_border_2(ctx, team, static_cast<float*>(pointers[0]));
}

static void thunk_max_pool2d(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  max_pool2d(ctx, team, static_cast<const float*>(pointers[0]), static_cast<float*>(pointers[1]));
}

static void thunk_winograd_4x16x4x4x32_3x3_bias_relu(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  winograd_4x16x4x4x32_3x3_bias_relu(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]), static_cast<int8_t*>(pointers[4]));
}

static void thunk_max_pool2d_2(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  max_pool2d_2(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_gemm_4x10x128_bias(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_4x10x128_bias(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const norm1_weight = static_cast<const float*>(io->parameters[0]);
  const float* const norm1_running_var = static_cast<const float*>(io->parameters[1]);
  const float* const conv1_bias = static_cast<const float*>(io->parameters[2]);
  const float* const norm1_bias = static_cast<const float*>(io->parameters[3]);
  const float* const norm1_running_mean = static_cast<const float*>(io->parameters[4]);
  constexpr int64_t prepared_0_at = 0;
  float* const prepared_0 = sl::at<float>(io->prepared[0], prepared_0_at);
  const float* const conv1_weight = static_cast<const float*>(io->parameters[5]);
  const float* const norm2_weight = static_cast<const float*>(io->parameters[6]);
  const float* const norm2_running_var = static_cast<const float*>(io->parameters[7]);
  const float* const conv2_bias = static_cast<const float*>(io->parameters[8]);
  const float* const norm2_bias = static_cast<const float*>(io->parameters[9]);
  const float* const norm2_running_mean = static_cast<const float*>(io->parameters[10]);
  constexpr int64_t prepared_2_at = 64;
  float* const prepared_2 = sl::at<float>(io->prepared[0], prepared_2_at);
  const float* const conv2_weight = static_cast<const float*>(io->parameters[11]);
  constexpr int64_t conv1_weight_packed_at = 192;
  float* const conv1_weight_packed = sl::at<float>(io->prepared[0], conv1_weight_packed_at);
  constexpr int64_t conv2_weight_packed_at = 768;
  float* const conv2_weight_packed = sl::at<float>(io->prepared[0], conv2_weight_packed_at);
  const float* const fc_weight = static_cast<const float*>(io->parameters[13]);
  constexpr int64_t fc_weight_packed_at = 74496;
  float* const fc_weight_packed = sl::at<float>(io->prepared[0], fc_weight_packed_at);
  constexpr int64_t t_at = 0;
  double* const t = sl::at<double>(io->arenas[0], t_at);
  constexpr int64_t t_1_at = 256;
  double* const t_1 = sl::at<double>(io->arenas[0], t_1_at);
  // to_dtype, to_dtype, add, sqrt, to_dtype, div, mul, to_dtype, sub, to_dtype, mul, add, to_dtype: conv1 (demo_models.py:24), norm1 (demo_models.py:24)
  if (team.index == 0) {
    pointwise_to_dtype_16(ctx, sl::alone(), norm1_weight, norm1_running_var, conv1_bias,
        norm1_bias, norm1_running_mean, t_1, prepared_0);
  }
  double* const t_1_view = t_1;
  // to_dtype, to_dtype, add, sqrt, to_dtype, div, mul, to_dtype, sub, to_dtype, mul, add, to_dtype: conv2 (demo_models.py:25), norm2 (demo_models.py:25)
  if (team.index == 0) {
    pointwise_to_dtype_32(ctx, sl::alone(), norm2_weight, norm2_running_var, conv2_bias,
        norm2_bias, norm2_running_mean, t, prepared_2);
  }
  double* const t_view = t;
  sl_barrier(team);
  // to_dtype, mul, to_dtype, pack: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
  pack_convolution_16x1x3x3_mul(ctx, team, conv1_weight, t_1_view, conv1_weight_packed);
  // to_dtype, mul, to_dtype, pack: conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25
  pack_winograd_32x16x3x3_mul(ctx, team, conv2_weight, t_view, conv2_weight_packed);
  // pack: fc (demo_models.py:26)
  pack_gemm_10x128(ctx, team, fc_weight, fc_weight_packed);
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  constexpr int64_t prepared_0_at = 0;
  const float* const prepared_0 = sl::at<const float>(io->prepared[0], prepared_0_at);
  constexpr int64_t prepared_2_at = 64;
  const float* const prepared_2 = sl::at<const float>(io->prepared[0], prepared_2_at);
  constexpr int64_t conv1_weight_packed_at = 192;
  const float* const conv1_weight_packed = sl::at<const float>(io->prepared[0], conv1_weight_packed_at);
  constexpr int64_t conv2_weight_packed_at = 768;
  const float* const conv2_weight_packed = sl::at<const float>(io->prepared[0], conv2_weight_packed_at);
  const float* const fc_bias = static_cast<const float*>(io->parameters[12]);
  constexpr int64_t fc_weight_packed_at = 74496;
  const float* const fc_weight_packed = sl::at<const float>(io->prepared[0], fc_weight_packed_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const linear = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_2_at = 0;
  float* const t_2 = sl::at<float>(io->arenas[0], t_2_at);
  constexpr int64_t t_3_at = 0;
  int8_t* const t_3 = sl::at<int8_t>(io->arenas[0], t_3_at);
  constexpr int64_t t_4_at = 133632;
  float* const t_4 = sl::at<float>(io->arenas[0], t_4_at);
  constexpr int64_t t_5_at = 124864;
  float* const t_5 = sl::at<float>(io->arenas[0], t_5_at);
  constexpr int64_t t_6_at = 16428;
  float* const t_6 = sl::at<float>(io->arenas[0], t_6_at);
  constexpr int64_t t_7_at = 0;
  float* const t_7 = sl::at<float>(io->arenas[0], t_7_at);
  // zero border: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
  if (team.index == 0) {
    zero_border(ctx, sl::alone(), t_6);
  }
  // reorder: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
  if (team.index == 0) {
    copy_4x8x8(ctx, sl::alone(), x, t_6);
  }
  sl_barrier(team);
  // convolution, relu: conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24
  convolution_4x1x8x8x16_3x3_bias_relu(ctx, team, t_6, conv1_weight_packed, prepared_0, t_7);
  // zero border: demo_models.py:24
  if (team.index == 0) {
    zero_border_2(ctx, sl::alone(), t_5);
  }
  sl_barrier(team);
  // max_pool2d: demo_models.py:24
  if (team.index == 0) {
    max_pool2d(ctx, sl::alone(), t_7, t_5);
  }
  sl_barrier(team);
  // convolution, relu: conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25
  winograd_4x16x4x4x32_3x3_bias_relu(ctx, team, t_5, conv2_weight_packed, prepared_2, t_4, t_3);
  sl_barrier(team);
  // max_pool2d: demo_models.py:25
  if (team.index == 0) {
    max_pool2d_2(ctx, sl::alone(), t_4, t_2);
  }
  float* const t_2_view = t_2;
  // linear: fc (demo_models.py:26)
  if (team.index == 0) {
    gemm_4x10x128_bias(ctx, sl::alone(), t_2_view, fc_weight_packed, fc_bias, linear);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 16}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 64}};
static constexpr sl_expr_step e4[] = {{'c', 9}};
static constexpr sl_expr_step e5[] = {{'c', 3}};
static constexpr sl_expr_step e6[] = {{'c', 576}};
static constexpr sl_expr_step e7[] = {{'c', 32}};
static constexpr sl_expr_step e8[] = {{'c', 128}};
static constexpr sl_expr_step e9[] = {{'c', 144}};
static constexpr sl_expr_step e10[] = {{'c', 18432}};
static constexpr sl_expr_step e11[] = {{'c', 48}};
static constexpr sl_expr_step e12[] = {{'c', 192}};
static constexpr sl_expr_step e13[] = {{'c', 36}};
static constexpr sl_expr_step e14[] = {{'c', 512}};
static constexpr sl_expr_step e15[] = {{'c', 2}};
static constexpr sl_expr_step e16[] = {{'c', 256}};
static constexpr sl_expr_step e17[] = {{'c', 768}};
static constexpr sl_expr_step e18[] = {{'c', 73728}};
static constexpr sl_expr_step e19[] = {{'c', 10}};
static constexpr sl_expr_step e20[] = {{'c', 40}};
static constexpr sl_expr_step e21[] = {{'c', 5120}};
static constexpr sl_expr_step e22[] = {{'c', 2048}};
static constexpr sl_expr_step e23[] = {{'c', 74496}};
static constexpr sl_expr_step e24[] = {{'c', 8192}};
static constexpr sl_expr_step e25[] = {{'c', 4}};
static constexpr sl_expr_step e26[] = {{'c', 8}};
static constexpr sl_expr_step e27[] = {{'c', 1024}};
static constexpr sl_expr_step e28[] = {{'c', 160}};
static constexpr sl_expr_step e29[] = {{'c', 124416}};
static constexpr sl_expr_step e30[] = {{'c', 133632}};
static constexpr sl_expr_step e31[] = {{'c', 96}};
static constexpr sl_expr_step e32[] = {{'c', 124864}};
static constexpr sl_expr_step e33[] = {{'c', 9216}};
static constexpr sl_expr_step e34[] = {{'c', 448}};
static constexpr sl_expr_step e35[] = {{'c', 100}};
static constexpr sl_expr_step e36[] = {{'c', 16428}};
static constexpr sl_expr_step e37[] = {{'c', 1600}};
static constexpr sl_expr_step e38[] = {{'c', 44}};
static constexpr sl_expr_step e39[] = {{'c', 16384}};
static constexpr sl_expr_step e40[] = {{'c', 141824}};
static constexpr sl_expr_step e41[] = {{'c', 384}};
static constexpr sl_expr_step e42[] = {{'c', 82688}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e0, 1}, {e1, 1}, {e5, 1}, {e5, 1}};
static constexpr sl_expr l3[] = {{e4, 1}, {e4, 1}, {e5, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e7, 1}};
static constexpr sl_expr l5[] = {{e7, 1}, {e0, 1}, {e5, 1}, {e5, 1}};
static constexpr sl_expr l6[] = {{e9, 1}, {e4, 1}, {e5, 1}, {e1, 1}};
static constexpr sl_expr l7[] = {{e1, 1}, {e5, 1}, {e5, 1}, {e1, 1}, {e0, 1}};
static constexpr sl_expr l8[] = {{e9, 1}, {e11, 1}, {e0, 1}, {e0, 1}, {e1, 1}};
static constexpr sl_expr l9[] = {{e1, 1}, {e13, 1}, {e15, 1}, {e0, 1}, {e0, 1}};
static constexpr sl_expr l10[] = {{e10, 1}, {e14, 1}, {e16, 1}, {e0, 1}, {e1, 1}};
static constexpr sl_expr l11[] = {{e19, 1}};
static constexpr sl_expr l12[] = {{e19, 1}, {e8, 1}};
static constexpr sl_expr l13[] = {{e8, 1}, {e1, 1}};
static constexpr sl_expr l14[] = {{e1, 1}, {e8, 1}, {e0, 1}};
static constexpr sl_expr l15[] = {{e22, 1}, {e0, 1}, {e1, 1}};
static constexpr sl_expr l16[] = {{e0, 1}, {e1, 1}, {e1, 1}, {e1, 1}};
static constexpr sl_expr l17[] = {{e1, 1}, {e1, 1}, {e1, 1}, {e1, 1}};
static constexpr sl_expr l18[] = {{e7, 1}, {e1, 1}, {e1, 1}, {e1, 1}};
static constexpr sl_expr l19[] = {{e25, 1}, {e1, 1}, {e26, 1}, {e26, 1}};
static constexpr sl_expr l20[] = {{e3, 1}, {e3, 1}, {e26, 1}, {e1, 1}};
static constexpr sl_expr l21[] = {{e25, 1}, {e19, 1}};
static constexpr sl_expr l22[] = {{e19, 1}, {e1, 1}};
static constexpr sl_expr l23[] = {{e25, 1}, {e7, 1}, {e15, 1}, {e15, 1}};
static constexpr sl_expr l24[] = {{e8, 1}, {e25, 1}, {e15, 1}, {e1, 1}};
static constexpr sl_expr l25[] = {{e29, 1}};
static constexpr sl_expr l26[] = {{e25, 1}, {e7, 1}, {e25, 1}, {e25, 1}};
static constexpr sl_expr l27[] = {{e14, 1}, {e1, 1}, {e8, 1}, {e7, 1}};
static constexpr sl_expr l28[] = {{e25, 1}, {e0, 1}, {e25, 1}, {e25, 1}};
static constexpr sl_expr l29[] = {{e6, 1}, {e1, 1}, {e31, 1}, {e0, 1}};
static constexpr sl_expr l30[] = {{e35, 1}, {e1, 1}, {e19, 1}, {e1, 1}};
static constexpr sl_expr l31[] = {{e25, 1}, {e0, 1}, {e26, 1}, {e26, 1}};
static constexpr sl_expr l32[] = {{e27, 1}, {e1, 1}, {e8, 1}, {e0, 1}};
static constexpr sl_expr l33[] = {{e25, 1}, {e8, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "norm1_weight", "norm1.weight", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm1_running_var", "norm1.running_var", SL_ROLE_PARAMETER, 0, 1, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "conv1_bias", "conv1.bias", SL_ROLE_PARAMETER, 0, 2, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm1_bias", "norm1.bias", SL_ROLE_PARAMETER, 0, 3, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm1_running_mean", "norm1.running_mean", SL_ROLE_PARAMETER, 0, 4, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "prepared_0", "prepared.0", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "conv1_weight", "conv1.weight", SL_ROLE_PARAMETER, 0, 5, -1, {2, 32, 1}, 4, l2, l3, {e2, 1}, {e6, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm2_weight", "norm2.weight", SL_ROLE_PARAMETER, 0, 6, -1, {2, 32, 1}, 1, l4, l1, {e2, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm2_running_var", "norm2.running_var", SL_ROLE_PARAMETER, 0, 7, -1, {2, 32, 1}, 1, l4, l1, {e2, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "conv2_bias", "conv2.bias", SL_ROLE_PARAMETER, 0, 8, -1, {2, 32, 1}, 1, l4, l1, {e2, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm2_bias", "norm2.bias", SL_ROLE_PARAMETER, 0, 9, -1, {2, 32, 1}, 1, l4, l1, {e2, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm2_running_mean", "norm2.running_mean", SL_ROLE_PARAMETER, 0, 10, -1, {2, 32, 1}, 1, l4, l1, {e2, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "prepared_2", "prepared.2", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 1, l4, l1, {e3, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "conv2_weight", "conv2.weight", SL_ROLE_PARAMETER, 0, 11, -1, {2, 32, 1}, 4, l5, l6, {e2, 1}, {e10, 1}, {e2, 1}},
    {sizeof(sl_buffer), "conv1_weight_packed", "conv1.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 5, l7, l8, {e12, 1}, {e6, 1}, {e2, 1}},
    {sizeof(sl_buffer), "conv2_weight_packed", "conv2.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 5, l9, l10, {e17, 1}, {e18, 1}, {e2, 1}},
    {sizeof(sl_buffer), "fc_bias", "fc.bias", SL_ROLE_PARAMETER, 0, 12, -1, {2, 32, 1}, 1, l11, l1, {e2, 1}, {e20, 1}, {e2, 1}},
    {sizeof(sl_buffer), "fc_weight", "fc.weight", SL_ROLE_PARAMETER, 0, 13, -1, {2, 32, 1}, 2, l12, l13, {e2, 1}, {e21, 1}, {e2, 1}},
    {sizeof(sl_buffer), "fc_weight_packed", "fc.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l14, l15, {e23, 1}, {e24, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {2, 64, 1}, 1, l4, l1, {e2, 1}, {e16, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 0, -1, -1, {2, 64, 1}, 1, l0, l1, {e16, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1_view", "", SL_ROLE_VIEW, 0, -1, 20, {2, 64, 1}, 4, l16, l17, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_view", "", SL_ROLE_VIEW, 0, -1, 19, {2, 64, 1}, 4, l18, l17, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 4, l19, l20, {e2, 1}, {e27, 1}, {e2, 1}},
    {sizeof(sl_buffer), "linear", "linear", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l21, l22, {e2, 1}, {e28, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_2", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 4, l23, l24, {e2, 1}, {e22, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_3", "", SL_ROLE_ARENA, 0, -1, -1, {0, 8, 1}, 1, l25, l1, {e2, 1}, {e29, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_4", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 4, l26, l27, {e30, 1}, {e24, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_5", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 4, l28, l29, {e32, 1}, {e33, 1}, {e34, 1}},
    {sizeof(sl_buffer), "t_6", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 4, l19, l30, {e36, 1}, {e37, 1}, {e38, 1}},
    {sizeof(sl_buffer), "t_7", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 4, l31, l32, {e2, 1}, {e39, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_2_view", "", SL_ROLE_VIEW, 0, -1, 25, {2, 32, 1}, 2, l33, l13, {e2, 1}, {e2, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_pointwise_to_dtype_16[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a4", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 64, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 1, l0, l1},
};

static constexpr sl_argument arguments_pointwise_to_dtype_32[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l4, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l4, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l4, l1},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l4, l1},
    {sizeof(sl_argument), "a4", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l4, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 64, 1}, 1, l4, l1},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 1, l4, l1},
};

static constexpr sl_argument arguments_pack_convolution_16x1x3x3_mul[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 64, 1}, 4, l16, l17},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 5, l7, l8},
};

static constexpr sl_argument arguments_pack_winograd_32x16x3x3_mul[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l5, l6},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 64, 1}, 4, l18, l17},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 5, l9, l10},
};

static constexpr sl_argument arguments_pack_gemm_10x128[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l12, l13},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l14, l15},
};

static constexpr sl_argument arguments_zero_border[] = {
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l19, l30},
};

static constexpr sl_argument arguments_copy_4x8x8[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l19, l20},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l19, l30},
};

static constexpr sl_argument arguments_convolution_4x1x8x8x16_3x3_bias_relu[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l19, l30},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 5, l7, l8},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l31, l32},
};

static constexpr sl_argument arguments_zero_border_2[] = {
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l28, l29},
};

static constexpr sl_argument arguments_max_pool2d[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l31, l32},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l28, l29},
};

static constexpr sl_argument arguments_winograd_4x16x4x4x32_3x3_bias_relu[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l28, l29},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 5, l9, l10},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l4, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l26, l27},
    {sizeof(sl_argument), "w0", SL_ARGUMENT_WORKSPACE, 0, {0, 8, 1}, 1, l25, l1},
};

static constexpr sl_argument arguments_max_pool2d_2[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 4, l26, l27},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 4, l23, l24},
};

static constexpr sl_argument arguments_gemm_4x10x128_bias[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l33, l13},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l14, l15},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l11, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l21, l22},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "pointwise_to_dtype_16", "native", SL_ENTRY_KERNEL, 0, arguments_pointwise_to_dtype_16, 7, nullptr, 0, 0.0056, thunk_pointwise_to_dtype_16, nullptr},
    {sizeof(sl_entry), "pointwise_to_dtype_32", "native", SL_ENTRY_KERNEL, 0, arguments_pointwise_to_dtype_32, 7, nullptr, 0, 0.0112, thunk_pointwise_to_dtype_32, nullptr},
    {sizeof(sl_entry), "pack_convolution_16x1x3x3_mul", "native", SL_ENTRY_KERNEL, 0, arguments_pack_convolution_16x1x3x3_mul, 3, nullptr, 0, 5, thunk_pack_convolution_16x1x3x3_mul, nullptr},
    {sizeof(sl_entry), "pack_winograd_32x16x3x3_mul", "native", SL_ENTRY_KERNEL, 0, arguments_pack_winograd_32x16x3x3_mul, 3, nullptr, 0, 5, thunk_pack_winograd_32x16x3x3_mul, nullptr},
    {sizeof(sl_entry), "pack_gemm_10x128", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_10x128, 2, nullptr, 0, 5, thunk_pack_gemm_10x128, nullptr},
    {sizeof(sl_entry), "zero_border", "native", SL_ENTRY_KERNEL, 0, arguments_zero_border, 1, nullptr, 0, 0, thunk_zero_border, nullptr},
    {sizeof(sl_entry), "copy_4x8x8", "native", SL_ENTRY_KERNEL, 0, arguments_copy_4x8x8, 2, nullptr, 0, 0.0256, thunk_copy_4x8x8, nullptr},
    {sizeof(sl_entry), "convolution_4x1x8x8x16_3x3_bias_relu", "native", SL_ENTRY_KERNEL, 0, arguments_convolution_4x1x8x8x16_3x3_bias_relu, 4, nullptr, 0, 0.714, thunk_convolution_4x1x8x8x16_3x3_bias_relu, nullptr},
    {sizeof(sl_entry), "zero_border_2", "native", SL_ENTRY_KERNEL, 0, arguments_zero_border_2, 1, nullptr, 0, 0, thunk_zero_border_2, nullptr},
    {sizeof(sl_entry), "max_pool2d", "native", SL_ENTRY_KERNEL, 0, arguments_max_pool2d, 2, nullptr, 0, 0.41, thunk_max_pool2d, nullptr},
    {sizeof(sl_entry), "winograd_4x16x4x4x32_3x3_bias_relu", "native", SL_ENTRY_KERNEL, 0, arguments_winograd_4x16x4x4x32_3x3_bias_relu, 5, nullptr, 0, 1.91, thunk_winograd_4x16x4x4x32_3x3_bias_relu, nullptr},
    {sizeof(sl_entry), "max_pool2d_2", "native", SL_ENTRY_KERNEL, 0, arguments_max_pool2d_2, 2, nullptr, 0, 0.205, thunk_max_pool2d_2, nullptr},
    {sizeof(sl_entry), "gemm_4x10x128_bias", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_4x10x128_bias, 4, nullptr, 0, 0.168, thunk_gemm_4x10x128_bias, nullptr},
};

static constexpr int32_t operands_0[] = {0, 1, 2, 3, 4, 20, 5};
static constexpr int32_t operands_1[] = {7, 8, 9, 10, 11, 19, 12};
static constexpr int32_t operands_3[] = {6, 21, 14};
static constexpr int32_t operands_4[] = {13, 22, 15};
static constexpr int32_t operands_5[] = {17, 18};
static constexpr int32_t operands_6[] = {29};
static constexpr int32_t operands_7[] = {23, 29};
static constexpr int32_t operands_9[] = {29, 14, 5, 30};
static constexpr int32_t operands_10[] = {28};
static constexpr int32_t operands_12[] = {30, 28};
static constexpr int32_t operands_14[] = {28, 15, 12, 27, 26};
static constexpr int32_t operands_16[] = {27, 25};
static constexpr int32_t operands_17[] = {31, 18, 16, 24};
static constexpr int32_t operands_18[] = {24};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pointwise_to_dtype_16", "to_dtype, to_dtype, add, sqrt, to_dtype, div, mul, to_dtype, sub, to_dtype, mul, add, to_dtype", "conv1 (demo_models.py:24), norm1 (demo_models.py:24)", operands_0, 5, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pointwise_to_dtype_32", "to_dtype, to_dtype, add, sqrt, to_dtype, div, mul, to_dtype, sub, to_dtype, mul, add, to_dtype", "conv2 (demo_models.py:25), norm2 (demo_models.py:25)", operands_1, 5, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 0, 0, "", "", "conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_convolution_16x1x3x3_mul", "to_dtype, mul, to_dtype, pack", "conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24", operands_3, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_winograd_32x16x3x3_mul", "to_dtype, mul, to_dtype, pack", "conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25", operands_4, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_gemm_10x128", "pack", "fc (demo_models.py:26)", operands_5, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "zero_border", "zero border", "conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24", operands_6, 0, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "copy_4x8x8", "reorder", "conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24", operands_7, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "convolution_4x1x8x8x16_3x3_bias_relu", "convolution, relu", "conv1 (demo_models.py:24), norm1 (demo_models.py:24), demo_models.py:24", operands_9, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "zero_border_2", "zero border", "demo_models.py:24", operands_10, 0, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "demo_models.py:24", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "max_pool2d", "max_pool2d", "demo_models.py:24", operands_12, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "winograd_4x16x4x4x32_3x3_bias_relu", "convolution, relu", "conv2 (demo_models.py:25), norm2 (demo_models.py:25), demo_models.py:25", operands_14, 3, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "demo_models.py:25", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "max_pool2d_2", "max_pool2d", "demo_models.py:25", operands_16, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_4x10x128_bias", "linear", "fc (demo_models.py:26)", operands_17, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "", operands_18, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 24, 24},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e40, 1}};
static constexpr sl_expr scratch_bytes[] = {{e41, 1}};
static constexpr sl_expr prepared_bytes[] = {{e42, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    sl_program_prepare, sl_program_run,
    buffers, 32, statements, 19, nullptr, 0,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    14, 0, 1, 1, 2,
    entries, 13, nullptr, 3.43,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
