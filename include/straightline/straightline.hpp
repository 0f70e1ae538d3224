// SPDX-License-Identifier: Apache-2.0
// Straightline for C++ programs: build or load a graph, compile it, call it. Headers only, over the
// two C ABIs; needs C++20 and libstraightline_compiler.so with libstraightline_runtime.so, nothing
// else.
//
//   straightline::Program program =
//   straightline::compile(straightline::Module::load("model.mlir"));
//   straightline::Function forward = program.bind({{"fc.weight", weight}, {"fc.bias", bias}});
//   std::vector<straightline::Tensor> y = forward({x});
//
// Errors are exceptions of three kinds: UserError (the input or the way it was used),
// UnsupportedError (right, but beyond Straightline) and InternalError (a bug of ours). An object
// that was moved from, or never made, says so by a UserError. Threads: Tensor, Program and Function
// are handles with shared ownership; calls of one Function may run at once from any number of
// threads. Module and Builder belong to one thread at a time.
#ifndef STRAIGHTLINE_STRAIGHTLINE_HPP
#define STRAIGHTLINE_STRAIGHTLINE_HPP

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "straightline/module.hpp"
#include "straightline/tensor.hpp"

namespace straightline {
inline namespace v1 {

// Programs ----------------------------------------------------------------------------------------

/// Options of sl_compile_options (tools/compiler_abi.h), which the library validates.
struct CompileOptions {
  std::string cpu = "";     ///< an LLVM CPU or level ("x86-64-v3"); "": this machine
  int32_t threads = 1;      ///< team size to plan for
  std::string target = "";  ///< "cpu", which "" is too, or a device: "cuda:sm_90"
  /// keep what is computed from parameters once; false: parameters are read live
  bool freeze = true;
  bool cache = true;               ///< the disk cache of compiled code
  bool concurrentBranches = true;  ///< a device's graph may run long branches at once
  bool winograd = true;            ///< convolutions may be Winograd's
  std::string launch = "";         ///< "stream" or "graph"; "": what fits
  std::vector<std::string> allow;  ///< backends that kernels may come from; empty: all
  /// op, and the backend ("native") or kernel ("native.gemm") that must run it
  std::map<std::string, std::string> routes;
};

/// A tensor that a program takes or gives. An extent that differs between calls is -1.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
};

class Function;

/// Code and plan, immutable; any number of functions may be made of it.
class Program {
 public:
  Program() = default;

  std::vector<TensorInfo> inputs() const { return tensors(SL_ROLE_INPUT, SL_ROLE_INPUT); }
  /// What `bind` wants: parameters and states.
  std::vector<TensorInfo> parameters() const { return tensors(SL_ROLE_PARAMETER, SL_ROLE_STATE); }
  int32_t resultCount() const { return description().result_count; }

  /// The C++ that runs.
  std::string code() const { return detail::take(sl_compilation_code(compilation())); }
  /// Choices and sizes as JSON (docs/reference/explain.md).
  std::string explain() const { return detail::take(sl_compilation_explain(compilation())); }
  /// MLIR at level "op" or "kernel".
  std::string ir(const std::string& level = "kernel", bool locations = false) const {
    sl_text* text = nullptr;
    sl_text* error = nullptr;
    detail::check(sl_compilation_ir(compilation(), level.c_str(),
                                    locations ? SL_PRINT_LOCATIONS : 0, &text, &error),
                  error);
    return detail::take(text);
  }
  /// Warnings (trouble with the disk cache), one a line.
  std::string notes() const { return detail::take(sl_compilation_notes(compilation())); }

  /// Computes what is kept from the parameters. They are borrowed: the function holds the tensors,
  /// and updates states in them. A UserError names every entry that is missing, unknown or of
  /// another type, shape or strides.
  Function bind(const std::map<std::string, Tensor>& parameters = {}) const;

  const sl_program_desc& description() const {
    return *sl_program_description(detail::present(program_, "the program").get());
  }

 private:
  friend class Function;
  friend Program compile(const Module& module, const CompileOptions& options);

  const sl_compilation* compilation() const {
    return detail::present(compilation_, "the program").get();
  }

  std::vector<TensorInfo> tensors(sl_role first, sl_role second) const {
    const sl_program_desc& desc = description();
    const bool areInputs = first == SL_ROLE_INPUT;
    std::vector<TensorInfo> result(
        static_cast<size_t>(areInputs ? desc.input_count : desc.parameter_count));
    for (const sl_buffer& buffer :
         std::span(desc.buffers, static_cast<size_t>(desc.buffer_count))) {
      if (buffer.role != first && buffer.role != second) {
        continue;
      }
      TensorInfo& info = result.at(static_cast<size_t>(buffer.index));
      info.name = buffer.source;
      info.dtype = detail::dtypeOf(buffer.dtype);
      for (const sl_expr& extent : std::span(buffer.extents, static_cast<size_t>(buffer.rank))) {
        const bool isFixed = extent.count == 1 && extent.steps[0].op == 'c';
        info.shape.push_back(isFixed ? extent.steps[0].value : -1);
      }
    }
    return result;
  }

  std::shared_ptr<sl_program> program_;
  std::shared_ptr<sl_compilation> compilation_;
  /// parameters and states of the module, also those that nothing reads
  std::set<std::string> declared_;
};

/// Runs the pass pipeline, emits, compiles and loads. Takes seconds at most.
inline Program compile(const Module& module, const CompileOptions& options = {}) {
  std::vector<const char*> allow;
  for (const std::string& backend : options.allow) {
    allow.push_back(backend.c_str());
  }
  std::vector<sl_pair> routes;
  for (const auto& [op, kernel] : options.routes) {
    routes.push_back({op.c_str(), kernel.c_str()});
  }
  const auto toggle = [](bool on) -> int32_t { return on ? SL_SWITCH_ON : SL_SWITCH_OFF; };
  sl_compile_options request{};
  request.size = sizeof(request);
  request.cpu = options.cpu.c_str();
  request.threads = options.threads;
  request.target = options.target.c_str();
  request.freeze = toggle(options.freeze);
  request.cache = toggle(options.cache);
  request.concurrent_branches = toggle(options.concurrentBranches);
  request.winograd = toggle(options.winograd);
  request.launch = options.launch.c_str();
  request.allow = allow.empty() ? nullptr : allow.data();
  request.allow_count = static_cast<int32_t>(allow.size());
  request.routes = routes.data();
  request.route_count = static_cast<int32_t>(routes.size());
  if (options.threads < 1) {
    throw UserError("threads is " + std::to_string(options.threads) + " but must be at least 1");
  }
  sl_compilation* compilation = nullptr;
  sl_text* error = nullptr;
  detail::check(sl_compile(module.get(), &request, &compilation, &error), error);
  Program program;
  program.compilation_ = std::shared_ptr<sl_compilation>(compilation, detail::Release());
  program.program_ =
      std::shared_ptr<sl_program>(sl_compilation_program(compilation), detail::Release());
  for (int32_t i = 0; sl_text* name = sl_module_parameter_name(module.get(), i); ++i) {
    program.declared_.insert(detail::take(name));
  }
  return program;
}

// Functions ---------------------------------------------------------------------------------------

/// A program with parameters of its own: what is called. Copies share both.
class Function {
 public:
  Function() = default;
  explicit operator bool() const { return state_ != nullptr; }

  /// Calls it. Results are fresh tensors, or views of an input, parameter or state that keep it
  /// alive.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    return call(inputs, {});
  }

  /// The same into tensors of the caller, one a fresh result in order; nothing else is allocated
  /// for them.
  void operator()(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    const State& state = *detail::present(state_, "the function");
    if (static_cast<int32_t>(outputs.size()) != state.desc->output_count) {
      throw UserError("the function writes " + std::to_string(state.desc->output_count) +
                      " outputs but " + std::to_string(outputs.size()) + " are given");
    }
    call(inputs, outputs);
  }

 private:
  friend class Program;

  /// Members go in the reverse order: what is above outlives what is below.
  struct State {
    std::shared_ptr<sl_program> program;
    const sl_program_desc* desc = nullptr;
    std::vector<Tensor> parameters;  ///< in the program's order
    detail::Owned<sl_weights> weights;
    detail::Owned<sl_queue> queue;
    std::vector<const sl_buffer*> outputs;
    std::vector<bool> written;  ///< inputs that the program updates
  };

  /// The layout of a buffer for these extents; `bytes` of storage from element 0 on.
  struct Layout {
    std::vector<int64_t> shape, strides;
    int64_t bytes = 0;

    Layout(const sl_buffer& buffer, const int64_t* extents) {
      int64_t last = 0;
      bool isEmpty = false;
      for (int32_t d = 0; d < buffer.rank; ++d) {
        shape.push_back(sl_expr_value(&buffer.extents[d], extents));
        strides.push_back(sl_expr_value(&buffer.strides[d], extents));
        isEmpty |= shape.back() == 0;
        last += (shape.back() - 1) * strides.back();
      }
      const int64_t touched = isEmpty ? 0 : (last + 1) * (buffer.dtype.bits / 8);
      bytes = std::max(touched, sl_expr_value(&buffer.bytes, extents));
    }
  };

  std::vector<Tensor> call(const std::vector<Tensor>& inputs,
                           const std::vector<Tensor>& given) const {
    const State& state = *detail::present(state_, "the function");
    std::vector<int64_t> extents(static_cast<size_t>(state.desc->extent_count));
    const std::vector<void*> inputData = guard(state, inputs, extents);
    std::vector<Tensor> fresh = given.empty() ? freshOutputs(state, extents.data()) : given;
    if (!given.empty()) {
      checkOutputs(state, given, inputs, extents.data());
    }
    std::vector<void*> outputData;
    for (const Tensor& output : fresh) {
      outputData.push_back(output.data());
    }
    sl_message message{};
    sl_frame* leased = nullptr;
    detail::check(sl_frame_lease(state.program.get(), extents.data(), &leased, &message), message);
    const detail::Owned<sl_frame> frame(leased);
    sl_args arguments{};
    arguments.size = sizeof(arguments);
    arguments.inputs = inputData.data();
    arguments.outputs = outputData.data();
    arguments.extents = extents.data();
    sl_ctx context{};
    context.size = sizeof(context);
    context.statement = -1;
    detail::check(sl_run(state.program.get(), state.weights.get(), leased, state.queue.get(),
                         &arguments, &context, &message),
                  message);
    return results(state, inputs, fresh, extents.data());
  }

  /// Compares the inputs with what was compiled and finds the named extents.
  static std::vector<void*> guard(const State& state, const std::vector<Tensor>& inputs,
                                  std::vector<int64_t>& extents) {
    std::vector<sl_tensor> tensors;
    std::vector<void*> data;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = inputs[i];
      if (!input) {
        throw UserError("input " + std::to_string(i) +
                        " is an empty tensor: it was moved from, or never made");
      }
      tensors.push_back({input.data_, input.shape_.data(), input.strides_.data(),
                         static_cast<int32_t>(input.rank()), detail::row(input.dtype_).code, 1, 0});
      data.push_back(input.data_);
    }
    sl_message message{};
    detail::check(sl_program_guard(state.program.get(), tensors.data(),
                                   static_cast<int32_t>(tensors.size()), extents.data(), &message),
                  message);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (state.written[i] && inputs[i].isReadOnly()) {
        throw UserError("input " + std::to_string(i) +
                        " is over const memory but the program updates it");
      }
    }
    return data;
  }

  static std::vector<Tensor> freshOutputs(const State& state, const int64_t* extents) {
    std::vector<Tensor> outputs;
    for (const sl_buffer* buffer : state.outputs) {
      Layout layout(*buffer, extents);
      Tensor tensor(detail::dtypeOf(buffer->dtype), std::move(layout.shape),
                    std::move(layout.strides));
      tensor.allocate(layout.bytes);
      outputs.push_back(std::move(tensor));
    }
    return outputs;
  }

  static void checkOutputs(const State& state, const std::vector<Tensor>& outputs,
                           const std::vector<Tensor>& inputs, const int64_t* extents) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string name = "output " + std::to_string(i);
      const sl_buffer& buffer = *state.outputs[i];
      if (isComputed(*state.desc, buffer)) {
        throw UserError(name + " cannot be given: its size depends on data");
      }
      const Layout layout(buffer, extents);
      const Tensor& output = outputs[i];
      if (!output || output.isReadOnly()) {
        throw UserError(name + (output ? " is over const memory"
                                       : " is an empty tensor: it was moved from, or never made"));
      }
      if (const std::string words = differs(output, buffer, layout); !words.empty()) {
        throw UserError(name + " " + words);
      }
      for (size_t k = 0; k < inputs.size() + i; ++k) {
        const bool isInput = k < inputs.size();
        if (overlap(output, isInput ? inputs[k] : outputs[k - inputs.size()])) {
          throw UserError(name + " shares memory with " + (isInput ? "input " : "output ") +
                          std::to_string(isInput ? k : k - inputs.size()));
        }
      }
    }
  }

  /// Whether the run computes a size of the buffer.
  static bool isComputed(const sl_program_desc& desc, const sl_buffer& buffer) {
    for (const sl_expr& size : std::span(buffer.extents, static_cast<size_t>(buffer.rank))) {
      for (const sl_expr_step& step : std::span(size.steps, static_cast<size_t>(size.count))) {
        if (step.op == 's' && desc.extents[step.value].bound.count > 0) {
          return true;
        }
      }
    }
    return false;
  }

  /// Words for how a tensor differs from a buffer; "" when it fits.
  static std::string differs(const Tensor& tensor, const sl_buffer& buffer, const Layout& layout) {
    const DType dtype = detail::dtypeOf(buffer.dtype);
    if (tensor.dtype_ != dtype || tensor.shape_ != layout.shape) {
      return "is " + tensor.describe() + " but " + std::string(name(dtype)) +
             detail::join(layout.shape) + " was compiled";
    }
    for (size_t d = 0; d < layout.shape.size() && tensor.sizeElems() != 0; ++d) {
      if (layout.shape[d] != 1 && layout.strides[d] != tensor.strides_[d]) {
        return "has strides " + detail::join(tensor.strides_) + " but " +
               detail::join(layout.strides) + " was compiled";
      }
    }
    return "";
  }

  /// By the range of addresses that each touches.
  static bool overlap(const Tensor& a, const Tensor& b) {
    const auto [aLow, aHigh] = range(a);
    const auto [bLow, bHigh] = range(b);
    return aLow < bHigh && bLow < aHigh;
  }
  static std::pair<intptr_t, intptr_t> range(const Tensor& tensor) {
    intptr_t low = reinterpret_cast<intptr_t>(tensor.data_);
    intptr_t high = low;
    if (tensor.sizeElems() == 0) {
      return {low, high};
    }
    for (size_t d = 0; d < tensor.shape_.size(); ++d) {
      const int64_t step = (tensor.shape_[d] - 1) * tensor.strides_[d] * sizeBytes(tensor.dtype_);
      (step < 0 ? low : high) += step;
    }
    return {low, high + sizeBytes(tensor.dtype_)};
  }

  static std::vector<Tensor> results(const State& state, const std::vector<Tensor>& inputs,
                                     const std::vector<Tensor>& fresh, const int64_t* extents) {
    std::vector<Tensor> results;
    for (int32_t i = 0; i < state.desc->result_count; ++i) {
      const sl_buffer& buffer = state.desc->buffers[state.desc->results[i].buffer];
      if (buffer.role == SL_ROLE_OUTPUT) {
        results.push_back(fresh.at(static_cast<size_t>(buffer.index)));
        if (isComputed(*state.desc, buffer)) {
          Layout layout(buffer, extents);
          results.back().shape_ = std::move(layout.shape);
          results.back().strides_ = std::move(layout.strides);
        }
        continue;
      }
      const sl_buffer& root = state.desc->buffers[state.desc->results[i].root];
      const auto number = static_cast<size_t>(root.index);
      const Tensor& owner = root.role == SL_ROLE_INPUT    ? inputs.at(number)
                            : root.role == SL_ROLE_OUTPUT ? fresh.at(number)
                                                          : state.parameters.at(number);
      std::vector<int64_t> shape(SL_MAX_RANK);
      std::vector<int64_t> strides(SL_MAX_RANK);
      int64_t offset = 0;
      sl_program_result(state.program.get(), i, extents, shape.data(), strides.data(), &offset);
      shape.resize(static_cast<size_t>(buffer.rank));
      strides.resize(static_cast<size_t>(buffer.rank));
      Tensor view = owner;
      view.dtype_ = detail::dtypeOf(buffer.dtype);
      view.shape_ = std::move(shape);
      view.strides_ = std::move(strides);
      view.data_ = static_cast<char*>(owner.data_) + offset;
      results.push_back(std::move(view));
    }
    return results;
  }

  /// Which inputs some statement writes.
  static std::vector<bool> writtenInputs(const sl_program_desc& desc) {
    std::vector<bool> written(static_cast<size_t>(desc.input_count));
    for (const sl_statement& statement :
         std::span(desc.statements, static_cast<size_t>(desc.statement_count))) {
      for (int32_t k = 0; k < statement.outputs; ++k) {
        int32_t number = statement.operands[statement.inputs + k];
        while (number >= 0 && desc.buffers[number].role == SL_ROLE_VIEW) {
          number = desc.buffers[number].base;
        }
        if (number >= 0 && desc.buffers[number].role == SL_ROLE_INPUT) {
          written[static_cast<size_t>(desc.buffers[number].index)] = true;
        }
      }
    }
    return written;
  }

  std::shared_ptr<const State> state_;
};

inline Function Program::bind(const std::map<std::string, Tensor>& parameters) const {
  const sl_program_desc& desc = description();
  auto state = std::make_shared<Function::State>();
  state->program = program_;
  state->desc = &desc;
  state->parameters.resize(static_cast<size_t>(desc.parameter_count));
  state->outputs.resize(static_cast<size_t>(desc.output_count));
  state->written = Function::writtenInputs(desc);
  std::string problems;
  for (const sl_buffer& buffer : std::span(desc.buffers, static_cast<size_t>(desc.buffer_count))) {
    if (buffer.role == SL_ROLE_OUTPUT) {
      state->outputs[static_cast<size_t>(buffer.index)] = &buffer;
    }
    if (buffer.role != SL_ROLE_PARAMETER && buffer.role != SL_ROLE_STATE) {
      continue;
    }
    const Function::Layout layout(buffer, nullptr);
    const auto found = parameters.find(buffer.source);
    if (found == parameters.end() || !found->second) {
      problems += "\n  missing: '" + std::string(buffer.source) + "' (" +
                  std::string(name(detail::dtypeOf(buffer.dtype))) + detail::join(layout.shape) +
                  ")";
      continue;
    }
    std::string words = Function::differs(found->second, buffer, layout);
    if (words.empty() && buffer.role == SL_ROLE_STATE && found->second.isReadOnly()) {
      words = "is over const memory but the program updates it";
    }
    problems += words.empty() ? "" : "\n  '" + std::string(buffer.source) + "' " + words;
    state->parameters[static_cast<size_t>(buffer.index)] = found->second;
  }
  for (const auto& [key, tensor] : parameters) {
    problems += declared_.contains(key) ? "" : "\n  unknown: '" + key + "'";
  }
  if (!problems.empty()) {
    throw UserError("the parameters do not fit the program '" + std::string(desc.name) +
                    "':" + problems);
  }
  std::vector<void*> data;
  for (const Tensor& parameter : state->parameters) {
    data.push_back(parameter.data());
  }
  sl_message message{};
  sl_weights* weights = nullptr;
  detail::check(
      sl_weights_create(program_.get(), data.data(), nullptr, nullptr, &weights, &message),
      message);
  state->weights.reset(weights);
  sl_queue* queue = nullptr;
  detail::check(sl_queue_team(desc.threads, &queue, &message), message);
  state->queue.reset(queue);
  Function function;
  function.state_ = std::move(state);
  return function;
}

}  // namespace v1
}  // namespace straightline

#endif  // STRAIGHTLINE_STRAIGHTLINE_HPP
