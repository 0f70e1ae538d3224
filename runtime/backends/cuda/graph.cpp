// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>

namespace straightline::cuda {
namespace {

constexpr size_t kCopyValues = 3;

thread_local Stream libraryStream = nullptr;  ///< see sl_cuda_stream

/// The successor may start once every block of the kernel has allowed it, and waits for the
/// kernel's end by itself.
// from port "programmatic", to the default port, type "programmatic"
constexpr EdgeData kProgrammatic = {1, 0, 1, {}};

}  // namespace

void LibraryCall::run(Stream stream) const {
  Stream before = libraryStream;
  libraryStream = stream;
  entry(ctx, sl_team{nullptr, 0, 1}, pointers, scalars);
  libraryStream = before;
}

LaunchGraph::~LaunchGraph() {
  forget(0);
  if (captures_) {
    driver_.streamDestroy(captures_);
  }
}

void LaunchGraph::begin() {
  position_ = 0;
  current_ = -1;
  ahead_.clear();
  for (Places& end : ends_) {
    end.clear();
  }
  if (!exec_) {
    forget(0);
  }
}

void LaunchGraph::step(int32_t number, const int32_t* after, int32_t count) {
  if (current_ >= 0) {
    const auto place = static_cast<size_t>(current_);
    ends_.resize(std::max(ends_.size(), place + 1));
    ends_[place].assign(ahead_.begin(), ahead_.end());
  }
  current_ = number;
  ahead_.clear();
  for (int32_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(after[i]);
    if (place < ends_.size()) {
      ahead_.insert(ahead_.end(), ends_[place].begin(), ends_[place].end());
    }
  }
  std::sort(ahead_.begin(), ahead_.end());
  ahead_.erase(std::unique(ahead_.begin(), ahead_.end()), ahead_.end());
}

void LaunchGraph::advance() { ahead_.assign(1, static_cast<uint32_t>(position_++)); }

Result LaunchGraph::kernel(const KernelFacts& facts, Blocks blocks, unsigned threads,
                           unsigned sharedBytes, void* const* arguments) {
  const auto count = static_cast<size_t>(facts.arguments);
  if (isSame(facts, blocks, threads, sharedBytes, arguments)) {
    advance();
    return kSuccess;
  }
  given_.resize(std::max(given_.size(), count));
  for (size_t i = 0; i < count; ++i) {
    given_[i] = *static_cast<const uint64_t*>(arguments[i]);
  }
  return take({facts, blocks, threads, sharedBytes, 0, count, blocks.x > 0}, given_.data());
}

bool LaunchGraph::isSame(const KernelFacts& facts, Blocks blocks, unsigned threads,
                         unsigned sharedBytes, void* const* arguments) const {
  if (!exec_ || position_ >= nodes_.size()) {
    return false;
  }
  const Node& node = nodes_[position_];
  if (node.facts.kernel != facts.kernel || node.blocks != blocks || node.threads != threads ||
      node.sharedBytes != sharedBytes || !node.enabled || !isNext(node)) {
    return false;
  }
  const uint64_t* own = values_.data() + node.first;
  for (size_t i = 0; i < node.count; ++i) {
    if (own[i] != *static_cast<const uint64_t*>(arguments[i])) {
      return false;
    }
  }
  return true;
}

Result LaunchGraph::copy(Address to, Address from, size_t bytes) {
  const uint64_t values[kCopyValues] = {to, from, bytes};
  return take({{nullptr, 0, false}, {0}, 0, 0, 0, kCopyValues, bytes > 0}, values);
}

Result LaunchGraph::library(const LibraryCall& call) {
  const auto pointers = static_cast<size_t>(call.pointerCount);
  const size_t count = pointers + static_cast<size_t>(call.scalarCount);
  given_.resize(std::max(given_.size(), count));
  for (size_t i = 0; i < pointers; ++i) {
    given_[i] = reinterpret_cast<uint64_t>(call.pointers[i]);
  }
  for (size_t i = pointers; i < count; ++i) {
    given_[i] = static_cast<uint64_t>(call.scalars[i - pointers]);
  }
  Node like{{nullptr, 0, false}, {0}, 0, 0, 0, count, true};
  like.entry = call.entry;
  const bool isKnown = exec_ && position_ < nodes_.size() && fits(nodes_[position_], like);
  if (isKnown &&
      std::equal(given_.data(), given_.data() + count, values_.data() + nodes_[position_].first)) {
    advance();
    return kSuccess;
  }
  const Entered entered(device_);
  if (!entered) {
    return entered.result;
  }
  Graph captured = nullptr;
  const Result result = capture(call, &captured);
  if (result != kSuccess || !captured) {
    forget(0);
    return result;
  }
  if (isKnown && driver_.graphSetChild(exec_, nodes_[position_].handle, captured) == kSuccess) {
    Node& node = nodes_[position_];
    drop(&node);
    node.child = captured;
    std::copy(given_.data(), given_.data() + count, values_.data() + node.first);
    advance();
    return kSuccess;
  }
  if (exec_) {  // another kind of node, or the library took another path
    forget(position_);
  }
  like.child = captured;
  return add(like, given_.data());
}

Result LaunchGraph::capture(const LibraryCall& call, Graph* captured) {
  const RelaxedCapture relaxed(driver_);
  Result result = captures_ ? kSuccess : driver_.streamCreate(&captures_, kStreamNonBlocking);
  if (result == kSuccess) {
    result = driver_.captureBegin(captures_, kRelaxed);
  }
  if (result != kSuccess) {
    return result;
  }
  call.run(captures_);
  result = driver_.captureEnd(captures_, captured);
  const bool failed = __atomic_load_n(&call.ctx->status, __ATOMIC_ACQUIRE) != SL_OK;
  if ((failed || result != kSuccess) && *captured) {
    driver_.graphDestroy(*captured);
    *captured = nullptr;
  }
  return failed ? kSuccess : result;
}

void LaunchGraph::drop(Node* node) {
  if (node->child) {
    driver_.graphDestroy(node->child);
    node->child = nullptr;
  }
}

Result LaunchGraph::take(const Node& like, const uint64_t* values) {
  if (exec_ && position_ < nodes_.size() && fits(nodes_[position_], like)) {
    const Result result = update(like, values);
    advance();
    return result;
  }
  if (exec_) {
    plain_ = plain_ || !like.enabled;
    forget(position_);
  }
  return add(like, values);
}

bool LaunchGraph::isNext(const Node& node) const {
  return std::equal(ahead_.begin(), ahead_.end(),
                    after_.begin() + static_cast<ptrdiff_t>(node.firstAfter),
                    after_.begin() + static_cast<ptrdiff_t>(node.firstAfter + node.countAfter));
}

bool LaunchGraph::fits(const Node& node, const Node& like) const {
  return isNext(node) && node.facts.kernel == like.facts.kernel && node.entry == like.entry &&
         node.count == like.count && node.threads == like.threads &&
         (like.enabled ? !node.empty : !programmatic_);
}

Result LaunchGraph::add(const Node& like, const uint64_t* values) {
  nodes_.push_back(like);
  nodes_.back().first = values_.size();
  values_.insert(values_.end(), values, values + like.count);
  nodes_.back().firstAfter = after_.size();
  nodes_.back().countAfter = ahead_.size();
  after_.insert(after_.end(), ahead_.begin(), ahead_.end());
  advance();
  return kSuccess;
}

Result LaunchGraph::update(const Node& like, const uint64_t* values) {
  Node& node = nodes_[position_];
  uint64_t* own = values_.data() + node.first;
  if (node.enabled == like.enabled &&
      (!like.enabled || (node.blocks == like.blocks && node.sharedBytes == like.sharedBytes &&
                         std::equal(own, own + node.count, values)))) {
    return kSuccess;
  }
  const Entered entered(device_);
  Result result = entered.result;
  if (result == kSuccess && like.enabled) {
    node.blocks = like.blocks;
    node.sharedBytes = like.sharedBytes;
    std::copy(values, values + node.count, own);
    if (node.facts.kernel) {
      const KernelNodeParameters parameters = kernelParameters(node);
      result = driver_.graphSetKernel(exec_, node.handle, &parameters);
    } else {
      const CopyParameters parameters = copyParameters(node);
      result = driver_.graphSetCopy(exec_, node.handle, &parameters, device_.context);
    }
  }
  if (result == kSuccess && node.enabled != like.enabled) {
    result = driver_.graphEnable(exec_, node.handle, like.enabled ? 1 : 0);
    node.enabled = like.enabled;
  }
  if (result != kSuccess) {
    forget(0);
  }
  return result;
}

Result LaunchGraph::launch(Stream stream) {
  if (exec_ && position_ < nodes_.size()) {
    forget(position_);
  }
  if (nodes_.empty()) {
    return kSuccess;
  }
  const Entered entered(device_);
  if (!entered) {
    return entered.result;
  }
  if (!exec_) {
    if (const Result result = build(); result != kSuccess) {
      forget(0);
      return result;
    }
  }
  return driver_.graphLaunch(exec_, stream);
}

Result LaunchGraph::launchOnce(Stream stream) {
  const Result result = launch(stream);
  forget(0);
  return result;
}

void LaunchGraph::forget(size_t keep) {
  if (exec_) {
    driver_.graphExecDestroy(exec_);
  }
  if (graph_) {
    driver_.graphDestroy(graph_);
  }
  exec_ = nullptr;
  graph_ = nullptr;
  programmatic_ = false;
  for (size_t i = keep; i < nodes_.size(); ++i) {
    drop(&nodes_[i]);
  }
  if (keep < nodes_.size()) {
    values_.resize(nodes_[keep].first);
    after_.resize(nodes_[keep].firstAfter);
    nodes_.resize(keep);
  }
}

Result LaunchGraph::build() {
  const RelaxedCapture relaxed(driver_);
  Result result = driver_.graphCreate(&graph_, 0);
  const bool idle =
      std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return !node.enabled; });
  plain_ = plain_ || idle || !driver_.graphAddEdges.function;
  for (size_t i = 0; result == kSuccess && i < nodes_.size(); ++i) {
    result = addNode(&nodes_[i]);
  }
  if (result == kSuccess) {
    result = driver_.graphInstantiate(&exec_, graph_, 0);
  }
  for (size_t i = 0; result == kSuccess && i < nodes_.size(); ++i) {
    if (!nodes_[i].enabled && !nodes_[i].empty) {
      result = driver_.graphEnable(exec_, nodes_[i].handle, 0);
    }
  }
  return result;
}

Result LaunchGraph::addNode(Node* node) {
  const uint32_t* ahead = after_.data() + node->firstAfter;
  const auto waits = [](const Node& other) { return other.facts.kernel && other.facts.waits; };
  // All edges to a node are of one kind: programmatic where it waits for every predecessor by
  // itself, else it starts after all have ended.
  const bool early = node->countAfter > 0 && !plain_ && waits(*node) &&
                     std::all_of(ahead, ahead + node->countAfter,
                                 [&](uint32_t place) { return waits(nodes_[place]); });
  handles_.clear();
  for (size_t i = 0; i < node->countAfter; ++i) {
    handles_.push_back(nodes_[ahead[i]].handle);
  }
  const GraphNode* from = early ? nullptr : handles_.data();
  const size_t count = early ? 0 : handles_.size();
  Result result = kSuccess;
  // a copy of nothing may have no addresses
  node->empty = !node->facts.kernel && !node->enabled;
  if (node->entry) {
    result = driver_.graphAddChild(&node->handle, graph_, from, count, node->child);
  } else if (node->empty) {
    result = driver_.graphAddEmpty(&node->handle, graph_, from, count);
  } else if (node->facts.kernel) {
    const KernelNodeParameters parameters = kernelParameters(*node);
    result = driver_.graphAddKernel(&node->handle, graph_, from, count, &parameters);
    if (result == kSuccess && node->facts.cooperative) {
      const LaunchAttributeValue together{1, {}};
      result = driver_.graphSetAttribute.function
                   ? driver_.graphSetAttribute(node->handle, kCooperative, &together)
                   : kNotSupported;
    }
  } else {
    const CopyParameters parameters = copyParameters(*node);
    result = driver_.graphAddCopy(&node->handle, graph_, from, count, &parameters, device_.context);
  }
  for (size_t i = 0; result == kSuccess && early && i < handles_.size(); ++i) {
    result = driver_.graphAddEdges(graph_, &handles_[i], &node->handle, &kProgrammatic, 1);
    programmatic_ = true;
  }
  return result;
}

KernelNodeParameters LaunchGraph::kernelParameters(const Node& node) {
  places_.resize(std::max(places_.size(), node.count));
  for (size_t i = 0; i < node.count; ++i) {
    places_[i] = &values_[node.first + i];
  }
  KernelNodeParameters parameters{};
  parameters.gridX = std::max(node.blocks.x, 1u);  // one that is made while it does nothing
  parameters.gridY = node.blocks.y;
  parameters.gridZ = node.blocks.z;
  parameters.blockX = node.threads;
  parameters.blockY = parameters.blockZ = 1;
  parameters.sharedBytes = node.sharedBytes;
  parameters.arguments = places_.data();
  parameters.kernel = node.facts.kernel;
  parameters.context = device_.context;
  return parameters;
}

CopyParameters LaunchGraph::copyParameters(const Node& node) const {
  const uint64_t* values = values_.data() + node.first;
  CopyParameters parameters{};
  parameters.to.kind = parameters.from.kind = kDeviceMemory;
  parameters.to.device = values[0];
  parameters.from.device = values[1];
  parameters.widthBytes = parameters.to.pitch = parameters.from.pitch = values[2];
  parameters.height = parameters.depth = parameters.to.height = parameters.from.height = 1;
  return parameters;
}

}  // namespace straightline::cuda

void* sl_cuda_stream(void) { return straightline::cuda::libraryStream; }
