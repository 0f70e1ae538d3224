// CUDA C++ for sm_90.
#include "straightline/kernels/gemv.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/matmul.h"

SL_KERNEL(128) gemv_1x300x512_bias(const sl::bfloat16* a0, const sl::bfloat16* a1,
    const sl::bfloat16* a2, sl::bfloat16* o0) {
  sl::awaitPrevious();
  sl::gemv<sl::GemvTune{.rows = 1, .mr = 1, .lanes = 32, .threads = 128, .unroll = 2}>(
      sl::GemvShape{.m = 1, .n = 300, .k = 512, .lda = 512, .ldw = 512, .ldc = 300,
          .epilogueStride = {{0, 1}}},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = sl::cast<float>(x1);
        auto t1 = x0 + t0;
        auto t2 = sl::cast<sl::bfloat16>(t1);
        y0 = t2;
      },
      a0, a1, a2, o0);
}

SL_CLUSTER_KERNEL(128, 2) linear_nx300x512(const sl::bfloat16* a0, const sl::bfloat16* a1,
    float* o0, int64_t b) {
  sl::matmul<sl::MatmulTune{.mr = 16, .nr = 16, .rows = 32, .columns = 32, .threads = 128,
      .splits = 2}>(
      sl::MatmulShape{.batch = {1, 1, 1}, .m = b, .n = 300, .k = 512, .aRow = 512, .aCol = 1,
          .bRow = 1, .bCol = 512, .cRow = 300, .epilogueStride = {}},
      [](auto x0, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      a0, a1, o0);
}

// C++.
// Program products for cuda sm_90, threads: 1.
#include "straightline/kernels/program.h"

extern "C" const sl_device_image gemv_1x300x512_bias_image;
extern "C" const sl_device_image linear_nx300x512_image;

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const int64_t b = io->extents[0];
  const sl::bfloat16* const w = static_cast<const sl::bfloat16*>(io->parameters[0]);
  const sl::bfloat16* const b_1 = static_cast<const sl::bfloat16*>(io->parameters[1]);
  const sl::bfloat16* const x = static_cast<const sl::bfloat16*>(io->inputs[0]);
  const sl::bfloat16* const xs = static_cast<const sl::bfloat16*>(io->inputs[1]);
  sl::bfloat16* const y = static_cast<sl::bfloat16*>(io->outputs[0]);
  float* const ys = static_cast<float*>(io->outputs[1]);
  // linear: cuda_products.mlir:15
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 75, .threads = 128, .shared_bytes = 0};
    void* const arguments[] = {sl::place(x), sl::place(w), sl::place(b_1), sl::place(y)};
    sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // gemv_1x300x512_bias
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  // linear: cuda_products.mlir:16
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = (b + 31) / 32 * 20, .threads = 128, .shared_bytes = 0};
    void* const arguments[] = {sl::place(xs), sl::place(w), sl::place(ys), sl::place(b)};
    sl_queue_start(ctx, io->queues[1], io->kernels[1], &grid, arguments);  // linear_nx300x512
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 300}};
static constexpr sl_expr_step e1[] = {{'c', 512}};
static constexpr sl_expr_step e2[] = {{'c', 1}};
static constexpr sl_expr_step e3[] = {{'c', 0}};
static constexpr sl_expr_step e4[] = {{'c', 307200}};
static constexpr sl_expr_step e5[] = {{'c', 600}};
static constexpr sl_expr_step e6[] = {{'c', 1024}};
static constexpr sl_expr_step e7[] = {{'s', 0}};
static constexpr sl_expr_step e8[] = {{'s', 0}, {'c', 1024}, {'*', 0}};
static constexpr sl_expr_step e9[] = {{'s', 0}, {'c', 1200}, {'*', 0}};
static constexpr sl_expr_step e10[] = {{'c', 75}};
static constexpr sl_expr_step e11[] = {{'s', 0}, {'c', 31}, {'+', 0}, {'c', 32}, {'/', 0}, {'c', 20}, {'*', 0}};
static constexpr sl_expr l0[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l2[] = {{e0, 1}};
static constexpr sl_expr l3[] = {{e2, 1}};
static constexpr sl_expr l4[] = {{e2, 1}, {e1, 1}};
static constexpr sl_expr l5[] = {{e7, 1}, {e1, 1}};
static constexpr sl_expr l6[] = {{e2, 1}, {e0, 1}};
static constexpr sl_expr l7[] = {{e0, 1}, {e2, 1}};
static constexpr sl_expr l8[] = {{e7, 1}, {e0, 1}};
static constexpr sl_expr l9[] = {{e7, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "w", "w", SL_ROLE_PARAMETER, 1, 0, -1, {4, 16, 1}, 2, l0, l1, {e3, 1}, {e4, 1}, {e3, 1}},
    {sizeof(sl_buffer), "b_1", "b", SL_ROLE_PARAMETER, 1, 1, -1, {4, 16, 1}, 1, l2, l3, {e3, 1}, {e5, 1}, {e3, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 1, 0, -1, {4, 16, 1}, 2, l4, l1, {e3, 1}, {e6, 1}, {e3, 1}},
    {sizeof(sl_buffer), "xs", "xs", SL_ROLE_INPUT, 1, 1, -1, {4, 16, 1}, 2, l5, l1, {e3, 1}, {e8, 3}, {e3, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 1, 0, -1, {4, 16, 1}, 2, l6, l7, {e3, 1}, {e5, 1}, {e3, 1}},
    {sizeof(sl_buffer), "ys", "ys", SL_ROLE_OUTPUT, 1, 1, -1, {2, 32, 1}, 2, l8, l7, {e3, 1}, {e9, 3}, {e3, 1}},
};

static constexpr sl_argument arguments_gemv_1x300x512_bias[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l4, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l0, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 1, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {4, 16, 1}, 2, l6, l7},
};

static constexpr sl_device_code code_gemv_1x300x512_bias[] = {
    {sizeof(sl_device_code), "gemv_1x300x512_bias", &gemv_1x300x512_bias_image, {e10, 1}, 128, 4, 1, nullptr},
};

static constexpr sl_argument arguments_linear_nx300x512[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l5, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {4, 16, 1}, 2, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 2, l8, l7},
};

static constexpr const char* names_linear_nx300x512[] = {"b"};
static constexpr sl_device_code code_linear_nx300x512[] = {
    {sizeof(sl_device_code), "linear_nx300x512", &linear_nx300x512_image, {e11, 7}, 128, 4, 0, nullptr},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "gemv_1x300x512_bias", "cuda", SL_ENTRY_KERNEL, 1, arguments_gemv_1x300x512_bias, 4, nullptr, 0, 2.07, nullptr, code_gemv_1x300x512_bias},
    {sizeof(sl_entry), "linear_nx300x512", "cuda", SL_ENTRY_KERNEL, 1, arguments_linear_nx300x512, 3, names_linear_nx300x512, 1, 2.07, nullptr, code_linear_nx300x512},
};

static constexpr int32_t operands_0[] = {2, 0, 1, 4};
static constexpr int32_t operands_1[] = {3, 0, 5};
static constexpr int32_t operands_2[] = {4, 5};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "gemv_1x300x512_bias", "linear", "cuda_products.mlir:15", operands_0, 3, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "linear_nx300x512", "linear", "cuda_products.mlir:16", operands_1, 2, 1, l9, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "cuda_products.mlir:17", operands_2, 2, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 1000000, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 4, 4},
    {sizeof(sl_result), 5, 5},
};

static constexpr const char* spaces[] = {"host", "cuda"};
static constexpr const char* queues[] = {"cpu", "cuda"};
static constexpr sl_expr arena_bytes[] = {{e3, 1}, {e3, 1}};
static constexpr sl_expr scratch_bytes[] = {{e3, 1}, {e3, 1}};
static constexpr sl_expr prepared_bytes[] = {{e3, 1}, {e3, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "products", "#kernel.target<\"cuda\", \"sm_90\">",
    nullptr, sl_program_run,
    buffers, 6, statements, 3, extents, 1,
    results, 2, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    2, 0, 2, 2, 1,
    entries, 2, nullptr, 4.15,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
