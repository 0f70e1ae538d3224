// Program framework for cpu x86-64-v3, threads: 1.
#include "straightline/kernels/program.h"

extern "C" int32_t sl_aten_call_run(sl_ctx*, sl_team, void* handle, const void* const* inputs,
                           void* const* outputs, void* workspace);
extern "C" int32_t sl_aten_call_plan(sl_ctx*, const sl_problem*, const void* const* constants, void** handle);
extern "C" void sl_aten_call_plan_destroy(void* handle);

static constexpr sl_operand aten_topk_operands[] = {
    {{2, 32, 1}, 2, {SL_DYNAMIC, 6, 0, 0, 0, 0, 0, 0}, {6, 1, 0, 0, 0, 0, 0, 0}, 0},
    {{2, 32, 1}, 2, {SL_DYNAMIC, 2, 0, 0, 0, 0, 0, 0}, {2, 1, 0, 0, 0, 0, 0, 0}, 0},
    {{0, 64, 1}, 2, {SL_DYNAMIC, 2, 0, 0, 0, 0, 0, 0}, {2, 1, 0, 0, 0, 0, 0, 0}, 0},
};
static constexpr sl_problem aten_topk_problem = {sizeof(sl_problem), "aten", aten_topk_operands,
    1, 2, nullptr, 0, 1, 32, 32768, 1048576,
    "aten::topk\n"
    "\n"
    "2.13.0\n"
    "dispatcher\n"
    "aten::topk(Tensor self, SymInt k)\n"
    "self=%0, k=2\n"
    "@0, @1", 4, 0, 0, nullptr, 64, sizeof(sl_operand), sizeof(sl_attribute)};

static void thunk_aten_topk_plan(sl_ctx* ctx, sl_team, void* const* pointers, const int64_t*) {
  const void* const constants[] = {nullptr};
  sl::report(ctx, sl_aten_call_plan(ctx, &aten_topk_problem, constants,
      static_cast<void**>(pointers[0])));
}

static void thunk_aten_topk(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  const int64_t sizes[] = {scalars[0], scalars[0], scalars[0], scalars[0] * 2};
  const void* const inputs[] = {pointers[1], sizes};
  sl::report(ctx, sl_aten_call_run(ctx, team, pointers[0], inputs, pointers + 2, nullptr));
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  void** const aten_topk_handle = const_cast<void**>(&io->handles[0]);
  // plan: model.py:5
  {
    const void* const constants[] = {nullptr};
    sl::report(ctx, sl_aten_call_plan(ctx, &aten_topk_problem, constants, aten_topk_handle));
  }
  if (sl::failedInLibrary(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const int64_t b = io->extents[0];
  void* const aten_topk_handle = io->handles[0];
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const values = static_cast<float*>(io->outputs[0]);
  int64_t* const places = static_cast<int64_t*>(io->outputs[1]);
  // aten.topk.default: model.py:5
  {
    const int64_t sizes[] = {b, b, b, b * 2};
    const void* const inputs[] = {x, sizes};
    void* const outputs[] = {values, places};
    sl::report(ctx, sl_aten_call_run(ctx, sl::alone(), aten_topk_handle, inputs, outputs,
        nullptr));
  }
  if (sl::failedInLibrary(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 0}};
static constexpr sl_expr_step e1[] = {{'s', 0}};
static constexpr sl_expr_step e2[] = {{'c', 6}};
static constexpr sl_expr_step e3[] = {{'c', 1}};
static constexpr sl_expr_step e4[] = {{'s', 0}, {'c', 24}, {'*', 0}};
static constexpr sl_expr_step e5[] = {{'c', 2}};
static constexpr sl_expr_step e6[] = {{'s', 0}, {'c', 8}, {'*', 0}};
static constexpr sl_expr_step e7[] = {{'s', 0}, {'c', 16}, {'*', 0}};
static constexpr sl_expr l0[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l1[] = {{e2, 1}, {e3, 1}};
static constexpr sl_expr l2[] = {{e1, 1}, {e5, 1}};
static constexpr sl_expr l3[] = {{e5, 1}, {e3, 1}};
static constexpr sl_expr l4[] = {{e1, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "aten_topk_handle", "aten_topk", SL_ROLE_HANDLE, 0, 0, -1, {0, 8, 1}, 0, nullptr, nullptr, {e0, 1}, {e0, 1}, {e0, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l0, l1, {e0, 1}, {e4, 3}, {e0, 1}},
    {sizeof(sl_buffer), "values", "values", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e0, 1}, {e6, 3}, {e0, 1}},
    {sizeof(sl_buffer), "places", "places", SL_ROLE_OUTPUT, 0, 1, -1, {0, 64, 1}, 2, l2, l3, {e0, 1}, {e7, 3}, {e0, 1}},
};

static constexpr sl_argument arguments_aten_topk_plan[] = {
    {sizeof(sl_argument), "handle", SL_ARGUMENT_HANDLE, 0, {0, 8, 1}, 0, nullptr, nullptr},
};

static constexpr sl_argument arguments_aten_topk[] = {
    {sizeof(sl_argument), "handle", SL_ARGUMENT_HANDLE, 0, {0, 8, 1}, 0, nullptr, nullptr},
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 0, {0, 64, 1}, 2, l2, l3},
};

static constexpr const char* names_aten_topk[] = {"b"};
static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "aten_topk_plan", "aten", SL_ENTRY_PLAN, 1, arguments_aten_topk_plan, 1, nullptr, 0, 0, thunk_aten_topk_plan, nullptr},
    {sizeof(sl_entry), "aten_topk", "aten", SL_ENTRY_EXTERNAL, 1, arguments_aten_topk, 4, names_aten_topk, 1, 0, thunk_aten_topk, nullptr},
};

static constexpr int32_t operands_0[] = {0};
static constexpr int32_t operands_1[] = {0, 1, 2, 3};
static constexpr int32_t operands_2[] = {2, 3};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_CALL, 0, 0, 0, "aten_topk_plan", "", "model.py:5", operands_0, 0, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_CALL, 0, 1, 1, "aten_topk", "aten.topk.default", "model.py:5", operands_1, 2, 2, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "framework_call.mlir:16", operands_2, 2, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 64, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 2, 2},
    {sizeof(sl_result), 3, 3},
};

static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr arena_bytes[] = {{e0, 1}};
static constexpr sl_expr scratch_bytes[] = {{e0, 1}};
static constexpr sl_expr prepared_bytes[] = {{e0, 1}};
static void (*const destroy_handles[])(void*) = {sl_aten_call_plan_destroy};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "framework", "#kernel.target<\"cpu\", \"x86-64-v3\">",
    sl_program_prepare, sl_program_run,
    buffers, 4, statements, 3, extents, 1,
    results, 2, spaces, 1, queues, 1,
    arena_bytes, scratch_bytes, prepared_bytes, destroy_handles,
    0, 1, 1, 2, 1,
    entries, 2, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
