// CUDA C++ for sm_90.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"

SL_KERNEL(256) double_and_row_by_256_and_halves_by_256(const float* a0, const float* a1,
    const int64_t* a2, const float* a3, const int32_t* a4, float* o0, float* o1, float* o2,
    float* o3) {
  sl::awaitPrevious();
  if (blockIdx.x < 2) {
    sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1, .vector = 1}>(
        sl::PointwiseShape{.extent = {300}, .stride = {{1}, {1}}},
        [](auto x0, auto& y0) SL_LAMBDA {
          auto t0 = x0 + x0;
          y0 = t0;
        },
        a0, o0);
  } else if (blockIdx.x < 3) {
    sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1, .vector = 1, .firstBlock = 2}>(
        sl::PointwiseShape{.extent = {2, 70}, .stride = {{70, 1}, {630, 1}}},
        [](auto x0, auto& y0) SL_LAMBDA {
          auto t0 = sl::maximum(sl::constant(x0, 0.0f), x0);
          y0 = t0;
        },
        a1, sl::rowAt(o1, a2, 9, 70));
  } else {
    sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1, .vector = 1, .firstBlock = 3}>(
        sl::PointwiseShape{.extent = {2, 35}, .stride = {{70, 1}, {630, 1}, {630, 1}}},
        [](auto x0, auto& y0, auto& y1) SL_LAMBDA {
          auto t0 = sl::maximum(sl::constant(x0, 0.0f), x0);
          auto t1 = sl::minimum(sl::constant(x0, 0.0f), x0);
          y0 = t0;
          y1 = t1;
        },
        a3, sl::rowAt<true>(o2, a4, 9, 70), sl::rowAt<true>(o3, a4, 9, 70));
  }
}

SL_KERNEL(256) add(const float* a0, const float* a1, float* o0) {
  sl::awaitPrevious();
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 2, .vector = 1}>(
      sl::PointwiseShape{.extent = {1260}, .stride = {{1}, {1}, {1}}},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, o0);
}

// C++.
// Program written_rows for cuda sm_90, threads: 1.
#include "straightline/kernels/program.h"

extern "C" const sl_device_image double_and_row_by_256_and_halves_by_256_image;
extern "C" const sl_device_image add_image;

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  float* const keys = static_cast<float*>(const_cast<void*>(io->parameters[0]));
  float* const values = static_cast<float*>(const_cast<void*>(io->parameters[1]));
  const float* const q = static_cast<const float*>(io->inputs[0]);
  const float* const k = static_cast<const float*>(io->inputs[1]);
  const int64_t* const at = static_cast<const int64_t*>(io->inputs[2]);
  const int32_t* const back = static_cast<const int32_t*>(io->inputs[3]);
  float* const y = static_cast<float*>(io->outputs[0]);
  float* const z = static_cast<float*>(io->outputs[1]);
  float* const values_view = values;
  float* const values_view_1 = values + 35;
  // mul, relu, index_copy, relu, index_put: cuda_written_rows.mlir:13, cuda_written_rows.mlir:14, cuda_written_rows.mlir:17
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 4, .threads = 256, .shared_bytes = 0};
    void* const arguments[] = {sl::place(q), sl::place(k), sl::place(at), sl::place(k),
        sl::place(back), sl::place(y), sl::place(keys), sl::place(values_view),
        sl::place(values_view_1)};
    sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // double_and_row_by_256_and_halves_by_256
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  // add: cuda_written_rows.mlir:18
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 5, .threads = 256, .shared_bytes = 0};
    void* const arguments[] = {sl::place(keys), sl::place(values), sl::place(z)};
    sl_queue_start(ctx, io->queues[1], io->kernels[1], &grid, arguments);  // add
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 2}};
static constexpr sl_expr_step e1[] = {{'c', 630}};
static constexpr sl_expr_step e2[] = {{'c', 9}};
static constexpr sl_expr_step e3[] = {{'c', 70}};
static constexpr sl_expr_step e4[] = {{'c', 1}};
static constexpr sl_expr_step e5[] = {{'c', 0}};
static constexpr sl_expr_step e6[] = {{'c', 5040}};
static constexpr sl_expr_step e7[] = {{'c', 300}};
static constexpr sl_expr_step e8[] = {{'c', 1200}};
static constexpr sl_expr_step e9[] = {{'c', 560}};
static constexpr sl_expr_step e10[] = {{'c', 8}};
static constexpr sl_expr_step e11[] = {{'c', 4}};
static constexpr sl_expr_step e12[] = {{'c', 35}};
static constexpr sl_expr_step e13[] = {{'c', 140}};
static constexpr sl_expr_step e14[] = {{'c', 5}};
static constexpr sl_expr l0[] = {{e0, 1}, {e2, 1}, {e3, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e3, 1}, {e4, 1}};
static constexpr sl_expr l2[] = {{e7, 1}};
static constexpr sl_expr l3[] = {{e4, 1}};
static constexpr sl_expr l4[] = {{e0, 1}, {e3, 1}};
static constexpr sl_expr l5[] = {{e3, 1}, {e4, 1}};
static constexpr sl_expr l6[] = {{e2, 1}, {e0, 1}, {e12, 1}};
static constexpr sl_expr l7[] = {{e3, 1}, {e1, 1}, {e4, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "keys", "keys", SL_ROLE_STATE, 1, 0, -1, {2, 32, 1}, 3, l0, l1, {e5, 1}, {e6, 1}, {e5, 1}},
    {sizeof(sl_buffer), "values", "values", SL_ROLE_STATE, 1, 1, -1, {2, 32, 1}, 3, l0, l1, {e5, 1}, {e6, 1}, {e5, 1}},
    {sizeof(sl_buffer), "q", "q", SL_ROLE_INPUT, 1, 0, -1, {2, 32, 1}, 1, l2, l3, {e5, 1}, {e8, 1}, {e5, 1}},
    {sizeof(sl_buffer), "k", "k", SL_ROLE_INPUT, 1, 1, -1, {2, 32, 1}, 2, l4, l5, {e5, 1}, {e9, 1}, {e5, 1}},
    {sizeof(sl_buffer), "at", "at", SL_ROLE_INPUT, 1, 2, -1, {0, 64, 1}, 1, l3, l3, {e5, 1}, {e10, 1}, {e5, 1}},
    {sizeof(sl_buffer), "back", "back", SL_ROLE_INPUT, 1, 3, -1, {0, 32, 1}, 1, l3, l3, {e5, 1}, {e11, 1}, {e5, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 1, 0, -1, {2, 32, 1}, 1, l2, l3, {e5, 1}, {e8, 1}, {e5, 1}},
    {sizeof(sl_buffer), "z", "z", SL_ROLE_OUTPUT, 1, 1, -1, {2, 32, 1}, 3, l0, l1, {e5, 1}, {e6, 1}, {e5, 1}},
    {sizeof(sl_buffer), "values_view", "", SL_ROLE_VIEW, 1, -1, 1, {2, 32, 1}, 3, l6, l7, {e5, 1}, {e5, 1}, {e5, 1}},
    {sizeof(sl_buffer), "values_view_1", "", SL_ROLE_VIEW, 1, -1, 1, {2, 32, 1}, 3, l6, l7, {e13, 1}, {e5, 1}, {e5, 1}},
};

static constexpr sl_argument arguments_double_and_row_by_256_and_halves_by_256[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 2, l4, l5},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 1, {0, 64, 1}, 1, l3, l3},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 2, l4, l5},
    {sizeof(sl_argument), "a4", SL_ARGUMENT_INPUT, 1, {0, 32, 1}, 1, l3, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 1, l2, l3},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_READWRITE, 1, {2, 32, 1}, 3, l0, l1},
    {sizeof(sl_argument), "o2", SL_ARGUMENT_READWRITE, 1, {2, 32, 1}, 3, l6, l7},
    {sizeof(sl_argument), "o3", SL_ARGUMENT_READWRITE, 1, {2, 32, 1}, 3, l6, l7},
};

static constexpr sl_device_code code_double_and_row_by_256_and_halves_by_256[] = {
    {sizeof(sl_device_code), "double_and_row_by_256_and_halves_by_256", &double_and_row_by_256_and_halves_by_256_image, {e11, 1}, 256, 9, 1, nullptr},
};

static constexpr sl_argument arguments_add[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 3, l0, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 3, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 3, l0, l1},
};

static constexpr sl_device_code code_add[] = {
    {sizeof(sl_device_code), "add", &add_image, {e14, 1}, 256, 3, 1, nullptr},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "double_and_row_by_256_and_halves_by_256", "cuda", SL_ENTRY_KERNEL, 1, arguments_double_and_row_by_256_and_halves_by_256, 9, nullptr, 0, 2, nullptr, code_double_and_row_by_256_and_halves_by_256},
    {sizeof(sl_entry), "add", "cuda", SL_ENTRY_KERNEL, 1, arguments_add, 3, nullptr, 0, 2, nullptr, code_add},
};

static constexpr int32_t operands_0[] = {2, 3, 4, 3, 5, 6, 0, 8, 9};
static constexpr int32_t operands_1[] = {0, 1, 7};
static constexpr int32_t operands_2[] = {6, 7};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "double_and_row_by_256_and_halves_by_256", "mul, relu, index_copy, relu, index_put", "cuda_written_rows.mlir:13, cuda_written_rows.mlir:14, cuda_written_rows.mlir:17", operands_0, 5, 4, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "add", "add", "cuda_written_rows.mlir:18", operands_1, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "cuda_written_rows.mlir:19", operands_2, 2, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 6, 6},
    {sizeof(sl_result), 7, 7},
};

static constexpr const char* spaces[] = {"host", "cuda"};
static constexpr const char* queues[] = {"cpu", "cuda"};
static constexpr sl_expr arena_bytes[] = {{e5, 1}, {e5, 1}};
static constexpr sl_expr scratch_bytes[] = {{e5, 1}, {e5, 1}};
static constexpr sl_expr prepared_bytes[] = {{e5, 1}, {e5, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "written_rows", "#kernel.target<\"cuda\", \"sm_90\">",
    nullptr, sl_program_run,
    buffers, 10, statements, 3, nullptr, 0,
    results, 2, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    2, 0, 4, 2, 1,
    entries, 2, nullptr, 4,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
