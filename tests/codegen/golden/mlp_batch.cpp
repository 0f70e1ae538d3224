// Program forward for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pack_gemm.h"
#include "straightline/kernels/gemm.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void pack_gemm_sized(sl_ctx* ctx, sl_team team, const float* a0, float* o0,
    int64_t n0, int64_t n1) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 16}>(
      ctx, team,
      sl::PackGemmShape{.n = n0, .k = n1, .strideN = n1, .strideK = 1},
      a0, o0);
}

extern "C" void gemm_32x256x64_bias_relu(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 6, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 32, .n = 256, .k = 64, .lda = 64, .ldc = 256,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0);
}

extern "C" void gemm_32x256x256_bias_relu(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 6, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 32, .n = 256, .k = 256, .lda = 256, .ldc = 256,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0);
}

extern "C" void gemm_32x10x256_bias(sl_ctx* ctx, sl_team team, const float* a0, const float* a1,
    const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 6, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 32, .n = 10, .k = 256, .lda = 256, .ldc = 10,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, a2, o0);
}

static void thunk_pack_gemm_sized(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  pack_gemm_sized(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]), scalars[0], scalars[1]);
}

static void thunk_gemm_32x256x64_bias_relu(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_32x256x64_bias_relu(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

static void thunk_gemm_32x256x256_bias_relu(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_32x256x256_bias_relu(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

static void thunk_gemm_32x10x256_bias(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_32x10x256_bias(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const layers_0_weight = static_cast<const float*>(io->parameters[1]);
  constexpr int64_t layers_0_weight_packed_at = 0;
  float* const layers_0_weight_packed = sl::at<float>(io->prepared[0], layers_0_weight_packed_at);
  const float* const layers_1_weight = static_cast<const float*>(io->parameters[3]);
  constexpr int64_t layers_1_weight_packed_at = 65536;
  float* const layers_1_weight_packed = sl::at<float>(io->prepared[0], layers_1_weight_packed_at);
  const float* const layers_2_weight = static_cast<const float*>(io->parameters[5]);
  constexpr int64_t layers_2_weight_packed_at = 327680;
  float* const layers_2_weight_packed = sl::at<float>(io->prepared[0], layers_2_weight_packed_at);
  // pack: layers.0 (small.py:34), small.py:36
  pack_gemm_sized(ctx, team, layers_0_weight, layers_0_weight_packed, 256, 64);
  // pack: layers.1 (small.py:34), small.py:36
  pack_gemm_sized(ctx, team, layers_1_weight, layers_1_weight_packed, 256, 256);
  // pack: layers.2 (small.py:34)
  pack_gemm_sized(ctx, team, layers_2_weight, layers_2_weight_packed, 10, 256);
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const layers_0_bias = static_cast<const float*>(io->parameters[0]);
  constexpr int64_t layers_0_weight_packed_at = 0;
  const float* const layers_0_weight_packed = sl::at<const float>(io->prepared[0], layers_0_weight_packed_at);
  const float* const layers_1_bias = static_cast<const float*>(io->parameters[2]);
  constexpr int64_t layers_1_weight_packed_at = 65536;
  const float* const layers_1_weight_packed = sl::at<const float>(io->prepared[0], layers_1_weight_packed_at);
  const float* const layers_2_bias = static_cast<const float*>(io->parameters[4]);
  constexpr int64_t layers_2_weight_packed_at = 327680;
  const float* const layers_2_weight_packed = sl::at<const float>(io->prepared[0], layers_2_weight_packed_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const linear_2 = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[0], t_at);
  constexpr int64_t t_1_at = 32768;
  float* const t_1 = sl::at<float>(io->arenas[0], t_1_at);
  // linear, relu: layers.0 (small.py:34), small.py:36
  gemm_32x256x64_bias_relu(ctx, team, x, layers_0_weight_packed, layers_0_bias, t_1);
  sl_barrier(team);
  // linear, relu: layers.1 (small.py:34), small.py:36
  gemm_32x256x256_bias_relu(ctx, team, t_1, layers_1_weight_packed, layers_1_bias, t);
  sl_barrier(team);
  // linear: layers.2 (small.py:34)
  gemm_32x10x256_bias(ctx, team, t, layers_2_weight_packed, layers_2_bias, linear_2);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 256}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 1024}};
static constexpr sl_expr_step e4[] = {{'c', 64}};
static constexpr sl_expr_step e5[] = {{'c', 65536}};
static constexpr sl_expr_step e6[] = {{'c', 16}};
static constexpr sl_expr_step e7[] = {{'c', 262144}};
static constexpr sl_expr_step e8[] = {{'c', 4096}};
static constexpr sl_expr_step e9[] = {{'c', 10}};
static constexpr sl_expr_step e10[] = {{'c', 40}};
static constexpr sl_expr_step e11[] = {{'c', 10240}};
static constexpr sl_expr_step e12[] = {{'c', 327680}};
static constexpr sl_expr_step e13[] = {{'c', 16384}};
static constexpr sl_expr_step e14[] = {{'c', 32}};
static constexpr sl_expr_step e15[] = {{'c', 8192}};
static constexpr sl_expr_step e16[] = {{'c', 1280}};
static constexpr sl_expr_step e17[] = {{'c', 32768}};
static constexpr sl_expr_step e18[] = {{'c', 344064}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e0, 1}, {e4, 1}};
static constexpr sl_expr l3[] = {{e4, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e6, 1}, {e4, 1}, {e6, 1}};
static constexpr sl_expr l5[] = {{e3, 1}, {e6, 1}, {e1, 1}};
static constexpr sl_expr l6[] = {{e0, 1}, {e0, 1}};
static constexpr sl_expr l7[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l8[] = {{e6, 1}, {e0, 1}, {e6, 1}};
static constexpr sl_expr l9[] = {{e8, 1}, {e6, 1}, {e1, 1}};
static constexpr sl_expr l10[] = {{e9, 1}};
static constexpr sl_expr l11[] = {{e9, 1}, {e0, 1}};
static constexpr sl_expr l12[] = {{e1, 1}, {e0, 1}, {e6, 1}};
static constexpr sl_expr l13[] = {{e14, 1}, {e4, 1}};
static constexpr sl_expr l14[] = {{e14, 1}, {e9, 1}};
static constexpr sl_expr l15[] = {{e9, 1}, {e1, 1}};
static constexpr sl_expr l16[] = {{e14, 1}, {e0, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "layers_0_bias", "layers.0.bias", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_0_weight", "layers.0.weight", SL_ROLE_PARAMETER, 0, 1, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_0_weight_packed", "layers.0.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l4, l5, {e2, 1}, {e5, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_1_bias", "layers.1.bias", SL_ROLE_PARAMETER, 0, 2, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_1_weight", "layers.1.weight", SL_ROLE_PARAMETER, 0, 3, -1, {2, 32, 1}, 2, l6, l7, {e2, 1}, {e7, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_1_weight_packed", "layers.1.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l8, l9, {e5, 1}, {e7, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_2_bias", "layers.2.bias", SL_ROLE_PARAMETER, 0, 4, -1, {2, 32, 1}, 1, l10, l1, {e2, 1}, {e10, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_2_weight", "layers.2.weight", SL_ROLE_PARAMETER, 0, 5, -1, {2, 32, 1}, 2, l11, l7, {e2, 1}, {e11, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_2_weight_packed", "layers.2.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l12, l9, {e12, 1}, {e13, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l13, l3, {e2, 1}, {e15, 1}, {e2, 1}},
    {sizeof(sl_buffer), "linear_2", "linear_2", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l14, l15, {e2, 1}, {e16, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l16, l7, {e2, 1}, {e17, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l16, l7, {e17, 1}, {e17, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_pack_gemm_sized[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, -1, nullptr, nullptr},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, -1, nullptr, nullptr},
};

static constexpr const char* names_pack_gemm_sized[] = {"n0", "n1"};
static constexpr sl_argument arguments_gemm_32x256x64_bias_relu[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l13, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l4, l5},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l16, l7},
};

static constexpr sl_argument arguments_gemm_32x256x256_bias_relu[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l16, l7},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l8, l9},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l16, l7},
};

static constexpr sl_argument arguments_gemm_32x10x256_bias[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l16, l7},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l12, l9},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l10, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l14, l15},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "pack_gemm_sized", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_sized, 2, names_pack_gemm_sized, 2, 5, thunk_pack_gemm_sized, nullptr},
    {sizeof(sl_entry), "gemm_32x256x64_bias_relu", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_32x256x64_bias_relu, 4, nullptr, 0, 5.54, thunk_gemm_32x256x64_bias_relu, nullptr},
    {sizeof(sl_entry), "gemm_32x256x256_bias_relu", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_32x256x256_bias_relu, 4, nullptr, 0, 22.1, thunk_gemm_32x256x256_bias_relu, nullptr},
    {sizeof(sl_entry), "gemm_32x10x256_bias", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_32x10x256_bias, 4, nullptr, 0, 0.89, thunk_gemm_32x10x256_bias, nullptr},
};

static constexpr int32_t operands_0[] = {1, 2};
static constexpr int32_t operands_1[] = {4, 5};
static constexpr int32_t operands_2[] = {7, 8};
static constexpr int32_t operands_3[] = {9, 2, 0, 12};
static constexpr int32_t operands_5[] = {12, 5, 3, 11};
static constexpr int32_t operands_7[] = {11, 8, 6, 10};
static constexpr int32_t operands_8[] = {10};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_gemm_sized", "pack", "layers.0 (small.py:34), small.py:36", operands_0, 1, 1, l2, 2},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_gemm_sized", "pack", "layers.1 (small.py:34), small.py:36", operands_1, 1, 1, l6, 2},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_gemm_sized", "pack", "layers.2 (small.py:34)", operands_2, 1, 1, l11, 2},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "gemm_32x256x64_bias_relu", "linear, relu", "layers.0 (small.py:34), small.py:36", operands_3, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "layers.1 (small.py:34), small.py:36", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "gemm_32x256x256_bias_relu", "linear, relu", "layers.1 (small.py:34), small.py:36", operands_5, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "layers.2 (small.py:34)", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "gemm_32x10x256_bias", "linear", "layers.2 (small.py:34)", operands_7, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "", operands_8, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 10, 10},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e5, 1}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e18, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    sl_program_prepare, sl_program_run,
    buffers, 13, statements, 9, nullptr, 0,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    6, 0, 1, 1, 2,
    entries, 4, nullptr, 28.5,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
