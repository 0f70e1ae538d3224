// Program library for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void place(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {4, 10}, .stride = {{10, 1}, {16, 1}}}>{},
      [](auto x0, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      a0, o0);
}

extern "C" void divide(sl_ctx* ctx, sl_team team, const int32_t* a0, const int32_t* a1,
    int32_t* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 2}>(
      ctx, team,
      sl::Fixed<sl::PointwiseShape{.extent = {40}, .stride = {{1}, {1}, {1}}}>{},
      [ctx](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = sl::checked_trunc_divide(ctx, x0, x1);
        auto t1 = sl::floor_divide(t0, sl::constant(x0, 3));
        y0 = t1;
      },
      a0, a1, o0);
}

extern "C" int32_t example_ip_run(sl_ctx*, sl_team, void* handle, const void* const* inputs,
                           void* const* outputs, void* workspace);
extern "C" int32_t example_ip_plan(sl_ctx*, const sl_problem*, const void* const* constants, void** handle);
extern "C" void example_ip_destroy(void* handle);

static constexpr sl_operand ip_operands[] = {
    {{2, 32, 1}, 2, {4, 64, 0, 0, 0, 0, 0, 0}, {64, 1, 0, 0, 0, 0, 0, 0}, 0},
    {{2, 32, 1}, 2, {10, 64, 0, 0, 0, 0, 0, 0}, {64, 1, 0, 0, 0, 0, 0, 0}, 1},
    {{2, 32, 1}, 2, {4, 10, 0, 0, 0, 0, 0, 0}, {10, 1, 0, 0, 0, 0, 0, 0}, 0},
};
static constexpr sl_attribute ip_attributes[] = {
    {"transposed", 1, SL_INT, 0, nullptr},
};
static constexpr sl_problem ip_problem = {sizeof(sl_problem), "inner_product", ip_operands, 2,
    1, ip_attributes, 1, 2, 32, 32768, 1048576, nullptr, 0, 0, 0, nullptr, 64,
    sizeof(sl_operand), sizeof(sl_attribute)};

static void thunk_ip_plan(sl_ctx* ctx, sl_team, void* const* pointers, const int64_t*) {
  const void* const constants[] = {nullptr, pointers[0]};
  sl::report(ctx, example_ip_plan(ctx, &ip_problem, constants, static_cast<void**>(pointers[1])));
}

static void thunk_ip(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  sl::report(ctx, example_ip_run(ctx, team, pointers[0], pointers + 1, pointers + 3, pointers[4]));
}

static void thunk_place(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  place(ctx, team, static_cast<const float*>(pointers[0]), static_cast<float*>(pointers[1]));
}

static void thunk_divide(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t*) {
  divide(ctx, team, static_cast<const int32_t*>(pointers[0]),
      static_cast<const int32_t*>(pointers[1]), static_cast<int32_t*>(pointers[2]));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const float* const fc_weight = static_cast<const float*>(io->parameters[0]);
  void** const fc_handle = const_cast<void**>(&io->handles[0]);
  // plan: fc (model.py:5)
  {
    const void* const constants[] = {nullptr, fc_weight};
    sl::report(ctx, example_ip_plan(ctx, &ip_problem, constants, fc_handle));
  }
  if (sl::failedInLibrary(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const float* const fc_weight = static_cast<const float*>(io->parameters[0]);
  void* const fc_handle = io->handles[0];
  const float* const x = static_cast<const float*>(io->inputs[0]);
  const int32_t* const k = static_cast<const int32_t*>(io->inputs[1]);
  float* const y = static_cast<float*>(io->outputs[0]);
  int32_t* const j = static_cast<int32_t*>(io->outputs[1]);
  constexpr int64_t t_at = 0;
  int8_t* const t = sl::at<int8_t>(io->arenas[0], t_at);
  constexpr int64_t t_1_at = 256;
  int64_t* const t_1 = sl::at<int64_t>(io->arenas[0], t_1_at);
  constexpr int64_t t_2_at = 384;
  float* const t_2 = sl::at<float>(io->arenas[0], t_2_at);
  // linear: fc (model.py:5)
  {
    const void* const inputs[] = {x, fc_weight};
    void* const outputs[] = {y};
    sl::report(ctx, example_ip_run(ctx, team, fc_handle, inputs, outputs, t));
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  sl_barrier(team);
  // clone: external_call.mlir:24
  place(ctx, team, y, t_2);
  const int64_t n = 160;
  // alloc: external_call.mlir:26
  const sl::Allocation allocated_memory(ctx, team, t_1, "host", n);
  int32_t* const allocated = static_cast<int32_t*>(allocated_memory.address());
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 5);
  }
  // div: model.py:6
  divide(ctx, team, k, k, allocated);
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 6);
  }
  // copy: external_call.mlir:28
  sl::copy(team, j, allocated, 160);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 10}};
static constexpr sl_expr_step e1[] = {{'c', 64}};
static constexpr sl_expr_step e2[] = {{'c', 1}};
static constexpr sl_expr_step e3[] = {{'c', 0}};
static constexpr sl_expr_step e4[] = {{'c', 2560}};
static constexpr sl_expr_step e5[] = {{'c', 4}};
static constexpr sl_expr_step e6[] = {{'c', 1024}};
static constexpr sl_expr_step e7[] = {{'c', 160}};
static constexpr sl_expr_step e8[] = {{'c', 256}};
static constexpr sl_expr_step e9[] = {{'c', 8}};
static constexpr sl_expr_step e10[] = {{'c', 16}};
static constexpr sl_expr_step e11[] = {{'c', 384}};
static constexpr sl_expr_step e12[] = {{'v', 4}};
static constexpr sl_expr_step e13[] = {{'c', 704}};
static constexpr sl_expr l0[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l2[] = {{e5, 1}, {e1, 1}};
static constexpr sl_expr l3[] = {{e5, 1}, {e0, 1}};
static constexpr sl_expr l4[] = {{e0, 1}, {e2, 1}};
static constexpr sl_expr l5[] = {{e8, 1}};
static constexpr sl_expr l6[] = {{e2, 1}};
static constexpr sl_expr l7[] = {{e10, 1}, {e2, 1}};
static constexpr sl_expr l8[] = {{e7, 1}};
static constexpr sl_expr l9[] = {{e12, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "fc_weight", "fc.weight", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 2, l0, l1, {e3, 1}, {e4, 1}, {e3, 1}},
    {sizeof(sl_buffer), "fc_handle", "fc", SL_ROLE_HANDLE, 0, 0, -1, {0, 8, 1}, 0, nullptr, nullptr, {e3, 1}, {e3, 1}, {e3, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l1, {e3, 1}, {e6, 1}, {e3, 1}},
    {sizeof(sl_buffer), "k", "k", SL_ROLE_INPUT, 0, 1, -1, {0, 32, 1}, 2, l3, l4, {e3, 1}, {e7, 1}, {e3, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l3, l4, {e3, 1}, {e7, 1}, {e3, 1}},
    {sizeof(sl_buffer), "j", "j", SL_ROLE_OUTPUT, 0, 1, -1, {0, 32, 1}, 2, l3, l4, {e3, 1}, {e7, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 0, -1, -1, {0, 8, 1}, 1, l5, l6, {e3, 1}, {e8, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 0, -1, -1, {0, 64, 1}, 0, nullptr, nullptr, {e8, 1}, {e9, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t_2", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l3, l7, {e11, 1}, {e11, 1}, {e1, 1}},
    {sizeof(sl_buffer), "allocated", "", SL_ROLE_RUNTIME, 0, -1, -1, {0, 32, 1}, 2, l3, l4, {e3, 1}, {e3, 1}, {e3, 1}},
};

static constexpr sl_argument arguments_ip_plan[] = {
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l0, l1},
    {sizeof(sl_argument), "handle", SL_ARGUMENT_HANDLE, 0, {0, 8, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_ip[] = {
    {sizeof(sl_argument), "handle", SL_ARGUMENT_HANDLE, 0, {0, 8, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l1},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l3, l4},
    {sizeof(sl_argument), "w0", SL_ARGUMENT_WORKSPACE, 0, {0, 8, 1}, 1, l5, l6},
};

static constexpr sl_argument arguments_place[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l3, l4},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l3, l7},
};

static constexpr sl_argument arguments_divide[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {0, 32, 1}, 2, l3, l4},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 0, {0, 32, 1}, 2, l3, l4},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {0, 32, 1}, 2, l3, l4},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "ip_plan", "ip", SL_ENTRY_PLAN, 1, arguments_ip_plan, 2, nullptr, 0, 0, thunk_ip_plan, nullptr},
    {sizeof(sl_entry), "ip", "ip", SL_ENTRY_EXTERNAL, 1, arguments_ip, 5, nullptr, 0, 0, thunk_ip, nullptr},
    {sizeof(sl_entry), "place", "native", SL_ENTRY_KERNEL, 0, arguments_place, 2, nullptr, 0, 0, thunk_place, nullptr},
    {sizeof(sl_entry), "divide", "native", SL_ENTRY_KERNEL, 1, arguments_divide, 3, nullptr, 0, 0, thunk_divide, nullptr},
};

static constexpr int32_t operands_0[] = {0, 1};
static constexpr int32_t operands_1[] = {1, 2, 0, 4, 6};
static constexpr int32_t operands_3[] = {4, 8};
static constexpr int32_t operands_5[] = {7, 9};
static constexpr int32_t operands_6[] = {3, 3, 9};
static constexpr int32_t operands_7[] = {9, 5};
static constexpr int32_t operands_8[] = {4, 5};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_CALL, 0, 0, 0, "ip_plan", "", "fc (model.py:5)", operands_0, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_CALL, 0, 1, 0, "ip", "linear", "fc (model.py:5)", operands_1, 3, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "external_call.mlir:23", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "place", "clone", "external_call.mlir:24", operands_3, 1, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_SIZE, 0, 1, 0, "", "", "external_call.mlir:25", nullptr, 0, 0, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_ALLOC, 0, 1, 0, "", "", "external_call.mlir:26", operands_5, 1, 1, l9, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "divide", "div", "model.py:6", operands_6, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_COPY, 0, 1, 0, "", "", "external_call.mlir:28", operands_7, 1, 1, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "external_call.mlir:29", operands_8, 2, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 4, 4},
    {sizeof(sl_result), 5, 5},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e13, 1}};
static constexpr sl_expr scratch_bytes[] = {{e3, 1}};
static constexpr sl_expr prepared_bytes[] = {{e3, 1}};
static void (*const destroy_handles[])(void*) = {example_ip_destroy};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "library", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    sl_program_prepare, sl_program_run,
    buffers, 10, statements, 9, nullptr, 0,
    results, 2, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, destroy_handles,
    1, 1, 2, 2, 2,
    entries, 4, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
