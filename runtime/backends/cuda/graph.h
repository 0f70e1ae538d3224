// SPDX-License-Identifier: Apache-2.0
// A run of a program as one CUDA graph of kernels, copies and the work of libraries: a chain, in
// the order in which one stream would run them, or the dependences that the run declares by `step`.
//
// The program's code is executed in every run. The nodes of the first run become a graph; a later
// run is compared with it, node by node, and only what differs (addresses, scalars, the grid) is
// written into the graph. A graph that is still running keeps the values of its launch, so no run
// waits for another.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_GRAPH_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_GRAPH_H

#include <cstdint>
#include <vector>

#include "driver.h"
#include "straightline/abi/kernel.h"

namespace straightline::cuda {

/// A kernel as the backend has loaded it. Every argument is 8 bytes long.
struct KernelFacts {
  Kernel kernel;
  int32_t arguments;
  bool waits;                ///< touches memory only after it has waited for the kernel before it
  bool cooperative = false;  ///< its blocks wait for each other: all run at once
};

/// A grid of blocks; x is 0 where nothing is to run.
struct Blocks {
  unsigned x, y = 1, z = 1;
  bool operator==(const Blocks&) const = default;
};

/// A call of a library: its entry with the values of its arguments. The entry enqueues on the
/// stream that it gets.
struct LibraryCall {
  sl_ctx* ctx;
  sl_thunk_fn entry;
  void* const* pointers;
  int32_t pointerCount;
  const int64_t* scalars;
  int32_t scalarCount;
  /// Calls the entry; a failure is also written to ctx.
  void run(Stream stream) const;
};

/// One owner at a time. After a failure nothing is half done: the next run makes the graph
/// again.
class LaunchGraph {
 public:
  explicit LaunchGraph(const OpenDevice& device) : device_(device), driver_(device.driver) {}
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;
  /// Legal while the graph is running.
  ~LaunchGraph();

  /// Begins a run. A run that was begun and not launched is dropped.
  void begin();
  /// Begins step `number` of the run (from 0 on, each once a run), which lasts up to the next call.
  /// Its first node runs after all steps `after`, which were begun before it (a step unknown to
  /// this graph was begun in an earlier part of the run, which has ended), or at once where there
  /// are none; each other node runs after the previous one. Without such a call every node runs
  /// after the previous one. A step without nodes passes its predecessors on. `after` is read
  /// before this returns.
  void step(int32_t number, const int32_t* after, int32_t count);
  /// The run's next node: a kernel launch, nothing where it has no blocks. `arguments` as those of
  /// cuLaunchKernel, read before this returns.
  Result kernel(const KernelFacts& facts, Blocks blocks, unsigned threads, unsigned sharedBytes,
                void* const* arguments);
  /// The run's next node: a copy within the device's memory, nothing where there are no bytes.
  Result copy(Address to, Address from, size_t bytes);
  /// The run's next node: what `call` enqueues, captured on a stream of the graph's own. When a
  /// value differs from the last run's, it is captured again, and only that child graph is
  /// replaced. A failure of the entry itself is in its ctx.
  Result library(const LibraryCall& call);
  /// Whether the last run collected all of its nodes and launched them, so that `launch` would
  /// repeat exactly that run.
  bool isWhole() const { return exec_ && position_ == nodes_.size(); }
  /// Launches what was collected since `begin`. A run with another number or other kinds of nodes
  /// makes the graph again.
  Result launch(Stream stream);
  /// The same for a run that collects no more nodes; the next run makes the graph again.
  Result launchOnce(Stream stream);

 private:
  struct Node {
    KernelFacts facts;  ///< kernel null: a copy, or a library's work
    Blocks blocks;
    unsigned threads, sharedBytes;
    /// its values in values_: the arguments; of a copy destination, source and bytes
    size_t first;
    size_t count;
    bool enabled;                           ///< whether the graph runs it: it has blocks or bytes
    size_t firstAfter = 0, countAfter = 0;  ///< in after_: its predecessors
    bool empty = false;  ///< an empty node of the graph, which cannot be made to run
    GraphNode handle = nullptr;
    /// not null: a library's work, its pointers and scalars are the values
    sl_thunk_fn entry = nullptr;
    Graph child = nullptr;  ///< what was captured of it; the graph has a copy
  };

  /// Whether the graph's next node is equal to this one, as in most launches of a run.
  bool isSame(const KernelFacts& facts, Blocks blocks, unsigned threads, unsigned sharedBytes,
              void* const* arguments) const;
  Result add(const Node& like, const uint64_t* values);
  /// Updates node `position_` of the graph to this one; both are of one kind.
  Result update(const Node& like, const uint64_t* values);
  Result take(const Node& like, const uint64_t* values);
  /// What the call enqueues, as a graph of its own; null with a failure in ctx.
  Result capture(const LibraryCall& call, Graph* captured);
  void drop(Node* node);
  /// Whether the node has the same predecessors as this run's next node.
  bool isNext(const Node& node) const;
  /// Whether `update` can turn a node of the graph into this one.
  bool fits(const Node& node, const Node& like) const;
  /// Advances the run by one node.
  void advance();
  /// Drops the graph and the nodes from number `keep` on.
  void forget(size_t keep);
  Result build();
  Result addNode(Node* node);
  KernelNodeParameters kernelParameters(const Node& node);
  CopyParameters copyParameters(const Node& node) const;

  const OpenDevice& device_;
  const Driver& driver_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> values_;
  std::vector<void*> places_;            ///< of one node's values, while the driver reads them
  std::vector<uint64_t> given_;          ///< of the node that is being compared
  size_t position_ = 0;                  ///< how many nodes this run has had
  using Places = std::vector<uint32_t>;  ///< numbers of nodes
  Places after_;                         ///< the predecessors of all nodes, node by node
  Places ahead_;                         ///< the predecessors of the next node, in order
  /// for each step of this run that has ended: the predecessors of a node that follows it
  std::vector<Places> ends_;
  int32_t current_ = -1;            ///< the step that the run is in; -1: it has begun none
  std::vector<GraphNode> handles_;  ///< one node's predecessors, while the driver reads them
  Stream captures_ = nullptr;       ///< made when the first library is captured
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;  ///< null: nodes_ is what this run has had so far
  /// the graph has edges that let a kernel start before the one before it has ended
  bool programmatic_ = false;
  /// it may have no such edges: after a node that does nothing, a kernel would not wait for the
  /// nodes before that one
  bool plain_ = false;
};

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_GRAPH_H
