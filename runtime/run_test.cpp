// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "straightline/abi/straightline.h"
#include "test_description.h"

// Heap allocations of the whole process, by all threads. Under a sanitizer the hooks of its
// allocator count; otherwise this executable's malloc family stands in front of glibc's.
static std::atomic<int64_t> allocations{0};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SL_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SL_SANITIZED 1
#endif
#endif

#ifdef SL_SANITIZED
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),
                                                         void (*)(const volatile void*));
static const int hooked = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { allocations.fetch_add(1, std::memory_order_relaxed); },
    [](const volatile void*) {});
#else
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#pragma GCC visibility pop
#endif

namespace straightline::testing {
namespace {

// y[i] = (x[i] + bias) * 2 for a batch b of rows of 4, by way of an arena slot and prepared data.
int32_t prepareDouble(sl_ctx*, sl_team team, const sl_bindings* io) {
  if (team.index == 0) {
    *static_cast<float*>(io->prepared[0]) = 2 * *static_cast<const float*>(io->parameters[0]);
  }
  return SL_OK;
}

void barrier(sl_team team) {
  if (team.size <= 1) {
    return;
  }
  uint32_t* arrive = team.shared->arrive;
  const uint32_t mine = __atomic_load_n(&arrive[team.index * 32], __ATOMIC_RELAXED) + 1;
  __atomic_store_n(&arrive[team.index * 32], mine, __ATOMIC_RELEASE);
  for (int32_t other = 0; other < team.size; ++other) {
    for (int rounds = 0;
         static_cast<int32_t>(__atomic_load_n(&arrive[other * 32], __ATOMIC_ACQUIRE) - mine) < 0;) {
      if (++rounds > 2000) {
        team.shared->yield();
      }
    }
  }
}

int32_t runDouble(sl_ctx*, sl_team team, const sl_bindings* io) {
  const auto* x = static_cast<const float*>(io->inputs[0]);
  auto* y = static_cast<float*>(io->outputs[0]);
  auto* slot = static_cast<float*>(io->arenas[0]);
  const float doubledBias = *static_cast<const float*>(io->prepared[0]);
  const int64_t n = io->extents[0] * 4;
  for (int64_t i = team.index; i < n; i += team.size) {
    slot[i] = 2 * x[i];
  }
  barrier(team);
  for (int64_t i = team.size - 1 - team.index; i < n;
       i += team.size) {  // what the other thread wrote
    y[i] = slot[i] + doubledBias;
  }
  return SL_OK;
}

class DoubleProgram {
 public:
  explicit DoubleProgram(int32_t threads) {
    const int32_t b = builder_.extent("b", 1, 64);
    builder_.input("x", kFloat32, {builder_.symbol(b), builder_.constant(4)});
    const int32_t y =
        builder_.buffer(SL_ROLE_OUTPUT, "y", kFloat32, {builder_.symbol(b), builder_.constant(4)},
                        {builder_.constant(4), builder_.constant(1)});
    builder_.buffer(SL_ROLE_PARAMETER, "bias", kFloat32, {});
    builder_.result(y, y);
    builder_.arena(0, builder_.expression({{'s', b}, {'c', 16}, {'*', 0}}));
    builder_.prepared(0, builder_.constant(4));
    builder_.threads(threads);
    sl_message message;
    EXPECT_EQ(SL_OK, sl_program_create(builder_.build(runDouble, prepareDouble), nullptr, nullptr,
                                       &program, &message))
        << message.text;
    void* parameters[] = {&bias};
    EXPECT_EQ(SL_OK, sl_weights_create(program, parameters, nullptr, nullptr, &weights, &message))
        << message.text;
    EXPECT_EQ(SL_OK, sl_queue_team(threads, &queue, &message)) << message.text;
  }
  ~DoubleProgram() {
    sl_queue_release(queue);
    sl_weights_release(weights);
    sl_program_release(program);
  }

  float bias = 3;
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;

 private:
  DescriptionBuilder builder_;
};

class RunOnTeam : public ::testing::TestWithParam<int32_t> {};

// Contract: E14.
TEST_P(RunOnTeam, BindsEverythingForEveryExtent) {
  DoubleProgram p(GetParam());
  Call call(p.program, p.weights, p.queue);
  for (const int64_t b : {64, 1, 7, 64, 2}) {
    std::vector<float> x(static_cast<size_t>(b) * 4), y(x.size(), -1);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i);
    }
    ASSERT_EQ(SL_OK, call({x.data()}, {y.data()}, {b})) << call.message.text;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(2 * static_cast<float>(i) + 6, y[i]) << "b=" << b << " i=" << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, RunOnTeam, ::testing::Values(1, 2, 3));

// Contract: E14.
TEST(Run, SteadyStateMakesNoHeapAllocation) {
  for (const int32_t threads : {1, 2}) {
    DoubleProgram p(threads);
    float x[32] = {1}, y[32];
    void* inputs[] = {x};
    void* outputs[] = {y};
    const int64_t shape[] = {8, 4};
    const sl_tensor tensor{x, shape, nullptr, 2, kFloat32, 1, 0};
    const auto once = [&] {
      int64_t extents[1];
      sl_frame* frame = nullptr;
      sl_message message;
      sl_ctx ctx{};
      ctx.size = sizeof(ctx);
      int32_t status = sl_program_guard(p.program, &tensor, 1, extents, &message);
      status |= sl_frame_lease(p.program, extents, &frame, &message);
      const sl_args args{sizeof(sl_args), inputs, outputs, extents};
      status |= sl_run(p.program, p.weights, frame, p.queue, &args, &ctx, &message);
      sl_frame_return(frame);
      return status;
    };
    const int64_t start = allocations.load();
    ASSERT_EQ(SL_OK, once());
    const int64_t first = allocations.load();
    EXPECT_GT(first, start) << "the counter does not count: the first lease allocates a frame";
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(SL_OK, once());
    }
    EXPECT_EQ(first, allocations.load()) << "with " << threads << " threads";
    EXPECT_EQ(8, y[0]);
  }
}

// Contract: E1, E15.
TEST(Run, EightThreadsAtOnceGetTheirOwnAnswers) {
  DoubleProgram p(2);  // one shared team: the others run alone
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Call call(p.program, p.weights, p.queue);
      std::vector<float> x(256), y(256);
      for (int round = 0; round < 100; ++round) {
        const int64_t b = 1 + (round * 7 + t) % 64;
        for (int64_t i = 0; i < b * 4; ++i) {
          x[static_cast<size_t>(i)] = static_cast<float>(t * 1000 + round + i);
        }
        wrong += call({x.data()}, {y.data()}, {b}) != SL_OK;
        for (int64_t i = 0; i < b * 4; ++i) {
          wrong += y[static_cast<size_t>(i)] != 2 * x[static_cast<size_t>(i)] + 6;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, wrong);
}

int32_t runFailing(sl_ctx* ctx, sl_team team, const sl_bindings*) {
  if (team.index == team.size - 1) {
    ctx->statement = 1;
    sl_fail(ctx, SL_INDEX_ERROR, 7, 0, 4);
    sl_fail(ctx, SL_ZERO_DIVISION, 1, 2, 3);  // too late: the first failure wins
  }
  return SL_OK;
}

// Contract: E16.
TEST(Run, FailureNamesValuesStatementAndSource) {
  for (const int32_t threads : {1, 2}) {
    DescriptionBuilder builder;
    builder.statement(SL_STATEMENT_LAUNCH, "linear", "model.py:11");
    builder.statement(SL_STATEMENT_LAUNCH, "embedding", "model.py:12");
    sl_program* program = nullptr;
    sl_weights* weights = nullptr;
    sl_queue* queue = nullptr;
    ASSERT_EQ(SL_OK,
              sl_program_create(builder.build(runFailing), nullptr, nullptr, &program, nullptr));
    ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
    ASSERT_EQ(SL_OK, sl_queue_team(threads, &queue, nullptr));
    Call call(program, weights, queue);
    for (int i = 0; i < 3; ++i) {  // and again: a failed run leaves nothing behind
      EXPECT_EQ(SL_INDEX_ERROR, call({}, {}));
      EXPECT_STREQ("index 7 is out of range [0, 5): embedding at model.py:12", call.message.text);
      EXPECT_EQ(1, call.ctx.statement);
    }
    sl_weights_release(weights);
    sl_program_release(program);
  }
}

TEST(Run, FailureOfALibrarysKernelNamesBoth) {
  sl_entry entries[2]{};
  for (sl_entry& entry : entries) {
    entry.size = sizeof(entry);
    entry.thunk = [](sl_ctx*, sl_team, void* const*, const int64_t*) {};
  }
  entries[0].name = "own_0";
  entries[0].backend = "native";
  entries[0].kind = SL_ENTRY_KERNEL;
  entries[1].name = "vendor_embedding_0";
  entries[1].backend = "vendor";
  auto message = [&](int32_t kind, int number) {
    entries[1].kind = kind;
    DescriptionBuilder builder;
    builder.statement(SL_STATEMENT_LAUNCH, "linear", "model.py:11", entries[0].name);
    builder.statement(SL_STATEMENT_CALL, "embedding", "model.py:12", entries[1].name);
    sl_program_desc* desc = builder.build(runFailing);
    desc->entries = entries;
    desc->entry_count = 2;
    sl_ctx ctx{};
    ctx.status = SL_INVALID_ARGUMENT;
    ctx.statement = number;
    sl_program* program = nullptr;
    sl_message text{};
    if (sl_program_create(desc, nullptr, nullptr, &program, &text) == SL_OK) {
      sl_failure_message(program, &ctx, &text);
      sl_program_release(program);
    }
    return std::string(text.text);
  };
  const std::string values = "invalid argument (status 1, detail (0, 0, 0)): ";
  EXPECT_EQ(values + "linear at model.py:11", message(SL_ENTRY_EXTERNAL, 0));
  for (const int32_t kind : {SL_ENTRY_EXTERNAL, SL_ENTRY_PLAN}) {
    EXPECT_EQ(values + "embedding (kernel vendor_embedding_0 of vendor) at model.py:12",
              message(kind, 1));
  }
}

// Thread 1 leaves at once, thread 0 after a barrier that thread 1 has passed: the counts differ
// afterwards.
int32_t runUneven(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (io->extents[0] == 1) {
    if (team.index == 1) {
      __atomic_fetch_add(&team.shared->arrive[32], 5, __ATOMIC_RELEASE);
    }
    if (team.index == 0) {
      sl_fail(ctx, SL_CHECK_FAILED, 0, 0, 0);
    }
    return SL_OK;
  }
  auto* values = static_cast<int64_t*>(io->arenas[0]);
  for (int64_t round = 0; round < 50; ++round) {
    __atomic_store_n(&values[team.index], round, __ATOMIC_RELAXED);
    barrier(team);
    for (int32_t i = 0; i < team.size; ++i) {
      if (__atomic_load_n(&values[i], __ATOMIC_RELAXED) != round) {
        sl_fail(ctx, SL_INTERNAL, i, round, 0);
      }
    }
    barrier(team);
  }
  return SL_OK;
}

TEST(Run, BarriersWorkAfterARunThatFailedUnevenly) {
  DescriptionBuilder builder;
  const int32_t b = builder.extent("b", 1, 2);
  builder.input("x", kFloat32, {builder.symbol(b)});
  builder.arena(0, builder.constant(4096));
  builder.statement(SL_STATEMENT_CHECK, "check", "model.py:3");
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK,
            sl_program_create(builder.build(runUneven), nullptr, nullptr, &program, nullptr));
  ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_team(2, &queue, nullptr));
  Call call(program, weights, queue);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(SL_CHECK_FAILED, call({nullptr}, {}, {1}));
    ASSERT_EQ(SL_OK, call({nullptr}, {}, {2})) << call.message.text;
  }
  sl_weights_release(weights);
  sl_program_release(program);
}

// Contract: E17.
TEST(Run, CancelFlagStopsTheCallBeforeItStarts) {
  DoubleProgram p(1);
  float x[4] = {}, y[4] = {42, 42, 42, 42};
  void* inputs[] = {x};
  void* outputs[] = {y};
  int64_t extents[] = {1};
  sl_frame* frame = nullptr;
  ASSERT_EQ(SL_OK, sl_frame_lease(p.program, extents, &frame, nullptr));
  const int32_t cancel = 1;
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  ctx.cancel = &cancel;
  const sl_args args{sizeof(sl_args), inputs, outputs, extents};
  sl_message message;
  EXPECT_EQ(SL_CANCELLED, sl_run(p.program, p.weights, frame, p.queue, &args, &ctx, &message));
  EXPECT_STREQ("cancelled by the caller: in program 'forward'", message.text);
  EXPECT_EQ(42, y[0]);
  sl_frame_return(frame);
}

TEST(Run, MisuseIsRefusedNotRun) {
  DoubleProgram p(1), other(1);
  float x[256] = {}, y[256] = {};
  void* inputs[] = {x};
  void* outputs[] = {y};
  int64_t extents[] = {1};
  sl_frame* frame = nullptr;
  ASSERT_EQ(SL_OK, sl_frame_lease(p.program, extents, &frame, nullptr));
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  const sl_args args{sizeof(sl_args), inputs, outputs, extents};
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_run(other.program, other.weights, frame, p.queue, &args, &ctx, &message));
  EXPECT_STREQ("the frame was leased from another program", message.text);
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_run(p.program, other.weights, frame, p.queue, &args, &ctx, &message));
  EXPECT_STREQ("the weights were prepared for another program", message.text);
  extents[0] = 64;
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_run(p.program, p.weights, frame, p.queue, &args, &ctx, &message));
  EXPECT_STREQ("the frame was leased for smaller extents than this call has", message.text);
  ctx.size = 8;
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_run(p.program, p.weights, frame, p.queue, &args, &ctx, &message));
  EXPECT_EQ(
      "sl_ctx has 8 bytes but this runtime needs " + std::to_string(offsetof(sl_ctx, overlap)),
      message.text);
  sl_frame_return(frame);
}

/// A run that counts, by the number of its only input.
struct Counting {
  DescriptionBuilder builder;
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  sl_message message{};

  static int32_t run(sl_ctx* ctx, sl_team, const sl_bindings* io) {
    const auto count = static_cast<int64_t>(*static_cast<const float*>(io->inputs[0]));
    return sl_program_set_extent(program_, ctx, io, 0, count);
  }

  Counting() {
    const int32_t u0 = builder.computedExtent("u0", 1, 8, builder.constant(8));
    builder.input("x", kFloat32, {});
    builder.setExtent(builder.constant(0), u0, "model.py:3");
    EXPECT_EQ(SL_OK, sl_program_create(builder.build(run), nullptr, nullptr, &program, &message))
        << message.text;
    program_ = program;
    EXPECT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, &message));
    EXPECT_EQ(SL_OK, sl_queue_team(1, &queue, &message));
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  ~Counting() {
    sl_weights_release(weights);
    sl_program_release(program);
  }

  int32_t operator()(float count, int64_t* extents) {
    sl_frame* frame = nullptr;
    EXPECT_EQ(SL_OK, sl_frame_lease(program, extents, &frame, &message));
    void* inputs[] = {&count};
    const sl_args args{sizeof(sl_args), inputs, nullptr, extents};
    sl_ctx ctx{};
    ctx.size = sizeof(ctx);
    const int32_t status = sl_run(program, weights, frame, queue, &args, &ctx, &message);
    sl_frame_return(frame);
    return status;
  }

  static inline sl_program* program_ = nullptr;
};

TEST(Run, TellsTheCallerAComputedExtent) {
  Counting counting;
  int64_t extents[] = {8};
  EXPECT_EQ(SL_OK, counting(3.0f, extents)) << counting.message.text;
  EXPECT_EQ(3, extents[0]);
}

TEST(Run, AComputedExtentOutsideOfItsBoundsFails) {
  Counting counting;
  for (const float wrong : {0.0f, 9.0f}) {
    int64_t extents[] = {8};
    EXPECT_EQ(SL_CHECK_FAILED, counting(wrong, extents));
    EXPECT_EQ("size 'u0', which depends on data, is " + std::to_string(static_cast<int>(wrong)) +
                  " but must be in [1, 8]: u0 at model.py:3",
              std::string(counting.message.text));
    EXPECT_EQ(8, extents[0]);
  }
}

}  // namespace
}  // namespace straightline::testing
