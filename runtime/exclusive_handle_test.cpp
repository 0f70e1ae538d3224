// SPDX-License-Identifier: Apache-2.0
// Sets of handles of which each serves one run at a time.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "straightline/abi/straightline.h"

namespace {

std::atomic<int> planned, alive, overlaps;
std::atomic<bool> plansFail;

struct Handle {
  int value = 0;  ///< written by a run, not atomic: ThreadSanitizer sees two runs that overlap
  std::atomic<bool> busy{false};
  const void* weight = nullptr;
};

int32_t plan(sl_ctx*, const sl_problem* problem, const void* const* constants, void** handle) {
  if (plansFail) {
    return SL_OUT_OF_MEMORY;
  }
  EXPECT_EQ(2, problem->inputs);
  EXPECT_EQ(nullptr, constants[0]) << "x is known in a call only";
  auto* made = new Handle;
  made->weight = constants[1];
  ++planned;
  ++alive;
  *handle = made;
  return SL_OK;
}

int32_t planNothing(sl_ctx*, const sl_problem*, const void* const*, void**) { return SL_OK; }

void destroy(void* handle) {
  --alive;
  delete static_cast<Handle*>(handle);
}

int32_t run(sl_ctx*, sl_team, void* handle, const void* const* inputs, void* const* outputs,
            void*) {
  auto* own = static_cast<Handle*>(handle);
  overlaps += own->busy.exchange(true);
  EXPECT_EQ(inputs[1], own->weight);
  own->value = *static_cast<const int*>(inputs[0]);
  std::this_thread::yield();
  *static_cast<int*>(outputs[0]) = own->value + 1;
  own->busy = false;
  return SL_OK;
}

class ExclusiveHandle : public ::testing::Test {
 protected:
  void SetUp() override {
    planned = alive = overlaps = 0;
    plansFail = false;
    operands[1].constant = 1;
    problem.size = sizeof(problem);
    problem.operands = operands;
    problem.inputs = 2;
    problem.outputs = 1;
    problem.operand_stride = sizeof(sl_operand);
    context.size = sizeof(context);
  }
  void* handles() {
    const void* constants[] = {nullptr, &weight};
    void* made = nullptr;
    EXPECT_EQ(SL_OK, sl_exclusive_plan(&context, &problem, constants, &made, plan, destroy));
    return made;
  }
  int32_t call(void* made, int x, int* y) {
    const void* inputs[] = {&x, &weight};
    void* outputs[] = {y};
    return sl_exclusive_run(&context, {nullptr, 0, 1}, made, inputs, outputs, nullptr, run);
  }
  int weight = 0;
  sl_operand operands[3] = {};
  sl_problem problem{};
  sl_ctx context{};
};

TEST_F(ExclusiveHandle, RunsOneAfterTheOtherShareOne) {
  void* made = handles();
  for (int i = 0; i < 100; ++i) {
    int y = 0;
    EXPECT_EQ(SL_OK, call(made, i, &y));
    EXPECT_EQ(i + 1, y);
  }
  EXPECT_EQ(1, planned);
  sl_exclusive_destroy(made);
  EXPECT_EQ(0, alive);
}

TEST_F(ExclusiveHandle, RunsAtOnceHaveTheirOwn) {
  constexpr int kThreads = 8;
  void* made = handles();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2000; ++i) {
        int y = 0;
        ASSERT_EQ(SL_OK, call(made, thread * 10000 + i, &y));
        ASSERT_EQ(thread * 10000 + i + 1, y);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, overlaps);
  EXPECT_LE(planned, kThreads);
  EXPECT_EQ(planned, alive) << "what was planned is kept";
  sl_exclusive_destroy(made);
  EXPECT_EQ(0, alive);
}

/// Runs within runs, more than there are slots.
struct Deep {
  ExclusiveHandle* test;
  void* made;
  int depth;
};

int32_t runDeeper(sl_ctx* ctx, sl_team team, void* handle, const void* const* inputs,
                  void* const* outputs, void*) {
  auto* own = static_cast<Handle*>(handle);
  overlaps += own->busy.exchange(true);
  auto* deep = static_cast<Deep*>(outputs[0]);
  int32_t status = SL_OK;
  if (deep->depth-- > 0) {
    status = sl_exclusive_run(ctx, team, deep->made, inputs, outputs, nullptr, runDeeper);
  }
  own->busy = false;
  return status;
}

TEST_F(ExclusiveHandle, MoreRunsThanThereAreSlots) {
  Deep deep{this, handles(), 99};
  int x = 0;
  const void* inputs[] = {&x, &weight};
  void* outputs[] = {&deep};
  EXPECT_EQ(SL_OK, sl_exclusive_run(&context, {nullptr, 0, 1}, deep.made, inputs, outputs, nullptr,
                                    runDeeper));
  EXPECT_EQ(100, planned);
  EXPECT_EQ(0, overlaps);
  EXPECT_EQ(64, alive) << "those beyond the slots are destroyed";
  sl_exclusive_destroy(deep.made);
  EXPECT_EQ(0, alive);
}

TEST_F(ExclusiveHandle, APlanThatFails) {
  plansFail = true;
  void* made = nullptr;
  const void* constants[] = {nullptr, &weight};
  EXPECT_EQ(SL_OUT_OF_MEMORY,
            sl_exclusive_plan(&context, &problem, constants, &made, plan, destroy));
  EXPECT_EQ(nullptr, made);
  EXPECT_EQ(SL_INTERNAL,
            sl_exclusive_plan(&context, &problem, constants, &made, planNothing, destroy));
  EXPECT_STREQ("plan made no handle, which its kernel says it writes into", context.text);
  plansFail = false;
  made = handles();
  plansFail = true;
  Deep deep{this, made, 1};
  int x = 0;
  const void* inputs[] = {&x, &weight};
  void* outputs[] = {&deep};
  EXPECT_EQ(SL_OUT_OF_MEMORY,
            sl_exclusive_run(&context, {nullptr, 0, 1}, made, inputs, outputs, nullptr, runDeeper))
      << "the run within it finds no handle";
  int y = 0;
  EXPECT_EQ(SL_OK, call(made, 1, &y)) << "the next run is unaffected";
  sl_exclusive_destroy(made);
  EXPECT_EQ(0, alive);
}

}  // namespace
