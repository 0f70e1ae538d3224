// Program forward for cpu x86-64-v3, threads: 1.
#include "straightline/kernels/pack_gemm.h"
#include "straightline/kernels/gemm.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void pack_10x64(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pack_gemm<sl::PackGemmTune{.nr = 16}>(
      ctx, team,
      sl::PackGemmShape{.n = 10, .k = 64, .strideN = 64, .strideK = 1},
      a0, o0);
}

extern "C" void gemm_1x10x64_bias_relu(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0) {
  sl::gemm<sl::GemmTune{.mr = 1, .nr = 16, .kc = 0, .mc = 96, .prefetch = 0}>(
      ctx, team,
      sl::Fixed<sl::GemmShape{.m = 1, .n = 10, .k = 64, .lda = 64, .ldc = 10,
          .epilogueStride = {{0, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        auto t1 = sl::maximum(sl::constant(x0, 0.0f), t0);
        y0 = t1;
      },
      a0, a1, a2, o0);
}

static void thunk_pack_10x64(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pack_10x64(ctx, team, static_cast<const float*>(pointers[0]), static_cast<float*>(pointers[1]));
}

static void thunk_gemm_1x10x64_bias_relu(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  gemm_1x10x64_bias_relu(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const fc_weight = static_cast<const float*>(io->parameters[0]);
  constexpr int64_t fc_weight_packed_at = 0;
  float* const fc_weight_packed = sl::at<float>(io->prepared[0], fc_weight_packed_at);
  // pack: fc (model.py:12)
  pack_10x64(ctx, team, fc_weight, fc_weight_packed);
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const fc_bias = static_cast<const float*>(io->parameters[1]);
  constexpr int64_t fc_weight_packed_at = 0;
  const float* const fc_weight_packed = sl::at<const float>(io->prepared[0], fc_weight_packed_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const z = static_cast<float*>(io->outputs[0]);
  // linear, relu: fc (model.py:12), model.py:13
  gemm_1x10x64_bias_relu(ctx, team, x, fc_weight_packed, fc_bias, z);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 10}};
static constexpr sl_expr_step e1[] = {{'c', 64}};
static constexpr sl_expr_step e2[] = {{'c', 1}};
static constexpr sl_expr_step e3[] = {{'c', 0}};
static constexpr sl_expr_step e4[] = {{'c', 2560}};
static constexpr sl_expr_step e5[] = {{'c', 40}};
static constexpr sl_expr_step e6[] = {{'c', 1024}};
static constexpr sl_expr_step e7[] = {{'c', 16}};
static constexpr sl_expr_step e8[] = {{'c', 4096}};
static constexpr sl_expr_step e9[] = {{'c', 256}};
static constexpr sl_expr l0[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l2[] = {{e0, 1}};
static constexpr sl_expr l3[] = {{e2, 1}};
static constexpr sl_expr l4[] = {{e2, 1}, {e1, 1}, {e7, 1}};
static constexpr sl_expr l5[] = {{e6, 1}, {e7, 1}, {e2, 1}};
static constexpr sl_expr l6[] = {{e2, 1}, {e1, 1}};
static constexpr sl_expr l7[] = {{e2, 1}, {e0, 1}};
static constexpr sl_expr l8[] = {{e0, 1}, {e2, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "fc_weight", "fc.weight", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 2, l0, l1, {e3, 1}, {e4, 1}, {e3, 1}},
    {sizeof(sl_buffer), "fc_bias", "fc.bias", SL_ROLE_PARAMETER, 0, 1, -1, {2, 32, 1}, 1, l2, l3, {e3, 1}, {e5, 1}, {e3, 1}},
    {sizeof(sl_buffer), "fc_weight_packed", "fc.weight.packed", SL_ROLE_PREPARED, 0, -1, -1, {2, 32, 1}, 3, l4, l5, {e3, 1}, {e8, 1}, {e3, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l6, l1, {e3, 1}, {e9, 1}, {e3, 1}},
    {sizeof(sl_buffer), "z", "z", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l7, l8, {e3, 1}, {e5, 1}, {e3, 1}},
};

static constexpr sl_argument arguments_pack_10x64[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 3, l4, l5},
};

static constexpr sl_argument arguments_gemm_1x10x64_bias_relu[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l6, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 3, l4, l5},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l7, l8},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "pack_10x64", "native", SL_ENTRY_KERNEL, 0, arguments_pack_10x64, 2, nullptr, 0, 0, thunk_pack_10x64, nullptr},
    {sizeof(sl_entry), "gemm_1x10x64_bias_relu", "native", SL_ENTRY_KERNEL, 0, arguments_gemm_1x10x64_bias_relu, 4, nullptr, 0, 0, thunk_gemm_1x10x64_bias_relu, nullptr},
};

static constexpr int32_t operands_0[] = {0, 2};
static constexpr int32_t operands_1[] = {3, 2, 1, 4};
static constexpr int32_t operands_2[] = {4};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 0, 0, "pack_10x64", "pack", "fc (model.py:12)", operands_0, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "gemm_1x10x64_bias_relu", "linear, relu", "fc (model.py:12), model.py:13", operands_1, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "linear_relu.mlir:19", operands_2, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 4, 4},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e3, 1}};
static constexpr sl_expr scratch_bytes[] = {{e3, 1}};
static constexpr sl_expr prepared_bytes[] = {{e8, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\">",
    sl_program_prepare, sl_program_run,
    buffers, 5, statements, 3, nullptr, 0,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    2, 0, 1, 1, 1,
    entries, 2, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
