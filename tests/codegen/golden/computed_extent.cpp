// Program counted for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void twice(sl_ctx* ctx, sl_team team, const float* a0, float* o0, int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1}>(
      ctx, team,
      sl::PointwiseShape{.extent = {b}, .stride = {{1}, {1}}},
      [](auto x0, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x0;
        y0 = t0;
      },
      a0, o0);
}

static void thunk_twice(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  twice(ctx, team, static_cast<const float*>(pointers[0]), static_cast<float*>(pointers[1]),
      scalars[0]);
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const int64_t b = io->extents[0];
  int64_t u0 = b;
  const float* const x = static_cast<const float*>(io->inputs[0]);
  const int64_t* const n = static_cast<const int64_t*>(io->inputs[1]);
  float* const y = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[0], t_at);
  // mul: scale (model.py:3)
  twice(ctx, team, x, t, b);
  // load: computed_extent.mlir:13
  const int64_t n_1 = n[0];
  // set_extent: model.py:4
  if (sl::isOutside(n_1, 0, b)) {
    return sl::extentFailed(ctx, team, 2, n_1, 0, b);
  }
  sl::setExtent(team, io, 1, n_1);
  u0 = n_1;
  const float* const x_view = x;
  float* const y_view = y;
  float* const y_view_1 = y + u0;
  // mul: scale (model.py:5)
  twice(ctx, team, x_view, y_view, u0);
  sl_barrier(team);
  // mul: scale (model.py:6)
  twice(ctx, team, t, y_view_1, b);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'s', 0}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'s', 0}, {'c', 4}, {'*', 0}};
static constexpr sl_expr_step e4[] = {{'c', 8}};
static constexpr sl_expr_step e5[] = {{'s', 0}, {'s', 1}, {'+', 0}};
static constexpr sl_expr_step e6[] = {{'s', 0}, {'c', 8}, {'*', 0}};
static constexpr sl_expr_step e7[] = {{'s', 1}};
static constexpr sl_expr_step e8[] = {{'v', 1}};
static constexpr sl_expr_step e9[] = {{'s', 1}, {'c', 4}, {'*', 0}};
static constexpr sl_expr_step e10[] = {{'c', 0}, {'s', 0}, {'c', 4}, {'*', 0}, {'M', 0}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e5, 3}};
static constexpr sl_expr l3[] = {{e7, 1}};
static constexpr sl_expr l4[] = {{e8, 1}, {e1, 1}};
static constexpr sl_expr l5[] = {{e9, 3}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 3}, {e2, 1}},
    {sizeof(sl_buffer), "n", "n", SL_ROLE_INPUT, 0, 1, -1, {0, 64, 1}, 0, nullptr, nullptr, {e2, 1}, {e4, 1}, {e2, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 1, l2, l1, {e2, 1}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 3}, {e2, 1}},
    {sizeof(sl_buffer), "x_view", "", SL_ROLE_VIEW, 0, -1, 0, {2, 32, 1}, 1, l3, l1, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "y_view", "", SL_ROLE_VIEW, 0, -1, 2, {2, 32, 1}, 1, l3, l1, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "y_view_1", "", SL_ROLE_VIEW, 0, -1, 2, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e2, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_twice[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, -1, nullptr, nullptr},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, -1, nullptr, nullptr},
};

static constexpr const char* names_twice[] = {"b"};
static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "twice", "native", SL_ENTRY_KERNEL, 0, arguments_twice, 2, names_twice, 1, 0, thunk_twice, nullptr},
};

static constexpr int32_t operands_0[] = {0, 3};
static constexpr int32_t operands_1[] = {1};
static constexpr int32_t operands_3[] = {2, 6};
static constexpr int32_t operands_4[] = {4, 5};
static constexpr int32_t operands_6[] = {3, 6};
static constexpr int32_t operands_7[] = {2};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "twice", "mul", "scale (model.py:3)", operands_0, 1, 1, l0, 1},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "kernel.load", "", "computed_extent.mlir:13", operands_1, 1, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_EXTENT, 0, 1, 0, "", "u0", "model.py:4", nullptr, 0, 0, l4, 2},
    {sizeof(sl_statement), SL_STATEMENT_VIEW, 0, 1, 0, "", "", "computed_extent.mlir:17", operands_3, 1, 1, l5, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "twice", "mul", "scale (model.py:5)", operands_4, 1, 1, l3, 1},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "computed_extent.mlir:19", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "twice", "mul", "scale (model.py:6)", operands_6, 1, 1, l0, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "computed_extent.mlir:21", operands_7, 1, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 64, {nullptr, 0}},
    {sizeof(sl_extent), "u0", 0, 64, {e0, 1}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 2, 2},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e10, 5}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e2, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "counted", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    nullptr, sl_program_run,
    buffers, 7, statements, 8, extents, 2,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    0, 0, 2, 1, 2,
    entries, 1, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
