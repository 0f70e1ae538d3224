// Program offload for cpu x86-64-v3, threads: 2.
#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
#include "straightline/kernels/program.h"

extern "C" void twice(sl_ctx* ctx, sl_team team, const float* a0, float* o0, int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 1, .inputs = 1}>(
      ctx, team,
      sl::PointwiseShape{.extent = {b * 8}, .stride = {{1}, {1}}},
      [](auto x0, auto& y0) SL_LAMBDA {
        auto t0 = x0 + x0;
        y0 = t0;
      },
      a0, o0);
}

extern "C" void scale(sl_ctx* ctx, sl_team team, const float* a0, const float* a1, float* o0,
    int64_t b) {
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 2}>(
      ctx, team,
      sl::Batched<sl::PointwiseShape{.extent = {1, 8}, .stride = {{8, 1}, {0, 1}, {8, 1}}}, 0>{b},
      [](auto x0, auto x1, auto& y0) SL_LAMBDA {
        auto t0 = x0 * x1;
        y0 = t0;
      },
      a0, a1, o0);
}

static void thunk_twice(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  twice(ctx, team, static_cast<const float*>(pointers[0]), static_cast<float*>(pointers[1]),
      scalars[0]);
}

static void thunk_scale(sl_ctx* ctx, sl_team team, void* const* pointers, const int64_t* scalars) {
  scale(ctx, team, static_cast<const float*>(pointers[0]),
      static_cast<const float*>(pointers[1]), static_cast<float*>(pointers[2]), scalars[0]);
}

extern "C" int32_t sl_program_prepare(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {  // every statement is thread 0's
    return SL_OK;
  }
  team = sl::alone();
  const float* const w = static_cast<const float*>(io->parameters[0]);
  constexpr int64_t w_device_at = 0;
  float* const w_device = sl::at<float>(io->prepared[1], w_device_at);
  // copy: device_queue.mlir:14
  {
    sl_queue_copy(ctx, io->queues[1], w_device, "test_device", w, "host", size_t(32));
  }
  // record: device_queue.mlir:15
  const sl::Event event(team, io->queues[1]);
  // wait: device_queue.mlir:16
  event.wait(team, io->queues[0]);
  return SL_OK;
}

extern "C" int32_t sl_program_run(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const int64_t b = io->extents[0];
  constexpr int64_t w_device_at = 0;
  const float* const w_device = sl::at<const float>(io->prepared[1], w_device_at);
  const float* const x = static_cast<const float*>(io->inputs[0]);
  float* const y = static_cast<float*>(io->outputs[0]);
  constexpr int64_t t_at = 0;
  float* const t = sl::at<float>(io->arenas[1], t_at);
  const int64_t t_1_at = b * 32;
  float* const t_1 = sl::at<float>(io->arenas[1], t_1_at);
  constexpr int64_t t_2_at = 0;
  float* const t_2 = sl::at<float>(io->arenas[0], t_2_at);
  // mul: device_queue.mlir:22
  twice(ctx, team, x, t_2, b);
  sl_barrier(team);
  // record: device_queue.mlir:24
  const sl::Event event_1(team, io->queues[0]);
  // wait: device_queue.mlir:25
  event_1.wait(team, io->queues[1]);
  // copy: device_queue.mlir:26
  if (team.index == 0) {
    sl_queue_copy(ctx, io->queues[1], t, "test_device", t_2, "host", size_t(b * 32));
  }
  // mul: w (model.py:3)
  if (team.index == 0) {
    void* const pointers[] = {sl::address(t), sl::address(w_device), sl::address(t_1)};
    const int64_t scalars[] = {b};
    sl_queue_launch(ctx, io->queues[1], thunk_scale, pointers, 3, scalars, 1);
  }
  // copy: device_queue.mlir:28
  if (team.index == 0) {
    sl_queue_copy(ctx, io->queues[1], y, "host", t_1, "test_device", size_t(b * 32));
  }
  // record: device_queue.mlir:29
  const sl::Event event_2(team, io->queues[1]);
  // wait: device_queue.mlir:30
  event_2.wait(team, io->queues[0]);
  sl_barrier(team);
  return SL_OK;
}

// Tables: what an interpreter, a profiler or a loader reads.
namespace sl_tables {

static constexpr sl_expr_step e0[] = {{'c', 8}};
static constexpr sl_expr_step e1[] = {{'c', 1}};
static constexpr sl_expr_step e2[] = {{'c', 0}};
static constexpr sl_expr_step e3[] = {{'c', 32}};
static constexpr sl_expr_step e4[] = {{'s', 0}};
static constexpr sl_expr_step e5[] = {{'s', 0}, {'c', 32}, {'*', 0}};
static constexpr sl_expr_step e6[] = {{'v', 1}};
static constexpr sl_expr_step e7[] = {{'v', 5}};
static constexpr sl_expr_step e8[] = {{'v', 10}};
static constexpr sl_expr_step e9[] = {{'c', 0}, {'s', 0}, {'c', 32}, {'*', 0}, {'M', 0}};
static constexpr sl_expr_step e10[] = {{'c', 0}, {'s', 0}, {'c', 32}, {'*', 0}, {'M', 0}, {'s', 0}, {'c', 64}, {'*', 0}, {'M', 0}};
static constexpr sl_expr l0[] = {{e0, 1}};
static constexpr sl_expr l1[] = {{e1, 1}};
static constexpr sl_expr l2[] = {{e4, 1}, {e0, 1}};
static constexpr sl_expr l3[] = {{e0, 1}, {e1, 1}};
static constexpr sl_expr l4[] = {{e3, 1}};
static constexpr sl_expr l5[] = {{e6, 1}};
static constexpr sl_expr l6[] = {{e4, 1}};
static constexpr sl_expr l7[] = {{e7, 1}};
static constexpr sl_expr l8[] = {{e5, 3}};
static constexpr sl_expr l9[] = {{e8, 1}};

static constexpr sl_buffer buffers[] = {
    {sizeof(sl_buffer), "w", "w", SL_ROLE_PARAMETER, 0, 0, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "w_device", "w.device", SL_ROLE_PREPARED, 1, -1, -1, {2, 32, 1}, 1, l0, l1, {e2, 1}, {e3, 1}, {e2, 1}},
    {sizeof(sl_buffer), "x", "x", SL_ROLE_INPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 3}, {e2, 1}},
    {sizeof(sl_buffer), "y", "y", SL_ROLE_OUTPUT, 0, 0, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t", "", SL_ROLE_ARENA, 1, -1, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t_1", "", SL_ROLE_ARENA, 1, -1, -1, {2, 32, 1}, 2, l2, l3, {e5, 3}, {e5, 3}, {e2, 1}},
    {sizeof(sl_buffer), "t_2", "", SL_ROLE_ARENA, 0, -1, -1, {2, 32, 1}, 2, l2, l3, {e2, 1}, {e5, 3}, {e2, 1}},
};

static constexpr sl_argument arguments_twice[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 0, {2, 32, 1}, 2, l2, l3},
};

static constexpr const char* names_twice[] = {"b"};
static constexpr sl_argument arguments_scale[] = {
    {sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 2, l2, l3},
    {sizeof(sl_argument), "a1", SL_ARGUMENT_INPUT, 1, {2, 32, 1}, 1, l0, l1},
    {sizeof(sl_argument), "o0", SL_ARGUMENT_OUTPUT, 1, {2, 32, 1}, 2, l2, l3},
};

static constexpr const char* names_scale[] = {"b"};
static constexpr sl_entry entries[] = {
    {sizeof(sl_entry), "twice", "native", SL_ENTRY_KERNEL, 0, arguments_twice, 2, names_twice, 1, 0, thunk_twice, nullptr},
    {sizeof(sl_entry), "scale", "native", SL_ENTRY_KERNEL, 0, arguments_scale, 3, names_scale, 1, 0, thunk_scale, nullptr},
};

static constexpr int32_t operands_0[] = {0, 1};
static constexpr int32_t operands_3[] = {2, 6};
static constexpr int32_t operands_7[] = {6, 4};
static constexpr int32_t operands_8[] = {4, 1, 5};
static constexpr int32_t operands_9[] = {5, 3};
static constexpr int32_t operands_13[] = {3};
static constexpr sl_statement statements[] = {
    {sizeof(sl_statement), SL_STATEMENT_COPY, 1, 0, 0, "", "", "device_queue.mlir:14", operands_0, 1, 1, l4, 1},
    {sizeof(sl_statement), SL_STATEMENT_RECORD, 1, 0, 0, "", "", "device_queue.mlir:15", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_WAIT, 0, 0, 0, "", "", "device_queue.mlir:16", nullptr, 0, 0, l5, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 0, 1, 0, "twice", "mul", "device_queue.mlir:22", operands_3, 1, 1, l6, 1},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "device_queue.mlir:23", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RECORD, 0, 1, 0, "", "", "device_queue.mlir:24", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_WAIT, 1, 1, 0, "", "", "device_queue.mlir:25", nullptr, 0, 0, l7, 1},
    {sizeof(sl_statement), SL_STATEMENT_COPY, 1, 1, 0, "", "", "device_queue.mlir:26", operands_7, 1, 1, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_LAUNCH, 1, 1, 0, "scale", "mul", "w (model.py:3)", operands_8, 2, 1, l6, 1},
    {sizeof(sl_statement), SL_STATEMENT_COPY, 1, 1, 0, "", "", "device_queue.mlir:28", operands_9, 1, 1, l8, 1},
    {sizeof(sl_statement), SL_STATEMENT_RECORD, 1, 1, 0, "", "", "device_queue.mlir:29", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_WAIT, 0, 1, 0, "", "", "device_queue.mlir:30", nullptr, 0, 0, l9, 1},
    {sizeof(sl_statement), SL_STATEMENT_BARRIER, 0, 1, 0, "", "", "device_queue.mlir:31", nullptr, 0, 0, nullptr, 0},
    {sizeof(sl_statement), SL_STATEMENT_RETURN, 0, 1, 0, "", "", "device_queue.mlir:32", operands_13, 1, 0, nullptr, 0},
};

static constexpr sl_extent extents[] = {
    {sizeof(sl_extent), "b", 1, 32, {nullptr, 0}},
};

static constexpr sl_result results[] = {
    {sizeof(sl_result), 3, 3},
};

static constexpr const char* spaces[] = {"host", "test_device"};
static constexpr const char* queues[] = {"cpu", "test_device"};
static constexpr sl_expr arena_bytes[] = {{e9, 5}, {e10, 9}};
static constexpr sl_expr scratch_bytes[] = {{e2, 1}, {e2, 1}};
static constexpr sl_expr prepared_bytes[] = {{e2, 1}, {e3, 1}};

extern "C" {
extern const sl_program_desc sl_program;
const sl_program_desc sl_program = {
    sizeof(sl_program_desc), SL_ABI_VERSION, "offload", "#kernel.target<\"cpu\", \"x86-64-v3\", threads = 2>",
    sl_program_prepare, sl_program_run,
    buffers, 7, statements, 14, extents, 1,
    results, 1, spaces, 2, queues, 2,
    arena_bytes, scratch_bytes, prepared_bytes, nullptr,
    1, 0, 1, 1, 2,
    entries, 2, nullptr, 0,
    nullptr, nullptr};
}  // extern "C"

}  // namespace sl_tables
