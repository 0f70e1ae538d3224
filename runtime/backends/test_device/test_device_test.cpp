// SPDX-License-Identifier: Apache-2.0
#include "test_device.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "straightline/abi/queue.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

class TestDevice : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    sl_message message;
    ASSERT_EQ(SL_OK, sl_backend_register(straightline_backend_v1(), &message)) << message.text;
  }
  void SetUp() override { sl_test_device_set_delay(3000); }
  void TearDown() override { sl_test_device_set_independent(0); }

  const sl_device_desc* device = straightline_backend_v1()->device;
};

using TestDeviceDeathTest = TestDevice;

TEST_F(TestDeviceDeathTest, HostAccessFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto* address = static_cast<volatile float*>(device->allocate(0, 64, 64));
  ASSERT_NE(nullptr, address);
  EXPECT_DEATH({ address[0] = 1.0f; }, "");
  EXPECT_DEATH({ [[maybe_unused]] const float value = address[3]; }, "");
  device->deallocate(0, const_cast<float*>(address), 64);
}

TEST_F(TestDevice, MemoryIsAlignedDistinctAndReturned) {
  const size_t before = sl_test_device_live_bytes();
  void* a = device->allocate(0, 100, 64);
  void* b = device->allocate(0, 100, 64);
  EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(b) % 64);
  EXPECT_GE(std::abs(static_cast<char*>(a) - static_cast<char*>(b)), 100);
  EXPECT_EQ(before + 200, sl_test_device_live_bytes());
  device->deallocate(0, a, 100);
  void* c = device->allocate(0, 80, 64);
  EXPECT_EQ(a, c) << "first fit";
  device->deallocate(0, b, 100);
  device->deallocate(0, c, 80);
  EXPECT_EQ(before, sl_test_device_live_bytes());
}

void addOne(sl_ctx*, sl_team team, void* const* pointers, const int64_t* scalars) {
  ASSERT_EQ(1, team.size);
  auto* values = static_cast<float*>(pointers[0]);
  for (int64_t i = 0; i < scalars[0]; ++i) {
    values[i] += 1;
  }
}

TEST_F(TestDevice, ItemsRunLateAndInOrder) {
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &queue, nullptr));
  void* memory = device->allocate(0, 16, 64);
  float host[4] = {1, 2, 3, 4};
  float back[4] = {};
  sl_ctx ctx{};
  sl_test_device_hold(1);
  ASSERT_EQ(SL_OK, sl_queue_copy(&ctx, queue, memory, "test_device", host, "host", sizeof(host)));
  {
    void* pointers[] = {memory};
    int64_t scalars[] = {4};
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(SL_OK, sl_queue_launch(&ctx, queue, addOne, pointers, 1, scalars, 1));
    }
    pointers[0] = nullptr;  // copied by launch
    scalars[0] = 1000000;
  }
  ASSERT_EQ(SL_OK, sl_queue_copy(&ctx, queue, back, "host", memory, "test_device", sizeof(back)));
  void* event = sl_queue_record(queue);
  EXPECT_EQ(0, device->query(event)) << "nothing has run yet: the worker is held";
  sl_test_device_hold(0);
  device->synchronize(event);
  EXPECT_EQ(1, device->query(event));
  EXPECT_EQ(4, back[0]);
  EXPECT_EQ(7, back[3]);
  sl_queue_forget(event, queue);
  device->deallocate(0, memory, 16);
  sl_queue_release(queue);
}

TEST_F(TestDevice, AnEventOrdersTwoQueuesAndMayBeForgottenAtOnce) {
  sl_queue* first = nullptr;
  sl_queue* second = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &first, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &second, nullptr));
  void* memory = device->allocate(0, 16, 64);
  const float host[4] = {5, 5, 5, 5};
  float late[4] = {};
  sl_ctx ctx{};
  sl_test_device_set_delay(20000);
  sl_queue_copy(&ctx, first, memory, "test_device", host, "host", sizeof(host));
  void* event = sl_queue_record(first);
  sl_queue_wait(second, event, first);
  sl_queue_forget(event, first);
  sl_test_device_set_delay(0);
  sl_queue_copy(&ctx, second, late, "host", memory, "test_device", sizeof(late));
  sl_queue_release(second);  // waits for what is enqueued
  sl_queue_release(first);
  EXPECT_EQ(5, late[0]);
  device->deallocate(0, memory, 16);
}

TEST_F(TestDevice, AThreadHasTheDefaultQueueUntilItChoosesAnother) {
  sl_queue *first = nullptr, *again = nullptr, *own = nullptr, *other = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_current("test_device", 0, &first, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_current("test_device", 0, &again, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_current("test_device", 1, &other, nullptr));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_NE(nullptr, sl_queue_handle(first));
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &own, nullptr));
  sl_queue_choose("test_device", 0, own);
  ASSERT_EQ(SL_OK, sl_queue_current("test_device", 0, &again, nullptr));
  EXPECT_EQ(own, again);
  std::thread([&] {
    sl_queue* found = nullptr;
    ASSERT_EQ(SL_OK, sl_queue_current("test_device", 0, &found, nullptr));
    EXPECT_EQ(first, found) << "another thread has not chosen";
  }).join();
  sl_queue_choose("test_device", 0, nullptr);
  ASSERT_EQ(SL_OK, sl_queue_current("test_device", 0, &again, nullptr));
  EXPECT_EQ(first, again);
  sl_queue_release(own);
}

TEST_F(TestDevice, ThereIsNoCurrentQueueOfAnUnknownDevice) {
  sl_queue* queue = nullptr;
  sl_message message;
  EXPECT_EQ(SL_UNSUPPORTED, sl_queue_current("nobody", 0, &queue, &message));
  EXPECT_STREQ("no backend 'nobody' is registered", message.text);
  EXPECT_EQ(SL_OUT_OF_MEMORY, sl_queue_current("test_device", 7, &queue, &message));
  EXPECT_STREQ("backend 'test_device' could not make a queue on its device 7", message.text);
}

TEST_F(TestDevice, AddressesOfTheWrongSpaceAreInternalErrors) {
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &queue, nullptr));
  void* memory = device->allocate(0, 16, 64);
  float host[4] = {};
  sl_ctx ctx{};
  EXPECT_EQ(SL_INTERNAL,
            sl_queue_copy(&ctx, queue, host, "test_device", host, "host", sizeof(host)));
  EXPECT_EQ(SL_INTERNAL, ctx.status);
  ctx = {};
  EXPECT_EQ(SL_INTERNAL, sl_queue_copy(&ctx, queue, memory, "test_device", host, "host", 17))
      << "one byte too long";
  ctx = {};
  void* pointers[] = {host};
  const int64_t scalars[] = {4};
  sl_queue_launch(&ctx, queue, addOne, pointers, 1, scalars, 1);
  sl_queue_release(queue);
  EXPECT_EQ(SL_INTERNAL, ctx.status) << "a kernel was given a host address";
  EXPECT_EQ(0, host[0]);
  device->deallocate(0, memory, 16);
}

TEST_F(TestDevice, ReadingWhatNobodyWroteGivesNan) {
  sl_queue* second = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &second, nullptr));
  void* memory = device->allocate(0, 16, 64);
  float seen[4] = {};
  sl_ctx ctx{};
  sl_test_device_set_delay(0);
  sl_queue_copy(&ctx, second, seen, "host", memory, "test_device",
                sizeof(seen));  // nobody wrote and nobody waited
  sl_queue_release(second);
  EXPECT_TRUE(std::isnan(seen[0]));
  device->deallocate(0, memory, 16);
}

// ---- programs that use the device

// x to the device, plus the prepared weight, back to y. extents[0] == 1 ends with a wait of the
// host, as a program whose results are in host memory must; 2 leaves everything running.
void addPrepared(sl_ctx*, sl_team, void* const* pointers, const int64_t*) {
  const auto* x = static_cast<const float*>(pointers[0]);
  const auto* w = static_cast<const float*>(pointers[1]);
  auto* y = static_cast<float*>(pointers[2]);
  for (int i = 0; i < 4; ++i) {
    y[i] = x[i] + w[i];
  }
}

int32_t prepareOnDevice(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index == 0) {
    sl_queue_copy(ctx, io->queues[1], io->prepared[1], "test_device", io->parameters[0], "host",
                  16);
  }
  return SL_OK;
}

int32_t runOnDevice(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {
    return SL_OK;
  }
  char* arena = static_cast<char*>(io->arenas[1]);
  void* pointers[] = {arena, io->prepared[1], arena + 64};
  sl_queue_copy(ctx, io->queues[1], arena, "test_device", io->inputs[0], "host", 16);
  sl_queue_launch(ctx, io->queues[1], addPrepared, pointers, 3, io->extents, 0);
  sl_queue_copy(ctx, io->queues[1], io->outputs[0], "host", arena + 64, "test_device", 16);
  if (io->extents[0] == 1) {
    void* event = sl_queue_record(io->queues[1]);
    sl_queue_wait(io->queues[0], event, io->queues[1]);
    sl_queue_forget(event, io->queues[1]);
  }
  return ctx->status;
}

int32_t runFailingLate(sl_ctx* ctx, sl_team, const sl_bindings* io) {
  ctx->statement = 0;
  return sl_queue_launch(
      ctx, io->queues[1],
      [](sl_ctx* c, sl_team, void* const*, const int64_t*) { sl_fail(c, SL_INDEX_ERROR, 9, 0, 4); },
      nullptr, 0, nullptr, 0);
}

void awaitExecuted(int64_t items) {
  while (sl_test_device_executed() < items) {
    sched_yield();
  }
}

class DeviceProgram {
 public:
  explicit DeviceProgram(sl_entry_fn run, int32_t device = 0) {
    const int32_t space = builder_.space("test_device");
    builder_.queue("test_device");
    builder_.extent("wait", 1, 2);
    builder_.input("x", kFloat32, {builder_.constant(4)});
    builder_.buffer(SL_ROLE_OUTPUT, "y", kFloat32, {builder_.constant(4)});
    builder_.buffer(SL_ROLE_PARAMETER, "w", kFloat32, {builder_.constant(4)});
    builder_.statement(SL_STATEMENT_LAUNCH, "embedding", "model.py:7");
    builder_.arena(space, builder_.constant(128));
    builder_.prepared(space, builder_.constant(16));
    sl_message message;
    EXPECT_EQ(SL_OK, sl_program_create_on(builder_.build(run, prepareOnDevice), device, nullptr,
                                          nullptr, &program, &message))
        << message.text;
    void* parameters[] = {w};
    EXPECT_EQ(SL_OK, sl_weights_create(program, parameters, nullptr, nullptr, &weights, &message))
        << message.text;
    EXPECT_EQ(SL_OK, sl_queue_team(1, &team, nullptr));
  }
  ~DeviceProgram() {
    sl_weights_release(weights);
    sl_program_release(program);
  }

  float w[4] = {10, 20, 30, 40};
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* team = nullptr;

 private:
  DescriptionBuilder builder_;
};

TEST_F(TestDevice, AProgramThatWaitsHasItsResultOnTheHost) {
  const size_t before = sl_test_device_live_bytes();
  {
    DeviceProgram p(runOnDevice);
    Call call(p.program, p.weights, p.team);
    for (int i = 0; i < 3; ++i) {
      float x[4] = {1, 2, 3, static_cast<float>(i)}, y[4] = {};
      ASSERT_EQ(SL_OK, call({x}, {y}, {1})) << call.message.text;
      EXPECT_EQ(11, y[0]);
      EXPECT_EQ(40 + i, y[3]);
    }
  }
  EXPECT_EQ(before, sl_test_device_live_bytes()) << "arenas and prepared data are freed";
}

// Each of the two devices refuses addresses of the other (and the host), so a run that mixed them
// would fail.
TEST_F(TestDevice, TwoProgramsOnTwoDevicesInTwoThreads) {
  const size_t before[] = {sl_test_device_live_bytes_on(0), sl_test_device_live_bytes_on(1)};
  sl_test_device_set_delay(100);
  {
    DeviceProgram programs[] = {DeviceProgram(runOnDevice, 0), DeviceProgram(runOnDevice, 1)};
    EXPECT_EQ(before[0] + 16, sl_test_device_live_bytes_on(0)) << "what is prepared";
    EXPECT_EQ(before[1] + 16, sl_test_device_live_bytes_on(1));
    std::vector<std::thread> threads;
    for (DeviceProgram& p : programs) {
      threads.emplace_back([&p] {
        sl_queue* own = nullptr;
        ASSERT_EQ(SL_OK,
                  sl_queue_create("test_device", sl_program_device(p.program), &own, nullptr));
        for (int i = 0; i < 20; ++i) {
          Call call(p.program, p.weights, i % 2 ? own : p.team);
          float x[4] = {1, 2, 3, static_cast<float>(i)}, y[4] = {};
          ASSERT_EQ(SL_OK, call({x}, {y}, {1})) << call.message.text;
          ASSERT_EQ(40 + i, y[3]);
        }
        sl_queue_release(own);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_LE(before[1] + 16 + 128, sl_test_device_live_bytes_on(1)) << "and the arena";
  }
  EXPECT_EQ(before[0], sl_test_device_live_bytes_on(0));
  EXPECT_EQ(before[1], sl_test_device_live_bytes_on(1));
}

TEST_F(TestDevice, ADeviceThatIsNotThereIsSaidByNumber) {
  sl_queue* queue = nullptr;
  sl_message message;
  EXPECT_EQ(SL_OUT_OF_MEMORY, sl_queue_create("test_device", 2, &queue, &message));
  EXPECT_STREQ("backend 'test_device' could not make a queue on its device 2", message.text);
  DescriptionBuilder builder;
  sl_program* program = nullptr;
  const sl_program_desc* onHost =
      builder.build([](sl_ctx*, sl_team, const sl_bindings*) -> int32_t { return SL_OK; });
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_program_create_on(onHost, 1, nullptr, nullptr, &program, &message));
  EXPECT_STREQ("device 1 was asked for but the program runs on the host", message.text);
}

// Contract: E9.
TEST_F(TestDevice, AFrameIsNotLentAgainBeforeTheQueueHasPassed) {
  DeviceProgram p(runOnDevice);
  Call call(p.program, p.weights, p.team);
  sl_test_device_hold(1);
  const size_t before = sl_test_device_live_bytes();
  const int64_t executed = sl_test_device_executed();
  float x1[4] = {1, 1, 1, 1}, y1[4] = {}, x2[4] = {2, 2, 2, 2}, y2[4] = {};
  ASSERT_EQ(SL_OK, call({x1}, {y1}, {2}));
  ASSERT_EQ(SL_OK, call({x2}, {y2}, {2}));  // at once: the first has not even started
  EXPECT_EQ(executed, sl_test_device_executed());
  EXPECT_EQ(before + 2 * 128, sl_test_device_live_bytes()) << "two frames, not one";
  sl_test_device_hold(0);
  sl_weights_release(p.weights);  // waits: the prepared data is still being read
  p.weights = nullptr;
  EXPECT_EQ(11, y1[0]);
  EXPECT_EQ(42, y2[3]);
}

TEST_F(TestDevice, AFrameIsLentAgainOnceTheQueueHasPassed) {
  DeviceProgram p(runOnDevice);
  Call call(p.program, p.weights, p.team);
  const size_t before = sl_test_device_live_bytes();
  float x[4] = {}, y[4] = {};
  const int64_t extents[] = {2};
  const int64_t executed = sl_test_device_executed();
  ASSERT_EQ(SL_OK, call({x}, {y}, {2}));
  awaitExecuted(executed + 4);  // copy, launch, copy, event
  sl_frame* frame = nullptr;
  ASSERT_EQ(SL_OK, sl_frame_lease(p.program, extents, &frame, nullptr));
  EXPECT_EQ(before + 128, sl_test_device_live_bytes()) << "the same frame again";
  sl_frame_return(frame);
}

TEST_F(TestDevice, TheCallersOwnQueueIsUsed) {
  DeviceProgram p(runOnDevice);
  sl_queue* stream = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &stream, nullptr));
  Call call(p.program, p.weights, stream);
  float x[4] = {1, 1, 1, 1}, y[4] = {};
  ASSERT_EQ(SL_OK, call({x}, {y}, {2})) << call.message.text;
  void* event =
      sl_queue_record(stream);  // after everything of the call, if the call used this queue
  device->synchronize(event);
  sl_queue_forget(event, stream);
  EXPECT_EQ(11, y[0]);
  sl_weights_release(p.weights);
  p.weights = nullptr;
  sl_queue_release(stream);
}

// Contract: E9.
TEST_F(TestDevice, CallsOnOneQueueShareAFrameInItsOrderAndCallsOnTwoDoNot) {
  sl_test_device_set_independent(1);
  DeviceProgram p(runOnDevice);
  sl_queue *first = nullptr, *second = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &first, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_create("test_device", 0, &second, nullptr));
  Call onFirst(p.program, p.weights, first), onSecond(p.program, p.weights, second);
  constexpr int kCalls = 20;
  float x[2][kCalls][4], y[2][kCalls][4] = {};
  sl_test_device_hold(1);  // nothing has run when the last one is enqueued
  const size_t before = sl_test_device_live_bytes();
  for (int i = 0; i < kCalls; ++i) {
    for (int q = 0; q < 2; ++q) {
      std::fill_n(x[q][i], 4, static_cast<float>(1000 * q + i));
      ASSERT_EQ(SL_OK, (q ? onSecond : onFirst)({x[q][i]}, {y[q][i]}, {2}));
    }
  }
  EXPECT_EQ(before + 2 * 128, sl_test_device_live_bytes()) << "an arena for each queue";
  sl_test_device_hold(0);
  sl_weights_release(p.weights);  // waits
  p.weights = nullptr;
  for (int i = 0; i < kCalls; ++i) {
    for (int q = 0; q < 2; ++q) {
      EXPECT_EQ(1000 * q + i + 10, y[q][i][0]) << "call " << i << " on queue " << q;
      EXPECT_EQ(1000 * q + i + 40, y[q][i][3]) << "call " << i << " on queue " << q;
    }
  }
  sl_queue_release(first);
  sl_queue_release(second);
}

TEST_F(TestDevice, ThreadsOnQueuesOfTheirOwnNeverMeetInAFrame) {
  sl_test_device_set_independent(1);
  sl_test_device_set_delay(20);
  DeviceProgram p(runOnDevice);
  constexpr int kThreads = 4, kCalls = 200;
  std::vector<std::vector<float>> x(kThreads, std::vector<float>(4 * kCalls)), y = x;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> failed{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      sl_queue* queue = nullptr;
      failed += sl_queue_create("test_device", 0, &queue, nullptr) != SL_OK;
      Call call(p.program, p.weights, queue);
      for (int i = 0; i < kCalls; ++i) {
        std::fill_n(&x[t][4 * i], 4, static_cast<float>(1000 * t + i));
        failed += call({&x[t][4 * i]}, {&y[t][4 * i]}, {2}) != SL_OK;
      }
      sl_queue_release(queue);  // waits
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0, failed);
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_EQ(1000 * t + i + 20, y[t][4 * i + 1]) << "thread " << t << ", call " << i;
    }
  }
}

TEST_F(TestDevice, AFailureAfterTheCallIsToldToTheNextLeaseOnce) {
  DeviceProgram p(runFailingLate);
  Call call(p.program, p.weights, p.team);
  float x[4] = {}, y[4] = {};
  const int64_t extents[] = {2};
  const int64_t executed = sl_test_device_executed();
  ASSERT_EQ(SL_OK, call({x}, {y}, {2}));
  awaitExecuted(executed + 2);  // launch, event
  sl_frame* frame = nullptr;
  sl_message message;
  EXPECT_EQ(SL_INDEX_ERROR, sl_frame_lease(p.program, extents, &frame, &message));
  EXPECT_STREQ(
      "in an earlier asynchronous call: index 9 is out of range [0, 5): embedding at model.py:7",
      message.text);
  ASSERT_EQ(SL_OK, sl_frame_lease(p.program, extents, &frame, &message));
  sl_frame_return(frame);
}

}  // namespace
}  // namespace straightline::testing
