// Program chain for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void narrow(sl_ctx* ctx, sl_team team, const float* a0, sl::bfloat16* o0, int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1}>(
      ctx, team,
      sl::PointwiseShape{.extent = {b * 64}, .stride = {{1}, {1}}},
      [](auto x0, auto& y0) SL_LAMBDA {
        auto t0 = sl::minimum(sl::constant(x0, __builtin_inff()), x0);
        auto t1 = sl::tanh(t0);
        auto t2 = -t1;
        auto t3 = sl::cast<sl::bfloat16>(t2);
        y0 = t3;
      },
      a0, o0);
}

extern "C" void ints(sl_ctx* ctx, sl_team team, const int32_t* a0, int32_t* o0, int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1}>(
      ctx, team,
      sl::PointwiseShape{.extent = {b * 64}, .stride = {{1}, {1}}},
      [](auto x0, auto& y0) SL_LAMBDA {
        auto t0 = sl::floor_divide(x0, sl::constant(x0, 7));
        auto t1 = sl::multiply(t0, sl::constant(x0, 7));
        auto t2 = sl::subtract(x0, t1);
        auto t3 = sl::bitcast<decltype(t2)>(sl::trunc_divide(sl::unsigned_of(t2), sl::unsigned_of(sl::constant(x0, 7))));
        auto t4 = sl::add(t3, t2);
        y0 = t4;
      },
      a0, o0);
}

extern "C" void widen(sl_ctx* ctx, sl_team team, const sl::bfloat16* a0, const int32_t* a1,
    float* o0, bool* o1, int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 2}>(
      ctx, team,
      sl::Batched<sl::PointwiseShape{.extent = {1, 64},
          .stride = {{64, 1}, {64, 1}, {64, 1}, {64, 1}}}, 0>{b},
      [](auto x0, auto x1, auto& y0, auto& y1) SL_LAMBDA {
        auto t0 = sl::cast<float>(x0);
        auto t1 = sl::cast<float>(x1);
        auto t2 = t0 * t1;
        auto t3 = sl::logical_not(sl::le(t2, sl::constantAs<float>(x0, 0.5f)));
        auto t4 = sl::select(t3, t2, sl::constantAs<float>(x0, 0.5f));
        y0 = t4;
        y1 = t3;
      },
      a0, a1, o0, o1);
}

extern "C" void scaled(sl_ctx* ctx, sl_team team, const float* a0, const float* a1, float* o0,
    int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 3, .inputs = 2}>(
      ctx, team,
      sl::Batched<sl::PointwiseShape{.extent = {1, 16, 4},
          .stride = {{64, 4, 1}, {0, 0, 1}, {64, 4, 1}}}, 0>{b},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 * x1;
        y0 = t0;
      },
      a0, a1, o0);
}

alignas(64) static constexpr float constant[] = {0.1f, __builtin_inff(), -1e-10f, 3.0f};

static void thunk_narrow(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  narrow(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<sl::bfloat16*>(pointers[1]), scalars[0]);
}

static void thunk_ints(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  ints(ctx, team, static_cast<const int32_t*>(pointers[0]), static_cast<int32_t*>(pointers[1]),
      scalars[0]);
}

static void thunk_widen(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  widen(ctx, team, static_cast<const sl::bfloat16*>(pointers[0]),
      static_cast<const int32_t*>(pointers[1]), static_cast<float*>(pointers[2]),
      static_cast<bool*>(pointers[3]), scalars[0]);
}

static void thunk_scaled(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  scaled(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<float*>(pointers[2]), scalars[0]);
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const int64_t b = io->extents[0];
  const float* const input_0 = static_cast<const float*>(io->inputs[0]);
  const int32_t* const class_1 = static_cast<const int32_t*>(io->inputs[1]);
  float* const out = static_cast<float*>(io->outputs[0]);
  bool* const mask = static_cast<bool*>(io->outputs[1]);
  constexpr int64_t t_at = 0;
  sl::bfloat16* const t = sl::at<sl::bfloat16>(io->arenas[0], t_at);
  const int64_t t_1_at = b * 128;
  int32_t* const t_1 = sl::at<int32_t>(io->arenas[0], t_1_at);
  const int64_t t_2_at = b * 384;
  float* const t_2 = sl::at<float>(io->arenas[0], t_2_at);
  // to_dtype: layers.0.act (model.py:7)
  narrow(ctx, team, input_0, t, b);
  // remainder: layers.0.act (model.py:8)
  ints(ctx, team, class_1, t_1, b);
  sl_barrier(team);
  // mul, gt: symbolic_pointwise.mlir:18
  widen(ctx, team, t, t_1, t_2, mask, b);
  sl_barrier(team);
  // mul: symbolic_pointwise.mlir:20
  scaled(ctx, team, t_2, constant, out, b);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 4}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 16}};
static constexpr sl_expr_step e4[] = {{'s', 0}};
static constexpr sl_expr_step e5[] = {{'c', 64}};
static constexpr sl_expr_step e6[] = {{'s', 0}, {'c', 256}, {'*', 0}};
static constexpr sl_expr_step e7[] = {{'s', 0}, {'c', 64}, {'*', 0}};
static constexpr sl_expr_step e8[] = {{'s', 0}, {'c', 128}, {'*', 0}};
static constexpr sl_expr_step e9[] = {{'s', 0}, {'c', 384}, {'*', 0}};
static constexpr sl_expr_step e10[] = {{'c', 0}, {'s', 0}, {'c', 128}, {'*', 0}, {'M', 0}, {'s', 0}, {'c', 384}, {'*', 0}, {'M', 0}, {'s', 0}, {'c', 640}, {'*', 0}, {'M', 0}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e4, 1}, {e5, 1}};
static constexpr sl_expr l3[] = {{e5, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e4, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "constant", "", SL_ROLE_CONSTANT, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "input_0", "input.0", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "class_1", "class", SL_ROLE_INPUT, 0, 1, -1, {0, 32, 1}, 2, l2, l3, {e2, 1}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "out", "out", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "mask", "mask", SL_ROLE_OUTPUT, 0, 1, -1, {6, 8, 1}, 2, l2, l3, {e2, 1}, {e7, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {4, 16, 1}, 2, l2, l3, {e2, 1}, {e8, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 0, -1, -1, {0, 32, 1}, 2, l2, l3, {e8, 3}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t_2", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l2, l3, {e9, 3}, {e6, 3}, {e2, 1}},
};

static constexpr sl_argument arguments_narrow[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {4, 16, 1}, 2, l2, l3},
};

static constexpr const char* names_narrow[] = {"b"};
static constexpr sl_argument arguments_ints[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {0, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {0, 32, 1}, 2, l2, l3},
};

static constexpr const char* names_ints[] = {"b"};
static constexpr sl_argument arguments_widen[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {4, 16, 1}, 2, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {0, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 0, {6, 8, 1}, 2, l2, l3},
};

static constexpr const char* names_widen[] = {"b"};
static constexpr sl_argument arguments_scaled[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l2, l3},
};

static constexpr const char* names_scaled[] = {"b"};
static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "narrow", "native", SL_ENTRY_KERNEL, 0, arguments_narrow, 2, names_narrow, 1, 0, thunk_narrow, nullptr},
    {sizeof(sl_entry), "ints", "native", SL_ENTRY_KERNEL, 0, arguments_ints, 2, names_ints, 1, 0, thunk_ints, nullptr},
    {sizeof(sl_entry), "widen", "native", SL_ENTRY_KERNEL, 0, arguments_widen, 4, names_widen, 1, 0, thunk_widen, nullptr},
    {sizeof(sl_entry), "scaled", "native", SL_ENTRY_KERNEL, 0, arguments_scaled, 3, names_scaled, 1, 0, thunk_scaled, nullptr},
};

static constexpr int32_t operands_0[] = {1, 5};
static constexpr int32_t operands_1[] = {2, 6};
static constexpr int32_t operands_3[] = {5, 6, 7, 4};
static constexpr int32_t operands_5[] = {7, 0, 3};
static constexpr int32_t operands_6[] = {3, 4, 2};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "narrow", "to_dtype", "layers.0.act (model.py:7)", operands_0, 1, 1, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "ints", "remainder", "layers.0.act (model.py:8)", operands_1, 1, 1, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "symbolic_pointwise.mlir:17", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "widen", "mul, gt", "symbolic_pointwise.mlir:18", operands_3, 2, 2, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "symbolic_pointwise.mlir:19", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "scaled", "mul", "symbolic_pointwise.mlir:20", operands_5, 2, 1, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "symbolic_pointwise.mlir:21", operands_6, 3, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 64, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 3, 3},
    {sizeof(sl_result), 4, 4},
    {sizeof(sl_result), 2, 2},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e10, 13}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e2, 1}};
static constexpr const void* const constants[] = {constant};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "chain", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    nullptr, sl_program_run,
    buffers, 8, statements, 7, extents, 1,
    results, 3, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    0, 0, 2, 2, 2,
    entries, 4, constants, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
