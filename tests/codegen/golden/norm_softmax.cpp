// Program forward for cpu x86-64-v3, threads: 1.
#include "straightline/kernels/row_reduction.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void rows_sum_sum_max_sum_16_by_24(sl_ctx* ctx, sl_team team, const float* a0,
    const float* a1, const float* a2, float* o0, int8_t* w0) {
  sl::row_reduction<sl::RowReductionTune{.outerRank = 1, .innerRank = 1, .inputs = 3,
      .rowOutputs = 0, .elementOutputs = 1, .kept = 1, .keptStage = 3, .stages = 4,
      .combine = {sl::Combine::sum, sl::Combine::sum, sl::Combine::max, sl::Combine::sum}}>(
      ctx, team,
      sl::Fixed<sl::RowReductionShape{.outer = {16}, .inner = {24},
          .stride = {{{24}, {1}}, {{0}, {1}}, {{0}, {1}}, {{24}, {1}}}}>{},
      [](auto x0, auto, auto, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      [](auto x0, auto, auto, auto x3, auto& y0) SL_LAMBDA {
        auto t0 = x3 / sl::constant(x0, 24.0f);
        auto t1 = x0 - t0;
        auto t2 = t1 * t1;
        y0 = t2;
      },
      [](auto x0, auto x1, auto x2, auto x3, auto x4, auto& y0) SL_LAMBDA {
        auto t0 = x3 / sl::constant(x0, 24.0f);
        auto t1 = x0 - t0;
        auto t2 = x4 / sl::constant(x0, 24.0f);
        auto t3 = t2 + sl::constant(x0, 1e-05f);
        auto t4 = sl::rsqrt(t3);
        auto t5 = t1 * t4;
        auto t6 = t5 * x1;
        auto t7 = t6 + x2;
        auto t8 = t7 * sl::constant(x0, 0.5f);
        auto t9 = t8 + x0;
        y0 = t9;
      },
      [](auto x0, auto x1, auto x2, auto x3, auto x4, auto x5, auto& y0, auto& y1) SL_LAMBDA {
        auto t0 = x3 / sl::constant(x0, 24.0f);
        auto t1 = x0 - t0;
        auto t2 = x4 / sl::constant(x0, 24.0f);
        auto t3 = t2 + sl::constant(x0, 1e-05f);
        auto t4 = sl::rsqrt(t3);
        auto t5 = t1 * t4;
        auto t6 = t5 * x1;
        auto t7 = t6 + x2;
        auto t8 = t7 * sl::constant(x0, 0.5f);
        auto t9 = t8 + x0;
        auto t10 = t9 - x5;
        auto t11 = sl::exp(t10);
        y0 = t11;
        y1 = t11;
      },
      [](auto, auto, auto, auto, auto, auto, auto x6, auto x7, auto& y0) SL_LAMBDA {
        auto t0 = x7 / x6;
        y0 = t0;
      },
      a0, a1, a2, o0, w0);
}

static void thunk_rows_sum_sum_max_sum_16_by_24(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  rows_sum_sum_max_sum_16_by_24(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<const float*>(pointers[2]),
      static_cast<float*>(pointers[3]), static_cast<int8_t*>(pointers[4]));
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  const float* const norm_weight = static_cast<const float*>(io->parameters[0]);
  const float* const norm_bias = static_cast<const float*>(io->parameters[1]);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const softmax = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  int8_t* const t = sl::at<int8_t>(io->arenas[0], t_at);
  // sum, div, sub, mul, sum, div, add, rsqrt, mul, mul, add, mul, add, amax, sub, exp, sum, div: norm (capture.py:37), capture.py:37
  rows_sum_sum_max_sum_16_by_24(ctx, sl::alone(), x, norm_weight, norm_bias, softmax, t);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 24}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 96}};
static constexpr sl_expr_step e4[] = {{'c', 16}};
static constexpr sl_expr_step e5[] = {{'c', 1536}};
static constexpr sl_expr_step e6[] = {{'c', 128}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e4, 1}, {e0, 1}};
static constexpr sl_expr l3[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e6, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "norm_weight", "norm.weight", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "norm_bias", "norm.bias", SL_ROLE_PARAMETER, 0, 1, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 1}, {e2, 1}},
    {sizeof(sl_buffer), "softmax", "softmax", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 1}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {0, 8, 1}, 1, l4, l1, {e2, 1}, {e6, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_rows_sum_sum_max_sum_16_by_24[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "w0", SL_ARGUMENT_WORKSPACE, 0, {0, 8, 1}, 1, l4, l1},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "rows_sum_sum_max_sum_16_by_24", "native", SL_ENTRY_KERNEL, 0, arguments_rows_sum_sum_max_sum_16_by_24, 5, nullptr, 0, 0.576, thunk_rows_sum_sum_max_sum_16_by_24, nullptr},
};

static constexpr int32_t operands_0[] = {2, 0, 1, 3, 4};
static constexpr int32_t operands_1[] = {3};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "rows_sum_sum_max_sum_16_by_24", "sum, div, sub, mul, sum, div, add, rsqrt, mul, mul, add, mul, add, amax, sub, exp, sum, div", "norm (capture.py:37), capture.py:37", operands_0, 3, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "", operands_1, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 3, 3},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e6, 1}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e2, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "forward", "#kernel.target<\"cpu\", \"x86-64-v3\">",
    nullptr, sl_program_run,
    buffers, 5, statements, 2, nullptr, 0,
    results, 1, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    2, 0, 1, 1, 1,
    entries, 1, nullptr, 0.576,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
