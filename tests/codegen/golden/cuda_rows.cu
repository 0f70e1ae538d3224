// CUDA C++ for sm_90.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/row_reduction.h"

SL_KERNEL(256) scale(const float* a0, const float* a1, const float* a2, float* o0, int64_t b) {
  sl::awaitPrevious();
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 3, .vector = 4}>(
      sl::PointwiseShape{.extent = {b, 1024}, .stride = {{1024, 1}, {0, 1}, {0, 0}, {1024, 1}}},
      [](auto x0, auto x1, auto x2, auto& y0) SL_LAMBDA {
        auto t0 = x0 * x1;
        auto t1 = t0 + x2;
        y0 = t1;
      },
      a0, a1, a2, o0);
}

SL_KERNEL(128) mean(const float* a0, float* o0, int64_t b) {
  sl::awaitPrevious();
  sl::row_reduction<sl::RowReductionTune{.outerRank = 1, .innerRank = 1, .inputs = 1,
      .rowOutputs = 0, .elementOutputs = 1, .kept = 0, .keptStage = 0, .stages = 1,
      .combine = {sl::Combine::sum}, .threads = 32, .vector = 4, .each = 8}>(
      sl::RowReductionShape{.outer = {b}, .inner = {1024},
          .stride = {{{1024}, {1}}, {{1024}, {1}}}},
      [](auto x0, auto& y0) SL_LAMBDA {
        y0 = x0;
      },
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 - x1;
        y0 = t0;
      },
      a0, o0);
}

// C++.
// Program rows for cuda sm_90, threads: 1.
#include "straightline/kernels/program.h"

extern "C" const sl_device_image scale_image;
extern "C" const sl_device_image mean_image;

alignas(64) static constexpr float constant[] = {2.0f};

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  constexpr int64_t constant0_device_at = 0;
  float* const constant0_device = sl::at<float>(io->prepared[1], constant0_device_at);
  // copy: cuda_rows.mlir:9
  {
    sl_queue_copy(ctx, io->queues[1], constant0_device, "cuda", constant, "host", size_t(4));
  }
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const int64_t b = io->extents[0];
  const float* const w = static_cast<const float*>(io->parameters[0]);
  constexpr int64_t constant0_device_at = 0;
  const float* const constant0_device = sl::at<const float>(io->prepared[1], constant0_device_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const y = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[1], t_at);
  // launch: cuda_rows.mlir:12
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = b, .threads = 256, .shared_bytes = 0};
    void* const arguments[] = {sl::place(x), sl::place(w), sl::place(constant0_device),
        sl::place(t), sl::place(b)};
    sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);  // scale
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 1);
  }
  // launch: cuda_rows.mlir:13
  {
    const sl_grid grid = {.size = sizeof(sl_grid), .blocks = (b + 3) / 4, .threads = 128, .shared_bytes = 0};
    void* const arguments[] = {sl::place(t), sl::place(y), sl::place(b)};
    sl_queue_start(ctx, io->queues[1], io->kernels[1], &grid, arguments);  // mean
  }
  if (sl_failed(ctx, team)) {
    return sl::stop(ctx, team, 2);
  }
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 1024}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 4096}};
static constexpr sl_expr_step e4[] = {{'c', 4}};
static constexpr sl_expr_step e5[] = {{'s', 0}};
static constexpr sl_expr_step e6[] = {{'s', 0}, {'c', 4096}, {'*', 0}};
static constexpr sl_expr_step e7[] = {{'s', 0}, {'c', 3}, {'+', 0}, {'c', 4}, {'/', 0}};
static constexpr sl_expr_step e8[] = {{'c', 0}, {'s', 0}, {'c', 4096}, {'*', 0}, {'M', 0}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e5, 1}, {e0, 1}};
static constexpr sl_expr l3[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e4, 1}};
static constexpr sl_expr l5[] = {{e5, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "w", "w", SL_ROLE_PARAMETER, 1, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "constant", "", SL_ROLE_CONSTANT, 0, 0, -1, {2, 32, 1}, 1, l1, l1, {e2, 1}, {e4, 1}, {e2, 1}},
    {sizeof(sl_buffer), "constant0_device", "constant0.device", SL_ROLE_PREPARED, 1, -1, -1, {2, 32, 1}, 1, l1, l1, {e2, 1}, {e4, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 1, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 1, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e6, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 1, -1, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e6, 3}, {e2, 1}},
};

static constexpr sl_argument arguments_scale[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "a2", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l1, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 2, l2, l3},
};

static constexpr const char* names_scale[] = {"b"};
static constexpr sl_device_code code_scale[] = {
    {sizeof(sl_device_code), "scale", &scale_image, {e5, 1}, 256, 5, 1, nullptr},
};

static constexpr sl_argument arguments_mean[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 2, l2, l3},
};

static constexpr const char* names_mean[] = {"b"};
static constexpr sl_device_code code_mean[] = {
    {sizeof(sl_device_code), "mean", &mean_image, {e7, 5}, 128, 3, 1, nullptr},
};

static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "scale", "cuda", SL_ENTRY_KERNEL, 1, arguments_scale, 4, names_scale, 1, 2, nullptr, code_scale},
    {sizeof(sl_entry), "mean", "cuda", SL_ENTRY_KERNEL, 1, arguments_mean, 2, names_mean, 1, 2, nullptr, code_mean},
};

static constexpr int32_t operands_0[] = {1, 2};
static constexpr int32_t operands_1[] = {3, 0, 2, 5};
static constexpr int32_t operands_2[] = {5, 4};
static constexpr int32_t operands_3[] = {4};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_COPY, 1, 0, 0, "", "copy", "cuda_rows.mlir:9", operands_0, 1, 1, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "scale", "", "cuda_rows.mlir:12", operands_1, 3, 1, l5, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "mean", "", "cuda_rows.mlir:13", operands_2, 1, 1, l5, 1},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "cuda_rows.mlir:14", operands_3, 1, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 1000000, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 4, 4},
};

static constexpr const char* spaces[] = {"host", "cuda"};
static constexpr const char* queues[] = {"cpu", "cuda"};
static constexpr sl_expr arena_bytes[] = {{e2, 1}, {e8, 5}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}, {e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e2, 1}, {e4, 1}};
static constexpr const void* const constants[] = {constant};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "rows", "#kernel.target<\"cuda\", \"sm_90\">",
    sl_program_prepare, sl_program_run,
    buffers, 6, statements, 4, extents, 1,
    results, 1, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    1, 0, 1, 1, 1,
    entries, 2, constants, 4,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
