// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "straightline/abi/straightline.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

std::vector<void*>* destroyedHandles = nullptr;
bool failPrepare = false;
std::atomic<int32_t> prepareMembers{0};

int32_t runNothing(sl_ctx*, sl_team, const sl_bindings*) { return SL_OK; }

int32_t prepareAll(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  ++prepareMembers;
  if (team.index != 0) {
    return SL_OK;
  }
  auto** handles = const_cast<void**>(io->handles);
  handles[0] = const_cast<void*>(io->parameters[1]);
  if (failPrepare) {
    ctx->statement = 0;
    sl_fail(ctx, SL_OUT_OF_MEMORY, 1234, 0, 0);
    return SL_OUT_OF_MEMORY;
  }
  static_cast<float*>(io->arenas[0])[15] =
      *static_cast<const float*>(io->parameters[0]);  // scratch
  static_cast<float*>(io->prepared[0])[0] = static_cast<float*>(io->arenas[0])[15];
  return SL_OK;
}

class WeightsTest : public ::testing::Test {
 protected:
  WeightsTest() {
    destroyedHandles = &destroyed_;
    failPrepare = false;
    prepareMembers = 0;
    builder_.buffer(SL_ROLE_PARAMETER, "w", kFloat32, {});
    builder_.buffer(SL_ROLE_STATE, "running_mean", kFloat32, {});
    builder_.handle([](void* handle) { destroyedHandles->push_back(handle); });
    builder_.handle(
        // never made: never destroyed
        [](void* handle) { destroyedHandles->push_back(handle); });
    builder_.prepared(0, builder_.constant(100));
    builder_.scratch(0, builder_.constant(64));
    builder_.statement(SL_STATEMENT_CALL, "linear", "model.py:5");
    builder_.threads(2);
  }
  void SetUp() override {
    ASSERT_EQ(SL_OK, sl_program_create(
                         builder_.build(runNothing, prepareAll),
                         [](void* count) { ++*static_cast<int*>(count); }, &programReleased,
                         &program, nullptr));
  }

  float w = 3, mean = 0;
  void* parameters[2] = {&w, &mean};
  int programReleased = 0;
  int parametersReleased = 0;
  sl_program* program = nullptr;
  std::vector<void*> destroyed_;

 private:
  DescriptionBuilder builder_;
};

void countRelease(void* user) { ++*static_cast<int*>(user); }

// Contract: E4.
TEST_F(WeightsTest, PrepareRunsOnTheTeamAndEverythingIsGivenBack) {
  sl_weights* weights = nullptr;
  sl_message message;
  ASSERT_EQ(SL_OK, sl_weights_create(program, parameters, countRelease, &parametersReleased,
                                     &weights, &message))
      << message.text;
  EXPECT_EQ(2, prepareMembers);
  EXPECT_EQ(128u, sl_weights_prepared_bytes(weights)) << "100 bytes in whole cache lines";
  sl_program_release(program);
  EXPECT_EQ(0, programReleased) << "the weights keep the code that destroys handles";
  sl_weights_retain(weights);
  sl_weights_release(weights);
  EXPECT_EQ(0, parametersReleased);
  sl_weights_release(weights);
  EXPECT_EQ(1, parametersReleased);
  EXPECT_EQ(1, programReleased);
  EXPECT_EQ(std::vector<void*>{&mean}, destroyed_);
}

TEST_F(WeightsTest, AFailedPrepareIsToldAndLeavesNothing) {
  failPrepare = true;
  sl_weights* weights = nullptr;
  sl_message message;
  EXPECT_EQ(SL_OUT_OF_MEMORY, sl_weights_create(program, parameters, countRelease,
                                                &parametersReleased, &weights, &message));
  EXPECT_STREQ(
      "while preparing weights: out of memory: 1234 bytes were asked for: linear at model.py:5",
      message.text);
  EXPECT_EQ(nullptr, weights);
  EXPECT_EQ(0, parametersReleased) << "the caller still owns them";
  EXPECT_EQ(std::vector<void*>{&mean}, destroyed_)
      << "handles made before the failure are destroyed";
  sl_program_release(program);
  EXPECT_EQ(1, programReleased);
}

// Contract: E6.
TEST_F(WeightsTest, SeveralSetsOverOneProgram) {
  float other = 7;
  void* otherParameters[] = {&other, &mean};
  sl_weights* a = nullptr;
  sl_weights* b = nullptr;
  ASSERT_EQ(SL_OK, sl_weights_create(program, parameters, nullptr, nullptr, &a, nullptr));
  ASSERT_EQ(SL_OK, sl_weights_create(program, otherParameters, nullptr, nullptr, &b, nullptr));
  sl_weights_release(a);
  sl_weights_release(b);
  sl_program_release(program);
}

/// A program that prepares so many bytes, by `prepare`.
sl_program* sharing(DescriptionBuilder* builder, int64_t bytes,
                    int32_t (*prepare)(sl_ctx*, sl_team, const sl_bindings*)) {
  builder->prepared(0, builder->constant(bytes));
  sl_program* made = nullptr;
  EXPECT_EQ(SL_OK, sl_program_create(builder->build(runNothing, prepare), nullptr, nullptr, &made,
                                     nullptr));
  return made;
}

TEST(Weights, ProgramsShareWhatThoseBeforeThemPrepared) {
  static float* memory = nullptr;
  DescriptionBuilder builders[2];
  sl_program* programs[] = {
      sharing(&builders[0], 64,
              [](sl_ctx*, sl_team, const sl_bindings* io) -> int32_t {
                memory = static_cast<float*>(io->prepared[0]);
                memory[0] = 5;
                return SL_OK;
              }),
      sharing(&builders[1], 4096, [](sl_ctx*, sl_team, const sl_bindings* io) -> int32_t {
        EXPECT_EQ(memory, io->prepared[0]);
        EXPECT_EQ(5, memory[0]) << "what the first program prepared is there";
        memory[1023] = 6;
        return SL_OK;
      })};
  sl_shared_weights shared{};
  shared.size = sizeof shared;
  shared.programs = programs;
  shared.program_count = 2;
  sl_weights* weights[2] = {};
  int released = 0;
  ASSERT_EQ(SL_OK, sl_weights_create_shared(programs[0], nullptr, nullptr, &shared, countRelease,
                                            &released, &weights[0], nullptr));
  EXPECT_EQ(4096u, sl_weights_prepared_bytes(weights[0])) << "as many as the largest needs";
  shared.before = weights[0];
  ASSERT_EQ(SL_OK, sl_weights_create_shared(programs[1], nullptr, nullptr, &shared, countRelease,
                                            &released, &weights[1], nullptr));
  EXPECT_EQ(0u, sl_weights_prepared_bytes(weights[1]));
  sl_weights_release(weights[0]);
  EXPECT_EQ(0, released) << "the second uses its memory";
  EXPECT_EQ(6, memory[1023]);
  sl_weights_release(weights[1]);
  EXPECT_EQ(2, released);

  // The first was made without a word of the second.
  sl_message message;
  ASSERT_EQ(SL_OK, sl_weights_create(programs[0], nullptr, nullptr, nullptr, &weights[0], nullptr));
  shared.before = weights[0];
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_weights_create_shared(programs[1], nullptr, nullptr, &shared,
                                                          nullptr, nullptr, &weights[1], &message));
  EXPECT_STREQ(
      "the shared weights have 64 bytes in 'host' of device 0 but the program needs 4096 of device "
      "0",
      message.text);
  sl_weights_release(weights[0]);
  for (sl_program* program : programs) {
    sl_program_release(program);
  }
}

TEST(Weights, PrepareMayNotDependOnAnExtent) {
  DescriptionBuilder builder;
  const int32_t b = builder.extent("b", 1, 8);
  builder.prepared(0, builder.symbol(b));
  sl_program* program = nullptr;
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT,
            sl_program_create(builder.build(runNothing), nullptr, nullptr, &program, &message));
  EXPECT_STREQ(
      "program description 'forward': the prepared size of number 0 depends on an extent, but "
      "prepare runs before "
      "any is known",
      message.text);
}

}  // namespace
}  // namespace straightline::testing
