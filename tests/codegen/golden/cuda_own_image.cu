// CUDA C++ for sm_90.

// The machine code of a user: sums_kernel
// def sums_kernel(out, n, a, x):
//     ...
constexpr char own_sums_base64[] =
    "f0VMRgIBATMHAAAA"
    "";

// C++.
// Program sums for cuda sm_90, threads: 1.
#include "straightline/kernels/program.h"

extern "C" const sl_device_image own_sums_image;

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const int64_t b = io->extents[0];
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const y = static_cast<float*>(io->outputs[0]);
  // v.sums: cuda_own_image.mlir:8
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = (b + 3) / 4, .threads = 64, .shared_bytes = 0};
    void* const arguments[] = {sl::place(x), sl::place(y), sl::place(b)};
    sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // own_sums
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'s', 0}};
static constexpr sl_expr_step e1[] = {{'c', 64}};
static constexpr sl_expr_step e2[] = {{'c', 1}};
static constexpr sl_expr_step e3[] = {{'c', 0}};
static constexpr sl_expr_step e4[] = {{'s', 0}, {'c', 256}, {'*', 0}};
static constexpr sl_expr_step e5[] = {{'s', 0}, {'c', 4}, {'*', 0}};
static constexpr sl_expr_step e6[] = {{'s', 1}};
static constexpr sl_expr_step e7[] = {{'s', 2}, {'c', 64}, {'*', 0}};
static constexpr sl_expr_step e8[] = {{'c', 1075838976}};
static constexpr sl_expr_step e9[] = {{'c', 2}};
static constexpr sl_expr_step e10[] = {{'s', 2}};
static constexpr sl_expr_step e11[] = {{'s', 0}, {'c', 3}, {'+', 0}, {'c', 4}, {'/', 0}};
static constexpr sl_expr l0[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l2[] = {{e0, 1}};
static constexpr sl_expr l3[] = {{e2, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 1, 0, -1, {2, 32, 1}, 2, l0, l1, {e3, 1}, {e4, 3}, {e3, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 1, 0, -1, {2, 32, 1}, 1, l2, l3, {e3, 1}, {e5, 3}, {e3, 1}},
};

static constexpr sl_argument arguments_own_sums[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 2, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 1, l2, l3},
};

static constexpr const char* names_own_sums[] = {"b"};
static constexpr sl_device_parameter parameters_own_sums[] = {
    {{e6, 1}, 16},
    {{e7, 3}, 1},
    {{e8, 1}, 1},
    {{e0, 1}, 16},
    {{e3, 1}, 1},
};

static constexpr sl_own_code own_own_sums[] = {
    {sizeof(sl_own_code), parameters_own_sums, 5, 2048, {e9, 1}, {e10, 1}, 0},
};

static constexpr sl_device_code code_own_sums[] = {
    {sizeof(sl_device_code), "sums_kernel", &own_sums_image, {e11, 5}, 64, 3, 1, own_own_sums},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "own_sums", "cuda", SL_ENTRY_KERNEL, 1, arguments_own_sums, 2, names_own_sums, 1, 2, nullptr, code_own_sums},
};

static constexpr int32_t operands_0[] = {0, 1};
static constexpr int32_t operands_1[] = {1};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "own_sums", "v.sums", "cuda_own_image.mlir:8", operands_0, 1, 1, l2, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "cuda_own_image.mlir:9", operands_1, 1, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 1000, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 1, 1},
};

static constexpr const char* spaces[] = {"host", "cuda"};
static constexpr const char* queues[] = {"cpu", "cuda"};
static constexpr sl_expr arena_bytes[] = {{e3, 1}, {e3, 1}};
static constexpr sl_expr scratch_bytes[] = {{e3, 1}, {e3, 1}};
static constexpr sl_expr prepared_bytes[] = {{e3, 1}, {e3, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "sums", "#kernel.target<\"cuda\", \"sm_90\">",
    nullptr, sl_program_run,
    buffers, 2, statements, 2, extents, 1,
    results, 1, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    0, 0, 1, 1, 1,
    entries, 1, nullptr, 2,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
