// SPDX-License-Identifier: Apache-2.0
// Frames that are used again in the order of one queue, and runs that are launched as graphs, with
// a device that only notes what is asked of it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "device_notes_for_tests.h"
#include "straightline/abi/queue.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

struct Notes : DeviceCalls {
  int64_t arenas = 0;   ///< alive
  bool passed = false;  ///< what a query answers
  bool captured = false;
  bool forgets = false;  ///< its graphs cannot be launched again as they are
  int graphs = 0;        ///< that were made
};
Notes& notes() {
  static Notes instance;
  return instance;
}
void note(const std::string& call) { notes().calls.push_back(call); }

constexpr int kSteps = 8;    ///< blocks of a run that says two steps before its kernel
constexpr int kGraph = 100;  ///< number of the first queue that gathers
int numberOf(void* queue) { return *static_cast<int*>(queue); }

void* allocate(int32_t, size_t bytes, size_t) {
  ++notes().arenas;
  return ::operator new(bytes);
}
void deallocate(int32_t, void* address, size_t) {
  --notes().arenas;
  ::operator delete(address);
}
void* queueCreate(int32_t) { return new int(-1); }
void queueDestroy(void* queue) {
  if (numberOf(queue) >= kGraph) {
    note("forget " + std::to_string(numberOf(queue)));
  }
  delete static_cast<int*>(queue);
}
void* queueAdopt(int32_t, void* native) {
  return new int(static_cast<int>(reinterpret_cast<intptr_t>(native)));
}
int32_t load(int32_t, const sl_device_code*, void** kernel, char*, size_t) {
  *kernel = &notes();
  return SL_OK;
}
void unload(void*) {}
int32_t start(void* queue, sl_ctx* ctx, void*, const sl_grid* grid, void* const*) {
  if (grid->blocks == 9) {
    sl_fail(ctx, SL_DEVICE_ERROR, 0, 0, 0);
    return SL_DEVICE_ERROR;
  }
  note("start x" + std::to_string(grid->blocks) + " on " + std::to_string(numberOf(queue)));
  return SL_OK;
}
void* record(void* queue) {
  note("record on " + std::to_string(numberOf(queue)));
  return new int(0);
}
int32_t recordAgain(void* queue, void*) {
  note("again on " + std::to_string(numberOf(queue)));
  return 1;
}
void wait(void*, void*) {}
void synchronize(void*) { note("synchronize"); }
void eventDestroy(void* event) {
  note("forget");
  delete static_cast<int*>(event);
}
int32_t query(void*) {
  note("query");
  return notes().passed;
}
int32_t launch(void* queue, sl_ctx* ctx, void* entry, void* const* pointers, int32_t,
               const int64_t* scalars, int32_t) {
  note("call on " + std::to_string(numberOf(queue)));
  reinterpret_cast<sl_thunk_fn>(entry)(ctx, sl_team{nullptr, 0, 1}, pointers, scalars);
  return ctx->status;
}
int32_t copy(void*, sl_ctx*, void*, const char*, const void*, const char*, size_t) {
  return SL_INTERNAL;
}
uint64_t queueOrder(void* queue) { return static_cast<uint64_t>(numberOf(queue)); }
int32_t queueCaptured(void*) { return notes().captured; }
void finish(int32_t device) {
  note("finish" + (device ? " " + std::to_string(device) : std::string()));
}
void* graphCreate(int32_t) {
  note("graph");
  return new int(kGraph + notes().graphs++);
}
int32_t graphBegin(void*, sl_ctx*, void* queue) {
  note("begin for " + std::to_string(numberOf(queue)));
  return SL_OK;
}
int32_t graphLaunch(void*, sl_ctx*) {
  note("launch");
  return SL_OK;
}

int32_t graphAgain(void* graph, sl_ctx*, void* queue) {
  if (notes().forgets) {
    return 0;
  }
  note("the same" + (numberOf(graph) > kGraph ? " of " + std::to_string(numberOf(graph)) : "") +
       " for " + std::to_string(numberOf(queue)));
  return 1;
}

void graphStep(void* graph, int32_t number, const int32_t* after, int32_t count) {
  note("step " + std::to_string(number) + (count ? " behind " + std::to_string(after[0]) : "") +
       " on " + std::to_string(numberOf(graph)));
}

const sl_device_desc kDevice = {sizeof(sl_device_desc),
                                "launching",
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
                                1,
                                queueOrder,
                                queueCaptured,
                                recordAgain,
                                finish,
                                graphCreate,
                                graphBegin,
                                graphLaunch,
                                graphAgain,
                                nullptr,
                                graphStep};
const sl_backend_desc kBackend = {
    sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "launching", nullptr, 0, &kDevice};
/// Its work is the host's, whatever the queue.
const sl_backend_desc kTail = {
    sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "launching_tail", nullptr, 0, nullptr};

void apart(sl_ctx*, sl_team, void* const*, const int64_t*) { note("apart"); }

/// A kernel, something that is no part of a graph, and the kernel again.
int32_t runAround(sl_ctx* ctx, sl_team, const sl_bindings* io) {
  const sl_grid grid = {sizeof(sl_grid), io->extents[0], 64, 0};
  sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, nullptr);
  sl_queue_call(ctx, io->queues[1], apart, nullptr, 0, nullptr, 0);
  return sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, nullptr);
}

/// The kernel, and then something that is no part of a graph.
int32_t prepareWithACall(sl_ctx* ctx, sl_team, const sl_bindings* io) {
  const sl_grid grid = {sizeof(sl_grid), 3, 64, 0};
  sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, nullptr);
  return sl_queue_call(ctx, io->queues[1], apart, nullptr, 0, nullptr, 0);
}

/// One kernel; the number of its blocks is the first extent, the arena has as many KiB.
int32_t runOne(sl_ctx* ctx, sl_team, const sl_bindings* io) {
  const sl_grid grid = {sizeof(sl_grid), io->extents[0], 64, 0};
  if (io->extents[0] == kSteps) {
    const int32_t after[] = {0};
    sl_queue_step(io->queues[1], 0, nullptr, 0);
    sl_queue_step(io->queues[1], 1, after, 1);
  }
  return sl_queue_start(ctx, io->queues[1], io->kernels[0], &grid, nullptr);
}

class Launch : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    sl_message message;
    ASSERT_EQ(SL_OK, sl_backend_register(&kBackend, &message)) << message.text;
    ASSERT_EQ(SL_OK, sl_backend_register(&kTail, &message)) << message.text;
  }
  void SetUp() override { notes() = {}; }
  void TearDown() override {
    sl_weights_release(weights);
    sl_program_release(program);
    for (sl_queue* queue : queues) {
      sl_queue_release(queue);
    }
    EXPECT_EQ(0, notes().arenas);
  }

  void make(bool hasArena, sl_statement_kind kind = SL_STATEMENT_LAUNCH, int64_t hostArena = 0,
            int32_t device = 0) {
    const int32_t space = builder.space("launching");
    builder.queue("launching");
    const int32_t blocks = builder.extent("blocks", 0, 9);
    builder.statement(kind, "mul", "model.py:3");
    builder.arena(space, builder.expression({{'s', blocks}, {'c', hasArena ? 1024 : 0}, {'*', 0}}));
    if (!hasArena) {
      builder.arena(space, builder.constant(0));
    }
    builder.arena(0, builder.constant(hostArena));
    sl_program_desc* desc = builder.build(body, early);
    const_cast<sl_statement*>(desc->statements)->queue = 1;
    code.blocks = builder.symbol(blocks);
    if (kind == SL_STATEMENT_CALL) {
      entry.kind = SL_ENTRY_EXTERNAL;
      entry.thunk = [](sl_ctx*, sl_team, void* const*, const int64_t*) { note("library"); };
      entry.code = nullptr;
    }
    desc->entries = &entry;
    desc->entry_count = 1;
    sl_message message;
    ASSERT_EQ(SL_OK, sl_program_create_on(desc, device, nullptr, nullptr, &program, &message))
        << message.text;
    ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, &message))
        << message.text;
  }

  sl_queue* stream(int number) {
    sl_queue* queue = nullptr;
    EXPECT_EQ(SL_OK,
              sl_queue_adopt("launching", 0, reinterpret_cast<void*>(static_cast<intptr_t>(number)),
                             &queue, nullptr));
    queues.push_back(queue);
    return queue;
  }

  std::string run(sl_queue* queue, int64_t blocks, sl_launch launch = SL_LAUNCH_STREAM,
                  int32_t expected = SL_OK) {
    Call call(program, weights, queue, launch, executor);
    EXPECT_EQ(expected, call({}, {}, {blocks})) << call.message.text;
    said = call.message.text;
    return notes().take();
  }

  const sl_device_image image = {sizeof(sl_device_image), "code", 4, 0};
  sl_device_code code = {sizeof(sl_device_code), "one", &image, {}, 64, 0, 0, nullptr};
  sl_entry entry = {sizeof(sl_entry), "kernel", "launching", SL_ENTRY_KERNEL, 1,    nullptr, 0,
                    nullptr,          0,        0,           nullptr,         &code};
  DescriptionBuilder builder;
  sl_entry_fn body = runOne;
  sl_entry_fn early = nullptr;  ///< prepare
  std::vector<sl_queue*> queues;
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  std::string said;
  const sl_executor* executor = nullptr;
};

TEST_F(Launch, OrderOfAQueue) {
  sl_queue* team = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_team(1, &team, nullptr));
  EXPECT_NE(0u, sl_queue_order(team));
  EXPECT_EQ(7u, sl_queue_order(stream(7)));
  EXPECT_EQ(0u, sl_queue_order(stream(0))) << "it has none";
  EXPECT_EQ(0, sl_queue_captured(team));
  EXPECT_EQ(0, sl_queue_captured(stream(7)));
  notes().captured = true;
  EXPECT_EQ(0u, sl_queue_order(stream(7))) << "what is captured runs whenever its graph does";
  EXPECT_EQ(1, sl_queue_captured(stream(7)));
  EXPECT_EQ(0, sl_queue_captured(team));
}

// Contract: E9.
TEST_F(Launch, OneStreamUsesOneFrameAndLeavesNoEventAndAsksNothing) {
  make(true);
  sl_queue* first = stream(5);
  EXPECT_EQ("start x2 on 5", run(first, 2));
  EXPECT_EQ("start x2 on 5", run(first, 2)) << "nothing is asked: it runs behind the first";
  EXPECT_EQ(1, notes().arenas);
}

TEST_F(Launch, OnlyAQueueThatGathersIsToldOfSteps) {
  make(true);
  EXPECT_EQ("start x8 on 5", run(stream(5), kSteps)) << "a stream runs the order of the calls";
  EXPECT_EQ(
      "graph, begin for 6, step 0 on 100, step 1 behind 0 on 100, start x8 on 100, launch, record "
      "on 6",
      run(stream(6), kSteps, SL_LAUNCH_GRAPH));
}

TEST_F(Launch, AnotherStreamTakesAFrameOnlyWhenItsQueueHasPassed) {
  make(true);
  sl_queue *first = stream(5), *second = stream(6);
  run(first, 2);
  EXPECT_EQ("start x2 on 6, record on 6", run(second, 2))
      << "the first left no event: a frame of its own";
  EXPECT_EQ(2, notes().arenas);
  EXPECT_EQ("start x2 on 5, record on 5", run(first, 2));
  EXPECT_EQ("start x2 on 6, again on 6", run(second, 2));
  EXPECT_EQ("query, query, start x2 on 7, record on 7", run(stream(7), 2)) << "both still running";
  notes().passed = true;
  EXPECT_EQ("query, start x2 on 8, again on 8", run(stream(8), 2)) << "the first that has passed";
  EXPECT_EQ(3, notes().arenas);
}

TEST_F(Launch, ALargeArenaLeavesAnEvent) {
  make(true);
  sl_queue* queue = stream(5);
  EXPECT_EQ("start x65537 on 5, record on 5", run(queue, 65537))
      << "64 MiB and more would be kept from other streams";
  EXPECT_EQ("start x2 on 5, again on 5", run(queue, 2)) << "it has grown";
}

TEST_F(Launch, AnUnknownOrderIsAnotherOrder) {
  make(true);
  sl_queue* queue = stream(5);
  run(queue, 2);
  EXPECT_EQ("start x2 on 0, record on 0", run(stream(0), 2));
  EXPECT_EQ("start x2 on 5, record on 5", run(queue, 2));
}

TEST_F(Launch, AFrameWithoutAnEventIsWaitedForWhenItGoes) {
  make(true);
  run(stream(5), 2);
  sl_weights_release(weights);
  weights = nullptr;
  notes().take();
  sl_program_release(program);
  program = nullptr;
  EXPECT_EQ("finish", notes().take().substr(0, 6));
}

TEST_F(Launch, AStreamThatIsSeenTwiceHasOneOrder) {
  make(true);
  run(stream(5), 2);
  EXPECT_EQ("start x2 on 5", run(stream(5), 2)) << "another queue over the same stream";
}

TEST_F(Launch, AnUnknownOrderIsNoOrder) {
  make(true);
  sl_queue* unknown = stream(0);
  run(unknown, 2);
  EXPECT_EQ("query, start x2 on 0, record on 0", run(unknown, 2));
}

TEST_F(Launch, AnArenaThatMustGrowWaitsForWhoStillUsesIt) {
  make(true);
  sl_queue* queue = stream(5);
  run(queue, 2);
  EXPECT_EQ("start x1 on 5", run(queue, 1));
  EXPECT_EQ("finish, start x4 on 5", run(queue, 4)) << "no event says when";
  run(stream(6), 8);
  run(queue, 1);
  EXPECT_EQ("synchronize, start x5 on 5, again on 5", run(queue, 5));
  EXPECT_EQ(2, notes().arenas);
}

TEST_F(Launch, WithAnArenaOfTheHostNothingIsInOrder) {
  make(true, SL_STATEMENT_LAUNCH, 64);
  sl_queue* queue = stream(5);
  run(queue, 2);
  EXPECT_EQ("query, start x2 on 5, record on 5", run(queue, 2));
  EXPECT_EQ("query, query", run(queue, 2, SL_LAUNCH_GRAPH, SL_UNSUPPORTED))
      << "a frame is looked for, and nothing is started";
}

TEST_F(Launch, ASecondRunOnOneLeaseRunsBehindTheFirst) {
  make(true);
  sl_queue *queue = stream(5), *other = stream(6);
  sl_frame* frame = nullptr;
  int64_t extents[] = {2};
  sl_message message;
  ASSERT_EQ(SL_OK, sl_frame_lease_on(program, queue, SL_LAUNCH_STREAM, extents, &frame, &message));
  const sl_args args{sizeof(sl_args), nullptr, nullptr, extents, nullptr, SL_LAUNCH_STREAM};
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  ASSERT_EQ(SL_OK, sl_run(program, weights, frame, queue, &args, &ctx, &message));
  ASSERT_EQ(SL_OK, sl_run(program, weights, frame, queue, &args, &ctx, &message));
  EXPECT_EQ("start x2 on 5, start x2 on 5", notes().take());
  ASSERT_EQ(SL_OK, sl_run(program, weights, frame, other, &args, &ctx, &message));
  EXPECT_EQ("finish, start x2 on 6, record on 6", notes().take())
      << "it was leased for another queue";
  sl_frame_return(frame);
  EXPECT_EQ("query, start x2 on 5", run(queue, 2)) << "the frame is not in the order of 5 any more";
}

TEST_F(Launch, AGraphIsMadeOnceAFrameAndGathersEveryRun) {
  make(false);
  sl_queue* queue = stream(5);
  EXPECT_EQ(1, sl_program_graph_nodes(program, nullptr));
  EXPECT_EQ("graph, begin for 5, start x2 on 100, launch", run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ("begin for 5, start x0 on 100, launch", run(queue, 0, SL_LAUNCH_GRAPH))
      << "a graph sees what starts nothing";
  EXPECT_EQ("start x2 on 5", run(queue, 2)) << "by stream";
  EXPECT_EQ("", run(queue, 0)) << "an empty grid starts nothing";
}

TEST_F(Launch, AGraphWithAnArenaIsGuardedByAnEventOfTheStream) {
  make(true);
  sl_queue* queue = stream(5);
  run(stream(6), 2);
  EXPECT_EQ("graph, begin for 5, start x2 on 100, launch, record on 5",
            run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ("begin for 5, start x1 on 100, launch, again on 5", run(queue, 1, SL_LAUNCH_GRAPH));
}

TEST_F(Launch, ARunOfWhatWasLaunchedLastGathersNothing) {
  make(true);
  sl_queue* queue = stream(5);
  EXPECT_EQ("graph, begin for 5, start x2 on 100, launch", run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ("the same for 5", run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ("the same for 5", run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH))
      << "another size";
  EXPECT_EQ("the same for 5", run(queue, 1, SL_LAUNCH_GRAPH));
  notes().forgets = true;
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH))
      << "the device does not know it any more";
  notes().forgets = false;
  executor = sl_interpreter();
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH))
      << "who interprets is shown every statement";
  executor = nullptr;
  run(queue, 9, SL_LAUNCH_GRAPH, SL_DEVICE_ERROR);
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH))
      << "the last run failed";
}

TEST_F(Launch, WhatComesBackHasAGraphOfItsOwn) {
  make(true);
  sl_queue* queue = stream(5);
  run(queue, 8, SL_LAUNCH_GRAPH);  // the arena grows no more
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH));
  EXPECT_EQ("begin for 5, start x2 on 100, launch", run(queue, 2, SL_LAUNCH_GRAPH))
      << "in place of the last";
  EXPECT_EQ("graph, begin for 5, start x1 on 101, launch", run(queue, 1, SL_LAUNCH_GRAPH))
      << "for the second time";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ("the same for 5", run(queue, 2, SL_LAUNCH_GRAPH));
    EXPECT_EQ("the same of 101 for 5", run(queue, 1, SL_LAUNCH_GRAPH));
  }
  EXPECT_EQ("begin for 5, start x3 on 101, launch", run(queue, 3, SL_LAUNCH_GRAPH))
      << "what is new: where the last that gathered went";
  EXPECT_EQ("the same for 5", run(queue, 2, SL_LAUNCH_GRAPH)) << "the other one stays";
}

TEST_F(Launch, WhereNothingComesBackThereIsOneGraph) {
  make(false);
  sl_queue* queue = stream(5);
  for (int64_t blocks : {1, 2, 3, 4, 5, 6, 7, 8, 0}) {
    run(queue, blocks, SL_LAUNCH_GRAPH);
  }
  EXPECT_EQ(1, notes().graphs);
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH))
      << "eight others were in between: it is forgotten";
}

TEST_F(Launch, AFrameHasFourGraphsAtMost) {
  make(false);
  sl_queue* queue = stream(5);
  for (int round = 0; round < 3; ++round) {
    for (int64_t blocks : {1, 2, 3, 4, 5}) {
      run(queue, blocks, SL_LAUNCH_GRAPH);
    }
  }
  EXPECT_EQ(4, notes().graphs);
  for (int round = 0; round < 2; ++round) {
    for (int64_t blocks : {5, 4, 3}) {
      run(queue, blocks, SL_LAUNCH_GRAPH);
    }
  }
  const std::string last = run(queue, 5, SL_LAUNCH_GRAPH) + run(queue, 4, SL_LAUNCH_GRAPH) +
                           run(queue, 3, SL_LAUNCH_GRAPH);
  EXPECT_EQ(last.find("begin"), std::string::npos)
      << last << ": the graphs that were used longest ago gave way";
  EXPECT_EQ(4, notes().graphs);
}

TEST_F(Launch, ARunThatIsGatheredAgainStaysWithItsGraph) {
  make(false);
  sl_queue* queue = stream(5);
  notes().forgets = true;
  EXPECT_EQ("graph, begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH));
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH));
  EXPECT_EQ(1, notes().graphs);
}

TEST_F(Launch, OtherWeightsForgetWhatAGraphKnows) {
  make(false);
  sl_queue* queue = stream(5);
  run(queue, 2, SL_LAUNCH_GRAPH);
  EXPECT_EQ("the same for 5", run(queue, 2, SL_LAUNCH_GRAPH));
  sl_weights* first = weights;
  ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
  notes().take();
  EXPECT_EQ("graph, begin for 5, start x2 on 101, launch", run(queue, 2, SL_LAUNCH_GRAPH))
      << "all addresses are the same; what stands there need not be";
  EXPECT_EQ("the same of 101 for 5", run(queue, 2, SL_LAUNCH_GRAPH));
  std::swap(first, weights);
  EXPECT_EQ("the same for 5", run(queue, 2, SL_LAUNCH_GRAPH)) << "they come back";
  EXPECT_EQ("begin for 5, start x3 on 100, launch", run(queue, 3, SL_LAUNCH_GRAPH))
      << "what is new goes to a graph of its weights";
  std::swap(first, weights);
  EXPECT_EQ("begin for 5, start x4 on 101, launch", run(queue, 4, SL_LAUNCH_GRAPH));
  std::swap(first, weights);
  EXPECT_EQ("begin for 5, start x5 on 100, launch", run(queue, 5, SL_LAUNCH_GRAPH));
  sl_weights_release(first);
}

TEST_F(Launch, AFifthSetOfWeightsTakesTheOldestGraphWhichForgets) {
  make(false);
  sl_queue* queue = stream(5);
  std::vector<sl_weights*> sets = {weights};
  std::string asked;
  for (int i = 0; i < 5; ++i) {
    asked = run(queue, 2, SL_LAUNCH_GRAPH);
    ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
    sets.push_back(weights);
    notes().take();
  }
  EXPECT_EQ("forget 100, graph, begin for 5, start x2 on 104, launch", asked);
  sets.pop_back();
  for (sl_weights* set : sets) {
    sl_weights_release(set);
  }
}

TEST_F(Launch, EachStreamKeepsItsGraphThoughNothingIsGuarded) {
  make(false);
  sl_queue *first = stream(5), *second = stream(6);
  sl_frame *a = nullptr, *b = nullptr;
  int64_t extents[] = {2};
  ASSERT_EQ(SL_OK, sl_frame_lease_on(program, first, SL_LAUNCH_GRAPH, extents, &a, nullptr));
  ASSERT_EQ(SL_OK, sl_frame_lease_on(program, second, SL_LAUNCH_GRAPH, extents, &b, nullptr));
  ASSERT_NE(a, b);
  sl_frame_return(a);
  sl_frame_return(b);
  for (int i = 0; i < 3; ++i) {
    sl_frame* again = nullptr;
    sl_queue* queue = i % 2 ? first : second;
    ASSERT_EQ(SL_OK, sl_frame_lease_on(program, queue, SL_LAUNCH_GRAPH, extents, &again, nullptr));
    EXPECT_EQ(i % 2 ? a : b, again);
    sl_frame_return(again);
  }
}

TEST_F(Launch, TheInterpreterStartsTheSameKernels) {
  make(true);
  sl_queue* queue = stream(5);
  executor = sl_interpreter();
  EXPECT_EQ("start x2 on 5", run(queue, 2));
  EXPECT_EQ("graph, begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH));
}

TEST_F(Launch, ALibraryIsCalledWhereItsQueueIs) {
  make(true, SL_STATEMENT_CALL);
  sl_queue* queue = stream(5);
  executor = sl_interpreter();
  EXPECT_EQ(1, sl_program_graph_nodes(program, nullptr));
  EXPECT_EQ("call on 5, library", run(queue, 2));
  EXPECT_EQ("graph, begin for 5, call on 100, library, launch", run(queue, 2, SL_LAUNCH_GRAPH));
}

TEST_F(Launch, AFailedStartLaunchesNothing) {
  make(false);
  sl_queue* queue = stream(5);
  EXPECT_EQ("graph, begin for 5", run(queue, 9, SL_LAUNCH_GRAPH, SL_DEVICE_ERROR));
  EXPECT_EQ("begin for 5, start x1 on 100, launch", run(queue, 1, SL_LAUNCH_GRAPH));
}

TEST_F(Launch, UnderACaptureKernelsAreStartedOneByOneAndTheArenaStays) {
  make(true);
  sl_queue* queue = stream(5);
  notes().captured = true;
  EXPECT_EQ("start x2 on 5", run(queue, 2, SL_LAUNCH_GRAPH)) << "no event, no query, no graph";
  EXPECT_EQ("start x2 on 5", run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ(2, notes().arenas) << "the captured graph refers to the first";
  notes().captured = false;
  EXPECT_EQ("graph, begin for 5, start x2 on 100, launch", run(queue, 2, SL_LAUNCH_GRAPH));
  EXPECT_EQ(3, notes().arenas);
  notes().captured = true;
  EXPECT_EQ("start x2 on 6", run(stream(6), 2))
      << "nothing is asked about the one that is still running";
  EXPECT_EQ(4, notes().arenas);
}

TEST_F(Launch, ARunIsCapturedAlsoOnAFrameThatWasLeasedForNoQueue) {
  make(true);
  sl_queue* queue = stream(5);
  sl_frame* frame = nullptr;
  int64_t extents[] = {2};
  ASSERT_EQ(SL_OK, sl_frame_lease(program, extents, &frame, nullptr));
  notes().captured = true;
  const sl_args args{sizeof(sl_args), nullptr, nullptr, extents, nullptr, SL_LAUNCH_GRAPH};
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  sl_message message;
  ASSERT_EQ(SL_OK, sl_run(program, weights, frame, queue, &args, &ctx, &message));
  sl_frame_return(frame);
  EXPECT_EQ("start x2 on 5", notes().take());
  notes().captured = false;
  run(queue, 2);
  EXPECT_EQ(2, notes().arenas);
}

TEST_F(Launch, WeightsWaitForRunsThatLeaveNoEvent) {
  make(false);
  run(stream(5), 2);
  sl_weights_release(weights);
  weights = nullptr;
  EXPECT_EQ("finish", notes().take());
}

TEST_F(Launch, WeightsWaitForTheirOwnDeviceAlone) {
  make(true, SL_STATEMENT_LAUNCH, 0, 1);
  notes().take();
  sl_weights_release(weights);
  weights = nullptr;
  EXPECT_EQ("finish 1", notes().take());
}

TEST_F(Launch, WeightsWaitForRunsWhoseFrameHasBeenLentAgain) {
  make(true);
  sl_queue* queue = stream(5);
  run(queue, 2);
  sl_frame* frame = nullptr;
  int64_t extents[] = {2};
  ASSERT_EQ(SL_OK, sl_frame_lease_on(program, queue, SL_LAUNCH_STREAM, extents, &frame, nullptr));
  sl_weights_release(weights);  // the run with them may still be going on
  weights = nullptr;
  EXPECT_EQ("finish", notes().take());
  sl_frame_return(frame);
}

TEST_F(Launch, WhatCannotBeAGraphSaysWhy) {
  make(false, SL_STATEMENT_IF);
  sl_message message;
  EXPECT_EQ(-1, sl_program_graph_nodes(program, &message));
  EXPECT_STREQ("mul at model.py:3 is control flow that depends on data", message.text);
  EXPECT_EQ("", run(stream(5), 2, SL_LAUNCH_GRAPH, SL_UNSUPPORTED));
  EXPECT_EQ(
      "the program cannot be launched as a graph: mul at model.py:3 is control flow that depends "
      "on data",
      said);
}

TEST_F(Launch, ACallThatIsNoPartOfAGraphStandsBetweenTwo) {
  entry.backend = "launching_tail";
  body = runAround;
  make(true, SL_STATEMENT_CALL);
  sl_message message;
  EXPECT_EQ(0, sl_program_graph_nodes(program, &message)) << "the call is no node";
  EXPECT_EQ(2, sl_program_graph_parts(program));
}

TEST_F(Launch, ACallThatIsNoPartOfAGraphIsMadeWhereItStands) {
  body = runAround;
  make(true);
  EXPECT_EQ(1, sl_program_graph_parts(program));
  EXPECT_EQ("start x2 on 5, call on 5, apart, start x2 on 5", run(stream(5), 2));
  EXPECT_EQ(
      "graph, begin for 6, start x2 on 100, launch, call on 6, apart, graph, begin for 6, start x2 "
      "on 101, launch, record on 6",
      run(stream(6), 2, SL_LAUNCH_GRAPH));
}

TEST_F(Launch, InPrepareSuchACallBeginsAndEndsWithNothingUnderWay) {
  early = prepareWithACall;
  make(false);
  EXPECT_EQ(
      "start x3 on -1, record on -1, synchronize, forget, call on -1, apart, finish, record on -1, "
      "synchronize, forget",
      notes().take());
}

TEST_F(Launch, AProgramOfTheHostHasNoGraph) {
  DescriptionBuilder host;
  ASSERT_EQ(SL_OK, sl_program_create(host.build(runOne), nullptr, nullptr, &program, nullptr));
  sl_message message;
  EXPECT_EQ(-1, sl_program_graph_nodes(program, &message));
  EXPECT_STREQ("program 'forward' has no queue of a device that takes graphs", message.text);
}

}  // namespace
}  // namespace straightline::testing
