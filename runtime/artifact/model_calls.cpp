// SPDX-License-Identifier: Apache-2.0
// Calls of a model: into memory of the caller's, or with results of its own.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "artifact/model.h"
#include "boundary.h"
#include "failure.h"
#include "few.h"
#include "guard.h"
#include "host_memory.h"
#include "message_writer.h"
#include "program.h"
#include "queue.h"
#include "weights.h"

using namespace straightline;

struct sl_results {
  struct Result {
    sl_tensor tensor{};
    int64_t shape[SL_MAX_RANK];
    int64_t strides[SL_MAX_RANK];
  };
  std::vector<Result> results;
  std::vector<std::pair<const sl_device_desc*, Block>> blocks;

  ~sl_results() {
    for (auto& [device, block] : blocks) {
      releaseBlock(device, &block);
    }
  }
};

namespace straightline {
namespace {

/// Shape, strides in elements and bytes from element 0 on.
struct Layout {
  int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK];
  int64_t bytes = 0;

  Layout(const sl_buffer& buffer, const int64_t* extents) {
    int64_t last = 0;
    bool isEmpty = false;
    for (int32_t d = 0; d < buffer.rank; ++d) {
      shape[d] = sl_expr_value(&buffer.extents[d], extents);
      strides[d] = sl_expr_value(&buffer.strides[d], extents);
      isEmpty |= shape[d] == 0;
      last += (shape[d] - 1) * strides[d];
    }
    const int64_t touched = isEmpty ? 0 : (last + 1) * (buffer.dtype.bits / 8);
    bytes = std::max(touched, sl_expr_value(&buffer.bytes, extents));
  }
};

/// Which program takes the inputs; its extents are filled.
const Program* fits(const sl_model& model, const sl_tensor* inputs, int32_t count,
                    Few<int64_t>* extents, int32_t* number, sl_message* message) {
  std::string differs;
  for (size_t i = 0; i < model.programs.size(); ++i) {
    const Program& program = model.programs[i];
    if (sl_program_guard(program.program, inputs, count, extents->data(), message) == SL_OK) {
      *number = static_cast<int32_t>(i);
      return &program;
    }
    if (message && model.programs.size() > 1) {
      differs += (i ? "; program " : "program ") + std::to_string(i + 1) + ": " + message->text;
    }
  }
  if (!differs.empty()) {
    MessageWriter(message).text("no program takes these inputs: ").text(differs.c_str());
  }
  return nullptr;
}

int32_t mostExtents(const sl_model& model) {
  int32_t most = 0;
  for (const Program& program : model.programs) {
    most = std::max(most, program.program->desc->extent_count);
  }
  return most;
}

/// Runs a program. `stream`: a queue of the caller's, on which a device's work stays; null: the
/// model's own, whose work is waited for.
int32_t run(const sl_model& model, const Program& program, sl_queue* stream, int64_t* extents,
            void* const* inputs, void* const* outputs, sl_message* message) {
  sl_frame* frame = nullptr;
  sl_queue* const queue = stream ? stream : model.queue;
  if (const int32_t status = model.onDevice
                                 ? sl_frame_lease_on(program.program, queue, SL_LAUNCH_STREAM,
                                                     extents, &frame, message)
                                 : sl_frame_lease(program.program, extents, &frame, message)) {
    return status;
  }
  sl_args arguments{};
  arguments.size = sizeof(arguments);
  arguments.inputs = inputs;
  arguments.outputs = outputs;
  arguments.extents = extents;
  sl_ctx context;
  context.size = sizeof(context);
  clearFailure(&context);
  context.cancel = nullptr;
  context.profile = nullptr;
  context.profile_user = nullptr;
  context.device = model.options.device;
  context.overlap = 0;
  context.behind = nullptr;
  int32_t status =
      sl_run(program.program, program.weights, frame, queue, &arguments, &context, message);
  if (model.onDevice && !stream) {
    waitForQueue(*model.queue);
  }
  sl_frame_return(frame);
  return status;
}

/// Data of the owner of result `i`, which is an input, a parameter, a state or a fresh output.
char* rootOf(const Program& program, int32_t i, void* const* inputs, void* const* outputs) {
  const sl_program_desc& desc = *program.program->desc;
  const sl_buffer& root = desc.buffers[desc.results[i].root];
  const auto number = static_cast<size_t>(root.index);
  return static_cast<char*>(root.role == SL_ROLE_INPUT    ? inputs[number]
                            : root.role == SL_ROLE_OUTPUT ? outputs[number]
                                                          : program.weights->parameters[number]);
}

/// Why a tensor cannot take result `i`; writes the reason.
bool takes(const Program& program, int32_t i, const sl_tensor& tensor, const int64_t* shape,
           const int64_t* strides, sl_message* message) {
  const sl_program_desc& desc = *program.program->desc;
  const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
  const bool sameKind = tensor.dtype.code == buffer.dtype.code &&
                        tensor.dtype.bits == buffer.dtype.bits && tensor.rank == buffer.rank;
  bool same = sameKind && (tensor.data || buffer.rank > 0);
  int64_t expected = 1;
  bool isEmpty = false;
  for (int32_t d = 0; sameKind && d < buffer.rank; ++d) {
    isEmpty |= shape[d] == 0;
  }
  for (int32_t d = buffer.rank; same && d-- > 0;) {
    const int64_t stride = tensor.strides ? tensor.strides[d] : expected;
    same = tensor.shape[d] == shape[d] && (shape[d] == 1 || isEmpty || stride == strides[d]);
    expected *= shape[d];
  }
  if (same && (tensor.data || isEmpty)) {
    return true;
  }
  MessageWriter writer(message);
  writer.text("output ").number(i).text(" is ").dtype(tensor.dtype);
  writer.tuple(tensor.shape, tensor.rank);
  if (tensor.strides) {
    writer.text(" with strides ").tuple(tensor.strides, tensor.rank);
  }
  writer.text(tensor.data ? "" : " without data").text(" but the result is ").dtype(buffer.dtype);
  writer.tuple(shape, buffer.rank).text(" with strides ").tuple(strides, buffer.rank);
  return false;
}

/// A call's program, and the memory that it reads and writes.
struct Call {
  Call(const sl_model& model, const sl_tensor* tensors, int32_t count, sl_message* message)
      : extents(mostExtents(model)),
        program(fits(model, tensors, count, &extents, &number, message)),
        inputs(program ? count : 0),
        outputs(program ? program->program->desc->output_count : 0) {
    for (int32_t i = 0; program && i < count; ++i) {
      inputs[i] = tensors[i].data;
    }
  }

  Few<int64_t> extents;
  int32_t number = 0;
  const Program* program;  // null: the message says why none takes these inputs
  Few<void*> inputs;
  Few<void*> outputs;  // null until the caller gives or allocates one
};

/// Copies to the caller's `outputs` the results that are views of other memory, after a run.
int32_t copyViews(Call& call, const sl_tensor* outputs, sl_message* message) {
  const sl_program_desc& desc = *call.program->program->desc;
  for (int32_t i = 0; i < desc.result_count; ++i) {
    const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
    if (buffer.role == SL_ROLE_OUTPUT) {
      continue;
    }
    int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK], offset = 0;
    sl_program_result(call.program->program, i, call.extents.data(), shape, strides, &offset);
    const char* from = rootOf(*call.program, i, call.inputs.data(), call.outputs.data()) + offset;
    if (from == outputs[i].data) {
      continue;  // the caller gave the very memory
    }
    int64_t last = 1;
    for (int32_t d = 0; d < buffer.rank; ++d) {
      last = shape[d] == 0 ? 0 : last + (last != 0) * (shape[d] - 1) * strides[d];
    }
    const size_t bytes = static_cast<size_t>(last) * (buffer.dtype.bits / 8);
    if (const int32_t status = copyBytes(*call.program->program, static_cast<size_t>(buffer.space),
                                         outputs[i].data, from, bytes, Copy::within, message)) {
      return status;
    }
  }
  return SL_OK;
}

}  // namespace
}  // namespace straightline

int32_t sl_model_guard(const sl_model* model, const sl_tensor* inputs, int32_t count,
                       int32_t* program, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    Few<int64_t> extents(mostExtents(*model));
    return fits(*model, inputs, count, &extents, program, message) ? SL_OK : SL_INVALID_ARGUMENT;
  });
}

int32_t sl_model_run(const sl_model* model, const sl_tensor* inputs, int32_t count,
                     const sl_tensor* outputs, int32_t output_count, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    Call call(*model, inputs, count, message);
    const Program* program = call.program;
    if (!program) {
      return SL_INVALID_ARGUMENT;
    }
    const sl_program_desc& desc = *program->program->desc;
    if (output_count != desc.result_count || program->hasComputedSizes) {
      MessageWriter writer(message);
      if (program->hasComputedSizes) {
        writer.text("a result's size depends on data: use sl_model_call");
      } else {
        writer.text("the model has ")
            .number(desc.result_count)
            .text(" outputs but ")
            .number(output_count)
            .text(" are given");
      }
      return SL_INVALID_ARGUMENT;
    }
    for (int32_t i = 0; i < desc.result_count; ++i) {
      int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK], offset = 0;
      sl_program_result(program->program, i, call.extents.data(), shape, strides, &offset);
      if (!takes(*program, i, outputs[i], shape, strides, message)) {
        return SL_INVALID_ARGUMENT;
      }
      const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
      if (buffer.role == SL_ROLE_OUTPUT) {
        call.outputs[buffer.index] = outputs[i].data;
      }
    }
    for (int32_t i = 0; i < desc.output_count; ++i) {
      // A fresh output that is a result only as a view of it has no memory of the caller's.
      if (!call.outputs[i] &&
          Layout(*program->outputs[static_cast<size_t>(i)], call.extents.data()).bytes) {
        MessageWriter(message).text("a result is a view of a larger one: use sl_model_call");
        return SL_INVALID_ARGUMENT;
      }
    }
    if (const int32_t status = run(*model, *program, nullptr, call.extents.data(),
                                   call.inputs.data(), call.outputs.data(), message)) {
      return status;
    }
    return copyViews(call, outputs, message);
  });
}

int32_t sl_model_call(const sl_model* model, const sl_tensor* inputs, int32_t count,
                      sl_results** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    Call call(*model, inputs, count, message);
    const Program* program = call.program;
    if (!program) {
      return SL_INVALID_ARGUMENT;
    }
    const sl_program_desc& desc = *program->program->desc;
    auto results = std::make_unique<sl_results>();
    for (int32_t i = 0; i < desc.output_count; ++i) {
      const sl_buffer& buffer = *program->outputs[static_cast<size_t>(i)];
      const auto space = static_cast<size_t>(buffer.space);
      const Layout layout(buffer, call.extents.data());
      results->blocks.emplace_back(program->program->spaceDevices[space], Block());
      if (!allocateBlock(results->blocks.back().first, program->program->device,
                         static_cast<size_t>(std::max<int64_t>(layout.bytes, 0)),
                         &results->blocks.back().second)) {
        return reportNoMemory(*program->program, space, "a result needs ", layout.bytes, "",
                              message);
      }
      call.outputs[i] = results->blocks.back().second.address;
    }
    if (const int32_t status = run(*model, *program, nullptr, call.extents.data(),
                                   call.inputs.data(), call.outputs.data(), message)) {
      return status;
    }
    results->results.resize(static_cast<size_t>(desc.result_count));
    for (int32_t i = 0; i < desc.result_count; ++i) {
      const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
      sl_results::Result& result = results->results[static_cast<size_t>(i)];
      int64_t offset = 0;
      sl_program_result(program->program, i, call.extents.data(), result.shape, result.strides,
                        &offset);
      char* data = buffer.role == SL_ROLE_OUTPUT
                       ? static_cast<char*>(call.outputs[buffer.index])
                       : rootOf(*program, i, call.inputs.data(), call.outputs.data()) + offset;
      const bool onHost = !program->program->spaceDevices[static_cast<size_t>(buffer.space)];
      result.tensor = {data,
                       result.shape,
                       result.strides,
                       buffer.rank,
                       buffer.dtype,
                       deviceTypeOf(desc.spaces[buffer.space]),
                       onHost ? 0 : program->program->device};
    }
    *out = results.release();
    return SL_OK;
  });
}

int32_t sl_results_count(const sl_results* results) {
  return static_cast<int32_t>(results->results.size());
}

const sl_tensor* sl_results_tensor(const sl_results* results, int32_t i) {
  return i >= 0 && static_cast<size_t>(i) < results->results.size()
             ? &results->results[static_cast<size_t>(i)].tensor
             : nullptr;
}

void sl_results_release(sl_results* results) { delete results; }

namespace straightline {
namespace {

/// First and last byte of a tensor; an empty one has none (low > high).
struct Bytes {
  const char* low;
  const char* high;
  bool overlaps(const Bytes& other) const { return low <= other.high && other.low <= high; }
};

Bytes bytesOf(const sl_tensor& tensor) {
  const auto* data = static_cast<const char*>(tensor.data);
  int64_t low = 0, high = 0, dense = 1;
  for (int32_t d = tensor.rank; d-- > 0;) {
    if (tensor.shape[d] == 0) {
      return {data + 1, data};
    }
    const int64_t reach = (tensor.shape[d] - 1) * (tensor.strides ? tensor.strides[d] : dense);
    (reach < 0 ? low : high) += reach;
    dense *= tensor.shape[d];
  }
  const int64_t size = tensor.dtype.bits / 8;
  return {data + low * size, data + (high + 1) * size - 1};
}

/// An input that the program updates shares memory with no other input.
int32_t checkWritten(const Program& program, const sl_tensor* inputs, int32_t count,
                     sl_message* message) {
  for (int32_t i = 0; i < count; ++i) {
    if (!program.isWritten[static_cast<size_t>(i)]) {
      continue;
    }
    const Bytes own = bytesOf(inputs[i]);
    for (int32_t k = 0; k < count; ++k) {
      if (k != i && own.overlaps(bytesOf(inputs[k]))) {
        MessageWriter(message)
            .text("input '")
            .text(userName(*program.inputs[static_cast<size_t>(i)]))
            .text("' is updated in place and shares memory with input '")
            .text(userName(*program.inputs[static_cast<size_t>(k)]))
            .text("': give it memory of its own");
        return SL_INVALID_ARGUMENT;
      }
    }
  }
  return SL_OK;
}

/// The queue over a caller's stream, made when it is first seen.
int32_t streamOf(sl_model* model, void* stream, sl_queue** out, sl_message* message) {
  const std::lock_guard<std::mutex> lock(model->mutex);
  sl_queue*& known = model->streams[stream];
  if (!known) {
    if (const int32_t status =
            sl_queue_adopt(model->backend, model->options.device, stream, &known, message)) {
      return status;
    }
  }
  *out = known;
  return SL_OK;
}

/// Blocks of memory that go with a call.
class Scratch {
 public:
  explicit Scratch(const Program& program) : program_(program) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    for (auto& [device, block] : blocks_) {
      releaseBlock(device, &block);
    }
  }
  bool isEmpty() const { return blocks_.empty(); }

  /// Memory for fresh output `i`.
  int32_t add(int32_t i, const int64_t* extents, void** out, sl_message* message) {
    const sl_buffer& buffer = *program_.outputs[static_cast<size_t>(i)];
    const auto space = static_cast<size_t>(buffer.space);
    const Layout layout(buffer, extents);
    blocks_.emplace_back(program_.program->spaceDevices[space], Block());
    if (!allocateBlock(blocks_.back().first, program_.program->device,
                       static_cast<size_t>(std::max<int64_t>(layout.bytes, 0)),
                       &blocks_.back().second)) {
      return reportNoMemory(*program_.program, space, "a result needs ", layout.bytes, "", message);
    }
    *out = blocks_.back().second.address;
    return SL_OK;
  }

 private:
  const Program& program_;
  std::vector<std::pair<const sl_device_desc*, Block>> blocks_;
};

/// Asks the caller for the memory of result `i`.
int32_t place(Call& call, const sl_model_target& target, int32_t i, void** out,
              sl_message* message) {
  const sl_program_desc& desc = *call.program->program->desc;
  const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
  int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK], offset = 0;
  sl_program_result(call.program->program, i, call.extents.data(), shape, strides, &offset);
  const bool onHost = !call.program->program->spaceDevices[static_cast<size_t>(buffer.space)];
  sl_tensor result{nullptr,
                   shape,
                   strides,
                   buffer.rank,
                   buffer.dtype,
                   deviceTypeOf(desc.spaces[buffer.space]),
                   onHost ? 0 : call.program->program->device};
  const int32_t status = target.place(target.user, i, &result, message);
  *out = result.data;
  return status;
}

/// Copies result `i` to the caller's memory.
int32_t copyResult(Call& call, int32_t i, void* to, sl_message* message) {
  const sl_program_desc& desc = *call.program->program->desc;
  const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
  int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK], offset = 0;
  sl_program_result(call.program->program, i, call.extents.data(), shape, strides, &offset);
  const char* from =
      buffer.role == SL_ROLE_OUTPUT
          ? static_cast<const char*>(call.outputs[buffer.index])
          : rootOf(*call.program, i, call.inputs.data(), call.outputs.data()) + offset;
  if (from == to) {
    return SL_OK;
  }
  int64_t last = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) {
    last = shape[d] == 0 ? 0 : last + (last != 0) * (shape[d] - 1) * strides[d];
  }
  return copyBytes(*call.program->program, static_cast<size_t>(buffer.space), to, from,
                   static_cast<size_t>(last) * (buffer.dtype.bits / 8), Copy::within, message);
}

int32_t callInto(sl_model* model, const sl_tensor* inputs, int32_t count,
                 const sl_model_target& target, sl_message* message) {
  Call call(*model, inputs, count, message);
  if (!call.program) {
    return SL_INVALID_ARGUMENT;
  }
  const Program& program = *call.program;
  const sl_program_desc& desc = *program.program->desc;
  int32_t status = program.writesInputs && !target.plan_only
                       ? checkWritten(program, inputs, count, message)
                       : int32_t{SL_OK};
  if (target.plan_only && program.hasComputedSizes) {
    MessageWriter(message).text("a result's size depends on data: it is known after a call");
    return SL_UNSUPPORTED;
  }
  Few<void*> results(desc.result_count);
  Scratch scratch(program);
  bool isCopied = false;  // some result is not where the program writes it
  for (int32_t i = 0; status == SL_OK && !program.hasComputedSizes && i < desc.result_count; ++i) {
    const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
    status = place(call, target, i, &results[i], message);
    if (buffer.role == SL_ROLE_OUTPUT && !call.outputs[buffer.index]) {
      call.outputs[buffer.index] = results[i];
    } else {
      isCopied = true;
    }
  }
  if (target.plan_only) {
    return status;
  }
  for (int32_t i = 0; status == SL_OK && i < desc.output_count; ++i) {
    if (!call.outputs[i]) {
      status = scratch.add(i, call.extents.data(), &call.outputs[i], message);
    }
  }
  sl_queue* stream = nullptr;
  // what is copied afterwards, or goes with the call, is waited for
  const bool mayStay = !isCopied && scratch.isEmpty() && !program.hasComputedSizes;
  if (status == SL_OK && model->onDevice && target.on_stream) {
    status = streamOf(model, target.stream, &stream, message);
  }
  if (status == SL_OK) {
    status = run(*model, program, stream, call.extents.data(), call.inputs.data(),
                 call.outputs.data(), message);
  }
  if (stream && !mayStay) {
    waitForQueue(*stream);
  }
  for (int32_t i = 0; status == SL_OK && !mayStay && i < desc.result_count; ++i) {
    if (program.hasComputedSizes) {
      status = place(call, target, i, &results[i], message);
    }
    status = status == SL_OK ? copyResult(call, i, results[i], message) : status;
  }
  return status;
}

}  // namespace
}  // namespace straightline

int32_t sl_model_call_into(sl_model* model, const sl_tensor* inputs, int32_t count,
                           const sl_model_target* target, sl_message* message) {
  return atBoundary(message, [&] { return callInto(model, inputs, count, *target, message); });
}

int32_t sl_model_updates(const sl_model* model, int32_t program, int32_t i) {
  const bool isThere = program >= 0 && static_cast<size_t>(program) < model->programs.size();
  const std::vector<bool> none;
  const std::vector<bool>& written =
      isThere ? model->programs[static_cast<size_t>(program)].isWritten : none;
  return i >= 0 && static_cast<size_t>(i) < written.size() && written[static_cast<size_t>(i)];
}
