// Program forward for cpu x86-64-v3, threads: 1.
#include "straightline/kernels/pack_gemm.h"
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/gemm.h"
#include "straightline/kernels/program.h"

extern "C" void pack_gemm_64x8(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 16}>(
      ctx, team,
      sl::PackGemmShape{.n = 64, .k = 8, .strideN = 8, .strideK = 1},
      a0, o0);
}

extern "C" void pack_gemm_64x16(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 32}>(
      ctx, team,
      sl::PackGemmShape{.n = 64, .k = 16, .strideN = 16, .strideK = 1},
      a0, o0);
}

extern "C" void pack_gemm_5x16(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 8}>(
      ctx, team,
      sl::PackGemmShape{.n = 5, .k = 16, .strideN = 16, .strideK = 1},
      a0, o0);
}

extern "C" void copy_50x2x8(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 3, .inputs = 1}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {50, 2, 8}, .stride = {{8, 400, 1}, {16, 8, 1}}}>{},
      [](auto x0, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      a0, o0);
}

extern "C" void gemm_100x64x8_bias(sl_ctx* ctx, sl_team team, const float* a0, const float* a1,
    const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 5, .nr = 16, .kc = 0, .mc = 95, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 100, .n = 64, .k = 8, .lda = 8, .ldc = 64,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, a2, o0);
}

extern "C" void fill_32(sl_ctx* ctx, sl_team team, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 0}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {32}, .stride = {{1}}}>{},
      [](auto& y0) SL_LAMBDA {
        y0 = sl::constant(y0, 0.0f);
      },
      o0);
}

extern "C" void gemm_2x64x16_bias_add(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, const float* a3, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 2, .nr = 32, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 2, .n = 64, .k = 16, .lda = 16, .ldc = 64,
          .epilogueStride = {{0, 1}, {64, 1}}}>{},
      [](auto x0, auto x1, auto x2, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = t0 + x2;
        y0 = t1;
      },
      a0, a1, a2, a3, o0);
}

extern "C" void pointwise_sigmoid_2x16(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, const float* a3, const float* a4, float* o0, float* o1,
    float* o2) {
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 5}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {2, 16},
          .stride = {{64, 1}, {64, 1}, {16, 1}, {64, 1}, {64, 1}, {16, 1}, {16, 1}, {16, 1}}}>{},
      [](auto x0, auto x1, auto x2, auto x3, auto x4, auto& y0, auto& y1, auto& y2) SL_LAMBDA {
        auto t0 = -x0;
        auto t1 = sl::exp(t0);
        auto t2 = sl::constant(x0, 1.0f) + t1;
        auto t3 = sl::constant(x0, 1.0f) / t2;
        auto t4 = sl::lt(t3, sl::constant(x0, 1.0842022e-19f));
        auto t5 = sl::select(t4, sl::constant(x0, 0.0f), t3);
        auto t6 = -x1;
        auto t7 = sl::exp(t6);
        auto t8 = sl::constant(x0, 1.0f) + t7;
        auto t9 = sl::constant(x0, 1.0f) / t8;
        auto t10 = sl::lt(t9, sl::constant(x0, 1.0842022e-19f));
        auto t11 = sl::select(t10, sl::constant(x0, 0.0f), t9);
        auto t12 = t11 * x2;
        auto t13 = -x3;
        auto t14 = sl::exp(t13);
        auto t15 = sl::constant(x0, 1.0f) + t14;
        auto t16 = sl::constant(x0, 1.0f) / t15;
        auto t17 = sl::lt(t16, sl::constant(x0, 1.0842022e-19f));
        auto t18 = sl::select(t17, sl::constant(x0, 0.0f), t16);
        auto t19 = sl::tanh(x4);
        auto t20 = t18 * t19;
        auto t21 = t12 + t20;
        auto t22 = sl::tanh(t21);
        auto t23 = t5 * t22;
        auto t24 = sl::abs(t23);
        auto t25 = sl::lt(t24, sl::constant(x0, 1.1754944e-38f));
        auto t26 = sl::select(t25, sl::constant(x0, 0.0f), t23);
        auto t27 = sl::abs(t21);
        auto t28 = sl::lt(t27, sl::constant(x0, 1.1754944e-38f));
        auto t29 = sl::select(t28, sl::constant(x0, 0.0f), t21);
        y0 = t26;
        y1 = t29;
        y2 = t26;
      },
      a0, a1, a2, a3, a4, o0, o1, o2);
}

extern "C" void copy_2x50x16(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 3, .inputs = 1}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {2, 50, 16}, .stride = {{16, 32, 1}, {800, 16, 1}}}>{},
      [](auto x0, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      a0, o0);
}

extern "C" void gemm_100x5x16_bias(sl_ctx* ctx, sl_team team, const float* a0, const float* a1,
    const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 10, .nr = 8, .kc = 0, .mc = 90, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 100, .n = 5, .k = 16, .lda = 16, .ldc = 5,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, a2, o0);
}

static void thunk_pack_gemm_64x8(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_gemm_64x8(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_pack_gemm_64x16(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_gemm_64x16(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_pack_gemm_5x16(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_gemm_5x16(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_copy_50x2x8(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  copy_50x2x8(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_gemm_100x64x8_bias(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_100x64x8_bias(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

static void thunk_fill_32(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  fill_32(ctx, team, static_cast<float*>(pointers[0]));
}

static void thunk_gemm_2x64x16_bias_add(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_2x64x16_bias_add(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<const float*>(pointers[3]), static_cast<float*>(pointers[4]));
}

static void thunk_pointwise_sigmoid_2x16(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pointwise_sigmoid_2x16(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<const float*>(pointers[3]), static_cast<const float*>(pointers[4]),
      static_cast<float*>(pointers[5]), static_cast<float*>(pointers[6]),
      static_cast<float*>(pointers[7]));
}

static void thunk_copy_2x50x16(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  copy_2x50x16(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_gemm_100x5x16_bias(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_100x5x16_bias(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  const float* const lstm_weight_ih_l0 = static_cast<const float*>(io->parameters[1]);
  constexpr int64_t lstm_weight_ih_l0_packed_at = 0;
  float* const lstm_weight_ih_l0_packed = sl::at<float>(io->prepared[0], lstm_weight_ih_l0_packed_at);
  const float* const lstm_weight_hh_l0 = static_cast<const float*>(io->parameters[3]);
  constexpr int64_t lstm_weight_hh_l0_packed_at = 2048;
  float* const lstm_weight_hh_l0_packed = sl::at<float>(io->prepared[0], lstm_weight_hh_l0_packed_at);
  const float* const fc_weight = static_cast<const float*>(io->parameters[5]);
  constexpr int64_t fc_weight_packed_at = 6144;
  float* const fc_weight_packed = sl::at<float>(io->prepared[0], fc_weight_packed_at);
  // pack: lstm (lstm.py:25)
  pack_gemm_64x8(ctx, sl::alone(), lstm_weight_ih_l0, lstm_weight_ih_l0_packed);
  // pack: lstm (lstm.py:25)
  pack_gemm_64x16(ctx, sl::alone(), lstm_weight_hh_l0, lstm_weight_hh_l0_packed);
  // pack: fc (lstm.py:26)
  pack_gemm_5x16(ctx, sl::alone(), fc_weight, fc_weight_packed);
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const float* const lstm_bias_ih_l0 = static_cast<const float*>(io->parameters[0]);
  constexpr int64_t lstm_weight_ih_l0_packed_at = 0;
  const float* const lstm_weight_ih_l0_packed = sl::at<const float>(io->prepared[0], lstm_weight_ih_l0_packed_at);
  const float* const lstm_bias_hh_l0 = static_cast<const float*>(io->parameters[2]);
  constexpr int64_t lstm_weight_hh_l0_packed_at = 2048;
  const float* const lstm_weight_hh_l0_packed = sl::at<const float>(io->prepared[0], lstm_weight_hh_l0_packed_at);
  const float* const fc_bias = static_cast<const float*>(io->parameters[4]);
  constexpr int64_t fc_weight_packed_at = 6144;
  const float* const fc_weight_packed = sl::at<const float>(io->prepared[0], fc_weight_packed_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const linear = static_cast<float*>(io->outputs[0]);
  float* const getitem_1 = static_cast<float*>(io->outputs[1]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[0], t_at);
  constexpr int64_t t_1_at = 32000;
  float* const t_1 = sl::at<float>(io->arenas[0], t_1_at);
  constexpr int64_t t_2_at = 25600;
  float* const t_2 = sl::at<float>(io->arenas[0], t_2_at);
  constexpr int64_t t_3_at = 32512;
  float* const t_3 = sl::at<float>(io->arenas[0], t_3_at);
  constexpr int64_t t_4_at = 0;
  float* const t_4 = sl::at<float>(io->arenas[0], t_4_at);
  constexpr int64_t t_5_at = 25600;
  float* const t_5 = sl::at<float>(io->arenas[0], t_5_at);
  const float* const x_view = x;
  // copy: lstm (lstm.py:25)
  copy_50x2x8(ctx, sl::alone(), x_view, t_5);
  // linear: lstm (lstm.py:25)
  gemm_100x64x8_bias(ctx, sl::alone(), t_5, lstm_weight_ih_l0_packed, lstm_bias_ih_l0, t_4);
  float* const getitem_1_view = getitem_1;
  // full: lstm (lstm.py:25)
  fill_32(ctx, sl::alone(), getitem_1_view);
  // full: lstm (lstm.py:25)
  fill_32(ctx, sl::alone(), t_3);
  const int64_t n = 0;
  const int64_t n_1 = 50;
  const int64_t n_2 = 1;
  // for: lstm (lstm.py:25)
  for (int64_t i = n; i < n_1; i += n_2) {
    float* const t_4_view = t_4 + i * 128;
    float* const t_4_view_view = t_4_view;
    // linear, add: lstm (lstm.py:25)
    gemm_2x64x16_bias_add(ctx, sl::alone(), getitem_1_view, lstm_weight_hh_l0_packed,
        lstm_bias_hh_l0, t_4_view_view, t_1);
    float* const t_1_view = t_1;
    float* const t_1_view_1 = t_1 + 16;
    float* const t_1_view_2 = t_1 + 32;
    float* const t_1_view_3 = t_1 + 48;
    float* const t_2_view = t_2 + i * 32;
    float* const t_2_view_view = t_2_view;
    // sigmoid, lt, where, sigmoid, lt, where, tanh, sigmoid, lt, where, mul, mul, add, tanh, mul, abs, lt, where, abs, lt, where: lstm (lstm.py:25)
    pointwise_sigmoid_2x16(ctx, sl::alone(), t_1_view_3, t_1_view_1, t_3, t_1_view, t_1_view_2,
        getitem_1_view, t_3, t_2_view_view);
    if (sl::cancelled(ctx, team)) {
      return sl::stop(ctx, team, 10);
    }
  }
  float* const t_2_view_1 = t_2;
  // copy: fc (lstm.py:26)
  copy_2x50x16(ctx, sl::alone(), t_2_view_1, t);
  // linear: fc (lstm.py:26)
  gemm_100x5x16_bias(ctx, sl::alone(), t, fc_weight_packed, fc_bias, linear);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 64}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 256}};
static constexpr sl_expr_step e4[] = {{'c', 8}};
static constexpr sl_expr_step e5[] = {{'c', 2048}};
static constexpr sl_expr_step e6[] = {{'c', 4}};
static constexpr sl_expr_step e7[] = {{'c', 128}};
static constexpr sl_expr_step e8[] = {{'c', 16}};
static constexpr sl_expr_step e9[] = {{'c', 4096}};
static constexpr sl_expr_step e10[] = {{'c', 2}};
static constexpr sl_expr_step e11[] = {{'c', 512}};
static constexpr sl_expr_step e12[] = {{'c', 32}};
static constexpr sl_expr_step e13[] = {{'c', 5}};
static constexpr sl_expr_step e14[] = {{'c', 20}};
static constexpr sl_expr_step e15[] = {{'c', 320}};
static constexpr sl_expr_step e16[] = {{'c', 6144}};
static constexpr sl_expr_step e17[] = {{'c', 400}};
static constexpr sl_expr_step e18[] = {{'c', 50}};
static constexpr sl_expr_step e19[] = {{'c', 3200}};
static constexpr sl_expr_step e20[] = {{'c', 250}};
static constexpr sl_expr_step e21[] = {{'c', 2000}};
static constexpr sl_expr_step e22[] = {{'c', 800}};
static constexpr sl_expr_step e23[] = {{'c', 6400}};
static constexpr sl_expr_step e24[] = {{'c', 32000}};
static constexpr sl_expr_step e25[] = {{'c', 25600}};
static constexpr sl_expr_step e26[] = {{'c', 32512}};
static constexpr sl_expr_step e27[] = {{'c', 192}};
static constexpr sl_expr_step e28[] = {{'v', 7}};
static constexpr sl_expr_step e29[] = {{'v', 8}};
static constexpr sl_expr_step e30[] = {{'v', 9}};
static constexpr sl_expr_step e31[] = {{'v', 10}, {'c', 512}, {'*', 0}};
static constexpr sl_expr_step e32[] = {{'v', 10}, {'c', 128}, {'*', 0}};
static constexpr sl_expr_step e33[] = {{'c', 32640}};
static constexpr sl_expr_step e34[] = {{'c', 6656}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e0, 1}, {e4, 1}};
static constexpr sl_expr l3[] = {{e4, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e6, 1}, {e4, 1}, {e8, 1}};
static constexpr sl_expr l5[] = {{e7, 1}, {e8, 1}, {e1, 1}};
static constexpr sl_expr l6[] = {{e0, 1}, {e8, 1}};
static constexpr sl_expr l7[] = {{e8, 1}, {e1, 1}};
static constexpr sl_expr l8[] = {{e10, 1}, {e8, 1}, {e12, 1}};
static constexpr sl_expr l9[] = {{e11, 1}, {e12, 1}, {e1, 1}};
static constexpr sl_expr l10[] = {{e13, 1}};
static constexpr sl_expr l11[] = {{e13, 1}, {e8, 1}};
static constexpr sl_expr l12[] = {{e1, 1}, {e8, 1}, {e4, 1}};
static constexpr sl_expr l13[] = {{e7, 1}, {e4, 1}, {e1, 1}};
static constexpr sl_expr l14[] = {{e10, 1}, {e18, 1}, {e4, 1}};
static constexpr sl_expr l15[] = {{e17, 1}, {e4, 1}, {e1, 1}};
static constexpr sl_expr l16[] = {{e10, 1}, {e18, 1}, {e13, 1}};
static constexpr sl_expr l17[] = {{e20, 1}, {e13, 1}, {e1, 1}};
static constexpr sl_expr l18[] = {{e1, 1}, {e10, 1}, {e8, 1}};
static constexpr sl_expr l19[] = {{e12, 1}, {e8, 1}, {e1, 1}};
static constexpr sl_expr l20[] = {{e10, 1}, {e18, 1}, {e8, 1}};
static constexpr sl_expr l21[] = {{e22, 1}, {e8, 1}, {e1, 1}};
static constexpr sl_expr l22[] = {{e10, 1}, {e0, 1}};
static constexpr sl_expr l23[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l24[] = {{e18, 1}, {e10, 1}, {e8, 1}};
static constexpr sl_expr l25[] = {{e10, 1}, {e8, 1}};
static constexpr sl_expr l26[] = {{e18, 1}, {e10, 1}, {e0, 1}};
static constexpr sl_expr l27[] = {{e7, 1}, {e0, 1}, {e1, 1}};
static constexpr sl_expr l28[] = {{e18, 1}, {e10, 1}, {e4, 1}};
static constexpr sl_expr l29[] = {{e8, 1}, {e4, 1}, {e1, 1}};
static constexpr sl_expr l30[] = {{e4, 1}, {e17, 1}, {e1, 1}};
static constexpr sl_expr l31[] = {{e1, 1}, {e10, 1}, {e0, 1}};
static constexpr sl_expr l32[] = {{e1, 1}, {e8, 1}, {e1, 1}};
static constexpr sl_expr l33[] = {{e8, 1}, {e12, 1}, {e1, 1}};
static constexpr sl_expr l34[] = {{e2, 1}};
static constexpr sl_expr l35[] = {{e18, 1}};
static constexpr sl_expr l36[] = {{e28, 1}, {e29, 1}, {e30, 1}};
static constexpr sl_expr l37[] = {{e31, 3}};
static constexpr sl_expr l38[] = {{e32, 3}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "lstm_bias_ih_l0", "lstm.bias_ih_l0", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "lstm_weight_ih_l0", "lstm.weight_ih_l0", SL_ROLE_PARAMETER, 0, 1, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 1}, {e2, 1}},
    {sizeof(sl_buffer), "lstm_weight_ih_l0_packed", "lstm.weight_ih_l0.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l4, l5, {e2, 1}, {e5, 1}, {e2, 1}},
    {sizeof(sl_buffer), "lstm_bias_hh_l0", "lstm.bias_hh_l0", SL_ROLE_PARAMETER, 0, 2, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "lstm_weight_hh_l0", "lstm.weight_hh_l0", SL_ROLE_PARAMETER, 0, 3, -1, {2, 32, 1}, 2, l6, l7, {e2, 1}, {e9, 1}, {e2, 1}},
    {sizeof(sl_buffer), "lstm_weight_hh_l0_packed", "lstm.weight_hh_l0.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l8, l9, {e5, 1}, {e9, 1}, {e2, 1}},
    {sizeof(sl_buffer), "fc_bias", "fc.bias", SL_ROLE_PARAMETER, 0, 4, -1, {2, 32, 1}, 1, l10, l1, {e2, 1}, {e14, 1}, {e2, 1}},
    {sizeof(sl_buffer), "fc_weight", "fc.weight", SL_ROLE_PARAMETER, 0, 5, -1, {2, 32, 1}, 2, l11, l7, {e2, 1}, {e15, 1}, {e2, 1}},
    {sizeof(sl_buffer), "fc_weight_packed", "fc.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l12, l13, {e16, 1}, {e11, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 3, l14, l15, {e2, 1}, {e19, 1}, {e2, 1}},
    {sizeof(sl_buffer), "linear", "linear", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 3, l16, l17, {e2, 1}, {e21, 1}, {e2, 1}},
    {sizeof(sl_buffer), "getitem_1", "getitem_1", SL_ROLE_OUTPUT, 0, 1, -1, {2, 32, 1}, 3, l18, l19, {e2, 1}, {e7, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 3, l20, l21, {e2, 1}, {e23, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l22, l23, {e24, 1}, {e11, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_2", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 3, l24, l19, {e25, 1}, {e23, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_3", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l25, l7, {e26, 1}, {e7, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_4", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 3, l26, l27, {e2, 1}, {e25, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_5", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 3, l28, l29, {e25, 1}, {e19, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x_view", "", SL_ROLE_VIEW, 0, -1, 9, {2, 32, 1}, 3, l28, l30, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "getitem_1_view", "", SL_ROLE_VIEW, 0, -1, 11, {2, 32, 1}, 2, l25, l7, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_4_view", "", SL_ROLE_VIEW, 0, -1, 16, {2, 32, 1}, 3, l31, l27, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_4_view_view", "", SL_ROLE_VIEW, 0, -1, 20, {2, 32, 1}, 2, l22, l23, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1_view", "", SL_ROLE_VIEW, 0, -1, 13, {2, 32, 1}, 2, l25, l23, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1_view_1", "", SL_ROLE_VIEW, 0, -1, 13, {2, 32, 1}, 2, l25, l23, {e0, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1_view_2", "", SL_ROLE_VIEW, 0, -1, 13, {2, 32, 1}, 2, l25, l23, {e7, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1_view_3", "", SL_ROLE_VIEW, 0, -1, 13, {2, 32, 1}, 2, l25, l23, {e27, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_2_view", "", SL_ROLE_VIEW, 0, -1, 14, {2, 32, 1}, 3, l18, l19, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_2_view_view", "", SL_ROLE_VIEW, 0, -1, 26, {2, 32, 1}, 2, l25, l7, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "getitem_1_view_1", "", SL_ROLE_VIEW, 0, -1, 11, {2, 32, 1}, 3, l18, l32, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "getitem_1_view_2", "", SL_ROLE_VIEW, 0, -1, 11, {2, 32, 1}, 3, l18, l32, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_2_view_1", "", SL_ROLE_VIEW, 0, -1, 14, {2, 32, 1}, 3, l20, l33, {e2, 1}, {e2, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_pack_gemm_64x8[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l4, l5},
};

static constexpr sl_argument arguments_pack_gemm_64x16[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l6, l7},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l8, l9},
};

static constexpr sl_argument arguments_pack_gemm_5x16[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l11, l7},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l12, l13},
};

static constexpr sl_argument arguments_copy_50x2x8[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l28, l30},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l28, l29},
};

static constexpr sl_argument arguments_gemm_100x64x8_bias[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l28, l29},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l4, l5},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l26, l27},
};

static constexpr sl_argument arguments_fill_32[] = {
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l25, l7},
};

static constexpr sl_argument arguments_gemm_2x64x16_bias_add[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l25, l7},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l8, l9},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l22, l23},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l22, l23},
};

static constexpr sl_argument arguments_pointwise_sigmoid_2x16[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l25, l23},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l25, l23},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l25, l7},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l25, l23},
    {sizeof(sl_argument), "a4", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l25, l23},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l25, l7},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l25, l7},
    {sizeof(sl_argument), "o2", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l25, l7},
};

static constexpr sl_argument arguments_copy_2x50x16[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l20, l33},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l20, l21},
};

static constexpr sl_argument arguments_gemm_100x5x16_bias[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l20, l21},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l12, l13},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l10, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l16, l17},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "pack_gemm_64x8", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_64x8, 2, nullptr, 0, 10, thunk_pack_gemm_64x8, nullptr},
    {sizeof(sl_entry), "pack_gemm_64x16", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_64x16, 2, nullptr, 0, 10, thunk_pack_gemm_64x16, nullptr},
    {sizeof(sl_entry), "pack_gemm_5x16", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_5x16, 2, nullptr, 0, 10, thunk_pack_gemm_5x16, nullptr},
    {sizeof(sl_entry), "copy_50x2x8", "native", SL_ENTRY_KERNEL, 0, arguments_copy_50x2x8, 2, nullptr, 0, 0.08, thunk_copy_50x2x8, nullptr},
    {sizeof(sl_entry), "gemm_100x64x8_bias", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_100x64x8_bias, 4, nullptr, 0, 1.11, thunk_gemm_100x64x8_bias, nullptr},
    {sizeof(sl_entry), "fill_32", "native", SL_ENTRY_KERNEL, 0, arguments_fill_32, 1, nullptr, 0, 0.0016, thunk_fill_32, nullptr},
    {sizeof(sl_entry), "gemm_2x64x16_bias_add", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_2x64x16_bias_add, 5, nullptr, 0, 0.073, thunk_gemm_2x64x16_bias_add, nullptr},
    {sizeof(sl_entry), "pointwise_sigmoid_2x16", "native", SL_ENTRY_KERNEL, 0, arguments_pointwise_sigmoid_2x16, 8, nullptr, 0, 0.0128, thunk_pointwise_sigmoid_2x16, nullptr},
    {sizeof(sl_entry), "copy_2x50x16", "native", SL_ENTRY_KERNEL, 0, arguments_copy_2x50x16, 2, nullptr, 0, 0.16, thunk_copy_2x50x16, nullptr},
    {sizeof(sl_entry), "gemm_100x5x16_bias", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_100x5x16_bias, 4, nullptr, 0, 0.198, thunk_gemm_100x5x16_bias, nullptr},
};

static constexpr int32_t operands_0[] = {1, 2};
static constexpr int32_t operands_1[] = {4, 5};
static constexpr int32_t operands_2[] = {7, 8};
static constexpr int32_t operands_3[] = {18, 17};
static constexpr int32_t operands_4[] = {17, 2, 0, 16};
static constexpr int32_t operands_5[] = {19};
static constexpr int32_t operands_6[] = {15};
static constexpr int32_t operands_11[] = {16, 20};
static constexpr int32_t operands_12[] = {19, 5, 3, 21, 13};
static constexpr int32_t operands_13[] = {14, 26};
static constexpr int32_t operands_14[] = {25, 23, 15, 22, 24, 19, 15, 27};
static constexpr int32_t operands_16[] = {30, 12};
static constexpr int32_t operands_17[] = {12, 8, 6, 10};
static constexpr int32_t operands_18[] = {10, 11};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pack_gemm_64x8", "pack", "lstm (lstm.py:25)", operands_0, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pack_gemm_64x16", "pack", "lstm (lstm.py:25)", operands_1, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pack_gemm_5x16", "pack", "fc (lstm.py:26)", operands_2, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "copy_50x2x8", "copy", "lstm (lstm.py:25)", operands_3, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_100x64x8_bias", "linear", "lstm (lstm.py:25)", operands_4, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "fill_32", "full", "lstm (lstm.py:25)", operands_5, 0, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "fill_32", "full", "lstm (lstm.py:25)", operands_6, 0, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SIZE, 0, 1, 0, "", "", "lstm (lstm.py:25)", nullptr, 0, 0, l34, 1},
    {sizeof(sl_statement), SL_STATEMENT_SIZE, 0, 1, 0, "", "", "lstm (lstm.py:25)", nullptr, 0, 0, l35, 1},
    {sizeof(sl_statement), SL_STATEMENT_SIZE, 0, 1, 0, "", "", "lstm (lstm.py:25)", nullptr, 0, 0, l1, 1},
    {sizeof(sl_statement), SL_STATEMENT_FOR, 0, 1, 0, "", "", "lstm (lstm.py:25)", nullptr, 0, 0, l36, 3},
    {sizeof(sl_statement), SL_STATEMENT_VIEW, 0, 1, 0, "", "", "lstm (lstm.py:25)", operands_11, 1, 1, l37, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_2x64x16_bias_add", "linear, add", "lstm (lstm.py:25)", operands_12, 4, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_VIEW, 0, 1, 0, "", "", "lstm (lstm.py:25)", operands_13, 1, 1, l38, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "pointwise_sigmoid_2x16", "sigmoid, lt, where, sigmoid, lt, where, tanh, sigmoid, lt, where, mul, mul, add, tanh, mul, abs, lt, where, abs, lt, where", "lstm (lstm.py:25)", operands_14, 5, 3, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_END, 0, 1, 0, "", "", "lstm (lstm.py:25)", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "copy_2x50x16", "copy", "fc (lstm.py:26)", operands_16, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_100x5x16_bias", "linear", "fc (lstm.py:26)", operands_17, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "", operands_18, 2, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 10, 10},
    {sizeof(sl_result), 11, 11},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e33, 1}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e34, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\">",
    sl_program_prepare, sl_program_run,
    buffers, 31, statements, 19, nullptr, 0,
    results, 2, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    6, 0, 1, 2, 1,
    entries, 10, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
