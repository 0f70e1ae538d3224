// CUDA C++ for sm_90.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/scatter_rows.h"

SL_KERNEL(256) double_and_relu_by_256(const float* a0, const float* a1, float* o0, float* o1) {
  sl::awaitPrevious();
  if (blockIdx.x < 2) {
    sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1, .vector = 1}>(
        sl::PointwiseShape{.extent = {300}, .stride = {{1}, {1}}},
        [](auto x0, auto& y0) SL_LAMBDA {
          auto t0 = x0 + x0;
          y0 = t0;
        },
        a0, o0);
  } else {
    sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1, .vector = 1, .firstBlock = 2}>(
        sl::PointwiseShape{.extent = {70}, .stride = {{1}, {1}}},
        [](auto x0, auto& y0) SL_LAMBDA {
          auto t0 = sl::maximum(sl::constant(x0, 0.0f), x0);
          y0 = t0;
        },
        a1, o1);
  }
}

SL_KERNEL(256) put(const int64_t* a0, const float* a1, float* o0) {
  sl::awaitPrevious();
  sl::scatter_rows<sl::ScatterRowsTune{.add = 0}>(
      sl::ScatterRowsShape{.outer = 1, .count = 1, .run = 70, .extent = 9, .srcOuter = 70,
          .srcRow = 70, .outOuter = 630, .outRow = 70},
      a0, a1, o0);
}

// C++.
// Program parts for cuda sm_90, threads: 1.
#include "straightline/kernels/program.h"

extern "C" const sl_device_image double_and_relu_by_256_image;
extern "C" const sl_device_image put_image;

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  float* const cache = static_cast<float*>(const_cast<void*>(io->parameters[0]));
  const float* const q = static_cast<const float*>(io->inputs[0]);
  const float* const k = static_cast<const float*>(io->inputs[1]);
  const int64_t* const at = static_cast<const int64_t*>(io->inputs[2]);
  float* const y = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[1], t_at);
  // mul, relu: cuda_parts.mlir:11, cuda_parts.mlir:12
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 3, .threads = 256, .shared_bytes = 0};
    void* const arguments[] = {sl::place(q), sl::place(k), sl::place(y), sl::place(t)};
    sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // double_and_relu_by_256
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 0);
  }
  // index_copy: cuda_parts.mlir:13
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = 1, .threads = 256, .shared_bytes = 0};
    void* const arguments[] = {sl::place(at), sl::place(t), sl::place(cache)};
    sl_queue_start(ctx, io->queues[1], io->kernels[1], &grid, arguments);  // put
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 9}};
static constexpr sl_expr_step e1[] = {{'c', 70}};
static constexpr sl_expr_step e2[] = {{'c', 1}};
static constexpr sl_expr_step e3[] = {{'c', 0}};
static constexpr sl_expr_step e4[] = {{'c', 2520}};
static constexpr sl_expr_step e5[] = {{'c', 300}};
static constexpr sl_expr_step e6[] = {{'c', 1200}};
static constexpr sl_expr_step e7[] = {{'c', 280}};
static constexpr sl_expr_step e8[] = {{'c', 8}};
static constexpr sl_expr_step e9[] = {{'c', 3}};
static constexpr sl_expr l0[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l1[] = {{e1, 1}, {e2, 1}};
static constexpr sl_expr l2[] = {{e5, 1}};
static constexpr sl_expr l3[] = {{e2, 1}};
static constexpr sl_expr l4[] = {{e1, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "cache", "cache", SL_ROLE_STATE, 1, 0, -1, {2, 32, 1}, 2, l0, l1, {e3, 1}, {e4, 1}, {e3, 1}},
    {sizeof(sl_buffer), "q", "q", SL_ROLE_INPUT, 1, 0, -1, {2, 32, 1}, 1, l2, l3, {e3, 1}, {e6, 1}, {e3, 1}},
    {sizeof(sl_buffer), "k", "k", SL_ROLE_INPUT, 1, 1, -1, {2, 32, 1}, 1, l4, l3, {e3, 1}, {e7, 1}, {e3, 1}},
    {sizeof(sl_buffer), "at", "at", SL_ROLE_INPUT, 1, 2, -1, {0, 64, 1}, 1, l3, l3, {e3, 1}, {e8, 1}, {e3, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 1, 0, -1, {2, 32, 1}, 1, l2, l3, {e3, 1}, {e6, 1}, {e3, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 1, -1, -1, {2, 32, 1}, 1, l4, l3, {e3, 1}, {e7, 1}, {e3, 1}},
};

static constexpr sl_argument arguments_double_and_relu_by_256[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l4, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 1, l2, l3},
    {sizeof(sl_argument), "o1", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 1, l4, l3},
};

static constexpr sl_device_code code_double_and_relu_by_256[] = {
    {sizeof(sl_device_code), "double_and_relu_by_256", &double_and_relu_by_256_image, {e9, 1}, 256, 4, 1, nullptr},
};

static constexpr sl_argument arguments_put[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {0, 64, 1}, 1, l3, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l4, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_READWRITE, 1, {2, 32, 1}, 2, l0, l1},
};

static constexpr sl_device_code code_put[] = {
    {sizeof(sl_device_code), "put", &put_image, {e2, 1}, 256, 3, 1, nullptr},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "double_and_relu_by_256", "cuda", SL_ENTRY_KERNEL, 1, arguments_double_and_relu_by_256, 4, nullptr, 0, 2, nullptr, code_double_and_relu_by_256},
    {sizeof(sl_entry), "put", "cuda", SL_ENTRY_KERNEL, 1, arguments_put, 3, nullptr, 0, 2, nullptr, code_put},
};

static constexpr int32_t operands_0[] = {1, 2, 4, 5};
static constexpr int32_t operands_1[] = {3, 5, 0};
static constexpr int32_t operands_2[] = {4};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "double_and_relu_by_256", "mul, relu", "cuda_parts.mlir:11, cuda_parts.mlir:12", operands_0, 2, 2, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "put", "index_copy", "cuda_parts.mlir:13", operands_1, 2, 1, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "cuda_parts.mlir:14", operands_2, 1, 0, nullptr, 0},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 4, 4},
};

static constexpr const char* spaces[] = {"host", "cuda"};
static constexpr const char* queues[] = {"cpu", "cuda"};
static constexpr sl_expr arena_bytes[] = {{e3, 1}, {e7, 1}};
static constexpr sl_expr scratch_bytes[] = {{e3, 1}, {e3, 1}};
static constexpr sl_expr prepared_bytes[] = {{e3, 1}, {e3, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "parts", "#kernel.target<\"cuda\", \"sm_90\">",
    nullptr, sl_program_run,
    buffers, 6, statements, 3, nullptr, 0,
    results, 1, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    1, 0, 3, 1, 1,
    entries, 2, nullptr, 4,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
