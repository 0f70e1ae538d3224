// Program scalars for cpu x86-64-v3, threads: 1.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void all(sl_ctx* ctx, sl_team team, const float* a0, const float* a1,
    const int32_t* a2, const bool* a3, float* o0, int32_t* o1, bool* o2) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 4}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {64}, .stride = {{1}, {1}, {1}, {1}, {1}, {1}, {1}}}>{},
      [ctx](auto x0, auto x1, auto x2, auto x3, auto& y0, auto& y1, auto& y2) SL_LAMBDA {
        auto t0 = sl::abs(x0);
        auto t1 = sl::exp(t0);
        auto t2 = sl::exp2(t1);
        auto t3 = sl::expm1(t2);
        auto t4 = sl::log(t3);
        auto t5 = sl::log2(t4);
        auto t6 = sl::log1p(t5);
        auto t7 = sl::sqrt(t6);
        auto t8 = sl::rsqrt(t7);
        auto t9 = sl::sin(t8);
        auto t10 = sl::cos(t9);
        auto t11 = sl::tan(t10);
        auto t12 = sl::tanh(t11);
        auto t13 = sl::erf(t12);
        auto t14 = sl::floor(t13);
        auto t15 = sl::ceil(t14);
        auto t16 = sl::trunc(t15);
        auto t17 = sl::round_even(t16);
        auto t18 = t17 + x1;
        auto t19 = t18 - x1;
        auto t20 = t19 * x1;
        auto t21 = t20 / x1;
        auto t22 = sl::maximum(t21, x1);
        auto t23 = sl::minimum(t22, x1);
        auto t24 = sl::maximum_number(t23, x1);
        auto t25 = sl::minimum_number(t24, x1);
        auto t26 = sl::fmod(t25, x1);
        auto t27 = sl::pow(t26, x1);
        auto t28 = sl::atan2(t27, x1);
        auto t29 = sl::copysign(t28, x1);
        auto t30 = sl::fma(t29, x0, x1);
        auto t31 = sl::minimum(x1, sl::maximum(x0, t30));
        auto t32 = sl::pow(t31, sl::cast<float>(x2));
        auto t33 = -t32;
        auto t34 = sl::eq(t33, x1);
        auto t35 = sl::gt(t33, x1);
        auto t36 = sl::ge(t33, x1);
        auto t37 = sl::lt(t33, x1);
        auto t38 = sl::le(t33, x1);
        auto t39 = sl::logical_and(sl::ne(t33, x1), sl::logical_not(sl::logical_or(sl::isnan(t33), sl::isnan(x1))));
        auto t40 = sl::logical_not(sl::logical_or(sl::isnan(t33), sl::isnan(x1)));
        auto t41 = sl::logical_or(sl::eq(t33, x1), sl::logical_or(sl::isnan(t33), sl::isnan(x1)));
        auto t42 = sl::logical_not(sl::le(t33, x1));
        auto t43 = sl::logical_not(sl::lt(t33, x1));
        auto t44 = sl::logical_not(sl::ge(t33, x1));
        auto t45 = sl::logical_not(sl::gt(t33, x1));
        auto t46 = sl::ne(t33, x1);
        auto t47 = sl::logical_or(sl::isnan(t33), sl::isnan(x1));
        auto t48 = sl::constantAs<bool>(t33, false);
        auto t49 = sl::constantAs<bool>(t33, true);
        auto t50 = sl::isnan(t33);
        auto t51 = sl::isinf(t33);
        auto t52 = sl::isfinite(t33);
        auto t53 = sl::add(x2, x2);
        auto t54 = sl::subtract(t53, x2);
        auto t55 = sl::multiply(t54, x2);
        auto t56 = sl::checked_trunc_divide(ctx, t55, x2);
        auto t57 = sl::checked_floor_divide(ctx, t56, x2);
        auto t58 = sl::checked_fmod(ctx, t57, x2);
        auto t59 = sl::bitcast<decltype(t58)>(sl::checked_trunc_divide(ctx, sl::unsigned_of(t58), sl::unsigned_of(x2)));
        auto t60 = sl::bitcast<decltype(t59)>(sl::checked_fmod(ctx, sl::unsigned_of(t59), sl::unsigned_of(x2)));
        auto t61 = sl::maximum(t60, x2);
        auto t62 = sl::minimum(t61, x2);
        auto t63 = sl::bitcast<decltype(t62)>(sl::maximum(sl::unsigned_of(t62), sl::unsigned_of(x2)));
        auto t64 = sl::bitcast<decltype(t63)>(sl::minimum(sl::unsigned_of(t63), sl::unsigned_of(x2)));
        auto t65 = sl::bitwise_and(t64, x2);
        auto t66 = sl::bitwise_or(t65, x2);
        auto t67 = sl::bitwise_xor(t66, x2);
        auto t68 = sl::shift_left(t67, x2);
        auto t69 = sl::shift_right(t68, x2);
        auto t70 = sl::bitcast<decltype(t69)>(sl::shift_right(sl::unsigned_of(t69), sl::unsigned_of(x2)));
        auto t71 = sl::abs(t70);
        auto t72 = sl::pow(t71, x2);
        auto t73 = sl::eq(t72, x2);
        auto t74 = sl::ne(t72, x2);
        auto t75 = sl::lt(t72, x2);
        auto t76 = sl::le(t72, x2);
        auto t77 = sl::gt(t72, x2);
        auto t78 = sl::ge(t72, x2);
        auto t79 = sl::lt(sl::unsigned_of(t72), sl::unsigned_of(x2));
        auto t80 = sl::le(sl::unsigned_of(t72), sl::unsigned_of(x2));
        auto t81 = sl::gt(sl::unsigned_of(t72), sl::unsigned_of(x2));
        auto t82 = sl::ge(sl::unsigned_of(t72), sl::unsigned_of(x2));
        auto t83 = sl::bitwise_and(t34, t35);
        auto t84 = sl::bitwise_or(t83, t36);
        auto t85 = sl::bitwise_xor(t84, t37);
        auto t86 = sl::bitwise_and(t85, t38);
        auto t87 = sl::bitwise_or(t86, t39);
        auto t88 = sl::bitwise_xor(t87, t40);
        auto t89 = sl::bitwise_and(t88, t41);
        auto t90 = sl::bitwise_or(t89, t42);
        auto t91 = sl::bitwise_xor(t90, t43);
        auto t92 = sl::bitwise_and(t91, t44);
        auto t93 = sl::bitwise_or(t92, t45);
        auto t94 = sl::bitwise_xor(t93, t46);
        auto t95 = sl::bitwise_and(t94, t47);
        auto t96 = sl::bitwise_or(t95, t48);
        auto t97 = sl::bitwise_xor(t96, t49);
        auto t98 = sl::bitwise_and(t97, t50);
        auto t99 = sl::bitwise_or(t98, t51);
        auto t100 = sl::bitwise_xor(t99, t52);
        auto t101 = sl::bitwise_and(t100, t73);
        auto t102 = sl::bitwise_or(t101, t74);
        auto t103 = sl::bitwise_xor(t102, t75);
        auto t104 = sl::bitwise_and(t103, t76);
        auto t105 = sl::bitwise_or(t104, t77);
        auto t106 = sl::bitwise_xor(t105, t78);
        auto t107 = sl::bitwise_and(t106, t79);
        auto t108 = sl::bitwise_or(t107, t80);
        auto t109 = sl::bitwise_xor(t108, t81);
        auto t110 = sl::bitwise_and(t109, t82);
        auto t111 = sl::select(t110, sl::constantAs<bool>(x0, true), x3);
        auto t112 = sl::cast<float>(t72);
        auto t113 = sl::cast<float>(t111);
        auto t114 = sl::negate(sl::cast<float>(t111));
        auto t115 = sl::cast<int32_t>(t33);
        auto t116 = sl::cast<int32_t>(t111);
        auto t117 = sl::negate(sl::cast<int32_t>(t111));
        auto t118 = sl::cast<int64_t>(t115);
        auto t119 = sl::cast<int32_t>(t118);
        auto t120 = sl::cast<bool>(sl::bitwise_and(t119, sl::constant(t119, 1)));
        auto t121 = sl::cast<double>(t112);
        auto t122 = sl::tanh(t121);
        auto t123 = sl::cast<float>(t122);
        auto t124 = sl::bitcast<sl::Wide<int32_t, sl::kLanes<decltype(t123)>>>(t123);
        auto t125 = sl::bitcast<sl::Wide<float, sl::kLanes<decltype(t124)>>>(t124);
        auto t126 = sl::cast<sl::half>(t125);
        auto t127 = sl::cast<float>(t126);
        auto t128 = t113 + t114;
        auto t129 = t128 + t127;
        auto t130 = t129 + sl::constant(x0, __builtin_nanf(""));
        auto t131 = sl::select(t120, t130, sl::constant(x0, 3.4028235e+38f));
        auto t132 = sl::add(t116, t117);
        auto t133 = sl::add(t132, t119);
        y0 = t131;
        y1 = t133;
        y2 = t120;
      },
      a0, a1, a2, a3, o0, o1, o2);
}

static void thunk_all(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  all(ctx, team, static_cast<const float*>(pointers[0]), static_cast<const float*>(pointers[1]),
      static_cast<const int32_t*>(pointers[2]), static_cast<const bool*>(pointers[3]),
      static_cast<float*>(pointers[4]), static_cast<int32_t*>(pointers[5]),
      static_cast<bool*>(pointers[6]));
}

static void thunk_extsi_i32_i64(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<int32_t>(scalars[0]);
  sl::toBits<int64_t>(pointers[0], sl::cast<int64_t>(x0));
}

static void thunk_index_cast_i64_index(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<int64_t>(scalars[0]);
  sl::toBits<int64_t>(pointers[0], sl::cast<int64_t>(x0));
}

static void thunk_minsi_index(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<int64_t>(scalars[0]);
  const auto x1 = sl::fromBits<int64_t>(scalars[1]);
  sl::toBits<int64_t>(pointers[0], sl::minimum(x0, x1));
}

static void thunk_maxsi_index(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  const auto x0 = sl::fromBits<int64_t>(scalars[0]);
  const auto x1 = sl::fromBits<int64_t>(scalars[1]);
  sl::toBits<int64_t>(pointers[0], sl::maximum(x0, x1));
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const a = static_cast<const float*>(io->inputs[0]);
  const float* const b = static_cast<const float*>(io->inputs[1]);
  const int32_t* const k = static_cast<const int32_t*>(io->inputs[2]);
  const bool* const m = static_cast<const bool*>(io->inputs[3]);
  float* const x = static_cast<float*>(io->outputs[0]);
  int32_t* const y = static_cast<int32_t*>(io->outputs[1]);
  bool* const z = static_cast<bool*>(io->outputs[2]);
  // launch: scalar_ops.mlir:9
  all(ctx, team, a, b, k, m, x, y, z);
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  // load: scalar_ops.mlir:11
  const int32_t n = k[0];
  const int64_t n_1 = sl::cast<int64_t>(n);
  const int64_t n_2 = sl::cast<int64_t>(n_1);
  const int64_t n_3 = sl::minimum(n_2, int64_t(60));
  const int64_t n_4 = sl::maximum(n_3, int64_t(0));
  const float* const a_view = a + n_4;
  float* const x_view = x + n_4;
  // copy: scalar_ops.mlir:19
  sl::copy(team, x_view, a_view, 16);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 64}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 256}};
static constexpr sl_expr_step e4[] = {{'c', 4}};
static constexpr sl_expr_step e5[] = {{'v', 1}};
static constexpr sl_expr_step e6[] = {{'v', 2}};
static constexpr sl_expr_step e7[] = {{'v', 3}};
static constexpr sl_expr_step e8[] = {{'c', 60}};
static constexpr sl_expr_step e9[] = {{'v', 4}};
static constexpr sl_expr_step e10[] = {{'v', 5}, {'c', 4}, {'*', 0}};
static constexpr sl_expr_step e11[] = {{'c', 16}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e4, 1}};
static constexpr sl_expr l3[] = {{e2, 1}};
static constexpr sl_expr l4[] = {{e5, 1}};
static constexpr sl_expr l5[] = {{e6, 1}};
static constexpr sl_expr l6[] = {{e7, 1}, {e8, 1}};
static constexpr sl_expr l7[] = {{e9, 1}, {e2, 1}};
static constexpr sl_expr l8[] = {{e10, 3}};
static constexpr sl_expr l9[] = {{e11, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "a", "a", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "b", "b", SL_ROLE_INPUT, 0, 1, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "k", "k", SL_ROLE_INPUT, 0, 2, -1, {0, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "m", "m", SL_ROLE_INPUT, 0, 3, -1, {6, 8, 1}, 1, l0, l1, {e2, 1}, {e0, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 0, 1, -1, {0, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "z", "z", SL_ROLE_OUTPUT, 0, 2, -1, {6, 8, 1}, 1, l0, l1, {e2, 1}, {e0, 1}, {e2, 1}},
    {sizeof(sl_buffer), "a_view", "", SL_ROLE_VIEW, 0, -1, 0, {2, 32, 1}, 1, l2, l1, {e2, 1}, {e2, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x_view", "", SL_ROLE_VIEW, 0, -1, 4, {2, 32, 1}, 1, l2, l1, {e2, 1}, {e2, 1}, {e2, 1}},
};

static constexpr sl_argument arguments_all[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 0, {0, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a3", SL_ARGUMENT_INPUT, 0, {6, 8, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 0, {0, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o2", SL_ARGUMENT_OUTPUT, 0, {6, 8, 1}, 1, l0, l1},
};

static constexpr sl_argument arguments_extsi_i32_i64[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {0, 32, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_index_cast_i64_index[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_minsi_index[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x1", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_maxsi_index[] = {
    {sizeof(sl_argument), "y", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x0", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "x1", SL_ARGUMENT_VALUE, 0, {0, 64, 1}, 0, nullptr, nullptr},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "all", "native", SL_ENTRY_KERNEL, 1, arguments_all, 7, nullptr, 0, 0, thunk_all, nullptr},
    {sizeof(sl_entry), "extsi_i32_i64", "scalar", SL_ENTRY_SCALAR, 0, arguments_extsi_i32_i64, 2, nullptr, 0, 0, thunk_extsi_i32_i64, nullptr},
    {sizeof(sl_entry), "index_cast_i64_index", "scalar", SL_ENTRY_SCALAR, 0, arguments_index_cast_i64_index, 2, nullptr, 0, 0, thunk_index_cast_i64_index, nullptr},
    {sizeof(sl_entry), "minsi_index", "scalar", SL_ENTRY_SCALAR, 0, arguments_minsi_index, 3, nullptr, 0, 0, thunk_minsi_index, nullptr},
    {sizeof(sl_entry), "maxsi_index", "scalar", SL_ENTRY_SCALAR, 0, arguments_maxsi_index, 3, nullptr, 0, 0, thunk_maxsi_index, nullptr},
};

static constexpr int32_t operands_0[] = {0, 1, 2, 3, 4, 5, 6};
static constexpr int32_t operands_1[] = {2};
static constexpr int32_t operands_6[] = {0, 7};
static constexpr int32_t operands_7[] = {4, 8};
static constexpr int32_t operands_8[] = {7, 8};
static constexpr int32_t operands_9[] = {4, 5, 6};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "all", "", "scalar_ops.mlir:9", operands_0, 4, 3, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "kernel.load", "", "scalar_ops.mlir:11", operands_1, 1, 0, l3, 1},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "extsi_i32_i64", "", "scalar_ops.mlir:12", nullptr, 0, 0, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "index_cast_i64_index", "", "scalar_ops.mlir:13", nullptr, 0, 0, l5, 1},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "minsi_index", "", "scalar_ops.mlir:15", nullptr, 0, 0, l6, 2},
    {sizeof(sl_statement), SL_STATEMENT_SCALAR, 0, 1, 0, "maxsi_index", "", "scalar_ops.mlir:16", nullptr, 0, 0, l7, 2},
    {sizeof(sl_statement), SL_STATEMENT_VIEW, 0, 1, 0, "", "", "scalar_ops.mlir:17", operands_6, 1, 1, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_VIEW, 0, 1, 0, "", "", "scalar_ops.mlir:18", operands_7, 1, 1, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_COPY, 0, 1, 0, "", "", "scalar_ops.mlir:19", operands_8, 1, 1, l9, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "scalar_ops.mlir:20", operands_9, 3, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 4, 4},
    {sizeof(sl_result), 5, 5},
    {sizeof(sl_result), 6, 6},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e2, 1}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e2, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "scalars", "#kernel.target<\"cpu\", \"x86-64-v3\">",
    nullptr, sl_program_run,
    buffers, 9, statements, 10, nullptr, 0,
    results, 3, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    0, 0, 4, 3, 1,
    entries, 5, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
