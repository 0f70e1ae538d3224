// CUDA C++ for sm_90.
#include "straightline/kernels/matmul_group.h"
#include "straightline/kernels/scalar.h"

SL_RESIDENT_KERNEL(160, 2) products_200_72x256(const sl::bfloat16* a0, const sl::bfloat16* a1,
    const sl::bfloat16* a2, const sl::bfloat16* a3, const sl::bfloat16* a4, sl::bfloat16* o0,
    sl::bfloat16* o1, int8_t* w0) {
  sl::matmul_group<sl::MatmulGroupTune{.rows = 64, .columns = 64, .threads = 160, .stages = 4,
      .tf32 = 0, .early = 2, .parts = 2, .weights = 1, .operands = {2, 0}}>(
      sl::MatmulGroupShape{.m = 128, .k = 256, .aRow = 256, .aCol = 1, .n = {200, 72},
          .ldw = {{256}, {256}}, .ldc = {200, 72}, .epilogueStride = {{{0, 1}, {200, 1}}, {}}},
      [](auto x0, auto x1, auto x2, auto& y0) SL_LAMBDA {
        auto t0 = sl::cast<float>(x1);
        auto t1 = x0 + t0;
        auto t2 = sl::cast<float>(x2);
        auto t3 = t1 + t2;
        auto t4 = sl::cast<sl::bfloat16>(t3);
        y0 = t4;
      },
      [](auto x0, auto& y0) SL_LAMBDA {
        auto t0 = sl::cast<sl::bfloat16>(x0);
        y0 = t0;
      },
      a0, a1, a2, a3, a4, o0, o1, w0);
}

SL_RESIDENT_KERNEL(160, 2) products_96x200(const sl::bfloat16* a0, const sl::bfloat16* a1,
    const sl::bfloat16* a2, sl::bfloat16* o0, int8_t* w0) {
  sl::matmul_group<sl::MatmulGroupTune{.rows = 64, .columns = 64, .threads = 160, .stages = 4,
      .tf32 = 0, .early = 2, .parts = 1, .weights = 2, .operands = {0}}>(
      sl::MatmulGroupShape{.m = 128, .k = 200, .aRow = 200, .aCol = 1, .n = {96},
          .ldw = {{200, 200}}, .ldc = {96}, .epilogueStride = {{}}},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = -x0;
        auto t1 = sl::exp(t0);
        auto t2 = sl::constant(x0, 1.0f) + t1;
        auto t3 = x0 / t2;
        auto t4 = t3 * x1;
        auto t5 = sl::cast<sl::bfloat16>(t4);
        y0 = t5;
      },
      a0, a1, a2, o0, w0);
}

// C++.
// Program groups for cuda sm_90, threads: 1.
#include "straightline/kernels/program.h"

extern "C" const sl_device_image products_200_72x256_image;
extern "C" const sl_device_image products_96x200_image;

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const sl::bfloat16* const q = static_cast<const sl::bfloat16*>(io->parameters[0]);
  const sl::bfloat16* const b = static_cast<const sl::bfloat16*>(io->parameters[1]);
  const sl::bfloat16* const k = static_cast<const sl::bfloat16*>(io->parameters[2]);
  const sl::bfloat16* const g = static_cast<const sl::bfloat16*>(io->parameters[3]);
  const sl::bfloat16* const u = static_cast<const sl::bfloat16*>(io->parameters[4]);
  const sl::bfloat16* const x = static_cast<const sl::bfloat16*>(io->inputs[0]);
  const sl::bfloat16* const r = static_cast<const sl::bfloat16*>(io->inputs[1]);
  sl::bfloat16* const y = static_cast<sl::bfloat16*>(io->outputs[0]);
  sl::bfloat16* const k_1 = static_cast<sl::bfloat16*>(io->outputs[1]);
  constexpr int64_t t_at = 0;
  sl::bfloat16* const t = sl::at<sl::bfloat16>(io->arenas[1], t_at);
  constexpr int64_t t_1_at = 51200;
  int8_t* const t_1 = sl::at<int8_t>(io->arenas[1], t_1_at);
  constexpr int64_t t_2_at = 54400;
  int8_t* const t_2 = sl::at<int8_t>(io->arenas[1], t_2_at);
  // linear: cuda_product_groups.mlir:24
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 12, .threads = 160, .shared_bytes = 0};
    void* const arguments[] = {sl::place(x), sl::place(q), sl::place(k), sl::place(b),
        sl::place(r), sl::place(t), sl::place(k_1), sl::place(t_1)};
    sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // products_200_72x256
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  // linear: cuda_product_groups.mlir:25
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 4, .threads = 160, .shared_bytes = 0};
    void* const arguments[] = {sl::place(t), sl::place(g), sl::place(u), sl::place(y),
        sl::place(t_2)};
    sl_queue_start(ctx, io->queues[1], io->kernels[1], &grid, arguments);  // products_96x200
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 200}};
static constexpr sl_expr_step e1[] = {{'c', 256}};
static constexpr sl_expr_step e2[] = {{'c', 1}};
static constexpr sl_expr_step e3[] = {{'c', 0}};
static constexpr sl_expr_step e4[] = {{'c', 102400}};
static constexpr sl_expr_step e5[] = {{'c', 400}};
static constexpr sl_expr_step e6[] = {{'c', 72}};
static constexpr sl_expr_step e7[] = {{'c', 36864}};
static constexpr sl_expr_step e8[] = {{'c', 96}};
static constexpr sl_expr_step e9[] = {{'c', 38400}};
static constexpr sl_expr_step e10[] = {{'c', 128}};
static constexpr sl_expr_step e11[] = {{'c', 65536}};
static constexpr sl_expr_step e12[] = {{'c', 51200}};
static constexpr sl_expr_step e13[] = {{'c', 24576}};
static constexpr sl_expr_step e14[] = {{'c', 18432}};
static constexpr sl_expr_step e15[] = {{'c', 3200}};
static constexpr sl_expr_step e16[] = {{'c', 1664}};
static constexpr sl_expr_step e17[] = {{'c', 54400}};
static constexpr sl_expr_step e18[] = {{'s', 0}};
static constexpr sl_expr_step e19[] = {{'s', 1}};
static constexpr sl_expr_step e20[] = {{'s', 2}};
static constexpr sl_expr_step e21[] = {{'s', 3}};
static constexpr sl_expr_step e22[] = {{'s', 4}};
static constexpr sl_expr_step e23[] = {{'s', 5}};
static constexpr sl_expr_step e24[] = {{'s', 6}};
static constexpr sl_expr_step e25[] = {{'s', 7}};
static constexpr sl_expr_step e26[] = {{'c', 12}};
static constexpr sl_expr_step e27[] = {{'c', 4}};
static constexpr sl_expr_step e28[] = {{'c', 56064}};
static constexpr sl_expr l0[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l2[] = {{e0, 1}};
static constexpr sl_expr l3[] = {{e2, 1}};
static constexpr sl_expr l4[] = {{e6, 1}, {e1, 1}};
static constexpr sl_expr l5[] = {{e8, 1}, {e0, 1}};
static constexpr sl_expr l6[] = {{e0, 1}, {e2, 1}};
static constexpr sl_expr l7[] = {{e10, 1}, {e1, 1}};
static constexpr sl_expr l8[] = {{e10, 1}, {e0, 1}};
static constexpr sl_expr l9[] = {{e10, 1}, {e8, 1}};
static constexpr sl_expr l10[] = {{e8, 1}, {e2, 1}};
static constexpr sl_expr l11[] = {{e10, 1}, {e6, 1}};
static constexpr sl_expr l12[] = {{e6, 1}, {e2, 1}};
static constexpr sl_expr l13[] = {{e15, 1}};
static constexpr sl_expr l14[] = {{e16, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "q", "q", SL_ROLE_PARAMETER, 1, 0, -1, {4, 16, 1}, 2, l0, l1, {e3, 1}, {e4, 1}, {e3, 1}},
    {sizeof(sl_buffer), "b", "b", SL_ROLE_PARAMETER, 1, 1, -1, {4, 16, 1}, 1, l2, l3, {e3, 1}, {e5, 1}, {e3, 1}},
    {sizeof(sl_buffer), "k", "k", SL_ROLE_PARAMETER, 1, 2, -1, {4, 16, 1}, 2, l4, l1, {e3, 1}, {e7, 1}, {e3, 1}},
    {sizeof(sl_buffer), "g", "g", SL_ROLE_PARAMETER, 1, 3, -1, {4, 16, 1}, 2, l5, l6, {e3, 1}, {e9, 1}, {e3, 1}},
    {sizeof(sl_buffer), "u", "u", SL_ROLE_PARAMETER, 1, 4, -1, {4, 16, 1}, 2, l5, l6, {e3, 1}, {e9, 1}, {e3, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 1, 0, -1, {4, 16, 1}, 2, l7, l1, {e3, 1}, {e11, 1}, {e3, 1}},
    {sizeof(sl_buffer), "r", "r", SL_ROLE_INPUT, 1, 1, -1, {4, 16, 1}, 2, l8, l6, {e3, 1}, {e12, 1}, {e3, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 1, 0, -1, {4, 16, 1}, 2, l9, l10, {e3, 1}, {e13, 1}, {e3, 1}},
    {sizeof(sl_buffer), "k_1", "k", SL_ROLE_OUTPUT, 1, 1, -1, {4, 16, 1}, 2, l11, l12, {e3, 1}, {e14, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 1, -1, -1, {4, 16, 1}, 2, l8, l6, {e3, 1}, {e12, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 1, -1, -1, {0, 8, 1}, 1, l13, l3, {e12, 1}, {e15, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t_2", "", SL_ROLE_ARENA, 1, -1, -1, {0, 8, 1}, 1, l14, l3, {e17, 1}, {e16, 1}, {e3, 1}},
};

static constexpr sl_argument arguments_products_200_72x256[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l7, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l0, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l4, l1},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 1, l2, l3},
    {sizeof(sl_argument), "a4", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l8, l6},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {4, 16, 1}, 2, l8, l6},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 1, {4, 16, 1}, 2, l11, l12},
    {sizeof(sl_argument), "w0", SL_ARGUMENT_WORKSPACE, 1, {0, 8, 1}, 1, l13, l3},
};

static constexpr sl_device_parameter parameters_products_200_72x256[] = {
    {{e18, 1}, 1},
    {{e19, 1}, 1},
    {{e20, 1}, 1},
    {{e21, 1}, 1},
    {{e22, 1}, 1},
    {{e23, 1}, 1},
    {{e24, 1}, 1},
    {{e25, 1}, 1},
};

static constexpr sl_own_code own_products_200_72x256[] = {
    {sizeof(sl_own_code), parameters_products_200_72x256, 8, 66560, {e2, 1}, {e2, 1}, 0},
};

static constexpr sl_device_code code_products_200_72x256[] = {
    {sizeof(sl_device_code), "products_200_72x256", &products_200_72x256_image, {e26, 1}, 160, 8, 1, own_products_200_72x256},
};

static constexpr sl_argument arguments_products_96x200[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l8, l6},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l5, l6},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l5, l6},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {4, 16, 1}, 2, l9, l10},
    {sizeof(sl_argument), "w0", SL_ARGUMENT_WORKSPACE, 1, {0, 8, 1}, 1, l14, l3},
};

static constexpr sl_device_parameter parameters_products_96x200[] = {
    {{e18, 1}, 1},
    {{e19, 1}, 1},
    {{e20, 1}, 1},
    {{e21, 1}, 1},
    {{e22, 1}, 1},
};

static constexpr sl_own_code own_products_96x200[] = {
    {sizeof(sl_own_code), parameters_products_96x200, 5, 99328, {e2, 1}, {e2, 1}, 0},
};

static constexpr sl_device_code code_products_96x200[] = {
    {sizeof(sl_device_code), "products_96x200", &products_96x200_image, {e27, 1}, 160, 5, 1, own_products_96x200},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "products_200_72x256", "cuda", SL_ENTRY_KERNEL, 1, arguments_products_200_72x256, 8, nullptr, 0, 2.08, nullptr, code_products_200_72x256},
    {sizeof(sl_entry), "products_96x200", "cuda", SL_ENTRY_KERNEL, 1, arguments_products_96x200, 5, nullptr, 0, 2.04, nullptr, code_products_96x200},
};

static constexpr int32_t operands_0[] = {5, 0, 2, 1, 6, 9, 8, 10};
static constexpr int32_t operands_1[] = {9, 3, 4, 7, 11};
static constexpr int32_t operands_2[] = {7, 8};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "products_200_72x256", "linear", "cuda_product_groups.mlir:24", operands_0, 5, 3, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "products_96x200", "linear", "cuda_product_groups.mlir:25", operands_1, 3, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "cuda_product_groups.mlir:26", operands_2, 2, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 7, 7},
    {sizeof(sl_result), 8, 8},
};

static constexpr const char* spaces[] = {"host", "cuda"};
static constexpr const char* queues[] = {"cpu", "cuda"};
static constexpr sl_expr arena_bytes[] = {{e3, 1}, {e28, 1}};
static constexpr sl_expr scratch_bytes[] = {{e3, 1}, {e3, 1}};
static constexpr sl_expr prepared_bytes[] = {{e3, 1}, {e3, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "groups", "#kernel.target<\"cuda\", \"sm_90\">",
    nullptr, sl_program_run,
    buffers, 12, statements, 3, nullptr, 0,
    results, 2, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    5, 0, 2, 2, 1,
    entries, 2, nullptr, 4.11,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
