// SPDX-License-Identifier: Apache-2.0
// Machine code of a device, with a device that only notes what is asked of it.
#include "device_code.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device_notes_for_tests.h"
#include "straightline/abi/queue.h"
#include "straightline/abi/start_entry.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

/// What the device was asked, in order.
struct Notes : DeviceCalls {
  int refusals = 0;      ///< loads that fail from now on
  bool refuses = false;  ///< starts fail
};
Notes& notes() {
  static Notes instance;
  return instance;
}
void note(const std::string& call) { notes().calls.push_back(call); }

void* allocate(int32_t, size_t bytes, size_t) { return ::operator new(bytes); }
void deallocate(int32_t, void* address, size_t) { ::operator delete(address); }
void* queueCreate(int32_t) {
  note("create");
  return new int(-1);
}
void queueDestroy(void* queue) { delete static_cast<int*>(queue); }
void* queueAdopt(int32_t device, void* native) {
  return device < 2 ? new int(static_cast<int>(reinterpret_cast<intptr_t>(native))) : nullptr;
}
int32_t load(int32_t device, const sl_device_code* code, void** kernel, char* reason,
             size_t bytes) {
  if (notes().refusals > 0) {
    --notes().refusals;
    std::snprintf(reason, bytes, "no device today");
    return SL_UNSUPPORTED;
  }
  note(std::string("load ") + code->symbol + " of " + std::to_string(code->image->bytes) +
       (device ? " for " + std::to_string(device) : std::string()));
  *kernel = const_cast<char*>(code->symbol);
  return SL_OK;
}
void unload(void* kernel) { note(std::string("unload ") + static_cast<const char*>(kernel)); }
int32_t start(void* queue, sl_ctx* ctx, void* kernel, const sl_grid* grid, void* const* arguments) {
  if (notes().refuses) {
    sl_fail_text(ctx, SL_DEVICE_ERROR, "too many threads");
    return SL_DEVICE_ERROR;
  }
  note(std::string(static_cast<const char*>(kernel)) + " " + std::to_string(grid->blocks) + "x" +
       std::to_string(grid->threads) + " on " + std::to_string(*static_cast<int*>(queue)) + " of " +
       std::to_string(**static_cast<float* const*>(arguments[0])).substr(0, 1));
  return SL_OK;
}
void* record(void*) {
  note("record");
  return new int(0);
}
void wait(void*, void*) {}
void synchronize(void*) {}
void eventDestroy(void* event) { delete static_cast<int*>(event); }
int32_t query(void*) { return 1; }
int32_t launch(void*, sl_ctx*, void*, void* const*, int32_t, const int64_t*, int32_t) {
  return SL_INTERNAL;
}
int32_t copy(void*, sl_ctx*, void*, const char*, const void*, const char*, size_t) {
  return SL_INTERNAL;
}

const sl_device_desc kDevice = {sizeof(sl_device_desc),
                                "noting",
                                0,
                                allocate,
                                deallocate,
                                queueCreate,
                                queueDestroy,
                                launch,
                                copy,
                                record,
                                wait,
                                synchronize,
                                eventDestroy,
                                query,
                                load,
                                unload,
                                start,
                                queueAdopt,
                                1};
const sl_backend_desc kBackend = {
    sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "noting", nullptr, 0, &kDevice};

/// y = twice(x), as emitted text does it: the number of blocks is the first extent.
int32_t runTwice(sl_ctx* ctx, sl_team, const sl_bindings* io) {
  const auto* x = static_cast<const float*>(io->inputs[0]);
  const sl_grid grid = {sizeof(sl_grid), io->extents[0], 64, 0};
  void* arguments[] = {&x};
  return sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, arguments);
}

class DeviceCode : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    sl_message message;
    ASSERT_EQ(SL_OK, sl_backend_register(&kBackend, &message)) << message.text;
  }

  void SetUp() override {
    notes() = {};
    ASSERT_EQ(SL_OK, sl_queue_team(1, &team, nullptr));
  }

  void make(int64_t arenaBytes, int32_t device = 0, const sl_entry* kernel = nullptr) {
    const int32_t space = builder.space("noting");
    builder.queue("noting");
    builder.extent("blocks", 0, 9);
    builder.input("x", kFloat32, {builder.constant(4)});
    builder.statement(SL_STATEMENT_LAUNCH, "mul", "model.py:3");
    builder.arena(space, builder.constant(arenaBytes));
    sl_program_desc* desc = builder.build(runTwice);
    desc->entries = kernel ? kernel : &entry;
    desc->entry_count = 1;
    sl_message message;
    ASSERT_EQ(SL_OK, sl_program_create_on(desc, device, nullptr, nullptr, &program, &message))
        << message.text;
    ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, &message))
        << message.text;
  }

  void TearDown() override {
    sl_weights_release(weights);
    sl_program_release(program);
  }

  float x[4] = {7, 7, 7, 7};
  const sl_device_image image = {sizeof(sl_device_image), "code", 4, 0};
  const sl_device_code code = {sizeof(sl_device_code), "twice", &image, {}, 64, 0, 0, nullptr};
  const sl_entry entry = {sizeof(sl_entry), "twice", "noting", SL_ENTRY_KERNEL, 1,    nullptr, 0,
                          nullptr,          0,       0,        nullptr,         &code};
  DescriptionBuilder builder;
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* team = nullptr;
};

TEST_F(DeviceCode, IsLoadedByTheFirstRunAndGoesWithTheProgram) {
  make(0);
  EXPECT_EQ("", notes().take()) << "nothing is asked of a device before it is needed";
  Call call(program, weights, team);
  ASSERT_EQ(SL_OK, call({x}, {}, {3})) << call.message.text;
  EXPECT_EQ("load twice of 4, create, twice 3x64 on -1 of 7", notes().take());
  ASSERT_EQ(SL_OK, call({x}, {}, {0})) << "an empty grid starts nothing";
  EXPECT_EQ("", notes().take());
  sl_weights_release(weights);
  sl_program_release(program);
  weights = nullptr;
  program = nullptr;
  EXPECT_EQ("unload twice", notes().take());
}

TEST_F(DeviceCode, RunsOnTheCallersOwnQueueAndAsksForNothingElse) {
  make(0);
  sl_queue* queue = nullptr;
  sl_message message;
  ASSERT_EQ(SL_OK, sl_queue_adopt("noting", 0, reinterpret_cast<void*>(5), &queue, &message))
      << message.text;
  Call call(program, weights, queue);
  ASSERT_EQ(SL_OK, call({x}, {}, {2})) << call.message.text;
  ASSERT_EQ(SL_OK, call({x}, {}, {2})) << call.message.text;
  EXPECT_EQ("load twice of 4, twice 2x64 on 5 of 7, twice 2x64 on 5 of 7", notes().take());
  sl_queue_release(queue);
}

TEST_F(DeviceCode, AKernelIsStartedByItself) {
  const sl_expr_step steps[] = {{'s', 0}};
  const sl_device_code own = {
      sizeof(sl_device_code), "twice", &image, {steps, 1}, 64, 1, 0, nullptr};
  const sl_argument argument = {sizeof(sl_argument), "x", SL_ARGUMENT_INPUT, 1, kFloat32, -1};
  const sl_entry kernel = {sizeof(sl_entry), "twice", "noting", SL_ENTRY_KERNEL, 1,   &argument, 1,
                           nullptr,          0,       0,        nullptr,         &own};
  make(0, 0, &kernel);
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_adopt("noting", 0, reinterpret_cast<void*>(5), &queue, nullptr));
  void* pointers[] = {x};
  const int64_t extents[] = {6};
  sl_message message;
  ASSERT_EQ(SL_OK, sl_program_start(program, 0, queue, pointers, nullptr, extents, &message))
      << message.text;
  ASSERT_EQ(SL_OK, sl_program_start(program, 0, queue, pointers, nullptr, extents, &message));
  EXPECT_EQ("load twice of 4, twice 6x64 on 5 of 7, twice 6x64 on 5 of 7", notes().take());
  notes().refuses = true;
  EXPECT_EQ(SL_DEVICE_ERROR,
            sl_program_start(program, 0, queue, pointers, nullptr, extents, &message));
  EXPECT_NE(nullptr, std::strstr(message.text, "the device failed: too many threads"));
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_program_start(program, 0, team, pointers, nullptr, extents, &message));
  EXPECT_STREQ("the queue is a team of the host but the program is on device 0", message.text);
  sl_queue_release(queue);
  sl_weights_release(weights);  // before what the description points to
  sl_program_release(program);
  weights = nullptr;
  program = nullptr;
}

TEST_F(DeviceCode, IsLoadedOnTheProgramsDeviceAndRefusesQueuesOfAnother) {
  make(0, 1);
  EXPECT_EQ(1, sl_program_device(program));
  sl_queue* there = nullptr;
  sl_queue* elsewhere = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_adopt("noting", 1, reinterpret_cast<void*>(5), &there, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_adopt("noting", 0, reinterpret_cast<void*>(5), &elsewhere, nullptr));
  Call call(program, weights, there);
  ASSERT_EQ(SL_OK, call({x}, {}, {2})) << call.message.text;
  EXPECT_EQ("load twice of 4 for 1, twice 2x64 on 5 of 7", notes().take());
  Call wrong(program, weights, elsewhere);
  EXPECT_EQ(SL_INVALID_ARGUMENT, wrong({x}, {}, {2}));
  EXPECT_STREQ("the queue is on device 0 but the program is on device 1", wrong.message.text);
  EXPECT_EQ("", notes().take());
  sl_queue_release(there);
  sl_queue_release(elsewhere);
}

TEST_F(DeviceCode, WeightsOfAnotherDeviceAreRefused) {
  make(0, 1);
  sl_program* first = nullptr;
  sl_weights* there = nullptr;
  ASSERT_EQ(SL_OK,
            sl_program_create(sl_program_description(program), nullptr, nullptr, &first, nullptr));
  ASSERT_EQ(SL_OK, sl_weights_create(first, nullptr, nullptr, nullptr, &there, nullptr));
  Call call(first, weights, team);
  EXPECT_EQ(SL_INVALID_ARGUMENT, call({x}, {}, {2}));
  EXPECT_STREQ("the weights are on device 1 but the program is on device 0", call.message.text);
  Call right(first, there, team);
  EXPECT_EQ(SL_OK, right({x}, {}, {2})) << "two programs over one description";
  EXPECT_EQ("load twice of 4, create, twice 2x64 on -1 of 7", notes().take());
  sl_weights_release(there);
  sl_program_release(first);
}

TEST_F(DeviceCode, AFrameWithAnArenaIsGuardedByAnEvent) {
  make(128);
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_adopt("noting", 0, reinterpret_cast<void*>(5), &queue, nullptr));
  Call call(program, weights, queue);
  ASSERT_EQ(SL_OK, call({x}, {}, {2})) << call.message.text;
  EXPECT_EQ("load twice of 4, twice 2x64 on 5 of 7, record", notes().take());
  sl_queue_release(queue);
}

TEST_F(DeviceCode, AFailedLoadIsToldAndTriedAgain) {
  make(0);
  notes().refusals = 1;
  Call call(program, weights, team);
  EXPECT_EQ(SL_UNSUPPORTED, call({x}, {}, {1}));
  EXPECT_STREQ("kernel 'twice' cannot be loaded: no device today; the program is for cpu",
               call.message.text);
  EXPECT_EQ(SL_OK, call({x}, {}, {1})) << call.message.text;
}

TEST_F(DeviceCode, WhatTheDeviceRefusesNamesItsWordsAndTheProgram) {
  make(0);
  notes().refuses = true;
  Call call(program, weights, team);
  EXPECT_EQ(SL_DEVICE_ERROR, call({x}, {}, {1}));
  EXPECT_STREQ("the device failed: too many threads: in program 'forward'", call.message.text);
  notes().refuses = false;
  EXPECT_EQ(SL_OK, call({x}, {}, {1})) << call.message.text;
}

TEST_F(DeviceCode, MustTakeAsManyArgumentsAsItsEntry) {
  sl_device_code wrong = code;
  wrong.argument_count = 3;
  const sl_entry entry = {sizeof(sl_entry), "twice", "noting", SL_ENTRY_KERNEL, 1,     nullptr, 0,
                          nullptr,          0,       0,        nullptr,         &wrong};
  sl_program_desc* desc = builder.build(runTwice);
  desc->entries = &entry;
  desc->entry_count = 1;
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_create(desc, nullptr, nullptr, &program, &message));
  EXPECT_STREQ(
      "program description 'forward': the machine code of entry number 0 takes 3 arguments but its "
      "entry has 0",
      message.text);
  wrong.size = 8;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_create(desc, nullptr, nullptr, &program, &message));
  EXPECT_NE(nullptr, std::strstr(message.text, "sl_device_code of entry number 0 has 8 bytes"));
}

TEST_F(DeviceCode, ParametersOfUsersAreCheckedAndTheDescriptionBeforeThemIsTaken) {
  static constexpr sl_expr_step kSecond[] = {{'s', 1}}, kFour[] = {{'c', 4}};
  sl_device_parameter parameter = {{kFour, 1}, 16};
  sl_own_code own = {sizeof(sl_own_code), &parameter, 1, 0, {kFour, 1}, {kFour, 1}, 0};
  sl_device_code users = code;
  users.own = &own;
  const sl_entry entry = {sizeof(sl_entry), "twice", "noting", SL_ENTRY_KERNEL, 1,     nullptr, 0,
                          nullptr,          0,       0,        nullptr,         &users};
  sl_program_desc* desc = builder.build(runTwice);
  desc->entries = &entry;
  desc->entry_count = 1;
  sl_message message;
  const auto refusal = [&] {
    EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_create(desc, nullptr, nullptr, &program, &message));
    return std::string(message.text).substr(std::strlen("program description 'forward': "));
  };
  parameter.alignment = 12;
  EXPECT_EQ("parameter 0 of the machine code of entry number 0 is aligned to 12 bytes", refusal());
  parameter = {{kSecond, 1}, 1};  // the entry has no arguments
  EXPECT_EQ(0U, refusal().find("the machine code of entry number 0: ")) << message.text;
  parameter = {{kFour, 1}, 1};
  own.blocks_z = {kSecond, 1};
  EXPECT_EQ(0U, refusal().find("the machine code of entry number 0: ")) << message.text;
  own.blocks_z = {kFour, 1};
  own.parameter_count = SL_MAX_DEVICE_PARAMETERS + 1;
  EXPECT_EQ(
      "the machine code of entry number 0 has 257 parameters and 0 arguments, at most 256, and 0 "
      "bytes of shared memory",
      refusal());
  own.size = 8;
  EXPECT_EQ(0U, refusal().find("sl_own_code of entry number 0 has 8 bytes")) << message.text;
  own.size = offsetof(sl_own_code, cooperative);  // its maker knew no such launches
  own.parameter_count = 1;
  EXPECT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, &message)) << message.text;
  sl_program_release(program);
  users.size = offsetof(sl_device_code, own);  // its maker knew no such code
  EXPECT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, &message)) << message.text;
}

TEST_F(DeviceCode, QueuesThatCannotBeAdopted) {
  make(0);
  sl_queue* queue = nullptr;
  sl_message message;
  EXPECT_EQ(SL_DEVICE_ERROR, sl_queue_adopt("noting", 2, nullptr, &queue, &message));
  EXPECT_STREQ("backend 'noting' refuses a queue of its device 2", message.text);
  EXPECT_EQ(SL_UNSUPPORTED, sl_queue_adopt("native", 0, nullptr, &queue, &message));
  EXPECT_STREQ("backend 'native' takes no queue of its caller", message.text);
}

TEST_F(DeviceCode, TheInterpreterRefusesIt) {
  make(0);
  sl_frame* frame = nullptr;
  int64_t extents[] = {1};
  sl_message message;
  ASSERT_EQ(SL_OK, sl_frame_lease(program, extents, &frame, &message));
  void* inputs[] = {x};
  const sl_args args{sizeof(sl_args), inputs, nullptr, extents, sl_interpreter()};
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  EXPECT_EQ(SL_UNSUPPORTED, sl_run(program, weights, frame, team, &args, &ctx, &message));
  sl_frame_return(frame);
}

}  // namespace
}  // namespace straightline::testing
