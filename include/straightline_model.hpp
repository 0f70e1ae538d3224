// SPDX-License-Identifier: Apache-2.0
// Saved models in C++20 (docs/guides/artifacts.md): straightline_model.h with classes and
// exceptions. Headers only; link with libstraightline_runtime.
//
//   const straightline::Model model = straightline::Model::load("mlp.sl");
//   std::vector<straightline::Tensor> y = model({x});
//
// Errors are those of straightline.hpp: UserError, UnsupportedError, InternalError. A Model is a
// handle with shared ownership; any number of threads may call it at once.
#ifndef STRAIGHTLINE_MODEL_HPP
#define STRAIGHTLINE_MODEL_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "straightline/abi/model.h"
#include "straightline/tensor.hpp"

namespace straightline {
inline namespace v1 {

struct ModelOptions {
  int32_t threads = 0;  ///< of a call at most; 0: as many as it was compiled for
  bool verify = false;  ///< compare the digests of all files, weights too
};

/// A size of an input or result: a number, or -1 with a name and bounds.
struct ModelSize {
  int64_t size = -1;
  int64_t min = 0, max = 0;
  std::string text;
};

struct ModelTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<ModelSize> shape;
};

class Model {
 public:
  Model() = default;

  /// Opens a file or folder on this processor.
  static Model load(const std::string& path, const ModelOptions& options = {}) {
    return made(
        [&](const sl_model_options& given, sl_model** out, sl_message* message) {
          return sl_model_load(path.c_str(), &given, out, message);
        },
        options);
  }
  /// A model that is linked into the program: sl_model_NAME of its library.
  static Model linked(const sl_linked_model& model, const ModelOptions& options = {}) {
    return made(
        [&](const sl_model_options& given, sl_model** out, sl_message* message) {
          return sl_model_load_linked(&model, &given, out, message);
        },
        options);
  }
  /// Another model over the same code, with the tensors of a safetensors file.
  Model withParameters(const std::string& path) const {
    return made(
        [&](const sl_model_options&, sl_model** out, sl_message* message) {
          return sl_model_with_parameters(get(), path.c_str(), out, message);
        },
        {});
  }
  /// Another model over the same code and weights, whose calls take other kernels: "linear =
  /// onednn, convolution = native" (sl_model_with_slots).
  Model withSlots(const std::string& choice) const {
    return made(
        [&](const sl_model_options&, sl_model** out, sl_message* message) {
          return sl_model_with_slots(get(), choice.c_str(), out, message);
        },
        {});
  }

  explicit operator bool() const { return model_ != nullptr; }
  /// "mlp(x: float32[n, 64]) -> (float32[n, 10]), n from 1 to 1024", a line a program.
  std::string text() const { return sl_model_text(get()); }
  int32_t programCount() const { return sl_model_program_count(get()); }
  std::vector<ModelTensor> inputs(int32_t program = 0) const {
    return tensors(program, sl_model_input_count(get(), program), sl_model_input);
  }
  std::vector<ModelTensor> outputs(int32_t program = 0) const {
    return tensors(program, sl_model_output_count(get(), program), sl_model_output);
  }

  /// Calls it. Results are fresh, or views of an input or a state; they keep alive what they are
  /// views of.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const {
    const std::vector<sl_tensor> given = plain(inputs);
    sl_message message{};
    sl_results* results = nullptr;
    detail::check(
        sl_model_call(get(), given.data(), static_cast<int32_t>(given.size()), &results, &message),
        message);
    struct Kept {
      std::shared_ptr<sl_model> model;
      std::vector<Tensor> inputs;
      std::unique_ptr<sl_results, void (*)(sl_results*)> results;
    };
    const auto kept = std::make_shared<Kept>(Kept{model_, inputs, {results, sl_results_release}});
    std::vector<Tensor> made;
    for (int32_t i = 0; i < sl_results_count(results); ++i) {
      const sl_tensor& result = *sl_results_tensor(results, i);
      Tensor tensor(detail::dtypeOf(result.dtype), {result.shape, result.shape + result.rank},
                    {result.strides, result.strides + result.rank});
      tensor.data_ = result.data;
      tensor.owner_ = kept;
      tensor.made_ = true;
      made.push_back(std::move(tensor));
    }
    return made;
  }

  /// The same into tensors of the caller, one a result.
  void operator()(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    const std::vector<sl_tensor> given = plain(inputs), taken = plain(outputs);
    for (const Tensor& output : outputs) {
      if (output.isReadOnly()) {
        throw UserError("an output is over const memory");
      }
    }
    sl_message message{};
    detail::check(sl_model_run(get(), given.data(), static_cast<int32_t>(given.size()),
                               taken.data(), static_cast<int32_t>(taken.size()), &message),
                  message);
  }

 private:
  sl_model* get() const { return detail::present(model_, "the model").get(); }

  template <typename Make>
  static Model made(const Make& make, const ModelOptions& options) {
    sl_model_options given{};
    given.size = sizeof(given);
    given.threads = options.threads;
    given.flags = options.verify ? SL_ARTIFACT_VERIFY : 0;
    sl_message message{};
    sl_model* model = nullptr;
    detail::check(make(given, &model, &message), message);
    Model result;
    result.model_ = std::shared_ptr<sl_model>(model, sl_model_release);
    return result;
  }

  static std::vector<sl_tensor> plain(const std::vector<Tensor>& tensors) {
    std::vector<sl_tensor> result;
    for (const Tensor& tensor : tensors) {
      if (!tensor) {
        throw UserError("tensor " + std::to_string(result.size()) +
                        " is empty: it was moved from, or never made");
      }
      result.push_back({tensor.data_, tensor.shape_.data(), tensor.strides_.data(),
                        static_cast<int32_t>(tensor.rank()), detail::row(tensor.dtype_).code, 1,
                        0});
    }
    return result;
  }

  template <typename Describe>
  std::vector<ModelTensor> tensors(int32_t program, int32_t count, const Describe& describe) const {
    std::vector<ModelTensor> result;
    for (int32_t i = 0; i < count; ++i) {
      sl_model_tensor info{};
      info.size = sizeof(info);
      sl_message message{};
      detail::check(describe(get(), program, i, &info, &message), message);
      result.push_back({info.name, detail::dtypeOf(info.dtype), {}});
      for (int32_t d = 0; d < info.rank; ++d) {
        const sl_model_size& size = info.shape[d];
        result.back().shape.push_back({size.size, size.min, size.max, size.text});
      }
    }
    return result;
  }

  std::shared_ptr<sl_model> model_;
};

}  // namespace v1
}  // namespace straightline

#endif  // STRAIGHTLINE_MODEL_HPP
