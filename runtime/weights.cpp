// SPDX-License-Identifier: Apache-2.0
#include "weights.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "boundary.h"
#include "failure.h"
#include "frame.h"
#include "interpreter_plan.h"
#include "message_writer.h"
#include "program.h"

namespace straightline {
namespace {

/// Destroys handles and frees prepared data. The caller's release callback handles the parameters.
void freeWeights(sl_weights* weights) {
  const sl_program& program = *weights->program;
  for (size_t i = 0; i < weights->handles.size(); ++i) {
    if (weights->handles[i] && program.desc->destroy_handle[i]) {
      program.desc->destroy_handle[i](weights->handles[i]);
    }
  }
  for (size_t i = 0; i < weights->prepared.size(); ++i) {
    releaseBlock(program.spaceDevices[i], &weights->prepared[i]);
  }
  sl_weights_release(weights->memory);
  sl_program_release(weights->program);
  delete weights;
}

struct WeightsDeleter {
  void operator()(sl_weights* weights) const { freeWeights(weights); }
};

/// What one prepare needs beside the weights; freed afterwards.
class PrepareResources {
 public:
  explicit PrepareResources(const sl_program& program) : program_(program) {}
  PrepareResources(const PrepareResources&) = delete;
  PrepareResources& operator=(const PrepareResources&) = delete;
  ~PrepareResources() {
    for (sl_queue& queue : deviceQueues_) {
      closeDeviceQueue(&queue);
    }
    for (size_t i = 0; i < scratch_.size(); ++i) {
      releaseBlock(program_.spaceDevices[i], &scratch_[i]);
    }
  }

  int32_t open(sl_message* message) {
    const sl_program_desc& desc = *program_.desc;
    scratch_.resize(program_.spaceDevices.size());
    scratchAddresses.resize(scratch_.size());
    for (size_t i = 0; i < scratch_.size(); ++i) {
      const int64_t bytes = sl_expr_value(&desc.scratch_bytes[i], nullptr);
      if (!allocateBlock(program_.spaceDevices[i], program_.device,
                         bytes > 0 ? static_cast<size_t>(bytes) : 0, &scratch_[i])) {
        return reportNoMemory(program_, i, "prepare needs ", bytes, " of scratch", message);
      }
      scratchAddresses[i] = scratch_[i].address;
    }
    sl_queue* team = nullptr;
    if (const int32_t status = sl_queue_team(desc.threads, &team, message)) {
      return status;
    }
    deviceQueues_.resize(program_.queueDevices.size());
    queues.assign(deviceQueues_.size(), team);
    for (size_t i = 0; i < deviceQueues_.size(); ++i) {
      if (!program_.queueDevices[i]) {
        continue;
      }
      if (!openDeviceQueue(program_.queueDevices[i], program_.device, &deviceQueues_[i])) {
        MessageWriter(message)
            .text("backend '")
            .text(desc.queues[i])
            .text("' could not make a queue on its device ")
            .number(program_.device);
        return SL_OUT_OF_MEMORY;
      }
      deviceQueues_[i].prepares = true;
      queues[i] = &deviceQueues_[i];
    }
    return SL_OK;
  }

  /// Blocks until every device queue has passed its enqueued work.
  void finish() {
    for (const sl_queue& queue : deviceQueues_) {
      if (queue.handle) {
        waitForQueue(queue);
      }
    }
  }

  std::vector<void*> scratchAddresses;
  std::vector<void*> queues;

 private:
  const sl_program& program_;
  std::vector<Block> scratch_;
  std::vector<sl_queue> deviceQueues_;
};

size_t preparedBytes(const sl_program& program, size_t space) {
  const int64_t bytes = sl_expr_value(&program.desc->prepared_bytes[space], nullptr);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

/// What the programs that share memory need in a space at most.
size_t sharedBytes(const sl_shared_weights& shared, const char* space) {
  size_t most = 0;
  for (int32_t p = 0; p < shared.program_count; ++p) {
    const sl_program& program = *shared.programs[p];
    for (size_t i = 0; i < program.spaceDevices.size(); ++i) {
      if (std::strcmp(program.desc->spaces[i], space) == 0) {
        most = std::max(most, preparedBytes(program, i));
      }
    }
  }
  return most;
}

int32_t allocatePrepared(sl_weights* weights, const sl_shared_weights* shared,
                         sl_message* message) {
  const sl_program& program = *weights->program;
  weights->prepared.resize(program.spaceDevices.size());
  weights->preparedAddresses.resize(weights->prepared.size());
  for (size_t i = 0; i < weights->prepared.size(); ++i) {
    size_t bytes = preparedBytes(program, i);
    bytes = shared ? std::max(bytes, sharedBytes(*shared, program.desc->spaces[i])) : bytes;
    if (!allocateBlock(program.spaceDevices[i], program.device, bytes, &weights->prepared[i])) {
      return reportNoMemory(program, i, "the prepared weights need ", static_cast<int64_t>(bytes),
                            "", message);
    }
    weights->preparedAddresses[i] = weights->prepared[i].address;
  }
  return SL_OK;
}

/// Takes the memory of the program before, space by space.
int32_t takeMemory(sl_weights* weights, sl_weights* before, sl_message* message) {
  const sl_program& program = *weights->program;
  sl_weights* const owner = before->memory ? before->memory : before;
  const sl_program& first = *owner->program;
  weights->prepared.resize(program.spaceDevices.size());
  weights->preparedAddresses.resize(weights->prepared.size());
  for (size_t i = 0; i < weights->prepared.size(); ++i) {
    const char* const space = program.desc->spaces[i];
    size_t have = 0;
    for (size_t k = 0; k < first.spaceDevices.size(); ++k) {
      if (std::strcmp(first.desc->spaces[k], space) == 0) {
        have = owner->prepared[k].bytes;
        weights->preparedAddresses[i] = owner->preparedAddresses[k];
      }
    }
    if (have < preparedBytes(program, i) || first.device != program.device) {
      MessageWriter(message)
          .text("the shared weights have ")
          .number(static_cast<int64_t>(have))
          .text(" bytes in '")
          .text(space)
          .text("' of device ")
          .number(first.device)
          .text(" but the program needs ")
          .number(static_cast<int64_t>(preparedBytes(program, i)))
          .text(" of device ")
          .number(program.device);
      return SL_INVALID_ARGUMENT;
    }
  }
  sl_weights_retain(owner);
  weights->memory = owner;
  return SL_OK;
}

int32_t prepare(sl_weights* weights, const sl_executor* executor, const sl_shared_weights* shared,
                sl_message* message) {
  const sl_program_desc& desc = *weights->program->desc;
  const int32_t status = shared && shared->before ? takeMemory(weights, shared->before, message)
                                                  : allocatePrepared(weights, shared, message);
  if (status != SL_OK || !desc.prepare) {
    return status;
  }
  if (executor == sl_interpreter() && !interpretable(*weights->program, message)) {
    return SL_UNSUPPORTED;
  }
  if (const int32_t status =
          weights->program->kernels.load(desc, weights->program->device, message)) {
    return status;
  }
  PrepareResources resources(*weights->program);
  if (const int32_t status = resources.open(message)) {
    return status;
  }
  // Prepare depends on no extent (checkDescription). The table exists because emitted text copies
  // every extent into a local.
  std::vector<int64_t> extents;
  extents.reserve(static_cast<size_t>(desc.extent_count));
  for (int32_t i = 0; i < desc.extent_count; ++i) {
    extents.push_back(desc.extents[i].min);
  }
  sl_bindings bindings{};
  bindings.size = sizeof(bindings);
  bindings.parameters = weights->parameters.data();
  bindings.prepared = weights->preparedAddresses.data();
  bindings.handles = weights->handles.data();
  bindings.arenas = resources.scratchAddresses.data();
  bindings.extents = extents.data();
  bindings.queues = resources.queues.data();
  bindings.kernels = weights->program->kernels.table();
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  ctx.device = weights->program->device;
  clearFailure(&ctx);
  Team* team = static_cast<sl_queue*>(resources.queues[0])->team;
  const int32_t result =
      executor ? executor->execute(executor->user, weights->program, 0, &ctx, &bindings)
               : team->run(desc.prepare, &ctx, &bindings);
  resources.finish();
  if (result == SL_OK && __atomic_load_n(&ctx.status, __ATOMIC_ACQUIRE) == SL_OK) {
    return SL_OK;
  }
  if (ctx.status == SL_OK) {
    ctx.status = result;
  }
  describeFailure(desc, ctx, "while preparing weights: ", nullptr, message);
  return ctx.status;
}

}  // namespace

int32_t copyBytes(const sl_program& program, size_t space, void* to, const void* from, size_t bytes,
                  Copy direction, sl_message* message) {
  const sl_device_desc* device = program.spaceDevices[space];
  if (!device) {
    std::memcpy(to, from, bytes);
    return SL_OK;
  }
  sl_queue queue;
  if (!openDeviceQueue(device, program.device, &queue)) {
    const char* missing = device->missing ? device->missing(program.device) : nullptr;
    MessageWriter(message).text(missing ? missing : "the device could not make a queue");
    return SL_DEVICE_ERROR;
  }
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  ctx.device = program.device;
  clearFailure(&ctx);
  const char* name = program.desc->spaces[space];
  const int32_t status =
      sl_queue_copy(&ctx, &queue, to, direction == Copy::fromSpace ? "host" : name, from,
                    direction == Copy::toSpace ? "host" : name, bytes);
  waitForQueue(queue);
  closeDeviceQueue(&queue);
  if (status != SL_OK) {
    describeFailure(*program.desc, ctx, "while copying weights: ", nullptr, message);
  }
  return status;
}

int32_t copyToSpace(const sl_program& program, size_t space, const void* from, size_t bytes,
                    Block* block, sl_message* message) {
  if (!allocateBlock(program.spaceDevices[space], program.device, bytes, block)) {
    return reportNoMemory(program, space, "weights need ", static_cast<int64_t>(bytes), "",
                          message);
  }
  return bytes == 0
             ? SL_OK
             : copyBytes(program, space, block->address, from, bytes, Copy::toSpace, message);
}

}  // namespace straightline

int32_t sl_weights_create(sl_program* program, void* const* parameters, void (*release)(void*),
                          void* user, sl_weights** out, sl_message* message) {
  return sl_weights_create_by(program, parameters, nullptr, release, user, out, message);
}

int32_t sl_weights_create_by(sl_program* program, void* const* parameters,
                             const sl_executor* executor, void (*release)(void*), void* user,
                             sl_weights** out, sl_message* message) {
  return sl_weights_create_shared(program, parameters, executor, nullptr, release, user, out,
                                  message);
}

int32_t sl_weights_create_shared(sl_program* program, void* const* parameters,
                                 const sl_executor* executor, const sl_shared_weights* shared,
                                 void (*release)(void*), void* user, sl_weights** out,
                                 sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    std::unique_ptr<sl_weights> bare(new sl_weights);
    sl_program_retain(program);
    bare->program = program;
    std::unique_ptr<sl_weights, WeightsDeleter> weights(bare.release());
    const sl_program_desc& desc = *program->desc;
    weights->parameters.assign(parameters, parameters + desc.parameter_count);
    weights->handles.resize(static_cast<size_t>(desc.handle_count));
    if (const int32_t status = prepare(weights.get(), executor, shared, message)) {
      return status;
    }
    weights->release = release;
    weights->user = user;
    *out = weights.release();
    return SL_OK;
  });
}

int32_t sl_weights_create_prepared(sl_program* program, void* const* parameters,
                                   const void* const* prepared, const size_t* bytes,
                                   void (*release)(void*), void* user, sl_weights** out,
                                   sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    const sl_program_desc& desc = *program->desc;
    if (desc.handle_count > 0) {
      MessageWriter(message).text("the prepared weights hold objects of a library");
      return SL_UNSUPPORTED;
    }
    std::unique_ptr<sl_weights> bare(new sl_weights);
    sl_program_retain(program);
    bare->program = program;
    std::unique_ptr<sl_weights, WeightsDeleter> weights(bare.release());
    weights->parameters.assign(parameters, parameters + desc.parameter_count);
    weights->prepared.resize(program->spaceDevices.size());
    weights->preparedAddresses.resize(weights->prepared.size());
    for (int32_t i = 0; i < desc.space_count; ++i) {
      const auto space = static_cast<size_t>(i);
      const size_t least = preparedBytes(*program, space);
      if (bytes[i] < least) {
        MessageWriter(message)
            .text("the prepared weights have ")
            .number(static_cast<int64_t>(bytes[i]))
            .text(" bytes in '")
            .text(desc.spaces[i])
            .text("' but the program prepares ")
            .number(static_cast<int64_t>(least));
        return SL_INVALID_ARGUMENT;
      }
      if (!program->spaceDevices[space]) {
        weights->preparedAddresses[space] = const_cast<void*>(prepared[i]);
        continue;
      }
      if (const int32_t status = copyToSpace(*program, space, prepared[i], least,
                                             &weights->prepared[space], message)) {
        return status;
      }
      weights->preparedAddresses[space] = weights->prepared[space].address;
    }
    weights->release = release;
    weights->user = user;
    *out = weights.release();
    return SL_OK;
  });
}

int32_t sl_weights_read_prepared(const sl_weights* weights, int32_t space, void* to,
                                 sl_message* message) {
  using namespace straightline;
  return atBoundary(message, [&]() -> int32_t {
    const sl_program& program = *weights->program;
    if (program.desc->handle_count > 0) {
      MessageWriter(message).text("the prepared weights hold objects of a library");
      return SL_UNSUPPORTED;
    }
    const auto at = static_cast<size_t>(space);
    const int64_t bytes = sl_expr_value(&program.desc->prepared_bytes[space], nullptr);
    if (bytes <= 0) {
      return SL_OK;
    }
    return copyBytes(program, at, to, weights->preparedAddresses[at], static_cast<size_t>(bytes),
                     Copy::fromSpace, message);
  });
}

void sl_weights_retain(sl_weights* weights) {
  weights->references.fetch_add(1, std::memory_order_relaxed);
}

void sl_weights_release(sl_weights* weights) {
  if (!weights || weights->references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  // Runs with these weights may still be enqueued. A frame may have been lent again behind such a
  // run in the same order, so that its event belongs to a later run; then all work is waited for.
  if (const size_t queue = weights->program->orderedQueue) {
    weights->program->queueDevices[queue]->finish(weights->program->device);
  } else if (weights->program->asynchronous) {
    straightline::waitForPool(&weights->program->frames);
  }
  void (*const release)(void*) = weights->release;
  void* const user = weights->user;
  straightline::freeWeights(weights);
  if (release) {
    release(user);
  }
}

size_t sl_weights_prepared_bytes(const sl_weights* weights) {
  size_t bytes = 0;
  for (const straightline::Block& block : weights->prepared) {
    bytes += block.bytes;
  }
  return bytes;
}
