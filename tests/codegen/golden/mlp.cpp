// Program forward for cpu x86-64-v3, threads: 1.
#include "straightline/kernels/pack_gemm.h"
#include "straightline/kernels/gemm.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void pack_gemm_64x64(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 48}>(
      ctx, team,
      sl::PackGemmShape{.n = 64, .k = 64, .strideN = 64, .strideK = 1},
      a0, o0);
}

extern "C" void pack_gemm_10x64(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 16}>(
      ctx, team,
      sl::PackGemmShape{.n = 10, .k = 64, .strideN = 64, .strideK = 1},
      a0, o0);
}

extern "C" void gemm_1x64x64_bias_relu(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 1, .nr = 48, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 1, .n = 64, .k = 64, .lda = 64, .ldc = 64,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0);
}

extern "C" void gemm_1x64x64_bias_relu_2(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 1, .nr = 48, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 1, .n = 64, .k = 64, .lda = 64, .ldc = 64,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0);
}

extern "C" void gemm_1x10x64_bias(sl_ctx* ctx, sl_team team, const float* a0, const float* a1,
    const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 1, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0,
      .prefetchStreams = 1}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 1, .n = 10, .k = 64, .lda = 64, .ldc = 10,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, a2, o0);
}

static void thunk_pack_gemm_64x64(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_gemm_64x64(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_pack_gemm_10x64(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_gemm_10x64(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<float*>(pointers[1]));
}

static void thunk_gemm_1x64x64_bias_relu(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_1x64x64_bias_relu(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

static void thunk_gemm_1x64x64_bias_relu_2(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_1x64x64_bias_relu_2(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

static void thunk_gemm_1x10x64_bias(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_1x10x64_bias(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  const float* const layers_0_weight = static_cast<const float*>(io->parameters[1]);
  constexpr int64_t layers_0_weight_packed_at = 0;
  float* const layers_0_weight_packed = sl::at<float>(io->prepared[0], layers_0_weight_packed_at);
  const float* const layers_1_weight = static_cast<const float*>(io->parameters[3]);
  constexpr int64_t layers_1_weight_packed_at = 24576;
  float* const layers_1_weight_packed = sl::at<float>(io->prepared[0], layers_1_weight_packed_at);
  const float* const layers_2_weight = static_cast<const float*>(io->parameters[5]);
  constexpr int64_t layers_2_weight_packed_at = 49152;
  float* const layers_2_weight_packed = sl::at<float>(io->prepared[0], layers_2_weight_packed_at);
  // pack: layers.0 (small.py:34), small.py:36
  pack_gemm_64x64(ctx, sl::alone(), layers_0_weight, layers_0_weight_packed);
  // pack: layers.1 (small.py:34), small.py:36
  pack_gemm_64x64(ctx, sl::alone(), layers_1_weight, layers_1_weight_packed);
  // pack: layers.2 (small.py:34)
  pack_gemm_10x64(ctx, sl::alone(), layers_2_weight, layers_2_weight_packed);
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  const float* const layers_0_bias = static_cast<const float*>(io->parameters[0]);
  constexpr int64_t layers_0_weight_packed_at = 0;
  const float* const layers_0_weight_packed = sl::at<const float>(io->prepared[0], layers_0_weight_packed_at);
  const float* const layers_1_bias = static_cast<const float*>(io->parameters[2]);
  constexpr int64_t layers_1_weight_packed_at = 24576;
  const float* const layers_1_weight_packed = sl::at<const float>(io->prepared[0], layers_1_weight_packed_at);
  const float* const layers_2_bias = static_cast<const float*>(io->parameters[4]);
  constexpr int64_t layers_2_weight_packed_at = 49152;
  const float* const layers_2_weight_packed = sl::at<const float>(io->prepared[0], layers_2_weight_packed_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const linear_2 = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[0], t_at);
  constexpr int64_t t_1_at = 256;
  float* const t_1 = sl::at<float>(io->arenas[0], t_1_at);
  // linear, relu: layers.0 (small.py:34), small.py:36
  gemm_1x64x64_bias_relu(ctx, sl::alone(), x, layers_0_weight_packed, layers_0_bias, t_1);
  // linear, relu: layers.1 (small.py:34), small.py:36
  gemm_1x64x64_bias_relu_2(ctx, sl::alone(), t_1, layers_1_weight_packed, layers_1_bias, t);
  // linear: layers.2 (small.py:34)
  gemm_1x10x64_bias(ctx, sl::alone(), t, layers_2_weight_packed, layers_2_bias, linear_2);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 64}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 256}};
static constexpr sl_expr_step e4[] = {{'c', 16384}};
static constexpr sl_expr_step e5[] = {{'c', 2}};
static constexpr sl_expr_step e6[] = {{'c', 3072}};
static constexpr sl_expr_step e7[] = {{'c', 48}};
static constexpr sl_expr_step e8[] = {{'c', 24576}};
static constexpr sl_expr_step e9[] = {{'c', 10}};
static constexpr sl_expr_step e10[] = {{'c', 40}};
static constexpr sl_expr_step e11[] = {{'c', 2560}};
static constexpr sl_expr_step e12[] = {{'c', 1024}};
static constexpr sl_expr_step e13[] = {{'c', 16}};
static constexpr sl_expr_step e14[] = {{'c', 49152}};
static constexpr sl_expr_step e15[] = {{'c', 4096}};
static constexpr sl_expr_step e16[] = {{'c', 512}};
static constexpr sl_expr_step e17[] = {{'c', 53248}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e0, 1}, {e0, 1}};
static constexpr sl_expr l3[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e5, 1}, {e0, 1}, {e7, 1}};
static constexpr sl_expr l5[] = {{e6, 1}, {e7, 1}, {e1, 1}};
static constexpr sl_expr l6[] = {{e9, 1}};
static constexpr sl_expr l7[] = {{e9, 1}, {e0, 1}};
static constexpr sl_expr l8[] = {{e1, 1}, {e0, 1}, {e13, 1}};
static constexpr sl_expr l9[] = {{e12, 1}, {e13, 1}, {e1, 1}};
static constexpr sl_expr l10[] = {{e1, 1}, {e0, 1}};
static constexpr sl_expr l11[] = {{e1, 1}, {e9, 1}};
static constexpr sl_expr l12[] = {{e9, 1}, {e1, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "layers_0_bias", "layers.0.bias", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_0_weight", "layers.0.weight", SL_ROLE_PARAMETER, 0, 1, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e4, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_0_weight_packed", "layers.0.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l4, l5, {e2, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_1_bias", "layers.1.bias", SL_ROLE_PARAMETER, 0, 2, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_1_weight", "layers.1.weight", SL_ROLE_PARAMETER, 0, 3, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e4, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_1_weight_packed", "layers.1.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l4, l5, {e8, 1}, {e8, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_2_bias", "layers.2.bias", SL_ROLE_PARAMETER, 0, 4, -1, {2, 32, 1}, 1, l6, l1, {e2, 1}, {e10, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_2_weight", "layers.2.weight", SL_ROLE_PARAMETER, 0, 5, -1, {2, 32, 1}, 2, l7, l3, {e2, 1}, {e11, 1}, {e2, 1}},
    {sizeof(sl_buffer), "layers_2_weight_packed", "layers.2.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l8, l9, {e14, 1}, {e15, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l10, l3, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "linear_2", "linear_2", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l11, l12, {e2, 1}, {e10, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l10, l3, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l10, l3, {e3, 1}, {e3, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_pack_gemm_64x64[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l4, l5},
};

static constexpr sl_argument arguments_pack_gemm_10x64[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l7, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l8, l9},
};

static constexpr sl_argument arguments_gemm_1x64x64_bias_relu[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l10, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l4, l5},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l10, l3},
};

static constexpr sl_argument arguments_gemm_1x64x64_bias_relu_2[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l10, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l4, l5},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l10, l3},
};

static constexpr sl_argument arguments_gemm_1x10x64_bias[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l10, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l8, l9},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l6, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l11, l12},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "pack_gemm_64x64", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_64x64, 2, nullptr, 0, 10, thunk_pack_gemm_64x64, nullptr},
    {sizeof(sl_entry), "pack_gemm_10x64", "native", SL_ENTRY_KERNEL, 0, arguments_pack_gemm_10x64, 2, nullptr, 0, 10, thunk_pack_gemm_10x64, nullptr},
    {sizeof(sl_entry), "gemm_1x64x64_bias_relu", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_1x64x64_bias_relu, 4, nullptr, 0, 0.147, thunk_gemm_1x64x64_bias_relu, nullptr},
    {sizeof(sl_entry), "gemm_1x64x64_bias_relu_2", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_1x64x64_bias_relu_2, 4, nullptr, 0, 0.147, thunk_gemm_1x64x64_bias_relu_2, nullptr},
    {sizeof(sl_entry), "gemm_1x10x64_bias", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_1x10x64_bias, 4, nullptr, 0, 0.0483, thunk_gemm_1x10x64_bias, nullptr},
};

static constexpr int32_t operands_0[] = {1, 2};
static constexpr int32_t operands_1[] = {4, 5};
static constexpr int32_t operands_2[] = {7, 8};
static constexpr int32_t operands_3[] = {9, 2, 0, 12};
static constexpr int32_t operands_4[] = {12, 5, 3, 11};
static constexpr int32_t operands_5[] = {11, 8, 6, 10};
static constexpr int32_t operands_6[] = {10};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pack_gemm_64x64", "pack", "layers.0 (small.py:34), small.py:36", operands_0, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pack_gemm_64x64", "pack", "layers.1 (small.py:34), small.py:36", operands_1, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 1, "pack_gemm_10x64", "pack", "layers.2 (small.py:34)", operands_2, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_1x64x64_bias_relu", "linear, relu", "layers.0 (small.py:34), small.py:36", operands_3, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_1x64x64_bias_relu_2", "linear, relu", "layers.1 (small.py:34), small.py:36", operands_4, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "gemm_1x10x64_bias", "linear", "layers.2 (small.py:34)", operands_5, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "", operands_6, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 10, 10},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e16, 1}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e17, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\">",
    sl_program_prepare, sl_program_run,
    buffers, 13, statements, 7, nullptr, 0,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    6, 0, 1, 1, 1,
    entries, 5, nullptr, 0.342,
    "pass an example of this size to sl.compile, or mark the dim with torch.export.Dim", "pass an example of this size or a torch.export.Dim"};
}  // extern "C"

}  // namespace sl_tables
