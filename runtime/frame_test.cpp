// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "straightline/abi/straightline.h"
#include "test_description.h"

#if defined(__SANITIZE_ADDRESS__)
#define SL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SL_ASAN 1
#endif
#endif

namespace straightline::testing {
namespace {

std::atomic<void*> lastArena{nullptr};

int32_t runLook(sl_ctx*, sl_team, const sl_bindings* io) {
  lastArena = io->arenas[0];
  return SL_OK;
}

class FrameTest : public ::testing::Test {
 protected:
  FrameTest() {
    const int32_t b = builder_.extent("b", 0, 1 << 20);
    builder_.input("x", kFloat32, {builder_.symbol(b)});
    builder_.arena(0, builder_.expression({{'s', b}, {'c', 64}, {'*', 0}}));
    EXPECT_EQ(SL_OK,
              sl_program_create(builder_.build(runLook), nullptr, nullptr, &program, nullptr));
  }
  ~FrameTest() override { sl_program_release(program); }

  sl_frame* lease(int64_t b) {
    sl_frame* frame = nullptr;
    sl_message message;
    EXPECT_EQ(SL_OK, sl_frame_lease(program, &b, &frame, &message)) << message.text;
    return frame;
  }

  sl_program* program = nullptr;

 private:
  DescriptionBuilder builder_;
};

TEST_F(FrameTest, IsLentAgainAndGrowsOnly) {
  sl_frame* first = lease(4);
  EXPECT_EQ(256u, sl_frame_bytes(first));
  sl_frame_return(first);
  sl_frame* again = lease(2);
  EXPECT_EQ(first, again);
  EXPECT_EQ(256u, sl_frame_bytes(again));
  sl_frame_return(again);
  sl_frame* larger = lease(100);
  EXPECT_EQ(first, larger);
  EXPECT_EQ(6400u, sl_frame_bytes(larger));
  sl_frame_return(larger);
}

TEST_F(FrameTest, TwoLeasesAtOnceAreTwoFrames) {
  sl_frame* a = lease(4);
  sl_frame* b = lease(4);
  EXPECT_NE(a, b);
  sl_frame_return(a);
  sl_frame_return(b);
}

TEST_F(FrameTest, MoreThanThePoolHoldsStillWork) {
  std::set<sl_frame*> frames;
  for (int i = 0; i < 200; ++i) {
    frames.insert(lease(1));
  }
  EXPECT_EQ(200u, frames.size());
  for (sl_frame* frame : frames) {
    sl_frame_return(frame);
  }
}

TEST_F(FrameTest, LargeArenasAreRoundedToHugePagesThatTheyFill) {
  const auto bytesOf = [this](size_t bytes) {
    sl_frame* frame = lease(static_cast<int64_t>(bytes / 64));
    const size_t found = sl_frame_bytes(frame);
    sl_frame_return(frame);
    return found;
  };
  EXPECT_EQ(size_t{3} << 20, bytesOf(size_t{3} << 20)) << "a third of it would lie idle";
  EXPECT_EQ(size_t{8} << 20, bytesOf((size_t{8} << 20) - (size_t{512} << 10)));
}

TEST_F(FrameTest, AnEmptyArenaIsFine) {
  sl_frame* frame = lease(0);
  EXPECT_EQ(0u, sl_frame_bytes(frame));
  sl_frame_return(frame);
}

TEST_F(FrameTest, ArenasAreAligned) {
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_team(1, &queue, nullptr));
  for (const int64_t b : {1, 3, 1000, 1 << 17}) {
    Call call(program, weights, queue);
    float x = 0;
    ASSERT_EQ(SL_OK, call({&x}, {}, {b}));
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(lastArena.load()) % 64) << "b=" << b;
  }
  sl_weights_release(weights);
}

// Writes a number that nobody else writes and expects it to be there still; every 64th call gives
// others time.
int32_t runOwner(sl_ctx* ctx, sl_team, const sl_bindings* io) {
  auto* word = static_cast<int64_t*>(io->arenas[0]);
  const int64_t mine = *static_cast<const int64_t*>(io->inputs[0]);
  for (int i = 0; i < 4; ++i) {
    *static_cast<volatile int64_t*>(word) = mine;
    if (mine % 64 == 0) {
      sched_yield();
    }
    if (*static_cast<volatile int64_t*>(word) != mine) {
      sl_fail(ctx, SL_INTERNAL, mine, *word, 0);
    }
  }
  return SL_OK;
}

// Contract: E8.
TEST(Frame, HasOneOwnerAtATime) {
  DescriptionBuilder builder;
  builder.input("number", kInt64, {});
  builder.arena(0, builder.constant(64));
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_program_create(builder.build(runOwner), nullptr, nullptr, &program, nullptr));
  ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_team(1, &queue, nullptr));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Call call(program, weights, queue);
      for (int64_t i = 0; i < 20000; ++i) {
        int64_t number = t * 100000 + i;
        wrong += call({&number}, {}) != SL_OK;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, wrong);
  sl_weights_release(weights);
  sl_program_release(program);
}

#ifdef SL_POISON_ARENA
std::atomic<bool> sawNan{false};

int32_t runStale(sl_ctx*, sl_team, const sl_bindings* io) {
  auto* values = static_cast<float*>(io->arenas[0]);
  sawNan = std::isnan(values[3]);
  values[3] = 1;
  return SL_OK;
}

// Contract: E10.
TEST(Frame, AnArenaStartsEveryCallAsNan) {
  DescriptionBuilder builder;
  builder.arena(0, builder.constant(64));
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_program_create(builder.build(runStale), nullptr, nullptr, &program, nullptr));
  ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_team(1, &queue, nullptr));
  Call call(program, weights, queue);
  for (int i = 0; i < 3; ++i) {
    sawNan = false;
    ASSERT_EQ(SL_OK, call({}, {}));
    EXPECT_TRUE(sawNan) << "call " << i;
  }
  sl_weights_release(weights);
  sl_program_release(program);
}

#ifdef SL_ASAN
using FrameDeathTest = FrameTest;

TEST_F(FrameDeathTest, AnArenaMayNotBeTouchedBetweenCalls) {
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_team(1, &queue, nullptr));
  Call call(program, weights, queue);
  float x = 0;
  ASSERT_EQ(SL_OK, call({&x}, {}, {4}));
  EXPECT_DEATH(*static_cast<volatile float*>(lastArena.load()) = 1, "use-after-poison");
  sl_weights_release(weights);
}
#endif
#endif

}  // namespace
}  // namespace straightline::testing
