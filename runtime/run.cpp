// SPDX-License-Identifier: Apache-2.0
// sl_run: binds, runs, reports a failure. A steady-state run allocates no heap memory, takes no
// lock and compares no strings.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "boundary.h"
#include "failure.h"
#include "frame.h"
#include "interpreter_plan.h"
#include "message_writer.h"
#include "program.h"
#include "queue.h"
#include "weights.h"

namespace straightline {
namespace {

/// The fields of a caller's context that are read; the fields after them exist only in a frame's
/// context.
constexpr size_t kContextBytes = offsetof(sl_ctx, overlap);

/// A team of one for callers that pass a device's queue: host statements run on the calling thread.
sl_queue& callerAlone() {
  static Team team(1);
  static sl_queue queue{&team, nullptr, nullptr, 0};
  return queue;
}

__attribute__((noinline, cold)) int32_t reportMisuse(const char* text, sl_message* message) {
  MessageWriter(message).text(text);
  return SL_INVALID_ARGUMENT;
}

__attribute__((noinline, cold)) int32_t reportDevices(const char* what, int32_t number,
                                                      const sl_program& program,
                                                      sl_message* message) {
  MessageWriter(message)
      .text(what)
      .text(" on device ")
      .number(number)
      .text(" but the program is on device ")
      .number(program.device);
  return SL_INVALID_ARGUMENT;
}

__attribute__((noinline, cold)) int32_t reportContextSize(const sl_ctx& ctx, sl_message* message) {
  MessageWriter(message)
      .text("sl_ctx has ")
      .number(static_cast<int64_t>(ctx.size))
      .text(" bytes but this runtime needs ")
      .number(kContextBytes);
  return SL_INVALID_ARGUMENT;
}

__attribute__((noinline, cold)) int32_t reportNoGraph(const sl_program& program,
                                                      sl_message* message) {
  MessageWriter(message)
      .text("the program cannot be launched as a graph: ")
      .text(program.whyNoGraph.c_str());
  return SL_UNSUPPORTED;
}

/// Whether the arenas are large enough for these extents (true for the extents of the lease).
bool fits(const sl_program& program, const sl_frame& frame, const int64_t* extents) {
  if (program.staticArenas) {
    return true;
  }
  for (size_t i = 0; i < frame.arenas.size(); ++i) {
    const int64_t bytes = sl_expr_value(&program.desc->arena_bytes[i], extents);
    if (bytes > 0 && static_cast<size_t>(bytes) > frame.arenas[i].bytes) {
      return false;
    }
  }
  return true;
}

/// Returns the host queue of a call and fills the table of queues that emitted text reads: the
/// frame's device queues, with the caller's own stream instead of the one of the same device. Null,
/// with a message, when a device cannot make a queue.
sl_queue* bindQueues(const sl_program& program, sl_frame* frame, sl_queue* queue,
                     sl_message* message) {
  sl_queue* team = queue->team ? queue : &callerAlone();
  for (size_t i = 0; i < frame->queues.size(); ++i) {
    const sl_device_desc* device = program.queueDevices[i];
    if (!device) {
      frame->queues[i] = team;
    } else if (queue->device == device) {
      frame->queues[i] = queue;
    } else {
      sl_queue* own = &frame->deviceQueues[i];
      if (!own->handle && !openDeviceQueue(device, program.device, own)) {
        MessageWriter(message)
            .text("backend '")
            .text(program.desc->queues[i])
            .text("' could not make a queue on its device ")
            .number(program.device);
        return nullptr;
      }
      frame->queues[i] = own;
    }
  }
  return team;
}

/// Whether a run on `queue` becomes part of a graph that the caller captures, and the frame has to
/// be kept for that graph.
bool isCaptured(const sl_program& program, const sl_frame& frame, const sl_queue& queue,
                int32_t launch) {
  if (program.orderedQueue && !program.deviceArena && launch == SL_LAUNCH_STREAM) {
    return false;
  }
  if (frame.leasedFor == &queue) {
    return frame.captured;
  }
  return queue.device && queue.device->queue_captured && queue.device->queue_captured(queue.handle);
}

/// True when no work enqueued on a queue of this device uses the frame.
bool leavesFrameAlone(const sl_device_desc* device, const sl_program& program,
                      const sl_frame& frame) {
  if (program.orderedQueue) {
    return !program.deviceArena;
  }
  for (size_t i = 0; i < frame.arenas.size(); ++i) {
    if (frame.arenas[i].bytes > 0 && program.spaceDevices[i]) {
      return false;
    }
  }
  return device->independent != 0;
}

/// Records an event on each device queue, so that the frame is not leased again before the queue
/// has passed this point.
void recordQueues(const sl_program& program, sl_frame* frame) {
  frame->unmarked = program.deviceArena && needsNoMark(*frame);
  if (frame->unmarked) {
    return;
  }
  for (size_t i = 0; i < frame->queues.size(); ++i) {
    if (!program.queueDevices[i] || leavesFrameAlone(program.queueDevices[i], program, *frame)) {
      continue;
    }
    const auto* queue = static_cast<const sl_queue*>(frame->queues[i]);
    QueueMark& mark = frame->marks[i];
    const bool again = mark.event && mark.device == queue->device && queue->device->record_again &&
                       queue->device->record_again(queue->handle, mark.event);
    if (!again) {
      if (mark.event) {
        mark.device->event_destroy(mark.event);
      }
      mark = {queue->device->record(queue->handle), queue->device, false};
    }
    mark.pending = mark.event != nullptr;
  }
}

/// Has devices that keep failures by themselves write the first one to `ctx`.
void askForFailures(const sl_program& program, const sl_frame& frame, sl_ctx* ctx) {
  for (size_t i = 0; i < frame.queues.size(); ++i) {
    const sl_device_desc* device = program.queueDevices[i];
    if (device && device->failure) {
      device->failure(static_cast<const sl_queue*>(frame.queues[i])->handle, ctx);
    }
  }
}

__attribute__((noinline, cold)) int32_t reportFailure(const sl_program& program, sl_ctx* ctx,
                                                      int32_t result, const int64_t* extents,
                                                      sl_message* message) {
  if (ctx->status == SL_OK) {
    ctx->status = result;
  }
  describeFailure(*program.desc, *ctx, "", extents, message);
  return ctx->status;
}

/// Runs the program's code on all threads of the team, or the executor that the caller passed.
int32_t execute(const sl_program& program, Team* team, const sl_executor* executor, sl_ctx* ctx,
                const sl_bindings& bindings) {
  if (executor) {
    return executor->execute(executor->user, &program, 1, ctx, &bindings);
  }
  if (program.alone) {
    return program.desc->run(ctx, sl_team{nullptr, 0, 1}, &bindings);
  }
  return team->run(program.desc->run, ctx, &bindings, program.brief, program.teamHistory.get());
}

/// Everything that the program's code reads, as words. Words that change most often come first, so
/// that a difference is found early.
class Seen {
 public:
  Seen(const sl_program_desc& desc, const sl_bindings& bindings, uint64_t weights)
      : tables_{{{bindings.outputs, desc.output_count},
                 {bindings.inputs, desc.input_count},
                 {bindings.extents, desc.extent_count},
                 {bindings.arenas, desc.space_count},
                 {bindings.parameters, desc.parameter_count},
                 {bindings.prepared, desc.space_count},
                 {bindings.handles, desc.handle_count}}},
        weights_(weights) {
    for (const Table& table : tables_) {
      words_ += static_cast<size_t>(table.count);
    }
  }

  /// Whether the graph was last updated for these weights.
  bool isOf(const LaunchedGraph& graph) const { return graph.weights == weights_; }

  bool isIn(const LaunchedGraph& graph) const {
    if (!graph.isLaunched || !isOf(graph)) {
      return false;
    }
    const uint64_t* known = graph.seen.data();
    for (const Table& table : tables_) {
      if (table.count > 0 && std::memcmp(known, table.values, bytesOf(table)) != 0) {
        return false;
      }
      known += table.count;
    }
    return true;
  }

  /// Before a graph is updated for another set of weights it forgets its arguments: handles of the
  /// old set may have been replaced by others at the same addresses.
  void writeTo(LaunchedGraph* graph) const {
    if (graph->weights != weights_) {
      closeDeviceQueue(&graph->queue);
    }
    graph->weights = weights_;
    graph->seen.resize(words_);  // its first run allocates
    uint64_t* to = graph->seen.data();
    for (const Table& table : tables_) {
      if (table.count > 0) {
        std::memcpy(to, table.values, bytesOf(table));
      }
      to += table.count;
    }
  }

  /// FNV-1a by words; never 0. It decides only which graph is kept, not whether a graph is up to
  /// date.
  uint64_t hash() const {
    constexpr uint64_t kPrime = 0x100000001b3;
    uint64_t value = (0xcbf29ce484222325 ^ weights_) * kPrime;
    for (const Table& table : tables_) {
      const auto* bytes = static_cast<const unsigned char*>(table.values);
      for (int32_t i = 0; i < table.count; ++i) {
        uint64_t word = 0;
        std::memcpy(&word, bytes + static_cast<size_t>(i) * sizeof(word), sizeof(word));
        value = (value ^ word) * kPrime;
      }
    }
    return value | 1;
  }

 private:
  struct Table {
    const void* values;
    int32_t count;
  };
  static size_t bytesOf(const Table& table) {
    return static_cast<size_t>(table.count) * sizeof(uint64_t);
  }

  std::array<Table, 7> tables_;
  const uint64_t weights_;
  size_t words_ = 0;
};

/// The graph whose last launch had identical bindings; null: none.
LaunchedGraph* graphOf(FrameGraphs* frame, const Seen& seen) {
  for (size_t i = 0; i < frame->count; ++i) {
    if (seen.isIn(frame->graphs[i])) {
      return &frame->graphs[i];
    }
  }
  return nullptr;
}

/// The graph to update when no graph has identical bindings. Bindings that were seen recently get
/// an unused graph, else a new one while there is room (and the device can relaunch it), else the
/// least recently used one. New bindings update the graph that was updated last, or another one of
/// the same weights: if bindings never come back, only one graph for each of a few sets of weights
/// is updated, and the others stay as they are.
LaunchedGraph* graphToGather(FrameGraphs* frame, const Seen& seen, const sl_device_desc& device) {
  const auto graphs = std::span(frame->graphs).first(frame->count);
  const uint64_t hash = seen.hash();
  const bool comesBack =
      std::find(frame->misses.begin(), frame->misses.end(), hash) != frame->misses.end();
  if (!comesBack) {
    frame->misses[frame->nextMiss] = hash;
    frame->nextMiss = (frame->nextMiss + 1) % frame->misses.size();
  }
  const auto isOlder = [](const LaunchedGraph& a, const LaunchedGraph& b) { return a.run < b.run; };
  const auto idle = std::find_if(graphs.begin(), graphs.end(),
                                 [](const LaunchedGraph& graph) { return !graph.isLaunched; });
  const bool hasRoom = frame->count < frame->graphs.size() && device.graph_again;
  const bool isOfOthers = frame->count > 0 && !seen.isOf(frame->graphs[frame->gathered]);
  const auto own = std::find_if(graphs.begin(), graphs.end(),
                                [&](const LaunchedGraph& graph) { return seen.isOf(graph); });
  if (!comesBack && isOfOthers && own != graphs.end()) {
    frame->gathered = static_cast<size_t>(own - graphs.begin());
  } else if (graphs.empty() || ((comesBack || isOfOthers) && idle == graphs.end() && hasRoom)) {
    frame->gathered = frame->count++;
  } else if (comesBack || isOfOthers) {
    const auto oldest = std::min_element(graphs.begin(), graphs.end(), isOlder);
    frame->gathered = static_cast<size_t>((idle != graphs.end() ? idle : oldest) - graphs.begin());
  }
  return &frame->graphs[frame->gathered];
}

/// As `execute`, with all device work launched at once. If a cached graph was last launched with
/// identical arguments, it is relaunched; otherwise the program's code runs and the changed nodes
/// are updated.
int32_t executeAsGraph(const sl_program& program, sl_frame* frame, Team* team,
                       const sl_executor* executor, sl_ctx* ctx, const sl_bindings& bindings,
                       uint64_t weights) {
  auto* target = static_cast<sl_queue*>(frame->queues[program.orderedQueue]);
  const sl_device_desc* device = target->device;
  const Seen seen(*program.desc, bindings, weights);
  LaunchedGraph* graph = graphOf(&frame->graphs, seen);
  const bool isKnown = graph != nullptr;
  if (!isKnown) {
    graph = graphToGather(&frame->graphs, seen, *device);
    seen.writeTo(graph);
  }
  graph->run = ++frame->graphs.runs;
  graph->isLaunched = false;
  // A call between two graphs has to run in every call.
  const bool isOnePart = graph->queue.part == 0;
  if (isKnown && isOnePart && !executor && !ctx->profile && device->graph_again &&
      device->graph_again(graph->queue.handle, ctx, target->handle)) {
    graph->isLaunched = ctx->status == SL_OK;
    return ctx->status;
  }
  graph->queue.device = device;
  graph->queue.number = program.device;
  graph->queue.gathers = true;
  graph->queue.target = target->handle;
  if (const int32_t status = beginPart(&graph->queue, 0, ctx)) {
    return status;
  }
  frame->queues[program.orderedQueue] = &graph->queue;
  const int32_t result = execute(program, team, executor, ctx, bindings);
  frame->queues[program.orderedQueue] = target;
  if (result != SL_OK || __atomic_load_n(&ctx->status, __ATOMIC_ACQUIRE) != SL_OK) {
    return result;
  }
  const int32_t launched = device->graph_launch(graph->queue.handle, ctx);
  graph->isLaunched = launched == SL_OK;
  return launched;
}

/// Kernels on a device's queue may use their context after sl_run has returned, so they get the
/// frame's context.
int32_t runAsynchronous(const sl_program& program, sl_frame* frame, Team* team,
                        const sl_queue& queue, int32_t launch, const sl_executor* executor,
                        const sl_bindings& bindings, uint64_t weights, sl_ctx* ctx,
                        sl_message* message) {
  const bool captured = isCaptured(program, *frame, queue, launch);
  if (frame->leasedFor != &queue) {
    frame->order = 0;
    if (!captured) {
      // a second run on one lease: context and arenas still belong to the first one
      waitForFrame(frame);
    }
    frame->captured |= captured;
  }
  sl_ctx* own = &frame->context;
  clearFailure(own);
  own->overlap = 1;
  own->behind = nullptr;
  own->profile = ctx->profile;
  own->profile_user = ctx->profile_user;
  __atomic_store_n(&own->cancel, ctx->cancel, __ATOMIC_RELAXED);
  const int32_t result =
      launch == SL_LAUNCH_GRAPH && !captured
          ? executeAsGraph(program, frame, team, executor, own, bindings, weights)
          : execute(program, team, executor, own, bindings);
  __atomic_store_n(&own->cancel, static_cast<const int32_t*>(nullptr),
                   __ATOMIC_RELAXED);  // the caller's context, about to end
  askForFailures(program, *frame, own);
  if (!captured) {
    recordQueues(program, frame);
  }
  if (result == SL_OK && __atomic_load_n(&own->status, __ATOMIC_ACQUIRE) == SL_OK) {
    frame->failureUnreported = true;
    return SL_OK;
  }
  waitForFrame(frame);  // the details are complete once the queues have passed this run
  frame->failureUnreported = false;
  if (own->status == SL_OK) {
    own->status = result;
  }
  ctx->status = own->status;
  ctx->statement = own->statement;
  for (int32_t i = 0; i < 4; ++i) {
    ctx->detail[i] = own->detail[i];
  }
  std::memcpy(ctx->text, own->text, sizeof(ctx->text));
  return reportFailure(program, ctx, result, bindings.extents, message);
}

}  // namespace
}  // namespace straightline

int32_t sl_run(const sl_program* program, const sl_weights* weights, sl_frame* frame,
               sl_queue* queue, const sl_args* args, sl_ctx* ctx, sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    if (ctx->size < kContextBytes) {
      return reportContextSize(*ctx, message);
    }
    if (frame->program != program) {
      return reportMisuse("the frame was leased from another program", message);
    }
    if (weights->program->desc != program->desc) {
      return reportMisuse("the weights were prepared for another program", message);
    }
    if (weights->program->device != program->device) {
      return reportDevices("the weights are", weights->program->device, *program, message);
    }
    if (queue->device && queue->number != program->device) {
      return reportDevices("the queue is", queue->number, *program, message);
    }
    if (!fits(*program, *frame, args->extents)) {
      return reportMisuse("the frame was leased for smaller extents than this call has", message);
    }
    clearFailure(ctx);
    ctx->device = program->device;
    if (ctx->cancel && __atomic_load_n(ctx->cancel, __ATOMIC_RELAXED) != 0) {
      return reportFailure(*program, ctx, SL_CANCELLED, nullptr, message);
    }
    if (const int32_t status = program->kernels.load(*program->desc, program->device, message)) {
      return status;
    }
    sl_queue* host = bindQueues(*program, frame, queue, message);
    if (!host) {
      return SL_OUT_OF_MEMORY;
    }
    const sl_bindings bindings{sizeof(sl_bindings),
                               weights->parameters.data(),
                               weights->preparedAddresses.data(),
                               weights->handles.data(),
                               frame->addresses.data(),
                               args->inputs,
                               args->outputs,
                               args->extents,
                               frame->queues.data(),
                               program->kernels.table()};
    // An older caller's sl_args is shorter: it ends before the executor, or before the launch.
    const sl_executor* executor =
        args->size >= offsetof(sl_args, launch) ? args->executor : nullptr;
    const int32_t launch = args->size >= sizeof(sl_args) ? args->launch : SL_LAUNCH_STREAM;
    if (launch == SL_LAUNCH_GRAPH && program->graphNodes < 0) {
      return reportNoGraph(*program, message);
    }
    if (executor == sl_interpreter() && !interpretable(*program, message)) {
      return SL_UNSUPPORTED;
    }
    if (program->asynchronous) {
      return runAsynchronous(*program, frame, host->team, *queue, launch, executor, bindings,
                             weights->serial, ctx, message);
    }
    const int32_t result = execute(*program, host->team, executor, ctx, bindings);
    if (result != SL_OK || ctx->status != SL_OK) {
      return reportFailure(*program, ctx, result, args->extents, message);
    }
    return SL_OK;
  });
}
