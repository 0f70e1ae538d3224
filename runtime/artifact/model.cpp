// SPDX-License-Identifier: Apache-2.0
#include "artifact/model.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
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

using namespace straightline;

namespace straightline {
namespace {

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

/// Frees a set's parameters when the last weights over them go.
struct KeptParameters {
  std::shared_ptr<Parameters> parameters;
};
void releaseParameters(void* user) { delete static_cast<KeptParameters*>(user); }

/// Prepares the weights of program `i`, over the data of the programs before it that are for the
/// same example where the file says that they share it.
int32_t prepareWeights(const sl_model& model, size_t i, void* const* addresses,
                       KeptParameters* kept, sl_weights** out, sl_message* message) {
  const Manifest& manifest = model.artifact->manifest;
  const size_t examples = model.every.size() / manifest.choices;
  std::vector<sl_program*> programs;
  for (size_t k = i % examples; k < model.every.size(); k += examples) {
    programs.push_back(model.every[k].program);
  }
  sl_shared_weights shared{};
  shared.size = sizeof shared;
  shared.before = i < examples ? nullptr : model.every[i - examples].weights;
  shared.programs = programs.data();
  shared.program_count = static_cast<int32_t>(programs.size());
  return sl_weights_create_shared(model.every[i].program, addresses, nullptr,
                                  manifest.sharesPrepared ? &shared : nullptr, releaseParameters,
                                  kept, out, message);
}

/// Weights of each program over one set of tensors. `usePrepared`: those of the file, where it has
/// them.
int32_t makeWeights(sl_model* model, const std::shared_ptr<Parameters>& parameters,
                    bool usePrepared, sl_message* message) {
  for (size_t i = 0; i < model->every.size(); ++i) {
    Program& program = model->every[i];
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
        prepared
            ? sl_weights_create_prepared(program.program, addresses.data(), data.data(),
                                         bytes.data(), releaseParameters, kept.get(),
                                         &program.weights, message)
            : prepareWeights(*model, i, addresses.data(), kept.get(), &program.weights, message);
    if (status != SL_OK) {
      return status;
    }
    [[maybe_unused]] KeptParameters* ofWeights = kept.release();
  }
  return SL_OK;
}

/// Has calls take the programs of a combination of targets.
void choose(sl_model* model, size_t choice) {
  const size_t examples = model->every.size() / model->artifact->manifest.choices;
  model->choice = choice;
  for (size_t e = 0; e < examples; ++e) {
    model->programs.push_back(model->every[choice * examples + e]);
    sl_program_retain(model->programs.back().program);
    sl_weights_retain(model->programs.back().weights);
  }
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// The number of the combination that "op = target, op = target" means, where what it does not name
/// stays as in `choice`.
int32_t readChoice(const sl_model& model, std::string_view text, size_t* choice,
                   sl_message* message) {
  const std::vector<ManifestSlot>& slots = model.artifact->manifest.slots;
  std::vector<size_t> numbers(slots.size());
  for (size_t s = slots.size(), rest = *choice; s-- > 0; rest /= slots[s].targets.size()) {
    numbers[s] = rest % slots[s].targets.size();
  }
  for (std::string_view left = text; !left.empty();) {
    const std::string_view one = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), one.size() + 1));
    const size_t equals = one.find('=');
    const std::string op(trimmed(one.substr(0, equals)));
    const std::string target(equals == one.npos ? "" : trimmed(one.substr(equals + 1)));
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const ManifestSlot& each) { return each.op == op; });
    std::string have;
    for (const ManifestSlot& each : slots) {
      have += (have.empty() ? "" : ", ") + each.op;
    }
    if (slot == slots.end()) {
      MessageWriter(message)
          .text("the model has no slot '")
          .text(op.c_str())
          .text("'; it has ")
          .text(have.empty() ? "none" : have.c_str());
      return SL_INVALID_ARGUMENT;
    }
    const auto found = std::find(slot->targets.begin(), slot->targets.end(), target);
    if (found == slot->targets.end()) {
      std::string targets;
      for (const std::string& each : slot->targets) {
        targets += (targets.empty() ? "" : ", ") + each;
      }
      MessageWriter(message)
          .text("slot ")
          .text(op.c_str())
          .text(" is chosen as '")
          .text(target.c_str())
          .text("', but the model was compiled with ")
          .text(targets.c_str());
      return SL_INVALID_ARGUMENT;
    }
    numbers[static_cast<size_t>(slot - slots.begin())] =
        static_cast<size_t>(found - slot->targets.begin());
  }
  *choice = 0;
  for (size_t s = 0; s < slots.size(); ++s) {
    *choice = *choice * slots[s].targets.size() + numbers[s];
  }
  return SL_OK;
}

void describe(sl_model* model) {
  for (const Program& program : model->programs) {
    const sl_program_desc& desc = *program.program->desc;
    sl_message line{};
    MessageWriter writer(&line);
    writer.text(model->name.c_str()).text("(");
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

/// Which inputs the program updates in place.
void findWritten(Program* program) {
  const sl_program_desc& desc = *program->program->desc;
  program->isWritten.assign(static_cast<size_t>(desc.input_count), false);
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    const sl_statement& statement = desc.statements[i];
    for (int32_t k = 0; k < statement.outputs; ++k) {
      int32_t b = statement.operands[statement.inputs + k];
      while (b >= 0 && desc.buffers[b].role == SL_ROLE_VIEW) {
        b = desc.buffers[b].base;
      }
      if (b >= 0 && desc.buffers[b].role == SL_ROLE_INPUT) {
        program->isWritten[static_cast<size_t>(desc.buffers[b].index)] = true;
        program->writesInputs = true;
      }
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
    findWritten(&program);
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
    model->backend = backend;
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
  model->name = artifact->manifest.name;
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
    model->every.emplace_back();
    Program& program = model->every.back();
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
  choose(model.get(), 0);
  if (const int32_t status = finish(model.get(), message)) {
    return status;
  }
  *out = model.release();
  return SL_OK;
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

int32_t sl_model_of_programs(const char* name, sl_program* const* programs,
                             sl_weights* const* weights, int32_t count,
                             const sl_model_options* options, sl_model** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    if (count < 1) {
      MessageWriter(message)
          .text("a model has one program or more but ")
          .number(count)
          .text(" are given");
      return SL_INVALID_ARGUMENT;
    }
    std::unique_ptr<sl_model, Release> made(new sl_model);
    made->name = name;
    if (options) {
      std::memcpy(static_cast<void*>(&made->options), options,
                  std::min<uint64_t>(options->size, sizeof(sl_model_options)));
    }
    made->options.device = sl_program_device(programs[0]);
    for (int32_t i = 0; i < count; ++i) {
      sl_program_retain(programs[i]);
      sl_weights_retain(weights[i]);
      made->programs.emplace_back();
      made->programs.back().program = programs[i];
      made->programs.back().weights = weights[i];
    }
    if (const int32_t status = finish(made.get(), message)) {
      return status;
    }
    *out = made.release();
    return SL_OK;
  });
}

int32_t sl_model_with_parameters(const sl_model* model, const char* path, sl_model** out,
                                 sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    if (!model->artifact) {
      MessageWriter(message).text("the model was made of programs and has no tensors by name");
      return SL_UNSUPPORTED;
    }
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
    made->name = model->name;
    made->options = model->options;
    for (const Program& program : model->every) {
      made->every.emplace_back();
      sl_program_retain(program.program);
      made->every.back().program = program.program;
      made->every.back().names = program.names;
      made->every.back().variant = program.variant;
    }
    auto parameters = std::make_shared<Parameters>(model->artifact, std::move(given), archive);
    if (const int32_t status = makeWeights(made.get(), parameters, false, message)) {
      return status;
    }
    choose(made.get(), model->choice);
    if (const int32_t status = finish(made.get(), message)) {
      return status;
    }
    *out = made.release();
    return SL_OK;
  });
}

int32_t sl_model_with_slots(const sl_model* model, const char* choice, sl_model** out,
                            sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    if (!model->artifact) {
      MessageWriter(message).text("the model was made of programs and has no slots");
      return SL_UNSUPPORTED;
    }
    size_t number = model->choice;
    if (const int32_t status = readChoice(*model, choice, &number, message)) {
      return status;
    }
    std::unique_ptr<sl_model, Release> made(new sl_model);
    sl_artifact_retain(model->artifact);
    made->artifact = model->artifact;
    made->name = model->name;
    made->options = model->options;
    for (const Program& program : model->every) {
      made->every.emplace_back();
      Program& own = made->every.back();
      sl_program_retain(program.program);
      sl_weights_retain(program.weights);
      own.program = program.program;
      own.weights = program.weights;
      own.names = program.names;
      own.variant = program.variant;
    }
    choose(made.get(), number);
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
