// SPDX-License-Identifier: Apache-2.0
// What LaunchGraph asks of the driver, with a driver that only keeps graphs and says what a launch
// of one would run.
#include "graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace straightline::cuda {

struct GraphNode_ {
  std::string text;  ///< "k(1, 2)x4"; what it would run
  std::vector<GraphNode_*> after;
  bool early = false;  ///< it may start before the one ahead has ended
  bool enabled = true;
};
struct Graph_ {
  std::vector<GraphNode_*> nodes;
};
/// Nodes by their handle in the graph, in order; a copy, as instantiating makes one.
struct GraphExec_ {
  std::vector<GraphNode_*> order;
  std::map<GraphNode_*, GraphNode_> nodes;
};
struct Kernel_ {
  std::string name;
  int arguments;
};

namespace {

/// What became of everything, and which call fails.
struct Seen {
  int updates = 0, instantiations = 0, launches = 0, graphs = 0, execs = 0;
  int captures = 0, streams = 0;
  std::string captured;  ///< what was enqueued on the stream since a capture began
  std::string fails;     ///< the call that fails, once
  std::string launched;  ///< what the last launch would have run
};
Seen seen;
std::atomic<int64_t> calls{0};

Result answer(const char* call) {
  if (seen.fails == call) {
    seen.fails.clear();
    return kOutOfMemory;
  }
  return kSuccess;
}

std::string textOf(const KernelNodeParameters& parameters) {
  std::string text = parameters.kernel->name + "(";
  for (int i = 0; i < parameters.kernel->arguments; ++i) {
    text +=
        (i ? ", " : "") + std::to_string(*static_cast<const uint64_t*>(parameters.arguments[i]));
  }
  const unsigned y = parameters.gridY, z = parameters.gridZ;
  return text + ")x" + std::to_string(parameters.gridX) +
         (y * z > 1 ? "x" + std::to_string(y) + "x" + std::to_string(z) : "") +
         (parameters.sharedBytes ? "s" + std::to_string(parameters.sharedBytes) : "");
}

std::string textOf(const CopyParameters& parameters) {
  return "copy(" + std::to_string(parameters.to.device) + ", " +
         std::to_string(parameters.from.device) + ", " + std::to_string(parameters.widthBytes) +
         ")";
}

Result add(GraphNode* node, Graph graph, const GraphNode* from, size_t count,
           const std::string& text) {
  *node = new GraphNode_{text, {from, from + count}};
  graph->nodes.push_back(*node);
  return answer("add");
}

/// Streams, captures, and captured work as a child node.
void takeStreamsAndCaptures(Driver& driver) {
  driver.currentContext.function = [](Context* context) {
    *context = nullptr;
    return kSuccess;
  };
  driver.exchangeCaptureMode.function = [](int*) { return kSuccess; };
  driver.streamCreate.function = [](Stream* stream, unsigned flags) {
    *stream = reinterpret_cast<Stream>(&seen);
    EXPECT_EQ(kStreamNonBlocking, flags);
    ++seen.streams;
    return kSuccess;
  };
  driver.streamDestroy.function = [](Stream) {
    --seen.streams;
    return kSuccess;
  };
  driver.captureBegin.function = [](Stream, int mode) {
    EXPECT_EQ(kRelaxed, mode);
    ++seen.captures;
    seen.captured.clear();
    return kSuccess;
  };
  driver.captureEnd.function = [](Stream, Graph* graph) {
    *graph = new Graph_{{new GraphNode_{seen.captured, {}}}};
    ++seen.graphs;
    return answer("capture");
  };
  driver.graphAddChild.function = [](GraphNode* node, Graph graph, const GraphNode* from,
                                     size_t count, Graph child) {
    return add(node, graph, from, count, "[" + child->nodes[0]->text + "]");
  };
  driver.graphSetChild.function = [](GraphExec exec, GraphNode node, Graph child) {
    ++seen.updates;
    const Result result = answer("child");
    exec->nodes.at(node).text = result == kSuccess ? "[" + child->nodes[0]->text + "]" : "?";
    return result;
  };
}

/// Graphs and their nodes; the text of a node describes it.
void makeGraphs(Driver& driver) {
  driver.graphCreate.function = [](Graph* graph, unsigned) {
    *graph = new Graph_;
    ++seen.graphs;
    return kSuccess;
  };
  driver.graphDestroy.function = [](Graph graph) {
    for (GraphNode node : graph->nodes) {
      delete node;
    }
    delete graph;
    --seen.graphs;
    return kSuccess;
  };
  driver.graphAddKernel.function = [](GraphNode* node, Graph graph, const GraphNode* from,
                                      size_t count, const KernelNodeParameters* parameters) {
    return add(node, graph, from, count, textOf(*parameters));
  };
  driver.graphAddCopy.function = [](GraphNode* node, Graph graph, const GraphNode* from,
                                    size_t count, const CopyParameters* parameters, Context) {
    return add(node, graph, from, count, textOf(*parameters));
  };
  driver.graphAddEmpty.function = [](GraphNode* node, Graph graph, const GraphNode* from,
                                     size_t count) { return add(node, graph, from, count, "-"); };
  driver.graphAddEdges.function = [](Graph, const GraphNode* from, const GraphNode* to,
                                     const EdgeData* data, size_t count) {
    (*to)->after.insert((*to)->after.end(), from, from + count);
    (*to)->early = data->fromPort == 1 && data->toPort == 0 && data->type == 1;
    return answer("edge");
  };
}

/// What a node has beside its parameters.
void takeAttributes(Driver& driver) {
  driver.graphSetAttribute.function = [](GraphNode node, unsigned id,
                                         const LaunchAttributeValue* value) {
    EXPECT_EQ(kCooperative, id);
    EXPECT_EQ(1U, value->value);
    node->text += " together";
    return answer("attribute");
  };
}

/// Graphs that can be launched.
void makeExecs(Driver& driver) {
  driver.graphInstantiate.function = [](GraphExec* exec, Graph graph, unsigned long long) {
    if (answer("instantiate") != kSuccess) {
      return kOutOfMemory;
    }
    *exec = new GraphExec_{graph->nodes, {}};
    for (GraphNode node : graph->nodes) {
      (*exec)->nodes[node] = *node;
    }
    ++seen.instantiations;
    ++seen.execs;
    return kSuccess;
  };
  driver.graphExecDestroy.function = [](GraphExec exec) {
    delete exec;
    --seen.execs;
    return kSuccess;
  };
}

/// Changes of a graph that can be launched.
void updateExecs(Driver& driver) {
  driver.graphSetKernel.function = [](GraphExec exec, GraphNode node,
                                      const KernelNodeParameters* parameters) {
    ++seen.updates;
    exec->nodes.at(node).text = textOf(*parameters);
    return answer("set");
  };
  driver.graphSetCopy.function = [](GraphExec exec, GraphNode node,
                                    const CopyParameters* parameters, Context) {
    ++seen.updates;
    exec->nodes.at(node).text = textOf(*parameters);
    return answer("set");
  };
  driver.graphEnable.function = [](GraphExec exec, GraphNode node, unsigned enabled) {
    ++seen.updates;
    exec->nodes.at(node).enabled = enabled != 0;
    return kSuccess;
  };
}

/// A launch records its nodes in order.
void launchExecs(Driver& driver) {
  driver.graphLaunch.function = [](GraphExec exec, Stream) {
    ++seen.launches;
    seen.launched.clear();
    for (size_t i = 0; i < exec->order.size(); ++i) {
      const GraphNode_& node = exec->nodes.at(exec->order[i]);
      const bool isBehindLast =
          i ? node.after == std::vector<GraphNode_*>{exec->order[i - 1]} : node.after.empty();
      // "{0,2}": the places of what it comes behind, where that is not the one before
      std::string after;
      for (GraphNode_* other : node.after) {
        const auto place =
            std::find(exec->order.begin(), exec->order.begin() + static_cast<ptrdiff_t>(i), other) -
            exec->order.begin();
        EXPECT_LT(place, static_cast<ptrdiff_t>(i)) << "behind one that is made later";
        after += (after.empty() ? "" : ",") + std::to_string(place);
      }
      seen.launched += (i ? (node.early ? " ~ " : " ") : "") +
                       (isBehindLast ? "" : "{" + after + "}") + (node.enabled ? node.text : "-");
    }
    return answer("launch");
  };
}

Driver makeDriver() {
  Driver driver;
#define SL_COUNT(member, symbol, kind, parameters) driver.member.count = &calls;
  SL_CUDA_DRIVER(SL_COUNT)
  SL_CUDA_NEWER_DRIVER(SL_COUNT)
#undef SL_COUNT
  takeStreamsAndCaptures(driver);
  makeGraphs(driver);
  takeAttributes(driver);
  makeExecs(driver);
  updateExecs(driver);
  launchExecs(driver);
  return driver;
}

/// An entry of a library: enqueues where it is told, or fails where its scalar is negative.
void product(sl_ctx* ctx, sl_team, void* const* pointers, const int64_t* scalars) {
  if (scalars[0] < 0) {
    ctx->status = SL_DEVICE_ERROR;
    return;
  }
  const bool apart = sl_cuda_stream() == &seen;
  seen.captured += (apart ? "" : "elsewhere ") +
                   std::to_string(reinterpret_cast<uintptr_t>(pointers[0])) + " by " +
                   std::to_string(scalars[0]);
}

class LaunchGraphTest : public ::testing::Test {
 protected:
  void SetUp() override { seen = {}; }
  void TearDown() override {
    graph.reset();
    EXPECT_EQ(0, seen.graphs);
    EXPECT_EQ(0, seen.execs) << "everything is given back";
    EXPECT_EQ(0, seen.streams);
  }

  /// A kernel of two addresses.
  Result run(Kernel kernel, uint64_t from, uint64_t to, unsigned blocks = 4,
             unsigned sharedBytes = 0, bool waits = false) {
    uint64_t values[] = {from, to};
    void* arguments[] = {&values[0], &values[1]};
    const Result result = graph->kernel({kernel, 2, waits}, {blocks}, 64, sharedBytes, arguments);
    values[0] = values[1] = 99;  // they are copied
    return result;
  }
  /// One run of two kernels with a copy between them.
  std::string runAll(uint64_t in, uint64_t out, unsigned blocks = 4, size_t bytes = 32) {
    graph->begin();
    EXPECT_EQ(kSuccess, run(&f, in, 10, blocks));
    EXPECT_EQ(kSuccess, graph->copy(20, 10, bytes));
    EXPECT_EQ(kSuccess, run(&g, 20, out));
    EXPECT_EQ(kSuccess, graph->launch(nullptr));
    return seen.launched;
  }
  /// A kernel, a library's work on address `at`, a kernel.
  std::string runLibrary(uintptr_t at, int64_t scalar, uint64_t out = 2) {
    graph->begin();
    run(&f, 1, at, 4, 0, true);
    void* const pointers[] = {reinterpret_cast<void*>(at)};
    sl_ctx ctx{};
    EXPECT_EQ(kSuccess, graph->library({&ctx, product, pointers, 1, &scalar, 1}));
    if (ctx.status != SL_OK) {
      return "failed";
    }
    run(&g, at, out, 4, 0, true);
    EXPECT_EQ(kSuccess, graph->launch(nullptr));
    return seen.launched;
  }
  /// Two kernels that wait for the one ahead.
  std::string runEarly(unsigned blocks) {
    graph->begin();
    run(&f, 1, 10, 4, 0, true);
    run(&g, 10, 20, blocks, 0, true);
    run(&f, 20, 2, 4, 0, true);
    EXPECT_EQ(kSuccess, graph->launch(nullptr));
    return seen.launched;
  }
  struct Part {
    int32_t step;  ///< it begins this one; -1: none
    std::vector<int32_t> after;
    std::vector<uint64_t> outs;  ///< of kernels that read 1
    bool waits = true;
    unsigned blocks = 4;
  };
  /// One run of kernels in steps.
  std::string runSteps(const std::vector<Part>& parts) {
    graph->begin();
    for (const Part& part : parts) {
      if (part.step >= 0) {
        graph->step(part.step, part.after.data(), static_cast<int32_t>(part.after.size()));
      }
      for (uint64_t out : part.outs) {
        EXPECT_EQ(kSuccess, run(&f, 1, out, part.blocks, 0, part.waits));
      }
    }
    EXPECT_EQ(kSuccess, graph->launch(nullptr));
    return seen.launched;
  }
  /// Updates and instantiations since the last time.
  std::string changes() {
    const std::string text =
        std::to_string(seen.updates) + " updates, " + std::to_string(seen.instantiations) + " made";
    seen.updates = seen.instantiations = 0;
    return text;
  }

  Kernel_ f{"f", 2}, g{"g", 2};
  const Driver driver = makeDriver();
  const OpenDevice device{driver, 0, nullptr, 9, 0, "", kSuccess};
  std::unique_ptr<LaunchGraph> graph = std::make_unique<LaunchGraph>(device);
};

TEST_F(LaunchGraphTest, TheFirstRunMakesAChainAndTheSameAgainOnlyLaunchesIt) {
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2));
  EXPECT_EQ("0 updates, 1 made", changes());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2));
  }
  EXPECT_EQ("0 updates, 0 made", changes());
  EXPECT_EQ(6, seen.launches);
}

TEST_F(LaunchGraphTest, APartIsLaunchedOnceAndForgotten) {
  runAll(1, 2);
  changes();
  graph->begin();
  run(&f, 1, 10);
  EXPECT_EQ(kSuccess, graph->launchOnce(nullptr));
  EXPECT_EQ("f(1, 10)x4", seen.launched);
  EXPECT_FALSE(graph->isWhole());
  EXPECT_EQ("0 updates, 1 made", changes());
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2));
  EXPECT_EQ("0 updates, 1 made", changes());
  graph->begin();
  EXPECT_EQ(kSuccess, graph->launchOnce(nullptr)) << "of nothing";
}

TEST_F(LaunchGraphTest, BlocksThatWaitForEachOtherAreSaidToRunAtOnce) {
  const auto launched = [&] {
    graph->begin();
    uint64_t values[] = {1, 2};
    void* arguments[] = {&values[0], &values[1]};
    EXPECT_EQ(kSuccess, graph->kernel({&f, 2, false, true}, {4}, 64, 0, arguments));
    EXPECT_EQ(kSuccess, run(&g, 2, 3));
    const Result result = graph->launch(nullptr);
    return result == kSuccess ? seen.launched : std::to_string(result);
  };
  seen.fails = "attribute";
  EXPECT_EQ("2", launched());
  EXPECT_EQ("f(1, 2)x4 together g(2, 3)x4", launched());
  EXPECT_EQ("f(1, 2)x4 together g(2, 3)x4", launched());
  EXPECT_EQ(1, seen.instantiations);
}

TEST_F(LaunchGraphTest, OnlyNodesThatDifferAreUpdated) {
  runAll(1, 2);
  changes();
  EXPECT_EQ("f(3, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(3, 2));
  EXPECT_EQ("1 updates, 0 made", changes());
  EXPECT_EQ("f(3, 10)x4 copy(20, 10, 32) g(20, 4)x4", runAll(3, 4));
  EXPECT_EQ("1 updates, 0 made", changes());
  EXPECT_EQ("f(3, 10)x7 copy(20, 10, 48) g(20, 4)x4", runAll(3, 4, 7, 48));
  EXPECT_EQ("2 updates, 0 made", changes());
}

TEST_F(LaunchGraphTest, BlocksInYAndZAreOfANode) {
  const auto runOnce = [&](Blocks blocks) {
    uint64_t values[] = {1, 2};
    void* arguments[] = {&values[0], &values[1]};
    graph->begin();
    EXPECT_EQ(kSuccess, graph->kernel({&f, 2, false}, blocks, 64, 0, arguments));
    EXPECT_EQ(kSuccess, graph->launch(nullptr));
    return seen.launched;
  };
  EXPECT_EQ("f(1, 2)x4x3x2", runOnce({4, 3, 2}));
  changes();
  EXPECT_EQ("f(1, 2)x4x3x2", runOnce({4, 3, 2}));
  EXPECT_EQ("0 updates, 0 made", changes());
  EXPECT_EQ("f(1, 2)x4x5x2", runOnce({4, 5, 2}));
  EXPECT_EQ("1 updates, 0 made", changes());
}

TEST_F(LaunchGraphTest, WhatHasNoBlocksDoesNothingUntilItHas) {
  EXPECT_EQ("- copy(20, 10, 32) g(20, 2)x4", runAll(1, 2, 0));
  EXPECT_EQ("1 updates, 1 made", changes());
  EXPECT_EQ("- copy(20, 10, 32) g(20, 2)x4", runAll(5, 2, 0))
      << "other addresses of what does nothing";
  EXPECT_EQ("0 updates, 0 made", changes());
  EXPECT_EQ("f(6, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(6, 2));
  EXPECT_EQ("2 updates, 0 made", changes());
  EXPECT_EQ("f(6, 10)x4 - g(20, 2)x4", runAll(6, 2, 4, 0));
  EXPECT_EQ("f(6, 10)x4 copy(20, 10, 8) g(20, 2)x4", runAll(6, 2, 4, 8));
  EXPECT_EQ("3 updates, 0 made", changes());
}

TEST_F(LaunchGraphTest, ACopyThatBeganWithNothingIsMadeWhenThereIsSomething) {
  EXPECT_EQ("f(1, 10)x4 - g(20, 2)x4", runAll(1, 2, 4, 0));
  EXPECT_EQ("f(1, 10)x4 - g(20, 2)x4", runAll(1, 2, 4, 0));
  EXPECT_EQ("0 updates, 1 made", changes());
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2));
  EXPECT_EQ("0 updates, 1 made", changes());
}

TEST_F(LaunchGraphTest, SharedMemoryIsPartOfTheGrid) {
  for (const unsigned bytes : {0u, 512u}) {
    graph->begin();
    run(&f, 1, 2, 4, bytes);
    ASSERT_EQ(kSuccess, graph->launch(nullptr));
  }
  EXPECT_EQ("f(1, 2)x4s512", seen.launched);
  EXPECT_EQ("1 updates, 1 made", changes());
}

TEST_F(LaunchGraphTest, OtherNodesMakeTheGraphAnew) {
  const auto runs = [&](std::vector<Kernel> kernels) {
    graph->begin();
    for (Kernel kernel : kernels) {
      EXPECT_EQ(kSuccess, run(kernel, 1, 2));
    }
    EXPECT_EQ(kSuccess, graph->launch(nullptr));
    return seen.launched;
  };
  EXPECT_EQ("f(1, 2)x4 g(1, 2)x4", runs({&f, &g}));
  EXPECT_EQ("f(1, 2)x4 f(1, 2)x4", runs({&f, &f})) << "another kernel";
  EXPECT_EQ("f(1, 2)x4 f(1, 2)x4 g(1, 2)x4", runs({&f, &f, &g})) << "more";
  EXPECT_EQ("f(1, 2)x4", runs({&f})) << "fewer";
  EXPECT_EQ("0 updates, 4 made", changes());
  EXPECT_EQ("f(1, 2)x4", runs({&f}));
  EXPECT_EQ("0 updates, 0 made", changes());
  seen.launches = 0;
  runs({});
  EXPECT_EQ(0, seen.launches) << "nothing to launch";
}

TEST_F(LaunchGraphTest, ARunThatEndsEarlyIsForgotten) {
  graph->begin();
  run(&f, 1, 10);  // a check failed behind it, say
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2));
  graph->begin();
  run(&f, 7, 10);
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2))
      << "what it had changed is changed back";
  EXPECT_EQ("2 updates, 1 made", changes());
}

TEST_F(LaunchGraphTest, KernelsThatWaitMayStartEarlyWhereBothDo) {
  EXPECT_EQ("f(1, 10)x4 ~ g(10, 20)x4 ~ f(20, 2)x4", runEarly(4));
  graph = std::make_unique<LaunchGraph>(device);
  graph->begin();
  run(&f, 1, 10, 4, 0, true);
  graph->copy(20, 10, 8);
  run(&g, 20, 30, 4, 0, true);
  run(&f, 30, 40, 4, 0, false);
  run(&g, 40, 50, 4, 0, true);
  ASSERT_EQ(kSuccess, graph->launch(nullptr));
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 8) g(20, 30)x4 f(30, 40)x4 g(40, 50)x4", seen.launched);
}

// Behind a node that does nothing a kernel would wait for that node alone, and not for the one
// ahead of it.
TEST_F(LaunchGraphTest, NoneStartsEarlyInAGraphWhereANodeMayDoNothing) {
  runEarly(4);
  changes();
  EXPECT_EQ("f(1, 10)x4 - f(20, 2)x4", runEarly(0));
  EXPECT_EQ("1 updates, 1 made", changes());
  EXPECT_EQ("f(1, 10)x4 g(10, 20)x4 f(20, 2)x4", runEarly(4)) << "it may happen again";
  EXPECT_EQ("2 updates, 0 made", changes());
}

TEST_F(LaunchGraphTest, StepsForkAndJoin) {
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ f(1, 4)x4 ~ {0}f(1, 5)x4 ~ {2,3}f(1, 6)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3, 4}}, {2, {0}, {5}}, {3, {1, 2}, {6}}}));
  EXPECT_EQ("0 updates, 1 made", changes());
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ f(1, 7)x4 ~ {0}f(1, 8)x4 ~ {2,3}f(1, 6)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3, 7}}, {2, {0}, {8}}, {3, {1, 2}, {6}}}))
      << "other addresses";
  EXPECT_EQ("2 updates, 0 made", changes());
  EXPECT_EQ("f(1, 2)x4 {}f(1, 3)x4 ~ {0,1}f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {}, {3}}, {2, {1, 0}, {4}}}))
      << "two that come behind nothing";
}

TEST_F(LaunchGraphTest, OtherEdgesMakeTheGraphAnew) {
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ {0}f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3}}, {2, {0}, {4}}}));
  changes();
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3}}, {2, {1}, {4}}}));
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ f(1, 4)x4", runSteps({{-1, {}, {2, 3, 4}}}))
      << "a run without steps";
  EXPECT_EQ("0 updates, 1 made", changes());
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ {0}f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3}}, {2, {0}, {4}}}));
  EXPECT_EQ("0 updates, 1 made", changes());
}

TEST_F(LaunchGraphTest, AStepWithoutNodesHandsOnWhatItComesBehind) {
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 ~ {0}f(1, 4)x4 ~ {1,2}f(1, 5)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3}}, {2, {0}, {4}}, {3, {1, 2}, {}}, {4, {3}, {5}}}));
  EXPECT_EQ("f(1, 2)x4 {}f(1, 5)x4", runSteps({{0, {}, {2}}, {1, {}, {}}, {2, {1}, {5}}}))
      << "behind nothing";
}

TEST_F(LaunchGraphTest, AKernelWaitsForAllThatItComesBehindOrForNone) {
  EXPECT_EQ("f(1, 2)x4 {}f(1, 3)x4 {0,1}f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {}, {3}, false}, {2, {0, 1}, {4}}}))
      << "one of those ahead does not let it come early";
  EXPECT_EQ("f(1, 2)x4 ~ f(1, 3)x4 {0}f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3}}, {2, {0}, {4}, false}}))
      << "one that does not wait itself, beside one that does";
  changes();
  EXPECT_EQ("f(1, 2)x4 - {0}f(1, 4)x4",
            runSteps({{0, {}, {2}}, {1, {0}, {3}, true, 0}, {2, {0}, {4}, false}}))
      << "one does nothing: no kernel of the graph comes early";
  EXPECT_EQ("1 updates, 1 made", changes());
}

TEST_F(LaunchGraphTest, ALibraryIsCapturedAgainOnlyWhereItsArgumentsChange) {
  EXPECT_EQ("f(1, 10)x4 [10 by 3] g(10, 2)x4", runLibrary(10, 3))
      << "no edge lets a library's kernels start early";
  EXPECT_EQ("0 updates, 1 made", changes());
  EXPECT_EQ("f(1, 10)x4 [10 by 3] g(10, 2)x4", runLibrary(10, 3));
  EXPECT_EQ("f(1, 10)x4 [10 by 3] g(10, 5)x4", runLibrary(10, 3, 5)) << "another node's address";
  EXPECT_EQ("1 updates, 0 made", changes());
  EXPECT_EQ(1, seen.captures);
  EXPECT_EQ("f(1, 10)x4 [10 by 4] g(10, 5)x4", runLibrary(10, 4, 5))
      << "that child alone is replaced";
  EXPECT_EQ("1 updates, 0 made", changes());
  EXPECT_EQ(2, seen.captures);
  seen.fails = "child";
  EXPECT_EQ("f(1, 10)x4 [10 by 5] g(10, 5)x4", runLibrary(10, 5, 5))
      << "the library took another way: the graph is made anew";
  EXPECT_EQ("1 updates, 1 made", changes());
  EXPECT_EQ("f(1, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(1, 2)) << "another kind of node";
  EXPECT_EQ("f(1, 10)x4 [10 by 5] g(10, 2)x4", runLibrary(10, 5));
  EXPECT_EQ("0 updates, 2 made", changes());
}

TEST_F(LaunchGraphTest, ALibraryThatFailsLeavesNothing) {
  EXPECT_EQ("failed", runLibrary(10, -1));
  EXPECT_EQ(1, seen.captures) << "the capture was ended";
  EXPECT_EQ("f(1, 10)x4 [10 by 3] g(10, 2)x4", runLibrary(10, 3));
  EXPECT_EQ("failed", runLibrary(10, -1));
  seen.fails = "capture";
  graph->begin();
  void* const pointers[] = {nullptr};
  const int64_t scalar = 1;
  sl_ctx ctx{};
  EXPECT_EQ(kOutOfMemory, graph->library({&ctx, product, pointers, 1, &scalar, 1}));
  EXPECT_EQ("f(1, 10)x4 [10 by 3] g(10, 2)x4", runLibrary(10, 3));
}

TEST_F(LaunchGraphTest, AnOlderDriverHasPlainEdges) {
  Driver older = makeDriver();
  older.graphAddEdges.function = nullptr;
  const OpenDevice olderDevice{older, 0, nullptr, 9, 0, "", kSuccess};
  graph = std::make_unique<LaunchGraph>(olderDevice);
  EXPECT_EQ("f(1, 10)x4 g(10, 20)x4 f(20, 2)x4", runEarly(4));
  graph.reset();  // before its driver
}

TEST_F(LaunchGraphTest, AfterAFailureTheGraphIsMadeAnew) {
  for (const char* call : {"add", "instantiate"}) {
    seen.fails = call;
    graph->begin();
    run(&f, 1, 2);
    EXPECT_EQ(kOutOfMemory, graph->launch(nullptr)) << call;
    EXPECT_EQ(0, seen.execs);
  }
  runAll(1, 2);
  changes();
  seen.fails = "set";
  graph->begin();
  EXPECT_EQ(kOutOfMemory, run(&f, 5, 10));
  EXPECT_EQ("f(6, 10)x4 copy(20, 10, 32) g(20, 2)x4", runAll(6, 2));
  EXPECT_EQ("1 updates, 1 made", changes());
}

}  // namespace
}  // namespace straightline::cuda
