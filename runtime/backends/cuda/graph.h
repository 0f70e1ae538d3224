// SPDX-License-Identifier: Apache-2.0
// A run of a straight line as one CUDA graph of kernels, copies and what libraries do: a chain, in
// the order in which one stream would run them, or where the run says steps (`step`) what lies
// between these.
//
// The straight line is walked on every run. The first walk is kept and made a graph; a later one is
// compared with it, node by node, and only what differs (addresses, scalars, the grid) is written
// into the graph. A graph that is still running keeps what it was launched with, so nothing is
// waited for.
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
  bool waits;  ///< touches memory only after it has waited for the kernel before it
};

/// What a library is asked for: its entry with the values of its arguments. It enqueues on the
/// stream that it is given.
struct LibraryCall {
  sl_ctx* ctx;
  sl_thunk_fn entry;
  void* const* pointers;
  int32_t pointerCount;
  const int64_t* scalars;
  int32_t scalarCount;
  /// Calls it; a failure is in ctx as well.
  void run(Stream stream) const;
};

/// One owner at a time. A function that fails leaves nothing half done: the next run makes the
/// graph anew.
class LaunchGraph {
 public:
  explicit LaunchGraph(const OpenDevice& device) : device_(device), driver_(device.driver) {}
  LaunchGraph(const LaunchGraph&) = delete;
  LaunchGraph& operator=(const LaunchGraph&) = delete;
  /// Legal while the graph is running.
  ~LaunchGraph();

  /// A run begins. One that was begun and not launched is forgotten.
  void begin();
  /// What the run gathers from here up to the next call is step `number` (from 0 on, each once a
  /// run): its first node comes behind all of the steps `after`, which were begun before it (one
  /// that this graph has not seen was begun in an earlier part of the run, which has ended), or is
  /// a first one of the graph where there are none; the others behind the node before. Without such
  /// a call a node comes behind the one before it. A step without nodes hands on what it comes
  /// behind. `after` is read before this returns.
  void step(int32_t number, const int32_t* after, int32_t count);
  /// The run's next node: a grid, nothing where it has no blocks. `arguments` as those of
  /// cuLaunchKernel, read before this returns.
  Result kernel(const KernelFacts& facts, unsigned blocks, unsigned threads, unsigned sharedBytes,
                void* const* arguments);
  /// The run's next node: a copy within the device's memory, nothing where there are no bytes.
  Result copy(Address to, Address from, size_t bytes);
  /// The run's next node: what `call` enqueues, captured on a stream of the graph's own. It is
  /// captured again, and that child graph alone replaced, when a value differs from the last run's.
  /// A failure of the entry itself is in its ctx.
  Result library(const LibraryCall& call);
  /// Whether the last run gathered all of its nodes and launched them, so that `launch` would do
  /// just that again.
  bool isWhole() const { return exec_ && position_ == nodes_.size(); }
  /// Launches what was gathered since `begin`. A run of another number or other kinds of nodes
  /// makes the graph anew.
  Result launch(Stream stream);
  /// The same of a run that gathers no more; the next one makes the graph anew.
  Result launchOnce(Stream stream);

 private:
  struct Node {
    KernelFacts facts;  ///< kernel null: a copy, or a library's work
    unsigned blocks, threads, sharedBytes;
    /// its values in values_: the arguments; of a copy destination, source and bytes
    size_t first;
    size_t count;
    bool enabled;                           ///< whether the graph runs it: it has blocks or bytes
    size_t firstAfter = 0, countAfter = 0;  ///< in after_: the nodes that it comes behind
    bool empty = false;  ///< the graph has nothing there that could be made to run
    GraphNode handle = nullptr;
    /// not null: a library's work, its pointers and scalars are the values
    sl_thunk_fn entry = nullptr;
    Graph child = nullptr;  ///< what was captured of it; the graph has a copy
  };

  /// Whether the graph has just this next: what most launches of a walk are.
  bool isSame(const KernelFacts& facts, unsigned blocks, unsigned threads, unsigned sharedBytes,
              void* const* arguments) const;
  Result add(const Node& like, const uint64_t* values);
  /// Makes node `position_` of the graph like this one; both are of one kind.
  Result update(const Node& like, const uint64_t* values);
  Result take(const Node& like, const uint64_t* values);
  /// What the call enqueues, as a graph of its own; null with a failure in ctx.
  Result capture(const LibraryCall& call, Graph* captured);
  void drop(Node* node);
  /// Whether the node comes behind what this run's next one comes behind.
  bool isNext(const Node& node) const;
  /// Whether `update` can make a node of the graph like this one.
  bool fits(const Node& node, const Node& like) const;
  /// The run has had one more node.
  void advance();
  /// Forgets the graph and what the runs before had at and behind `keep`.
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
  Places after_;  ///< of all nodes what they come behind, one after the other
  Places ahead_;  ///< what the next node comes behind, in order
  /// of each step of this run that has ended, what comes behind it comes behind
  std::vector<Places> ends_;
  int32_t current_ = -1;            ///< the step of this run; -1: it has said none
  std::vector<GraphNode> handles_;  ///< of one node's ahead, while the driver reads them
  Stream captures_ = nullptr;       ///< made when the first library is captured
  Graph graph_ = nullptr;
  GraphExec exec_ = nullptr;  ///< null: nodes_ is what this run has had so far
  /// the graph has edges that let a kernel start before the one before it has ended
  bool programmatic_ = false;
  /// it may have none: a node that does nothing would not hold back the one behind it
  bool plain_ = false;
};

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_GRAPH_H
