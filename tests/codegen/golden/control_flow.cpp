// Program loops for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void step(sl_ctx* ctx, sl_team team, const float* a0, const float* a1, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 2}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {64}, .stride = {{1}, {1}, {1}}}>{},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x1;
        y0 = t0;
      },
      a0, a1, o0);
}

extern "C" void increment(sl_ctx* ctx, sl_team team, const int64_t* a0, int64_t* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {1}, .stride = {{1}, {1}}}>{},
      [](auto x0, auto& y0) SL_LAMBDA {
        auto t0 = sl::add(x0, sl::constant(x0, 1));
        y0 = t0;
      },
      a0, o0);
}

static void thunk_step(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  step(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<float*>(pointers[2]));
}

static void thunk_muli_i64(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<int64_t>(scalars[0]);
  const auto x1 = sl::fromBits<int64_t>(scalars[1]);
  sl::toBits<int64_t>(pointers[0], sl::multiply(x0, x1));
}

static void thunk_cmpi_slt_i64(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<int64_t>(scalars[0]);
  const auto x1 = sl::fromBits<int64_t>(scalars[1]);
  sl::toBits<bool>(pointers[0], sl::lt(x0, x1));
}

static void thunk_increment(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  increment(ctx, team, static_cast<const int64_t*>(pointers[0]),
      static_cast<int64_t*>(pointers[1]));
}

static void thunk_cmpf_olt_f32(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<float>(scalars[0]);
  const auto x1 = sl::fromBits<float>(scalars[1]);
  sl::toBits<bool>(pointers[0], sl::lt(x0, x1));
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const int64_t s = io->extents[0];
  int64_t* const steps = static_cast<int64_t*>(const_cast<void*>(io->parameters[1]));
  const float* const cell_bias = static_cast<const float*>(io->parameters[0]);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  const bool* const go = static_cast<const bool*>(io->inputs[1]);
  float* const cache = static_cast<float*>(io->inputs[2]);
  float* const y = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[0], t_at);
  const int64_t n = s;
  // add: control_flow.mlir:18
  step(ctx, team, cache, cell_bias, t);
  sl_barrier(team);
  // for: control_flow.mlir:20
  for (int64_t i = 0; i < n; i += 1) {
    const float* const x_view = x + i * 64;
    // lstm: lstm (model.py:4)
    step(ctx, team, x_view, t, t);
    if (sl::cancelled(ctx, team)) {
      return sl::stop(ctx, team, 3);
    }
  }
  // load: control_flow.mlir:24
  const bool n_1 = go[0];
  // if: control_flow.mlir:25
  if (n_1) {
    // add: control_flow.mlir:26
    step(ctx, team, t, cell_bias, y);
  } else {
    // copy: control_flow.mlir:28
    sl::copy(team, y, t, 256);
  }
  sl_barrier(team);
  // while: control_flow.mlir:31
  while (true) {
    // load: control_flow.mlir:32
    const int64_t n_2 = steps[0];
    const int64_t n_3 = sl::multiply(n_2, int64_t(10));
    const bool n_4 = sl::lt(n_3, int64_t(10));
    sl_barrier(team);
    if (!n_4) {
      break;
    }
    // add_: steps (model.py:9)
    if (team.index == 0) {
      increment(ctx, sl::alone(), steps, steps);
    }
    if (sl::cancelled(ctx, team)) {
      return sl::stop(ctx, team, 14);
    }
  }
  // load: control_flow.mlir:40
  const float n_5 = x[1 * 64 + 0];
  const bool n_6 = sl::lt(n_5, float(1e+06f));
  // check: model.py:10
  if (!n_6) {  // "x[1, 0] is \"too large\""
    return sl::checkFailed(ctx, team, 24);
  }
  // copy_: control_flow.mlir:44
  step(ctx, team, y, cell_bias, cache);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 0}};
static constexpr sl_expr_step e1[] = {{'c', 8}};
static constexpr sl_expr_step e2[] = {{'c', 64}};
static constexpr sl_expr_step e3[] = {{'c', 1}};
static constexpr sl_expr_step e4[] = {{'c', 256}};
static constexpr sl_expr_step e5[] = {{'c', 50}};
static constexpr sl_expr_step e6[] = {{'c', 12800}};
static constexpr sl_expr_step e7[] = {{'s', 0}};
static constexpr sl_expr_step e8[] = {{'v', 0}};
static constexpr sl_expr_step e9[] = {{'v', 3}, {'c', 256}, {'*', 0}};
static constexpr sl_expr_step e10[] = {{'v', 7}};
static constexpr sl_expr_step e11[] = {{'v', 15}};
static constexpr sl_expr_step e12[] = {{'c', 10}};
static constexpr sl_expr_step e13[] = {{'v', 16}};
static constexpr sl_expr_step e14[] = {{'v', 17}};
static constexpr sl_expr_step e15[] = {{'v', 22}};
static constexpr sl_expr_step e16[] = {{'c', 1232348160}};
static constexpr sl_expr_step e17[] = {{'v', 23}};
static constexpr sl_expr l0[] = {{e2, 1}};
static constexpr sl_expr l1[] = {{e3, 1}};
static constexpr sl_expr l2[] = {{e5, 1}, {e2, 1}};
static constexpr sl_expr l3[] = {{e2, 1}, {e3, 1}};
static constexpr sl_expr l4[] = {{e7, 1}};
static constexpr sl_expr l5[] = {{e0, 1}, {e8, 1}, {e3, 1}};
static constexpr sl_expr l6[] = {{e9, 3}};
static constexpr sl_expr l7[] = {{e10, 1}};
static constexpr sl_expr l8[] = {{e4, 1}};
static constexpr sl_expr l9[] = {{e11, 1}, {e12, 1}};
static constexpr sl_expr l10[] = {{e13, 1}, {e12, 1}};
static constexpr sl_expr l11[] = {{e14, 1}};
static constexpr sl_expr l12[] = {{e3, 1}, {e0, 1}};
static constexpr sl_expr l13[] = {{e15, 1}, {e16, 1}};
static constexpr sl_expr l14[] = {{e17, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "steps", "steps", SL_ROLE_STATE, 0, 1, -1, {0, 64, 1}, 0, nullptr, nullptr, {e0, 1}, {e1, 1}, {e0, 1}},
    {sizeof(sl_buffer), "cell_bias", "cell.bias", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e0, 1}, {e4, 1}, {e0, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e0, 1}, {e6, 1}, {e0, 1}},
    {sizeof(sl_buffer), "go", "go", SL_ROLE_INPUT, 0, 1, -1, {6, 8, 1}, 0, nullptr, nullptr, {e0, 1}, {e3, 1}, {e0, 1}},
    {sizeof(sl_buffer), "cache", "cache", SL_ROLE_INPUT, 0, 2, -1, {2, 32, 1}, 1, l0, l1, {e0, 1}, {e4, 1}, {e0, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e0, 1}, {e4, 1}, {e0, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 1, l0, l1, {e0, 1}, {e4, 1}, {e0, 1}},
    {sizeof(sl_buffer), "x_view", "", SL_ROLE_VIEW, 0, -1, 2, {2, 32, 1}, 1, l0, l1, {e0, 1}, {e0, 1}, {e0, 1}},
    {sizeof(sl_buffer), "x_view_1", "", SL_ROLE_VIEW, 0, -1, 2, {2, 32, 1}, 1, l0, l1, {e4, 1}, {e0, 1}, {e0, 1}},
};

static constexpr sl_argument arguments_step[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 1, l0, l1},
};

static constexpr sl_argument arguments_muli_i64[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x1", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_cmpi_slt_i64[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {6, 8, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x1", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_increment[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_cmpf_olt_f32[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {6, 8, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {2, 32, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x1", SL_ARGUMENT_VALUE, 0, {2, 32, 1}, 0, nullptr, nullptr},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "step", "native", SL_ENTRY_KERNEL, 0, arguments_step, 3, nullptr, 0, 0, thunk_step, nullptr},
    {sizeof(sl_entry), "muli_i64", "scalar", SL_ENTRY_SCALAR, 0, arguments_muli_i64, 3, nullptr, 0, 0, thunk_muli_i64, nullptr},
    {sizeof(sl_entry), "cmpi_slt_i64", "scalar", SL_ENTRY_SCALAR, 0, arguments_cmpi_slt_i64, 3, nullptr, 0, 0, thunk_cmpi_slt_i64, nullptr},
    {sizeof(sl_entry), "increment", "native", SL_ENTRY_KERNEL, 0, arguments_increment, 2, nullptr, 0, 0, thunk_increment, nullptr},
    {sizeof(sl_entry), "cmpf_olt_f32", "scalar", SL_ENTRY_SCALAR, 0, arguments_cmpf_olt_f32, 3, nullptr, 0, 0, thunk_cmpf_olt_f32, nullptr},
};

static constexpr int32_t operands_1[] = {4, 1, 6};
static constexpr int32_t operands_4[] = {2, 7};
static constexpr int32_t operands_5[] = {7, 6, 6};
static constexpr int32_t operands_7[] = {3};
static constexpr int32_t operands_9[] = {6, 1, 5};
static constexpr int32_t operands_11[] = {6, 5};
static constexpr int32_t operands_15[] = {0};
static constexpr int32_t operands_20[] = {0, 0};
static constexpr int32_t operands_22[] = {2};
static constexpr int32_t operands_25[] = {5, 1, 4};
static constexpr int32_t operands_26[] = {5, 8};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_SIZE, 0, 1, 0, "", "", "control_flow.mlir:17", nullptr, 0, 0, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "step", "add", "control_flow.mlir:18", operands_1, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "control_flow.mlir:19", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_FOR, 0, 1, 0, "", "", "control_flow.mlir:20", nullptr, 0, 0, l5, 3},
    {sizeof(sl_statement), SL_STATEMENT_VIEW, 0, 1, 0, "", "", "control_flow.mlir:21", operands_4, 1, 1, l6, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "step", "lstm", "lstm (model.py:4)", operands_5, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_END, 0, 1, 0, "", "", "control_flow.mlir:20", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "kernel.load", "", "control_flow.mlir:24", operands_7, 1, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_IF, 0, 1, 0, "", "", "control_flow.mlir:25", nullptr, 0, 0, l7, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "step", "add", "control_flow.mlir:26", operands_9, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_ELSE, 0, 1, 0, "", "", "control_flow.mlir:25", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_COPY, 0, 1, 0, "", "", "control_flow.mlir:28", operands_11, 1, 1, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_END, 0, 1, 0, "", "", "control_flow.mlir:25", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "control_flow.mlir:30", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_WHILE, 0, 1, 0, "", "", "control_flow.mlir:31", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "kernel.load", "", "control_flow.mlir:32", operands_15, 1, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "muli_i64", "", "control_flow.mlir:33", nullptr, 0, 0, l9, 2},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "cmpi_slt_i64", "", "control_flow.mlir:34", nullptr, 0, 0, l10, 2},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "control_flow.mlir:35", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_DO, 0, 1, 0, "", "", "control_flow.mlir:36", nullptr, 0, 0, l11, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 1, "increment", "add_", "steps (model.py:9)", operands_20, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_END, 0, 1, 0, "", "", "control_flow.mlir:31", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "kernel.load", "", "control_flow.mlir:40", operands_22, 1, 0, l12, 2},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "cmpf_olt_f32", "", "control_flow.mlir:42", nullptr, 0, 0, l13, 2},
    {sizeof(sl_statement), SL_STATEMENT_CHECK, 0, 1, 0, "", "x[1, 0] is \"too large\"", "model.py:10", nullptr, 0, 0, l14, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "step", "copy_", "control_flow.mlir:44", operands_25, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "control_flow.mlir:46", operands_26, 2, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "s", 1, 50, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 5, 5},
    {sizeof(sl_result), 8, 2},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e4, 1}};
static constexpr sl_expr scratch_bytes[] = {{e0, 1}};
static constexpr sl_expr prepared_bytes[] = {{e0, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "loops", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    nullptr, sl_program_run,
    buffers, 9, statements, 27, extents, 1,
    results, 2, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    2, 0, 3, 1, 2,
    entries, 5, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
