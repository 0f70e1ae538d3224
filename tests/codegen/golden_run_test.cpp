// SPDX-License-Identifier: Apache-2.0
// Runs the goldens through the runtime and compares with loops written here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/backends/test_device/test_device.h"
#include "straightline/abi/straightline.h"

extern "C" {
extern const sl_program_desc linear_relu, control_flow, external_call, device_queue,
    symbolic_pointwise;

// The external entry of external_call.mlir: y = x w^T; the handle is the address of the weights.
int g_handles = 0;
int32_t example_ip_plan(sl_ctx*, const sl_problem* problem, const void* const* constants,
                        void** handle) {
  EXPECT_STREQ("inner_product", problem->op);
  EXPECT_EQ(2, problem->inputs);
  EXPECT_EQ(64, problem->operands[1].extents[1]);
  EXPECT_EQ(1, problem->operands[1].constant);
  EXPECT_STREQ("transposed", problem->attributes[0].name);
  EXPECT_EQ(nullptr, constants[0]) << "known per call only";
  *handle = const_cast<void*>(constants[1]);
  ++g_handles;
  return SL_OK;
}
int32_t example_ip_run(sl_ctx*, sl_team team, void* handle, const void* const* inputs,
                       void* const* outputs, void* workspace) {
  EXPECT_NE(nullptr, workspace);
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* w = static_cast<const float*>(handle);
  auto* y = static_cast<float*>(outputs[0]);
  for (int m = team.index; m < 4; m += team.size) {
    for (int n = 0; n < 10; ++n) {
      y[m * 10 + n] = 0;
      for (int k = 0; k < 64; ++k) {
        y[m * 10 + n] += x[m * 64 + k] * w[n * 64 + k];
      }
    }
  }
  return SL_OK;
}
void example_ip_destroy(void*) { --g_handles; }
}

namespace {

std::vector<float> randomFloats(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> result(count);
  for (float& value : result) {
    value = values(engine);
  }
  return result;
}

uint32_t freshSeed() {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  return seed;
}

/// Each case by the straight line and by the interpreter.
class Golden : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { executor = GetParam() ? sl_interpreter() : nullptr; }

 public:
  static const sl_executor* executor;  ///< of the case that runs
};
const sl_executor* Golden::executor = nullptr;
INSTANTIATE_TEST_SUITE_P(Paths, Golden, testing::Bool(), [](const auto& info) {
  return info.param ? "Interpreter" : "StraightLine";
});

/// A program with its weights; runs once per call of run().
class Runner {
 public:
  Runner(const sl_program_desc& desc, std::vector<void*> parameters) {
    EXPECT_EQ(SL_OK, sl_program_create(&desc, nullptr, nullptr, &program_, &message_))
        << message_.text;
    EXPECT_EQ(SL_OK, sl_weights_create_by(program_, parameters.data(), Golden::executor, nullptr,
                                          nullptr, &weights_, &message_))
        << message_.text;
    EXPECT_EQ(SL_OK, sl_queue_team(desc.threads, &queue_, &message_)) << message_.text;
  }
  ~Runner() {
    sl_queue_release(queue_);
    sl_weights_release(weights_);
    sl_program_release(program_);
  }

  int32_t run(std::vector<void*> inputs, std::vector<void*> outputs,
              std::vector<int64_t> extents = {}) {
    sl_frame* frame = nullptr;
    EXPECT_EQ(SL_OK, sl_frame_lease(program_, extents.data(), &frame, &message_)) << message_.text;
    sl_args args{sizeof(sl_args), inputs.data(),    outputs.data(),
                 extents.data(),  Golden::executor, SL_LAUNCH_STREAM};
    sl_ctx ctx{};
    ctx.size = sizeof(ctx);
    ctx.cancel = cancel;
    const int32_t status = sl_run(program_, weights_, frame, queue_, &args, &ctx, &message_);
    sl_frame_return(frame);
    return status;
  }
  const char* text() const { return message_.text; }
  const int32_t* cancel = nullptr;

 private:
  sl_program* program_ = nullptr;
  sl_weights* weights_ = nullptr;
  sl_queue* queue_ = nullptr;
  sl_message message_{};
};

TEST_P(Golden, LinearRelu) {
  const uint32_t seed = freshSeed();
  std::vector<float> x = randomFloats(64, seed), w = randomFloats(640, seed + 1),
                     bias = randomFloats(10, seed + 2);
  std::vector<float> z(10);
  Runner runner(linear_relu, {w.data(), bias.data()});
  ASSERT_EQ(SL_OK, runner.run({x.data()}, {z.data()})) << runner.text();
  for (int n = 0; n < 10; ++n) {
    double sum = bias[n];
    for (int k = 0; k < 64; ++k) {
      sum += double(x[k]) * w[n * 64 + k];
    }
    EXPECT_NEAR(std::max(sum, 0.0), z[n], 1e-5);
  }
}

struct ControlFlow {
  std::vector<float> x, bias, cache, y = std::vector<float>(64);
  int64_t steps = 0;
  bool go = true;
  explicit ControlFlow(uint32_t seed)
      : x(randomFloats(50 * 64, seed)),
        bias(randomFloats(64, seed + 1)),
        cache(randomFloats(64, seed + 2)) {}
  std::vector<void*> inputs() { return {x.data(), &go, cache.data()}; }
};

TEST_P(Golden, ControlFlow) {
  const uint32_t seed = freshSeed();
  for (bool go : {true, false}) {
    for (int64_t length : {1, 7, 50}) {
      ControlFlow data(seed);
      data.go = go;
      Runner runner(control_flow, {data.bias.data(), &data.steps});
      std::vector<double> expected(64);
      for (int i = 0; i < 64; ++i) {
        expected[i] = double(data.cache[i]) + data.bias[i];
        for (int64_t row = 0; row < length; ++row) {
          expected[i] += data.x[row * 64 + i];
        }
        expected[i] += go ? data.bias[i] : 0;
      }
      ASSERT_EQ(SL_OK, runner.run(data.inputs(), {data.y.data()}, {length})) << runner.text();
      EXPECT_EQ(1, data.steps);  // `while steps * 10 < 10` runs once
      for (int i = 0; i < 64; ++i) {
        EXPECT_NEAR(expected[i], data.y[i], 1e-4);
        EXPECT_FLOAT_EQ(data.y[i] + data.bias[i], data.cache[i]);
      }
    }
  }
}

TEST_P(Golden, FailuresOfControlFlow) {
  ControlFlow data(1);
  Runner runner(control_flow, {data.bias.data(), &data.steps});
  data.x[64] = 2e6f;
  EXPECT_EQ(SL_CHECK_FAILED, runner.run(data.inputs(), {data.y.data()}, {3}));
  EXPECT_STREQ("check failed: x[1, 0] is \"too large\" at model.py:10", runner.text());
}

// Contract: E17. The loop of 2^40 steps ends because its back edge looks at the flag.
TEST_P(Golden, CancelFlagIsSeenAtTheBackEdgeOfALoop) {
  ControlFlow data(1);
  constexpr int64_t kFarAway = -(int64_t{1} << 40);
  data.steps = kFarAway;
  Runner runner(control_flow, {data.bias.data(), &data.steps});
  int32_t cancel = 0;
  runner.cancel = &cancel;
  std::thread canceller([&] {
    while (__atomic_load_n(&data.steps, __ATOMIC_RELAXED) == kFarAway) {
      std::this_thread::yield();
    }
    __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
  });
  EXPECT_EQ(SL_CANCELLED, runner.run(data.inputs(), {data.y.data()}, {3}));
  canceller.join();
  EXPECT_LT(data.steps, 0);
}

TEST_P(Golden, ExternalCall) {
  const uint32_t seed = freshSeed();
  std::vector<float> x = randomFloats(256, seed), w = randomFloats(640, seed + 1), y(40);
  std::vector<int32_t> k(40, 6), j(40);
  {
    Runner runner(external_call, {w.data()});
    EXPECT_EQ(1, g_handles);
    for (int i = 0; i < 40; ++i) {
      k[i] = i + 1;
    }
    ASSERT_EQ(SL_OK, runner.run({x.data(), k.data()}, {y.data(), j.data()})) << runner.text();
    for (int m = 0; m < 4; ++m) {
      double sum = 0;
      for (int i = 0; i < 64; ++i) {
        sum += double(x[m * 64 + i]) * w[3 * 64 + i];
      }
      EXPECT_NEAR(sum, y[m * 10 + 3], 1e-5);
    }
    EXPECT_EQ(std::vector<int32_t>(40, 0), j);  // (k / k) floordiv 3
    k[17] = 0;
    EXPECT_EQ(SL_ZERO_DIVISION, runner.run({x.data(), k.data()}, {y.data(), j.data()}));
    EXPECT_STREQ("integer division or modulo by zero: div at model.py:6", runner.text());
    k[17] = 1;
    EXPECT_EQ(SL_OK, runner.run({x.data(), k.data()}, {y.data(), j.data()})) << runner.text();
  }
  EXPECT_EQ(0, g_handles);
}

TEST_P(Golden, DeviceQueue) {
  sl_message message{};
  ASSERT_EQ(SL_OK, sl_backend_register(straightline_backend_v1(), &message)) << message.text;
  const uint32_t seed = freshSeed();
  std::vector<float> w = randomFloats(8, seed);
  Runner runner(device_queue, {w.data()});
  for (int64_t b : {1, 5, 32}) {
    std::vector<float> x = randomFloats(b * 8, seed + b), y(b * 8);
    ASSERT_EQ(SL_OK, runner.run({x.data()}, {y.data()}, {b})) << runner.text();
    for (int64_t i = 0; i < b * 8; ++i) {
      EXPECT_FLOAT_EQ((x[i] + x[i]) * w[i % 8], y[i]) << i;
    }
  }
}

TEST_P(Golden, SymbolicPointwise) {
  const uint32_t seed = freshSeed();
  for (int64_t b : {1, 3, 64}) {
    std::vector<float> x = randomFloats(b * 64, seed), y(b * 64);
    std::vector<int32_t> k(b * 64);
    const auto mask = std::make_unique<bool[]>(b * 64);
    for (size_t i = 0; i < k.size(); ++i) {
      k[i] = static_cast<int32_t>(i) - 20;
    }
    Runner runner(symbolic_pointwise, {});
    ASSERT_EQ(SL_OK, runner.run({x.data(), k.data()}, {y.data(), mask.get()}, {b}))
        << runner.text();
    for (size_t i = 0; i < k.size(); ++i) {
      const int32_t n = ((k[i] % 7) + 7) % 7;
      const double t = -std::tanh(double(x[i])) * n;
      const bool near = std::abs(t - 0.5) < 0.05;  // bfloat16 in between
      EXPECT_TRUE(near || mask[i] == (t > 0.5)) << i;
      const double chosen = mask[i] ? t : 0.5;
      const float scales[] = {0.1f, INFINITY, -1e-10f, 3.0f};
      const double expected = chosen * scales[i % 4];
      if (std::isinf(expected)) {
        EXPECT_EQ(expected, y[i]) << i;
      } else {
        EXPECT_NEAR(expected, y[i], 0.01 * std::abs(expected)) << i;
      }
    }
  }
}

}  // namespace
