// SPDX-License-Identifier: Apache-2.0
#include "straightline/abi/model.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "artifact/archive.h"
#include "artifact/parameters.h"
#include "boundary.h"
#include "failure.h"
#include "guard.h"
#include "message_writer.h"
#include "program.h"
#include "queue.h"
#include "weights.h"

namespace straightline {
namespace {

/// So many tensors and named extents of a call need no allocation.
constexpr int32_t kMost = 64;

/// An array on the stack for as many elements as a call usually has.
template <typename Element>
class Few {
 public:
  explicit Few(int32_t count) {
    if (count > kMost) {
      more_.resize(static_cast<size_t>(count));
    }
  }
  Element* data() { return more_.empty() ? few_.data() : more_.data(); }
  Element& operator[](int32_t i) { return data()[i]; }

 private:
  std::array<Element, kMost> few_{};
  std::vector<Element> more_;
};

struct Program {
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  std::vector<std::string> names;  ///< of its parameters
  int32_t variant = 0;
  std::vector<const sl_buffer*> inputs, outputs;
  bool hasComputedSizes = false;  ///< an output's size is known after the run alone
};

bool isComputed(const sl_program_desc& desc, const sl_buffer& buffer) {
  for (int32_t d = 0; d < buffer.rank; ++d) {
    for (int64_t s = 0; s < buffer.extents[d].count; ++s) {
      const sl_expr_step& step = buffer.extents[d].steps[s];
      if (step.op == 's' && desc.extents[step.value].bound.count > 0) {
        return true;
      }
    }
  }
  return false;
}

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

}  // namespace
}  // namespace straightline

using namespace straightline;

struct sl_model {
  sl_artifact* artifact = nullptr;
  sl_model_options options{};
  std::vector<Program> programs;
  sl_queue* queue = nullptr;  ///< a team, or a queue of the device
  sl_queue* team = nullptr;
  bool onDevice = false;
  std::string text;
  std::map<const sl_expr*, std::string> sizes;  ///< texts of sl_model_size, of those that need one

  ~sl_model() {
    for (Program& program : programs) {
      sl_weights_release(program.weights);
      sl_program_release(program.program);
    }
    if (onDevice && queue) {
      sl_queue_release(queue);
    }
    sl_artifact_release(artifact);
  }
};

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

/// Frees a set's parameters when the last weights over them go.
struct KeptParameters {
  std::shared_ptr<Parameters> parameters;
};
void releaseParameters(void* user) { delete static_cast<KeptParameters*>(user); }

/// Weights of each program over one set of tensors. `usePrepared`: those of the file, where it has
/// them.
int32_t makeWeights(sl_model* model, const std::shared_ptr<Parameters>& parameters,
                    bool usePrepared, sl_message* message) {
  for (size_t i = 0; i < model->programs.size(); ++i) {
    Program& program = model->programs[i];
    std::vector<void*> addresses;
    if (const int32_t status =
            parameters->addresses(*program.program, program.names, &addresses, message)) {
      return status;
    }
    auto kept = std::make_unique<KeptParameters>();
    kept->parameters = parameters;
    const auto spaces = static_cast<size_t>(program.program->desc->space_count);
    std::vector<const void*> data(spaces);
    std::vector<size_t> bytes(spaces);
    bool prepared = false;
    if (usePrepared) {
      if (const int32_t status =
              sl_artifact_prepared(model->artifact, static_cast<int32_t>(i), program.variant,
                                   program.program, data.data(), bytes.data(), message)) {
        return status;
      }
      prepared = std::any_of(bytes.begin(), bytes.end(), [](size_t b) { return b != 0; });
    }
    const int32_t status =
        prepared ? sl_weights_create_prepared(program.program, addresses.data(), data.data(),
                                              bytes.data(), releaseParameters, kept.get(),
                                              &program.weights, message)
                 : sl_weights_create(program.program, addresses.data(), releaseParameters,
                                     kept.get(), &program.weights, message);
    if (status != SL_OK) {
      return status;
    }
    [[maybe_unused]] KeptParameters* ofWeights = kept.release();
  }
  return SL_OK;
}

void describe(sl_model* model) {
  for (const Program& program : model->programs) {
    const sl_program_desc& desc = *program.program->desc;
    sl_message line{};
    MessageWriter writer(&line);
    writer.text(model->artifact->manifest.name.c_str()).text("(");
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const sl_buffer& buffer = *program.inputs[i];
      writer.text(i ? ", " : "")
          .text(userName(buffer))
          .text(": ")
          .dtype(buffer.dtype)
          .shape(buffer.extents, buffer.rank, desc);
    }
    writer.text(") -> (");
    for (int32_t i = 0; i < desc.result_count; ++i) {
      const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
      writer.text(i ? ", " : "").dtype(buffer.dtype).shape(buffer.extents, buffer.rank, desc);
    }
    writer.text(")");
    for (int32_t i = 0; i < desc.extent_count; ++i) {
      writer.text(", ")
          .text(desc.extents[i].name)
          .text(" from ")
          .number(desc.extents[i].min)
          .text(" to ")
          .number(desc.extents[i].max);
    }
    model->text += (model->text.empty() ? "" : "\n") + std::string(line.text);
  }
}

/// Texts of the sizes that are neither numbers nor names.
void describeSizes(sl_model* model, const sl_program_desc& desc, const sl_buffer& buffer) {
  for (int32_t d = 0; d < buffer.rank; ++d) {
    const sl_expr& extent = buffer.extents[d];
    if (extent.count != 1) {
      sl_message text{};
      MessageWriter(&text).expression(extent, desc);
      model->sizes[&extent] = text.text;
    }
  }
}

/// Queue and lists of buffers of programs that are loaded.
int32_t finish(sl_model* model, sl_message* message) {
  int32_t threads = 1;
  for (Program& program : model->programs) {
    const sl_program_desc& desc = *program.program->desc;
    program.inputs.resize(static_cast<size_t>(desc.input_count));
    program.outputs.resize(static_cast<size_t>(desc.output_count));
    for (int32_t i = 0; i < desc.buffer_count; ++i) {
      const sl_buffer& buffer = desc.buffers[i];
      if (buffer.role == SL_ROLE_INPUT) {
        program.inputs[static_cast<size_t>(buffer.index)] = &buffer;
      } else if (buffer.role == SL_ROLE_OUTPUT) {
        program.outputs[static_cast<size_t>(buffer.index)] = &buffer;
        program.hasComputedSizes |= isComputed(desc, buffer);
      }
    }
    for (const sl_buffer* input : program.inputs) {
      describeSizes(model, desc, *input);
    }
    for (int32_t i = 0; i < desc.result_count; ++i) {
      describeSizes(model, desc, desc.buffers[desc.results[i].buffer]);
    }
    threads = std::max(threads, desc.threads);
    model->onDevice |= program.program->orderedQueue != 0 || program.program->asynchronous;
  }
  if (model->options.threads > 0) {
    threads = std::min(threads, model->options.threads);
  }
  if (const int32_t status = sl_queue_team(threads, &model->team, message)) {
    return status;
  }
  model->queue = model->team;
  if (model->onDevice) {
    model->queue = nullptr;
    const sl_program& first = *model->programs[0].program;
    const char* backend = "";
    for (int32_t q = 0; q < first.desc->queue_count; ++q) {
      backend = first.queueDevices[static_cast<size_t>(q)] ? first.desc->queues[q] : backend;
    }
    if (const int32_t status =
            sl_queue_create(backend, model->options.device, &model->queue, message)) {
      return status;
    }
  }
  describe(model);
  return SL_OK;
}

struct Release {
  void operator()(sl_model* model) const { delete model; }
};

/// From an open artifact, which it takes over, to a model.
int32_t load(sl_artifact* artifact, const sl_model_options* options, sl_model** out,
             sl_message* message) {
  std::unique_ptr<sl_model, Release> model(new sl_model);
  model->artifact = artifact;
  if (options) {
    std::memcpy(static_cast<void*>(&model->options), options,
                std::min<uint64_t>(options->size, sizeof(sl_model_options)));
  }
  if (model->options.threads < 0 || model->options.device < 0) {
    MessageWriter(message)
        .text("threads is ")
        .number(model->options.threads)
        .text(" and device ")
        .number(model->options.device)
        .text(" but neither may be negative");
    return SL_INVALID_ARGUMENT;
  }
  const int32_t count = sl_artifact_program_count(artifact);
  for (int32_t i = 0; i < count; ++i) {
    int32_t variant = 0;
    if (const int32_t status = sl_artifact_choose_on(artifact, i, model->options.device_type,
                                                     model->options.device, &variant, message)) {
      return status;
    }
    const Variant& chosen =
        artifact->manifest.programs[static_cast<size_t>(i)][static_cast<size_t>(variant)];
    if (chosen.isReplaced) {
      MessageWriter(message)
          .text(artifact->archive.path().c_str())
          .text(
              " does what its Python text says, which was replaced (fn.code = ..): load it in "
              "Python, or save "
              "it as it was compiled");
      return SL_UNSUPPORTED;
    }
    model->programs.emplace_back();
    Program& program = model->programs.back();
    program.variant = variant;
    program.names = chosen.parameters;
    if (const int32_t status = sl_artifact_program(artifact, i, variant, model->options.device,
                                                   &program.program, message)) {
      return status;
    }
  }
  auto parameters =
      std::make_shared<Parameters>(artifact, std::map<std::string, StoredTensor>(), nullptr);
  if (const int32_t status = makeWeights(model.get(), parameters, true, message)) {
    return status;
  }
  if (const int32_t status = finish(model.get(), message)) {
    return status;
  }
  *out = model.release();
  return SL_OK;
}

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

/// Runs a program and waits for a device.
int32_t run(const sl_model& model, const Program& program, int64_t* extents, void* const* inputs,
            void* const* outputs, sl_message* message) {
  sl_frame* frame = nullptr;
  if (const int32_t status = model.onDevice
                                 ? sl_frame_lease_on(program.program, model.queue, SL_LAUNCH_STREAM,
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
      sl_run(program.program, program.weights, frame, model.queue, &arguments, &context, message);
  if (model.onDevice) {
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

}  // namespace
}  // namespace straightline

int32_t sl_model_load(const char* path, const sl_model_options* options, sl_model** out,
                      sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    sl_artifact* artifact = nullptr;
    if (const int32_t status =
            sl_artifact_open(path, options ? options->flags : 0, &artifact, message)) {
      return status;
    }
    return load(artifact, options, out, message);
  });
}

int32_t sl_model_load_linked(const sl_linked_model* linked, const sl_model_options* options,
                             sl_model** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    sl_artifact* artifact = nullptr;
    if (const int32_t status = sl_artifact_open_linked(
            linked->name, linked->data, linked->bytes, linked->codes, linked->code_count,
            options ? options->flags : 0, &artifact, message)) {
      return status;
    }
    return load(artifact, options, out, message);
  });
}

int32_t sl_model_with_parameters(const sl_model* model, const char* path, sl_model** out,
                                 sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    auto archive = std::make_shared<MappedFile>();
    std::string_view contents;
    if (const int32_t status = archive->open(AT_FDCWD, path, path, &contents, message)) {
      return status;
    }
    std::map<std::string, StoredTensor> given;
    if (const char* wrong = readSafetensors(contents, &given)) {
      MessageWriter(message).text(path).text(" is no safetensors file: ").text(wrong);
      return SL_INVALID_ARGUMENT;
    }
    if (const int32_t status = model->artifact->readTensors(message)) {
      return status;
    }
    std::string unknown;
    for (const auto& [name, tensor] : given) {
      const auto own = model->artifact->tensors.find(name);
      if (own == model->artifact->tensors.end()) {
        unknown += (unknown.empty() ? "" : ", ") + name;
      }
    }
    if (!unknown.empty()) {
      MessageWriter(message).text(path).text(": the model has no ").text(unknown.c_str());
      return SL_INVALID_ARGUMENT;
    }
    std::unique_ptr<sl_model, Release> made(new sl_model);
    sl_artifact_retain(model->artifact);
    made->artifact = model->artifact;
    made->options = model->options;
    for (const Program& program : model->programs) {
      made->programs.emplace_back();
      sl_program_retain(program.program);
      made->programs.back().program = program.program;
      made->programs.back().names = program.names;
      made->programs.back().variant = program.variant;
    }
    auto parameters = std::make_shared<Parameters>(model->artifact, std::move(given), archive);
    if (const int32_t status = makeWeights(made.get(), parameters, false, message)) {
      return status;
    }
    if (const int32_t status = finish(made.get(), message)) {
      return status;
    }
    *out = made.release();
    return SL_OK;
  });
}

void sl_model_release(sl_model* model) { delete model; }

int32_t sl_model_program_count(const sl_model* model) {
  return static_cast<int32_t>(model->programs.size());
}

namespace straightline {
namespace {

const Program* programAt(const sl_model* model, int32_t program) {
  return program >= 0 && static_cast<size_t>(program) < model->programs.size()
             ? &model->programs[static_cast<size_t>(program)]
             : nullptr;
}

int32_t describeTensor(const sl_model* model, const Program* program, const sl_buffer* buffer,
                       sl_model_tensor* out, sl_message* message) {
  if (!program || !buffer) {
    MessageWriter(message).text("there is no such program, input or output");
    return SL_INVALID_ARGUMENT;
  }
  return atBoundary(message, [&]() -> int32_t {
    sl_model_tensor info{};
    info.size = out->size;
    info.name = userName(*buffer);
    info.dtype = buffer->dtype;
    info.rank = buffer->rank;
    const sl_program_desc& desc = *program->program->desc;
    for (int32_t d = 0; d < buffer->rank; ++d) {
      const sl_expr& extent = buffer->extents[d];
      sl_model_size& size = info.shape[d];
      size = {-1, 0, INT64_MAX, ""};
      if (extent.count == 1 && extent.steps[0].op == 'c') {
        size.size = size.min = size.max = extent.steps[0].value;
        continue;
      }
      if (extent.count == 1 && extent.steps[0].op == 's') {
        size.text = desc.extents[extent.steps[0].value].name;
        size.min = desc.extents[extent.steps[0].value].min;
        size.max = desc.extents[extent.steps[0].value].max;
        continue;
      }
      size.text = model->sizes.at(&extent).c_str();
    }
    std::memcpy(static_cast<void*>(out), &info, std::min<uint64_t>(out->size, sizeof info));
    return SL_OK;
  });
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

int32_t sl_model_input_count(const sl_model* model, int32_t program) {
  const Program* found = programAt(model, program);
  return found ? found->program->desc->input_count : -1;
}

int32_t sl_model_output_count(const sl_model* model, int32_t program) {
  const Program* found = programAt(model, program);
  return found ? found->program->desc->result_count : -1;
}

int32_t sl_model_input(const sl_model* model, int32_t program, int32_t i, sl_model_tensor* out,
                       sl_message* message) {
  const Program* found = programAt(model, program);
  const bool isThere = found && i >= 0 && i < found->program->desc->input_count;
  return describeTensor(model, found, isThere ? found->inputs[static_cast<size_t>(i)] : nullptr,
                        out, message);
}

int32_t sl_model_output(const sl_model* model, int32_t program, int32_t i, sl_model_tensor* out,
                        sl_message* message) {
  const Program* found = programAt(model, program);
  const bool isThere = found && i >= 0 && i < found->program->desc->result_count;
  const sl_program_desc* desc = found ? found->program->desc : nullptr;
  return describeTensor(model, found, isThere ? &desc->buffers[desc->results[i].buffer] : nullptr,
                        out, message);
}

const char* sl_model_text(const sl_model* model) { return model->text.c_str(); }

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
    if (const int32_t status = run(*model, *program, call.extents.data(), call.inputs.data(),
                                   call.outputs.data(), message)) {
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
    if (const int32_t status = run(*model, *program, call.extents.data(), call.inputs.data(),
                                   call.outputs.data(), message)) {
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
