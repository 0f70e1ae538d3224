// SPDX-License-Identifier: Apache-2.0
// What the interpreter refuses, how it takes branches and loops, and one entry run on a team. What
// it computes is compared with the straight line in tests/codegen/golden_run_test.cpp and
// tests/run/three_ways_test.py.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "straightline/abi/queue.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

int32_t runNothing(sl_ctx*, sl_team, const sl_bindings*) { return SL_OK; }

/// Adds its scalar to the first float.
void addScalar(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  *static_cast<float*>(pointers[0]) += static_cast<float>(scalars[0]);
}

void failWithIndex(sl_ctx* ctx, sl_team, void* const*, const int64_t*) {
  sl_fail(ctx, SL_INDEX_ERROR, 9, 0, 3);
}

/// A program over one output, whose statements a test fills in.
class Interpreted : public ::testing::Test {
 protected:
  Interpreted() {
    output_ = builder_.buffer(SL_ROLE_OUTPUT, "y", kFloat32, {});
    arguments_[0] = {
        sizeof(sl_argument), "o0", SL_ARGUMENT_READWRITE, 0, kFloat32, 0, nullptr, nullptr};
    names_[0] = "n";
    entries_[0] = {sizeof(sl_entry), "add", "native", SL_ENTRY_KERNEL, 0, arguments_, 1,
                   names_,           1,     0,        addScalar};
    entries_[1] = {sizeof(sl_entry), "fail", "native", SL_ENTRY_KERNEL, 1, arguments_, 1,
                   nullptr,          0,      0,        failWithIndex};
  }

  void add(sl_statement_kind kind, std::vector<sl_expr> scalars = {}, const char* entry = "") {
    lists_.push_back(std::move(scalars));
    sl_statement s{};
    s.size = sizeof(s);
    s.kind = kind;
    s.phase = 1;
    s.entry = entry;
    s.op = "";
    s.source = "model.py:7";
    s.operands = &output_;
    s.outputs = kind == SL_STATEMENT_LAUNCH ? 1 : 0;
    s.scalars = lists_.back().data();
    s.scalar_count = static_cast<int32_t>(lists_.back().size());
    statements_.push_back(s);
  }
  sl_expr value(int64_t statement) { return builder_.expression({{'v', statement}}); }
  sl_expr number(int64_t n) { return builder_.constant(n); }

  /// Runs by the interpreter; y is in `result`.
  int32_t run(int32_t entries = 2) {
    sl_program_desc* desc = builder_.build(runNothing);
    desc->statements = statements_.data();
    desc->statement_count = static_cast<int32_t>(statements_.size());
    desc->entries = entries_;
    desc->entry_count = entries;
    sl_program* program = nullptr;
    sl_weights* weights = nullptr;
    sl_frame* frame = nullptr;
    sl_queue* queue = nullptr;
    EXPECT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, &message)) << message.text;
    EXPECT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, &message));
    EXPECT_EQ(SL_OK, sl_frame_lease(program, nullptr, &frame, &message));
    EXPECT_EQ(SL_OK, sl_queue_team(1, &queue, &message));
    void* outputs[] = {&result};
    const sl_args args{sizeof(sl_args), nullptr, outputs, nullptr, sl_interpreter()};
    sl_ctx ctx{};
    ctx.size = sizeof(ctx);
    const int32_t status = sl_run(program, weights, frame, queue, &args, &ctx, &message);
    sl_frame_return(frame);
    sl_weights_release(weights);
    sl_program_release(program);
    return status;
  }

  float result = 0;
  sl_message message{};
  sl_argument arguments_[1];

 private:
  DescriptionBuilder builder_;
  int32_t output_ = 0;
  std::deque<std::vector<sl_expr>> lists_;
  std::vector<sl_statement> statements_;
  const char* names_[1];
  sl_entry entries_[2];
};

TEST_F(Interpreted, CountsAndBranches) {
  add(SL_STATEMENT_FOR, {number(0), number(5), number(2)});  // 0: i = 0, 2, 4
  add(SL_STATEMENT_LAUNCH, {value(0)}, "add");               // 1
  add(SL_STATEMENT_IF, {value(0)});                          // 2: i != 0
  add(SL_STATEMENT_LAUNCH, {number(100)}, "add");            // 3
  add(SL_STATEMENT_ELSE);                                    // 4
  add(SL_STATEMENT_LAUNCH, {number(1000)}, "add");           // 5
  add(SL_STATEMENT_END);                                     // 6
  add(SL_STATEMENT_END);                                     // 7
  add(SL_STATEMENT_IF, {number(0)});                         // 8
  add(SL_STATEMENT_LAUNCH, {number(7)}, "add");              // 9
  add(SL_STATEMENT_END);                                     // 10
  add(SL_STATEMENT_LAUNCH, {number(20000)}, "add");          // 11
  ASSERT_EQ(SL_OK, run()) << message.text;
  EXPECT_EQ(0 + 2 + 4 + 2 * 100 + 1000 + 20000, result);
}

TEST_F(Interpreted, StopsAtTheFirstFailure) {
  add(SL_STATEMENT_LAUNCH, {number(1)}, "add");
  add(SL_STATEMENT_LAUNCH, {}, "fail");
  add(SL_STATEMENT_LAUNCH, {number(1)}, "add");
  EXPECT_EQ(SL_INDEX_ERROR, run());
  EXPECT_EQ(1, result);
  EXPECT_NE(std::string::npos, std::string(message.text).find("index 9 is out of range [0, 4)"))
      << message.text;
  EXPECT_NE(std::string::npos, std::string(message.text).find("model.py:7")) << message.text;
}

TEST_F(Interpreted, ChecksConditions) {
  add(SL_STATEMENT_FOR, {number(0), number(1000), number(1)});
  add(SL_STATEMENT_LAUNCH, {number(1)}, "add");
  add(SL_STATEMENT_CHECK, {value(0)});
  add(SL_STATEMENT_END);
  EXPECT_EQ(SL_CHECK_FAILED, run());  // i = 0 is no truth
  EXPECT_EQ(1, result);
}

TEST_F(Interpreted, RefusesWhatDoesNotAddUp) {
  add(SL_STATEMENT_LAUNCH, {number(1)}, "add");
  EXPECT_EQ(SL_UNSUPPORTED, run(0));
  EXPECT_STREQ(
      "program 'forward' cannot be interpreted: statement 0 calls an entry that the program does "
      "not list: add",
      message.text);
  add(SL_STATEMENT_LAUNCH, {}, "add");
  EXPECT_EQ(SL_UNSUPPORTED, run());
  EXPECT_NE(std::string::npos,
            std::string(message.text).find("statement 1 gives another number of arguments"))
      << message.text;
}

TEST_F(Interpreted, GivesAnArgumentOfRankMinusOneBuffersOfAnySizes) {
  add(SL_STATEMENT_LAUNCH, {number(1)}, "add");
  arguments_[0].rank = 1;
  const sl_expr four = number(4);
  arguments_[0].extents = arguments_[0].strides = &four;
  EXPECT_EQ(SL_INTERNAL, run());
  arguments_[0].rank = -1;
  arguments_[0].extents = arguments_[0].strides = nullptr;
  EXPECT_EQ(SL_OK, run()) << message.text;
  EXPECT_EQ(1, result);
  // The type is checked still.
  arguments_[0].dtype.bits = 64;
  EXPECT_EQ(SL_INTERNAL, run());
}

TEST_F(Interpreted, RefusesRegionsWithoutEnd) {
  add(SL_STATEMENT_IF, {number(1)});
  EXPECT_EQ(SL_UNSUPPORTED, run());
  EXPECT_STREQ("program 'forward' cannot be interpreted: statement 0 opens a region without an end",
               message.text);
}

TEST_F(Interpreted, RefusesAnEndTooMany) {
  add(SL_STATEMENT_END);
  EXPECT_EQ(SL_UNSUPPORTED, run());
  EXPECT_STREQ("program 'forward' cannot be interpreted: statement 0 ends no region", message.text);
}

void countThreads(sl_ctx*, sl_team team, void* const* pointers, const int64_t* scalars) {
  static_cast<std::atomic<int>*>(pointers[0])
      ->fetch_add(team.size * 10 + static_cast<int>(scalars[0]));
}

TEST(QueueRun, RunsOnAllThreadsOrOnOne) {
  sl_queue* queue = nullptr;
  sl_message message{};
  ASSERT_EQ(SL_OK, sl_queue_team(2, &queue, &message)) << message.text;
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  std::atomic<int> count{0};
  void* pointers[] = {&count};
  const int64_t scalars[] = {1};
  for (int i = 0; i < 100; ++i) {
    count = 0;
    sl_queue_run(&ctx, queue, countThreads, pointers, scalars, 0);
    EXPECT_EQ(2 * 21, count);
    count = 0;
    sl_queue_run(&ctx, queue, countThreads, pointers, scalars, 1);
    EXPECT_EQ(11, count);
  }
}

}  // namespace
}  // namespace straightline::testing
