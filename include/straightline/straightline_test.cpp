// SPDX-License-Identifier: Apache-2.0
// The C++ API as a user meets it: against libstraightline_compiler.so and the public headers only.
#include "straightline/straightline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using straightline::Builder;
using straightline::compile;
using straightline::DType;
using straightline::Function;
using straightline::Module;
using straightline::Program;
using straightline::Tensor;
using straightline::tensorType;
using straightline::UnsupportedError;
using straightline::UserError;

std::vector<float> randomValues(size_t count) {
  static const unsigned seed = [] {
    const unsigned fresh = std::random_device()();
    std::printf("seed %u\n", fresh);
    return fresh;
  }();
  static std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(engine);
  }
  return values;
}

Tensor randomTensor(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    count *= extent;
  }
  return Tensor::of<float>(std::move(shape),
                           std::span<const float>(randomValues(static_cast<size_t>(count))));
}

/// What `work` throws, which is of kind E and of no other.
template <typename E, typename Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string::npos, (text).find(part)) << (text)

/// relu(x w^T + b) for any number n of rows.
Module linearModule() {
  Builder builder;
  builder.symbol("n", 1, 64);
  const std::string y = tensorType(DType::f32, {"n", 3});
  const Builder::Value x = builder.begin({{"x", tensorType(DType::f32, {"n", 8})}}).front();
  const Builder::Value weight = builder.parameter("weight", tensorType(DType::f32, {3, 8}));
  const Builder::Value bias = builder.parameter("bias", tensorType(DType::f32, {3}));
  const Builder::Value sum = builder.op("op.linear", {x, weight, bias}, y);
  return builder.finish({{"y", builder.op("op.relu", {sum}, y)}});
}

void expectLinear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  ASSERT_EQ((std::vector<int64_t>{x.shape()[0], 3}), y.shape());
  for (int64_t row = 0; row < x.shape()[0]; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      double sum = bias.elements<float>()[column];
      for (int64_t k = 0; k < 8; ++k) {
        sum += double(x.elements<float>()[row * 8 + k]) * weight.elements<float>()[column * 8 + k];
      }
      EXPECT_NEAR(std::max(sum, 0.0), y.elements<float>()[row * 3 + column], 1e-5);
    }
  }
}

constexpr char kCounter[] = R"(
  func.func @forward(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y"}, tensor<4xf32> {op.name = "s", op.tie = "state:sum"}) {
    %s = op.state "sum" : tensor<4xf32>
    %unused = op.parameter "unused" : tensor<2xf32>
    %t = op.add %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %y = op.neg %t : (tensor<4xf32>) -> tensor<4xf32>
    return %y, %t : tensor<4xf32>, tensor<4xf32>
  })";

TEST(CppApi, BuildsCompilesAndCalls) {
  const Tensor weight = randomTensor({3, 8});
  const Tensor bias = randomTensor({3});
  const Program program = compile(linearModule());
  const Function forward = program.bind({{"weight", weight}, {"bias", bias}});
  for (int64_t rows : {1, 5, 64}) {
    const Tensor x = randomTensor({rows, 8});
    const std::vector<Tensor> results = forward({x});
    ASSERT_EQ(1u, results.size());
    expectLinear(x, weight, bias, results[0]);
  }
  EXPECT_SAYS(program.code(), "sl_program_run");
  EXPECT_SAYS(program.ir("op"), "op.linear");
  EXPECT_SAYS(program.ir("kernel"), "kernel.launch");
  EXPECT_SAYS(program.explain(), "straightline_test.cpp:");
  ASSERT_EQ(1u, program.inputs().size());
  EXPECT_EQ("x", program.inputs()[0].name);
  EXPECT_EQ((std::vector<int64_t>{-1, 8}), program.inputs()[0].shape);
  EXPECT_EQ(2u, program.parameters().size());
}

TEST(CppApi, FunctionOutlivesWhatItWasMadeOf) {
  Function forward;
  std::vector<float> weight(24, 0.5f);
  {
    const Program program = compile(linearModule(), {.freeze = false});
    Tensor bias = Tensor::of<float>({3}, {1.0f, 2.0f, -100.0f});
    forward = program.bind({{"weight", Tensor::borrow(weight.data(), {3, 8})}, {"bias", bias}});
  }
  const Tensor x = Tensor::of<float>({1, 8}, {1, 1, 1, 1, 1, 1, 1, 1});
  const Function copy = forward;
  forward = Function();
  const std::vector<Tensor> y = copy({x});
  EXPECT_FLOAT_EQ(5.0f, y[0].elements<float>()[0]);
  EXPECT_FLOAT_EQ(6.0f, y[0].elements<float>()[1]);
  EXPECT_FLOAT_EQ(0.0f, y[0].elements<float>()[2]);
}

TEST(CppApi, StatesAreUpdatedInPlace) {
  const Program program = compile(Module::parse(kCounter, "counter.mlir"));
  std::vector<float> sum = {1, 2, 3, 4};
  // A declared parameter that nothing reads may be given or left out.
  const Function first = program.bind({{"sum", Tensor::borrow(sum.data(), {4})}});
  const Function second = program.bind(
      {{"sum", Tensor::of<float>({4}, {0, 0, 0, 0})}, {"unused", Tensor::of<float>({2}, {1, 2})}});
  const Tensor x = Tensor::of<float>({4}, {1, 1, 1, 1});
  first({x});
  const std::vector<Tensor> y = first({x});
  EXPECT_EQ((std::vector<float>{3, 4, 5, 6}), sum);
  ASSERT_EQ(1u, y.size());
  EXPECT_EQ(-3.0f, y[0].elements<float>()[0]);
  EXPECT_EQ(-1.0f, second({x})[0].elements<float>()[0]);

  const std::vector<float> constant(4);
  const std::string said =
      refusal<UserError>([&] { program.bind({{"sum", Tensor::borrow(constant.data(), {4})}}); });
  EXPECT_SAYS(said, "'sum' is over const memory but the program updates it");
}

TEST(CppApi, InputsThatAreUpdatedMustNotBeConst) {
  const Program program = compile(Module::parse(R"(
    func.func @forward(%x: tensor<4xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "y", op.tie = "input:x"}) {
      %y = op.neg %x : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    })"));
  const Function forward = program.bind();
  std::vector<float> x = {1, 2, 3, 4};
  EXPECT_TRUE(forward({Tensor::borrow(x.data(), {4})}).empty());
  EXPECT_EQ((std::vector<float>{-1, -2, -3, -4}), x);
  const float* constant = x.data();
  EXPECT_SAYS(refusal<UserError>([&] { forward({Tensor::borrow(constant, {4})}); }),
              "const memory but the program updates it");
}

TEST(CppApi, WritesIntoTensorsOfTheCaller) {
  const Tensor weight = randomTensor({3, 8});
  const Tensor bias = randomTensor({3});
  const Function forward = compile(linearModule()).bind({{"weight", weight}, {"bias", bias}});
  const Tensor x = randomTensor({5, 8});
  const Tensor y = Tensor::empty(DType::f32, {5, 3});
  forward({x}, {y});
  expectLinear(x, weight, bias, y);
  EXPECT_SAYS(refusal<UserError>([&] { forward({x}, {Tensor::empty(DType::f32, {5, 4})}); }),
              "output 0 is f32[5, 4] but f32[5, 3] was compiled");
  EXPECT_SAYS(refusal<UserError>([&] { forward({x}, {Tensor::empty(DType::f64, {5, 3})}); }),
              "output 0 is f64[5, 3]");
  EXPECT_SAYS(refusal<UserError>([&] { forward({x}, {y, y}); }),
              "writes 1 outputs but 2 are given");
  EXPECT_SAYS(refusal<UserError>([&] { forward({x}, std::vector<Tensor>()); }),
              "writes 1 outputs but 0 are given");
  EXPECT_SAYS(refusal<UserError>([&] { forward({x}, {Tensor()}); }), "output 0 is an empty tensor");
  EXPECT_SAYS(refusal<UserError>([&] { forward({x}, {Tensor::borrow(x.data<float>(), {5, 3})}); }),
              "output 0 shares memory with input 0");
  EXPECT_SAYS(
      refusal<UserError>([&] { forward({x}, {Tensor::borrow(y.data<float>(), {5, 3}, {1, 5})}); }),
      "strides [1, 5] but [3, 1]");
}

TEST(CppApi, AResultThatIsAnInputKeepsItsMemory) {
  const Function forward = compile(Module::parse(R"(
    func.func @forward(%x: tensor<4x2xf32> {op.name = "x"}) -> (tensor<8xf32> {op.name = "y"}) {
      %y = op.reshape %x : (tensor<4x2xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    })"))
                               .bind();
  Tensor y;
  const void* place = nullptr;
  {
    const Tensor x = Tensor::of<float>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    place = x.data();
    y = forward({x})[0];
  }
  EXPECT_EQ(place, y.data());
  EXPECT_EQ((std::vector<int64_t>{8}), y.shape());
  EXPECT_EQ(7.0f, y.elements<float>()[7]);
}

TEST(CppApi, ConstantsAttributesAndRegions) {
  Builder builder;
  const std::string vector = tensorType(DType::f32, {4});
  const std::string scalar = tensorType(DType::f32, {});
  const Builder::Value x = builder.begin({{"x", vector}}).front();
  const std::vector<float> values = {1, 2, 3, 4};
  const Builder::Value table = builder.constant<float>(vector, values);
  const Builder::Value product = builder.op("op.mul", {x, table}, vector);
  const Builder::Value sum =
      builder.op("op.sum", {product}, scalar, {{"dims", {0}}, {"keepdim", false}});
  const Builder::Value zero = builder.op("op.full", {}, scalar, {{"value", 0.0}});
  const Builder::Value isPositive =
      builder.op("op.gt", {sum, zero}, tensorType(DType::boolean, {}));
  builder.beginRegion();
  builder.endRegion({product});
  builder.beginRegion();
  builder.endRegion({builder.op("op.leaky_relu", {product}, vector, {{"negative_slope", 0.25}})});
  const std::vector<Builder::Value> chosen =
      builder.ops("op.if", {isPositive}, {vector}, {}, {}, 2);
  const Program program = compile(builder.finish({{"y", chosen[0]}, {"sum", sum}}));
  const Function forward = program.bind();
  const std::vector<Tensor> negative = forward({Tensor::of<float>({4}, {1, 1, 1, -4})});
  EXPECT_EQ(-10.0f, negative[1].elements<float>()[0]);
  EXPECT_EQ(-4.0f, negative[0].elements<float>()[3]);
  EXPECT_EQ(3.0f, negative[0].elements<float>()[2]);
  const std::vector<Tensor> positive = forward({Tensor::of<float>({4}, {1, 1, 1, -1})});
  EXPECT_EQ(-4.0f, positive[0].elements<float>()[3]);
}

TEST(CppApi, CallsMayRunAtOnce) {
  const Tensor weight = randomTensor({3, 8});
  const Tensor bias = randomTensor({3});
  const Function forward =
      compile(linearModule(), {.threads = 2}).bind({{"weight", weight}, {"bias", bias}});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    const Tensor x = randomTensor({thread + 1, 8});
    threads.emplace_back([forward, x, weight, bias] {
      for (int round = 0; round < 200; ++round) {
        expectLinear(x, weight, bias, forward({x})[0]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(CppApi, WrongCallsAreToldInWords) {
  const Function forward =
      compile(linearModule()).bind({{"weight", randomTensor({3, 8})}, {"bias", randomTensor({3})}});
  const Tensor x = randomTensor({2, 8});
  EXPECT_SAYS(refusal<UserError>([&] { forward({randomTensor({2, 9})}); }), "9");
  EXPECT_SAYS(refusal<UserError>([&] { forward({randomTensor({65, 8})}); }), "65");
  EXPECT_SAYS(refusal<UserError>([&] { forward({randomTensor({8})}); }), "rank");
  EXPECT_SAYS(refusal<UserError>([&] { forward({Tensor::empty(DType::f64, {2, 8})}); }), "float64");
  EXPECT_SAYS(refusal<UserError>([&] { forward(std::vector<Tensor>()); }), "but got 0");
  EXPECT_SAYS(refusal<UserError>([&] { forward({x, x}); }), "but got 2");
  EXPECT_SAYS(refusal<UserError>([&] { forward({Tensor()}); }), "input 0 is an empty tensor");
  const Tensor transposed = Tensor::borrow(x.data<float>(), {2, 8}, {1, 2});
  EXPECT_SAYS(refusal<UserError>([&] { forward({transposed}); }), "stride");
  try {
    forward({randomTensor({2, 9})});
  } catch (const UserError& error) {
    EXPECT_EQ(SL_INVALID_ARGUMENT, error.status());
  }
}

TEST(CppApi, AFailureInsideACallIsTheCallsException) {
  const Program program = compile(Module::parse(R"(
    func.func @forward(%i: tensor<2xi64> {op.name = "i"}) -> (tensor<2x3xf32> {op.name = "y"}) {
      %w = op.parameter "table" : tensor<5x3xf32>
      %y = op.embedding %w, %i : (tensor<5x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"));
  const Tensor table = randomTensor({5, 3});
  const Function forward = program.bind({{"table", table}});
  try {
    forward({Tensor::of<int64_t>({2}, {1, 5})});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(SL_INDEX_ERROR, error.status());
    EXPECT_SAYS(std::string(error.what()), "5");
  }
  EXPECT_EQ(table.elements<float>()[12],
            forward({Tensor::of<int64_t>({2}, {1, 4})})[0].elements<float>()[3]);
}

TEST(CppApi, WrongParametersAreNamedAtOnce) {
  const Program program = compile(linearModule());
  const std::string said = refusal<UserError>(
      [&] { program.bind({{"weight", randomTensor({8, 3})}, {"wait", randomTensor({3})}}); });
  EXPECT_SAYS(said, "'weight' is f32[8, 3] but f32[3, 8] was compiled");
  EXPECT_SAYS(said, "missing: 'bias' (f32[3])");
  EXPECT_SAYS(said, "unknown: 'wait'");
  std::vector<float> values = randomValues(24);
  EXPECT_SAYS(refusal<UserError>([&] {
                program.bind({{"weight", Tensor::borrow(values.data(), {3, 8}, {1, 3})},
                              {"bias", randomTensor({3})}});
              }),
              "'weight' has strides [1, 3] but [8, 1] was compiled");
}

TEST(CppApi, ObjectsThatAreEmptySaySo) {
  EXPECT_SAYS(refusal<UserError>([] { Function()({}); }),
              "the function is empty: it was moved from, or never made");
  EXPECT_SAYS(refusal<UserError>([] { Program().bind(); }), "the program is empty");
  EXPECT_SAYS(refusal<UserError>([] { Program().code(); }), "the program is empty");
  Module module = linearModule();
  const Module other = std::move(module);
  EXPECT_SAYS(refusal<UserError>([&] { compile(module); }), "the module is empty");
  EXPECT_SAYS(refusal<UserError>([&] { module.print(); }), "the module is empty");
  EXPECT_SAYS(other.print(), "op.relu");
  Builder builder;
  const Builder::Value x = builder.begin({{"x", tensorType(DType::f32, {2})}}).front();
  builder.finish({{"y", x}});
  EXPECT_SAYS(refusal<UserError>([&] { builder.finish({{"y", x}}); }), "the builder is empty");
  EXPECT_SAYS(refusal<UserError>([] { Tensor().data<float>(); }), "the tensor is empty");
}

TEST(CppApi, WrongTextsFilesAndOptions) {
  EXPECT_SAYS(refusal<UserError>([] { Module::parse("func.func @f(", "broken.mlir"); }),
              "broken.mlir:1");
  EXPECT_SAYS(refusal<UserError>([] { Module::load("/nowhere/model.mlir"); }),
              "cannot open '/nowhere/model.mlir'");
  EXPECT_SAYS(
      refusal<UserError>([] { Module::load(std::filesystem::temp_directory_path().string()); }),
      "cannot read");
  EXPECT_SAYS(refusal<UserError>([] { compile(Module::parse("module {}")); }), "has 0 functions");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule(), {.cpu = "z80"}); }),
              "unknown target cpu 'z80'");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule(), {.threads = 0}); }), "threads is 0");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule(), {.target = "moon"}); }),
              "unknown target 'moon'");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule(), {.launch = "slow"}); }),
              "launch is 'slow'");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule(), {.allow = {"onednn"}}); }),
              "must have 'native'");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule(), {.routes = {{"line", "native"}}}); }),
              "route line = native");
  EXPECT_SAYS(refusal<UserError>([] { compile(linearModule()).ir("machine"); }), "machine");
}

TEST(CppApi, WrongCallsOfTheBuilderAreTheUsersErrors) {
  const std::string vector = tensorType(DType::f32, {4});
  {
    Builder builder;
    const Builder::Value x = builder.begin({{"x", vector}}).front();
    EXPECT_SAYS(refusal<UserError>([&] { builder.op("op.nonsense", {x}, vector); }), "op.nonsense");
    EXPECT_SAYS(refusal<UserError>([&] { builder.op("op.neg", {x}, vector); }),
                "the builder is empty");
  }
  {
    Builder builder;
    const Builder::Value x = builder.begin({{"x", vector}}).front();
    const Builder::Value y = builder.op("op.neg", {x}, tensorType(DType::f32, {5}));
    EXPECT_SAYS(refusal<UserError>([&] { builder.finish({{"y", y}}); }), "does not verify");
  }
  {
    Builder builder;
    EXPECT_SAYS(refusal<UserError>([&] { builder.op("op.neg", {{7}}, vector); }),
                "no function has begun");
  }
  {
    Builder builder;
    builder.begin({{"x", vector}});
    EXPECT_SAYS(refusal<UserError>([&] { builder.op("op.neg", {{7}}, vector); }), "value 7");
  }
  {
    Builder builder;
    EXPECT_SAYS(refusal<UserError>([&] { builder.begin({{"x", "tensor<4xf33>"}}); }), "f33");
  }
  {
    Builder builder;
    builder.begin({{"x", vector}});
    const std::vector<float> three(3);
    EXPECT_SAYS(refusal<UserError>([&] { builder.constant<float>(vector, three); }), "needs 16");
  }
}

TEST(CppApi, WrongTensors) {
  EXPECT_SAYS(refusal<UserError>([] { Tensor::of<float>({2, 2}, {1, 2, 3}); }),
              "[2, 2] has 4 elements but 3 are given");
  EXPECT_SAYS(refusal<UserError>([] { Tensor::empty(DType::f32, {2, -1}); }), "negative extent");
  EXPECT_SAYS(refusal<UserError>([] { Tensor::borrow(static_cast<float*>(nullptr), {2}); }),
              "null pointer");
  EXPECT_SAYS(
      refusal<UnsupportedError>([] { Tensor::empty(DType::f32, std::vector<int64_t>(9, 1)); }),
      "rank 9, at most 8");
  const Tensor tensor = Tensor::of<float>({2}, {1, 2});
  EXPECT_SAYS(refusal<UserError>([&] { tensor.data<double>(); }), "f32[2] but f64 is asked for");
  const float values[2] = {};
  EXPECT_SAYS(refusal<UserError>([&] { Tensor::borrow(values, {2}).data<float>(); }),
              "over const memory");
  EXPECT_SAYS(refusal<UserError>([&] { Tensor::borrow(values, {2, 1}, {1}); }),
              "rank 2 but strides [1] have 1");
  EXPECT_SAYS(
      refusal<UserError>([&] { Tensor::borrow(values, {1, 2}, {1, 4}).elements<const float>(); }),
      "not row-major");
}

}  // namespace
