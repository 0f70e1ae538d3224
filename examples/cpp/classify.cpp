// SPDX-License-Identifier: Apache-2.0
// A small classifier, twice: built op by op, and loaded from a file. Shows what a program says
// about itself, and how errors come.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "straightline/straightline.hpp"

namespace sl = straightline;

/// softmax(relu(x a^T + b) c^T) for any number of rows.
sl::Module buildClassifier() {
  sl::Builder builder;
  builder.symbol("rows", 1, 1024);
  const std::string hidden = sl::tensorType(sl::DType::f32, {"rows", 32});
  const std::string scores = sl::tensorType(sl::DType::f32, {"rows", 10});
  const sl::Builder::Value x =
      builder.begin({{"x", sl::tensorType(sl::DType::f32, {"rows", 16})}}).front();
  const sl::Builder::Value a =
      builder.parameter("hidden.weight", sl::tensorType(sl::DType::f32, {32, 16}));
  const sl::Builder::Value b =
      builder.parameter("hidden.bias", sl::tensorType(sl::DType::f32, {32}));
  const sl::Builder::Value c =
      builder.parameter("scores.weight", sl::tensorType(sl::DType::f32, {10, 32}));
  const sl::Builder::Value h =
      builder.op("op.relu", {builder.op("op.linear", {x, a, b}, hidden)}, hidden);
  const sl::Builder::Value y = builder.op("op.linear", {h, c}, scores);
  return builder.finish({{"probabilities", builder.op("op.softmax", {y}, scores, {{"dim", 1}})}});
}

sl::Tensor randomTensor(std::vector<int64_t> shape, std::mt19937& engine) {
  sl::Tensor tensor = sl::Tensor::empty(sl::DType::f32, std::move(shape));
  std::normal_distribution<float> normal(0.0f, 0.3f);
  for (float& value : tensor.elements<float>()) {
    value = normal(engine);
  }
  return tensor;
}

int main() {
  try {
    std::mt19937 engine(std::random_device{}());
    const sl::Tensor a = randomTensor({32, 16}, engine);
    const sl::Tensor b = randomTensor({32}, engine);
    const sl::Tensor c = randomTensor({10, 32}, engine);

    const sl::Module module = buildClassifier();
    const sl::Program program = sl::compile(module);
    const sl::Function classify =
        program.bind({{"hidden.weight", a}, {"hidden.bias", b}, {"scores.weight", c}});
    std::printf("%s\n", program.ir("kernel").c_str());

    // The same from a file.
    std::ofstream("classifier.mlir") << module.print();
    const sl::Function loaded =
        sl::compile(sl::Module::load("classifier.mlir"))
            .bind({{"hidden.weight", a}, {"hidden.bias", b}, {"scores.weight", c}});

    for (int64_t rows : {1, 7}) {
      const sl::Tensor x = randomTensor({rows, 16}, engine);
      const sl::Tensor y = classify({x}).front();
      const sl::Tensor again = loaded({x}).front();
      for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < 10; ++i) {
          sum += y.elements<float>()[row * 10 + i];
          if (y.elements<float>()[row * 10 + i] != again.elements<float>()[row * 10 + i]) {
            std::printf("the loaded program gives something else\n");
            return 1;
          }
        }
        if (std::abs(sum - 1.0f) > 1e-5f) {
          std::printf("probabilities of row %d sum to %g\n", static_cast<int>(row), sum);
          return 1;
        }
      }
    }

    // A call that does not fit is an exception in words.
    try {
      classify({randomTensor({1, 17}, engine)});
      return 1;
    } catch (const sl::UserError& error) {
      std::printf("refused: %s\n", error.what());
    }
    std::printf("ok\n");
    return 0;
  } catch (const sl::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
