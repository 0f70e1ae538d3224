// Program forward for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void pointwise_expand_8x1024(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 2}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {8, 1024}, .stride = {{1024, 1}, {0, 1}, {1024, 1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, o0);
}

static void thunk_pointwise_expand_8x1024(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  pointwise_expand_8x1024(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<float*>(pointers[2]));
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const x = static_cast<const float*>(io->inputs[0]);
  const float* const b = static_cast<const float*>(io->inputs[1]);
  float* const add = static_cast<float*>(io->outputs[0]);
  const float* const x_view = x;
  // add: small.py:22
  pointwise_expand_8x1024(ctx, team, x_view, b, add);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 8}};
static constexpr sl_expr_step e1[] = {{'c', 1024}};
static constexpr sl_expr_step e2[] = {{'c', 16}};
static constexpr sl_expr_step e3[] = {{'c', 64}};
static constexpr sl_expr_step e4[] = {{'c', 1}};
static constexpr sl_expr_step e5[] = {{'c', 0}};
static constexpr sl_expr_step e6[] = {{'c', 32768}};
static constexpr sl_expr_step e7[] = {{'c', 4096}};
static constexpr sl_expr l0[] = {{e0, 1}, {e2, 1}, {e0, 1}, {e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e3, 1}, {e0, 1}, {e4, 1}};
static constexpr sl_expr l2[] = {{e1, 1}};
static constexpr sl_expr l3[] = {{e4, 1}};
static constexpr sl_expr l4[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l5[] = {{e1, 1}, {e4, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 4, l0, l1, {e5, 1}, {e6, 1}, {e5, 1}},
    {sizeof(sl_buffer), "b", "b", SL_ROLE_INPUT, 0, 1, -1, {2, 32, 1}, 1, l2, l3, {e5, 1}, {e7, 1}, {e5, 1}},
    {sizeof(sl_buffer), "add", "add", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l4, l5, {e5, 1}, {e6, 1}, {e5, 1}},
    {sizeof(sl_buffer), "x_view", "", SL_ROLE_VIEW, 0, -1, 0, {2, 32, 1}, 2, l4, l5, {e5, 1}, {e5, 1}, {e5, 1}},
};

static constexpr sl_argument arguments_pointwise_expand_8x1024[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l4, l5},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l4, l5},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "pointwise_expand_8x1024", "native", SL_ENTRY_KERNEL, 0, arguments_pointwise_expand_8x1024, 3, nullptr, 0, 0.614, thunk_pointwise_expand_8x1024, nullptr},
};

static constexpr int32_t operands_0[] = {3, 1, 2};
static constexpr int32_t operands_1[] = {2};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "pointwise_expand_8x1024", "add", "small.py:22", operands_0, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "", operands_1, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 2, 2},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e5, 1}};
static constexpr sl_expr scratch_bytes[] = {{e5, 1}};
static constexpr sl_expr prepared_bytes[] = {{e5, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    nullptr, sl_program_run,
    buffers, 4, statements, 2, nullptr, 0,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    0, 0, 2, 1, 2,
    entries, 1, nullptr, 0.614,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
