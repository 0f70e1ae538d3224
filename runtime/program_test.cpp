// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "straightline/abi/straightline.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

int32_t runNothing(sl_ctx*, sl_team, const sl_bindings*) { return SL_OK; }

void countRelease(void* user) { ++*static_cast<int*>(user); }

// Contract: E1.
TEST(Program, ReleaseIsCalledExactlyOnceWhenTheLastReferenceGoes) {
  DescriptionBuilder builder;
  int released = 0;
  sl_program* program = nullptr;
  sl_message message;
  ASSERT_EQ(SL_OK, sl_program_create(builder.build(runNothing), countRelease, &released, &program,
                                     &message));
  sl_program_retain(program);
  sl_program_release(program);
  EXPECT_EQ(0, released);
  sl_program_release(program);
  EXPECT_EQ(1, released);
}

TEST(Program, DescriptionIsTheOneGiven) {
  DescriptionBuilder builder;
  sl_program* program = nullptr;
  const sl_program_desc* desc = builder.build(runNothing);
  ASSERT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, nullptr));
  EXPECT_EQ(desc, sl_program_description(program));
  sl_program_release(program);
}

// Contract: E3.
TEST(Program, AnotherAbiVersionIsRefusedWithBothNumbersAndNotReleased) {
  DescriptionBuilder builder;
  sl_program_desc* desc = builder.build(runNothing);
  desc->abi_version = 77;
  int released = 0;
  sl_program* program = nullptr;
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_program_create(desc, countRelease, &released, &program, &message));
  EXPECT_EQ(std::string("the program was compiled for abi_version 77 but this runtime has 8"),
            message.text);
  EXPECT_EQ(0, released);
  EXPECT_EQ(nullptr, program);
}

// Contract: E3.
TEST(Program, AShorterDescriptionIsRefusedWithBothSizes) {
  DescriptionBuilder builder;
  sl_program_desc* desc = builder.build(runNothing);
  desc->size = 8;
  sl_program* program = nullptr;
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_create(desc, nullptr, nullptr, &program, &message));
  EXPECT_EQ("the program description has 8 bytes but this runtime needs " +
                std::to_string(offsetof(sl_program_desc, fixed_size_advice)),
            message.text);
}

// Contract: E3.
TEST(Program, ADescriptionOfBeforeItGrewIsTakenAndItsNewFieldsAreNotRead) {
  DescriptionBuilder builder;
  const sl_expr four = builder.constant(4);
  builder.input("x", kFloat32, {four});
  sl_program_desc* desc = builder.build(runNothing);
  desc->size = offsetof(sl_program_desc, fixed_size_advice);
  desc->fixed_size_advice = desc->size_bounds_advice = reinterpret_cast<const char*>(1);
  sl_program* program = nullptr;
  ASSERT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, nullptr));
  const int64_t five = 5;
  float data[5] = {};
  const sl_tensor tensor{data, &five, nullptr, 1, kFloat32, 1, 0};
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_guard(program, &tensor, 1, nullptr, &message));
  EXPECT_STREQ(
      "input 'x': dim 0 is 5 but this program was compiled for 4; compile the module for this "
      "size, or with a named extent for the dim",
      message.text);
  sl_program_release(program);
}

// Contract: E3.
TEST(Program, ALongerDescriptionOfANewerCompilerIsTaken) {
  DescriptionBuilder builder;
  sl_program_desc* desc = builder.build(runNothing);
  desc->size += 64;
  sl_program* program = nullptr;
  ASSERT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, nullptr));
  sl_program_release(program);
}

TEST(Program, BrokenDescriptionsAreRefusedInWords) {
  struct Case {
    const char* expected;
    void (*damage)(sl_program_desc*, sl_buffer*);
  };
  const Case cases[] = {
      {"it has no run entry", [](sl_program_desc* d, sl_buffer*) { d->run = nullptr; }},
      {"sl_buffer number 0 has 3 bytes but this runtime expects",
       [](sl_program_desc*, sl_buffer* b) { b->size = 3; }},
      {"rank 9, which is outside [0, 8]", [](sl_program_desc*, sl_buffer* b) { b->rank = 9; }},
      {"is in space 4 of 1", [](sl_program_desc*, sl_buffer* b) { b->space = 4; }},
      {"'x' is input number 5, which is taken or outside [0, 1)",
       [](sl_program_desc*, sl_buffer* b) { b->index = 5; }},
      {"it has 1 buffers of role input but says 2",
       [](sl_program_desc* d, sl_buffer*) { d->input_count = 2; }},
      {"it is planned for 0 threads", [](sl_program_desc* d, sl_buffer*) { d->threads = 0; }},
      {"it has 3 extents but no table of them",
       [](sl_program_desc* d, sl_buffer*) { d->extents = nullptr, d->extent_count = 3; }},
  };
  for (const Case& c : cases) {
    DescriptionBuilder builder;
    builder.input("x", kFloat32, {builder.constant(4)});
    sl_program_desc* desc = builder.build(runNothing);
    c.damage(desc, const_cast<sl_buffer*>(desc->buffers));
    sl_program* program = nullptr;
    sl_message message;
    EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_create(desc, nullptr, nullptr, &program, &message))
        << c.expected;
    EXPECT_NE(nullptr, strstr(message.text, c.expected))
        << message.text << "\nexpected " << c.expected;
  }
}

TEST(Program, OnlyAKernelHasArgumentsOfAnySizes) {
  sl_argument argument = {
      sizeof(sl_argument), "a0", SL_ARGUMENT_INPUT, 0, kFloat32, -1, nullptr, nullptr};
  sl_entry entry{};
  entry.size = sizeof(entry);
  entry.name = "add";
  entry.backend = "native";
  entry.thunk = [](sl_ctx*, sl_team, void* const*, const int64_t*) {};
  entry.arguments = &argument;
  entry.argument_count = 1;
  auto create = [&](int32_t kind, int32_t rank) {
    DescriptionBuilder builder;
    sl_program_desc* desc = builder.build(runNothing);
    entry.kind = kind;
    argument.rank = rank;
    desc->entries = &entry;
    desc->entry_count = 1;
    sl_program* program = nullptr;
    sl_message message{};
    if (sl_program_create(desc, nullptr, nullptr, &program, &message) == SL_OK) {
      sl_program_release(program);
      return std::string();
    }
    return std::string(message.text);
  };
  EXPECT_EQ("", create(SL_ENTRY_KERNEL, -1));
  for (auto [kind, rank] : {std::pair(SL_ENTRY_KERNEL, -2), std::pair(SL_ENTRY_KERNEL, 9),
                            std::pair(SL_ENTRY_EXTERNAL, -1), std::pair(SL_ENTRY_PLAN, -1)}) {
    const std::string expected = "argument 0 of entry number 0 has rank " + std::to_string(rank);
    EXPECT_NE(std::string::npos, create(kind, rank).find(expected)) << create(kind, rank);
  }
}

TEST(Program, TheFirstQueueAndSpaceAreTheCallers) {
  const char* const names[] = {"elsewhere"};
  for (const bool queue : {false, true}) {
    DescriptionBuilder builder;
    sl_program_desc* desc = builder.build(runNothing);
    (queue ? desc->queues : desc->spaces) = names;
    sl_program* program = nullptr;
    sl_message message;
    EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_create(desc, nullptr, nullptr, &program, &message));
    EXPECT_STREQ(
        queue ? "program description 'forward': queue number 0 is 'elsewhere' but must be 'cpu'"
              : "program description 'forward': memory space number 0 is 'elsewhere' but must be "
                "'host'",
        message.text);
  }
}

TEST(Program, UnknownQueueAndSpaceAreUnsupported) {
  sl_message message;
  sl_program* program = nullptr;
  DescriptionBuilder queue;
  queue.queue("nowhere");
  EXPECT_EQ(SL_UNSUPPORTED,
            sl_program_create(queue.build(runNothing), nullptr, nullptr, &program, &message));
  EXPECT_STREQ("the program needs a queue of backend 'nowhere', which is not registered",
               message.text);
  DescriptionBuilder space;
  space.space("moon");
  EXPECT_EQ(SL_UNSUPPORTED,
            sl_program_create(space.build(runNothing), nullptr, nullptr, &program, &message));
  EXPECT_STREQ("the program needs memory space 'moon', but no registered backend has it",
               message.text);
}

TEST(Program, ResultOfAChainOfViewsHasTheSumOfTheirOffsets) {
  DescriptionBuilder builder;
  const int32_t b = builder.extent("b", 1, 64);
  const int32_t x = builder.input("x", kFloat32, {builder.symbol(b), builder.constant(8)});
  // rows 1..b of x, then columns 2..5 of those: 4 * 8 bytes and 4 * 2 bytes further in.
  const int32_t rows =
      builder.buffer(SL_ROLE_VIEW, "rows", kFloat32,
                     {builder.expression({{'s', b}, {'c', -1}, {'+', 0}}), builder.constant(8)},
                     {builder.constant(8), builder.constant(1)}, x, builder.constant(32));
  const int32_t view =
      builder.buffer(SL_ROLE_VIEW, "view", kFloat32,
                     {builder.expression({{'s', b}, {'c', -1}, {'+', 0}}), builder.constant(3)},
                     {builder.constant(8), builder.constant(1)}, rows, builder.constant(8));
  const int32_t y = builder.buffer(SL_ROLE_OUTPUT, "y", kFloat32, {builder.constant(2)});
  builder.result(y, y);
  builder.result(view, x);
  sl_program* program = nullptr;
  sl_message message;
  ASSERT_EQ(SL_OK,
            sl_program_create(builder.build(runNothing), nullptr, nullptr, &program, &message))
      << message.text;
  int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK], offset = -1;
  const int64_t extents[] = {5};
  sl_program_result(program, 1, extents, shape, strides, &offset);
  EXPECT_EQ(4, shape[0]);
  EXPECT_EQ(3, shape[1]);
  EXPECT_EQ(8, strides[0]);
  EXPECT_EQ(1, strides[1]);
  EXPECT_EQ(40, offset);
  sl_program_result(program, 0, extents, shape, strides, &offset);
  EXPECT_EQ(2, shape[0]);
  EXPECT_EQ(0, offset);
  sl_program_release(program);
}

}  // namespace
}  // namespace straightline::testing
