// SPDX-License-Identifier: Apache-2.0
// Creates and releases programs, and answers questions about them.
#include <algorithm>
#include <cstring>
#include <memory>

#include "boundary.h"
#include "expression.h"
#include "frame.h"
#include "guard.h"
#include "interpreter_plan.h"
#include "message_writer.h"
#include "program.h"
#include "registry.h"
#include "straightline/abi/queue.h"

namespace straightline {
namespace {

bool findDevices(sl_program* program, sl_message* message) {
  const sl_program_desc& desc = *program->desc;
  for (int32_t i = 0; i < desc.space_count; ++i) {
    const sl_device_desc* device = findSpace(desc.spaces[i]);
    if (!device && std::strcmp(desc.spaces[i], "host") != 0) {
      MessageWriter(message)
          .text("the program needs memory space '")
          .text(desc.spaces[i])
          .text("', but no registered backend has it");
      return false;
    }
    program->spaceDevices.push_back(device);
  }
  for (int32_t i = 0; i < desc.queue_count; ++i) {
    const bool team = std::strcmp(desc.queues[i], "cpu") == 0;
    const sl_backend_desc* backend = team ? nullptr : findBackend(desc.queues[i]);
    if (!team && (!backend || !backend->device)) {
      MessageWriter(message)
          .text("the program needs a queue of backend '")
          .text(desc.queues[i])
          .text(backend ? "', which has none" : "', which is not registered");
      return false;
    }
    program->queueDevices.push_back(team ? nullptr : backend->device);
    program->asynchronous |= !team;
  }
  return true;
}

/// What a statement of run calls; null: nothing, or an entry that the program lacks.
const sl_entry* entryOf(const sl_program_desc& desc, const sl_statement& statement) {
  const auto* end = desc.entries + desc.entry_count;
  const auto* found = std::find_if(desc.entries, end, [&](const sl_entry& entry) {
    return std::strcmp(entry.name, statement.entry) == 0;
  });
  return found == end ? nullptr : found;
}

/// Whether a call on a device's queue splits a run into the part before it and the part after it.
bool isOutsideGraph(const sl_program& program, const sl_statement& statement) {
  const bool onDevice = program.queueDevices[static_cast<size_t>(statement.queue)] != nullptr;
  const sl_entry* entry =
      onDevice && statement.kind == SL_STATEMENT_CALL ? entryOf(*program.desc, statement) : nullptr;
  return entry && sl_entry_is_outside_graph(entry) != 0;
}

/// Why a statement of run cannot be part of a graph. Null: it can, or it does nothing on the
/// device, or it stands between two graphs.
const char* whyNoNode(const sl_program& program, const sl_statement& statement) {
  const sl_program_desc& desc = *program.desc;
  switch (static_cast<sl_statement_kind>(statement.kind)) {
    case SL_STATEMENT_LAUNCH:
      if (const sl_entry* entry = entryOf(desc, statement); entry && entry->code) {
        return nullptr;
      }
      return " runs on the host";
    case SL_STATEMENT_COPY:
      for (int32_t i = 0; i < statement.inputs + statement.outputs; ++i) {
        if (!program.spaceDevices[static_cast<size_t>(desc.buffers[statement.operands[i]].space)]) {
          return " copies from or to the host";
        }
      }
      return nullptr;
    case SL_STATEMENT_VIEW:
    case SL_STATEMENT_SIZE:
    case SL_STATEMENT_CHECK:
    case SL_STATEMENT_SCALAR:
    case SL_STATEMENT_RETURN:
      return nullptr;
    case SL_STATEMENT_CALL:
      return program.queueDevices[static_cast<size_t>(statement.queue)] ? nullptr
                                                                        : " runs on the host";
    case SL_STATEMENT_ALLOC:
      return " allocates memory";
    case SL_STATEMENT_BARRIER:
    case SL_STATEMENT_RECORD:
    case SL_STATEMENT_WAIT:
      return " orders queues";
    case SL_STATEMENT_FOR:
    case SL_STATEMENT_END:  // what it ends was asked before
      return nullptr;       // the host knows the count; every iteration is collected
    case SL_STATEMENT_IF:
    case SL_STATEMENT_WHILE:
    case SL_STATEMENT_ELSE:
    case SL_STATEMENT_DO:
      return " is control flow that depends on data";
    case SL_STATEMENT_EXTENT:
      return " finds a size that depends on data";
  }
  return " is unknown";
}

void sizeArenas(sl_program* program) {
  const sl_program_desc& desc = *program->desc;
  for (int32_t i = 0; i < desc.space_count; ++i) {
    program->staticArenas &= isConstant(desc.arena_bytes[i]);
  }
  for (int32_t i = 0; program->staticArenas && i < desc.space_count; ++i) {
    const int64_t bytes = sl_expr_value(&desc.arena_bytes[i], nullptr);
    program->arenaBytes.push_back(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  }
}

/// Waking a worker takes 50-70 us; two threads save as much in a run of twice that time.
constexpr double kBriefUs = 200;

/// Computes the properties of a program that concern its team.
void planTeam(sl_program* program) {
  const sl_program_desc& desc = *program->desc;
  program->brief = desc.estimated_us > 0 && desc.estimated_us < kBriefUs;
  if (desc.estimated_us > 0) {
    program->teamHistory = std::make_unique<straightline::TeamHistory>();
  }
  int32_t shared = 0;
  int32_t all = 0;
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    const sl_statement& statement = desc.statements[i];
    const bool works = statement.kind == SL_STATEMENT_LAUNCH ||
                       statement.kind == SL_STATEMENT_CALL || statement.kind == SL_STATEMENT_COPY;
    all += statement.phase == 1 && works;
    shared += statement.phase == 1 && works && statement.team != 1;
  }
  program->alone = all > 0 && shared == 0;
}

/// Whether the memory that a run uses in one of the host's spaces is that of users' functions alone
/// which are called in each run: they are done with it when they return.
bool isOfCalls(const sl_program_desc& desc, size_t space) {
  bool isUsed = false;
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    const sl_statement& statement = desc.statements[i];
    const int32_t* end = statement.operands + statement.inputs + statement.outputs;
    if (statement.phase != 1 || std::none_of(statement.operands, end, [&](int32_t operand) {
          return desc.buffers[operand].space == static_cast<int32_t>(space);
        })) {
      continue;
    }
    const sl_entry* entry =
        statement.kind == SL_STATEMENT_CALL ? entryOf(desc, statement) : nullptr;
    if (!entry || std::strcmp(entry->backend, SL_OWN_OUTSIDE_BACKEND) != 0) {
      return false;
    }
    isUsed = true;
  }
  return isUsed;
}

size_t orderedQueue(const sl_program& program) {
  size_t found = 0;
  for (size_t i = 0; i < program.queueDevices.size(); ++i) {
    if (program.queueDevices[i]) {
      if (found) {
        return 0;
      }
      found = i;
    }
  }
  const sl_device_desc* device = found ? program.queueDevices[found] : nullptr;
  if (!device || !device->independent || !device->queue_order || !device->finish) {
    return 0;
  }
  for (size_t i = 0; i < program.spaceDevices.size(); ++i) {
    const sl_expr& bytes = program.desc->arena_bytes[i];
    const bool none = isConstant(bytes) && sl_expr_value(&bytes, nullptr) <= 0;
    const bool isDone = !program.spaceDevices[i] && isOfCalls(*program.desc, i);
    if (!none && program.spaceDevices[i] != device && !isDone) {
      // The host, or another device, would write into it while the previous run still reads it.
      return 0;
    }
  }
  return found;
}

/// Computes the properties of a program's runs as graphs.
void planGraph(sl_program* program) {
  const sl_program_desc& desc = *program->desc;
  const size_t queue = program->orderedQueue;
  const bool takesGraphs =
      std::any_of(program->queueDevices.begin(), program->queueDevices.end(),
                  [](const sl_device_desc* device) { return device && device->graph_create; });
  if (!takesGraphs) {
    program->whyNoGraph =
        std::string("program '") + desc.name + "' has no queue of a device that takes graphs";
    return;
  }
  int32_t nodes = 0, parts = 1;
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    const sl_statement& statement = desc.statements[i];
    if (statement.phase != 1) {
      continue;
    }
    if (const char* reason = whyNoNode(*program, statement)) {
      const bool named = statement.op && statement.op[0];
      program->whyNoGraph = (named ? statement.op : "statement " + std::to_string(i)) + " at " +
                            statement.source + reason;
      return;
    }
    const bool outside = isOutsideGraph(*program, statement);
    parts += outside ? 1 : 0;
    nodes += !outside && statement.queue == static_cast<int32_t>(queue);
  }
  if (!queue) {
    program->whyNoGraph = std::string("program '") + desc.name +
                          "' has more than one order of work or an arena elsewhere";
    return;
  }
  program->graphNodes = nodes;
  program->graphParts = parts;
}

}  // namespace

int32_t reportNoMemory(const sl_program& program, size_t space, const char* who, int64_t bytes,
                       const char* of, sl_message* message) {
  const sl_device_desc* device = program.spaceDevices[space];
  const char* missing = device && device->missing ? device->missing(program.device) : nullptr;
  MessageWriter writer(message);
  if (missing) {
    writer.text(missing);
    return SL_DEVICE_ERROR;
  }
  writer.text("out of memory: ")
      .text(who)
      .number(bytes)
      .text(" bytes")
      .text(of)
      .text(" in '")
      .text(program.desc->spaces[space])
      .text("'");
  if (device) {
    writer.text(" of device ").number(program.device);
  }
  return SL_OUT_OF_MEMORY;
}

const char* userName(const sl_buffer& buffer) {
  return buffer.source && buffer.source[0] ? buffer.source : buffer.name;
}

}  // namespace straightline

int32_t sl_program_create(const sl_program_desc* desc, void (*release)(void*), void* user,
                          sl_program** out, sl_message* message) {
  return sl_program_create_on(desc, 0, release, user, out, message);
}

int32_t sl_program_create_on(const sl_program_desc* desc, int32_t device, void (*release)(void*),
                             void* user, sl_program** out, sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    if (!checkDescription(desc, message)) {
      return SL_INVALID_ARGUMENT;
    }
    auto program = std::make_unique<sl_program>();
    program->desc = desc;
    program->release = release;
    program->user = user;
    if (!findDevices(program.get(), message)) {
      return SL_UNSUPPORTED;
    }
    if (device < 0 || (device != 0 && !program->asynchronous)) {
      MessageWriter(message)
          .text("device ")
          .number(device)
          .text(" was asked for but ")
          .text(program->asynchronous ? "the first one is number 0"
                                      : "the program runs on the host");
      return SL_INVALID_ARGUMENT;
    }
    program->device = device;
    sizeArenas(program.get());
    planTeam(program.get());
    program->orderedQueue = orderedQueue(*program);
    for (int32_t i = 0; program->orderedQueue && i < desc->space_count; ++i) {
      const sl_expr& bytes = desc->arena_bytes[i];
      program->deviceArena |= !isConstant(bytes) || sl_expr_value(&bytes, nullptr) > 0;
    }
    planGraph(program.get());
    program->guard = buildGuardPlan(*desc, device);
    program->placed = placedBuffers(*desc);
    *out = program.release();
    return SL_OK;
  });
}

void sl_program_retain(sl_program* program) {
  program->references.fetch_add(1, std::memory_order_relaxed);
}

void sl_program_release(sl_program* program) {
  if (!program || program->references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  straightline::drainPool(&program->frames);
  void (*const release)(void*) = program->release;
  void* const user = program->user;
  delete program;
  if (release) {
    release(user);
  }
}

int32_t sl_program_graph_parts(const sl_program* program) { return program->graphParts; }

int32_t sl_program_graph_nodes(const sl_program* program, sl_message* message) {
  if (program->graphNodes < 0) {
    straightline::MessageWriter(message).text(program->whyNoGraph.c_str());
  }
  return program->graphNodes;
}

int32_t sl_program_device(const sl_program* program) { return program->device; }

const sl_program_desc* sl_program_description(const sl_program* program) { return program->desc; }

void sl_program_result(const sl_program* program, int32_t i, const int64_t* extents, int64_t* shape,
                       int64_t* strides, int64_t* offset_bytes) {
  const sl_program_desc& desc = *program->desc;
  const sl_result& result = desc.results[i];
  const sl_buffer& buffer = desc.buffers[result.buffer];
  for (int32_t d = 0; d < buffer.rank; ++d) {
    shape[d] = sl_expr_value(&buffer.extents[d], extents);
    strides[d] = sl_expr_value(&buffer.strides[d], extents);
  }
  // Each view's offset counts from its base; the caller adds the root's own offset.
  int64_t offset = 0;
  for (int32_t b = result.buffer; b != result.root; b = desc.buffers[b].base) {
    offset += sl_expr_value(&desc.buffers[b].offset, extents);
  }
  *offset_bytes = offset;
}
