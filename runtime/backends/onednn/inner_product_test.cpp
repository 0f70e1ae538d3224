// SPDX-License-Identifier: Apache-2.0
// Everything goes through the registry and sl_symbol, as compiled programs do: nothing of oneDNN is
// linked here.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "straightline/abi/straightline.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

using PlanFn = int32_t (*)(sl_ctx*, const sl_problem*, const void* const*, void**);
using RunFn = int32_t (*)(sl_ctx*, sl_team, void*, const void* const*, void* const*, void*);

const sl_kernel_desc* findKernel() {
  for (int32_t b = 0; b < sl_backend_count(); ++b) {
    for (int32_t k = 0; k < sl_backend_at(b)->kernel_count; ++k) {
      if (std::string(sl_backend_at(b)->kernels[k].name) == "onednn.inner_product") {
        return &sl_backend_at(b)->kernels[k];
      }
    }
  }
  return nullptr;
}

sl_operand operand(std::vector<int64_t> extents, bool constant) {
  sl_operand o{};
  o.dtype = kFloat32;
  o.rank = static_cast<int32_t>(extents.size());
  o.constant = constant;
  int64_t stride = 1;
  for (int32_t d = o.rank - 1; d >= 0; --d) {
    o.extents[d] = extents[static_cast<size_t>(d)];
    o.strides[d] = stride;
    stride *= o.extents[d];
  }
  return o;
}

/// A linear over x [..., K]; owns what the problem points at.
struct Linear {
  Linear(std::vector<int64_t> leading, int64_t n, int64_t k, bool bias, bool relu,
         int32_t threads) {
    std::vector<int64_t> x = leading, y = leading;
    x.push_back(k);
    y.push_back(n);
    operands.push_back(operand(x, false));
    operands.push_back(operand({n, k}, true));
    if (bias) {
      operands.push_back(operand({n}, true));
    }
    operands.push_back(operand(y, false));
    attributes.push_back({"relu", relu});
    problem = {sizeof(sl_problem),
               "linear",
               operands.data(),
               bias ? 3 : 2,
               1,
               attributes.data(),
               1,
               threads,
               32,
               32 << 10,
               512 << 10,
               nullptr,
               0,
               0};
    problem.attribute_stride = sizeof(sl_attribute);
  }
  std::vector<sl_operand> operands;
  std::vector<sl_attribute> attributes;
  sl_problem problem;
};

std::string refusal(const sl_problem& problem) {
  char reason[256] = "";
  return findKernel()->accepts(&problem, reason, sizeof(reason)) == 1 ? "accepted" : reason;
}

TEST(OnednnInnerProduct, IsRegisteredWithItsSymbols) {
  const sl_kernel_desc* kernel = findKernel();
  ASSERT_NE(nullptr, kernel)
      << "libstraightline_backend_onednn.so was not opened from beside the runtime";
  EXPECT_STREQ("linear", kernel->op);
  EXPECT_EQ(kernel->plan, sl_symbol(kernel->plan_symbol));
  EXPECT_EQ(kernel->run, sl_symbol(kernel->run_symbol));
  EXPECT_EQ(reinterpret_cast<void*>(kernel->destroy),
            sl_symbol("sl_onednn_inner_product_plan_destroy"));
}

TEST(OnednnInnerProduct, RefusalsNameBothValues) {
  EXPECT_EQ("accepted", refusal(Linear({4}, 64, 32, true, false, 1).problem));
  Linear wide({4}, 64, 32, false, false, 1);
  wide.operands[0].strides[0] = 40;
  EXPECT_EQ("stride 0 of x is 40, but only contiguous operands (here 32) are taken",
            refusal(wide.problem));
  Linear dtype({4}, 64, 32, false, false, 1);
  dtype.operands[1].dtype = kFloat64;
  EXPECT_EQ("weight has dtype code 2 with 64 bits, but only float32 is taken",
            refusal(dtype.problem));
  Linear dynamic({4}, 64, 32, false, false, 1);
  dynamic.operands[0].extents[0] = SL_DYNAMIC;
  EXPECT_EQ("dim 0 of x is dynamic, but the primitive is built for one size",
            refusal(dynamic.problem));
  Linear activation({4}, 64, 32, false, false, 1);
  activation.operands[1].constant = 0;
  EXPECT_EQ("the weight is not constant, but it is packed once at prepare time",
            refusal(activation.problem));
  Linear mismatch({4}, 64, 32, false, false, 1);
  mismatch.operands[1] = operand({64, 33}, true);
  EXPECT_EQ("x has K=32 and y has N=64, but the weight has K=33 and N=64",
            refusal(mismatch.problem));
}

TEST(OnednnInnerProduct, CostGrowsWithWorkAndHasAFixedPart) {
  const auto cost = [](const Linear& linear) { return findKernel()->cost(&linear.problem); };
  const double tiny = cost(Linear({1}, 10, 64, true, true, 1));
  const double large = cost(Linear({64}, 4096, 4096, true, true, 1));
  EXPECT_GE(tiny, 1.0);
  EXPECT_GT(large, 100 * tiny);
  EXPECT_LT(cost(Linear({64}, 4096, 4096, true, true, 2)), large);
}

struct Case {
  std::vector<int64_t> leading;
  int64_t n, k;
  bool bias, relu;
  int32_t threads;
};

void PrintTo(const Case& c, std::ostream* out) { *out << "n=" << c.n << " k=" << c.k; }

class OnednnInnerProductNumbers : public ::testing::TestWithParam<Case> {};

// Largest error over the outputs relative to the sum of absolute products, which bounds every order
// of summation: k rounding errors of at most 2^-24 each.
void expectLinear(const Case& c, int64_t m, const std::vector<float>& x,
                  const std::vector<float>& w, const std::vector<float>& bias,
                  const std::vector<float>& y) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = c.bias ? bias[static_cast<size_t>(j)] : 0.0;
      double magnitude = std::fabs(sum);
      for (int64_t l = 0; l < c.k; ++l) {
        const double product = static_cast<double>(x[static_cast<size_t>(i * c.k + l)]) *
                               w[static_cast<size_t>(j * c.k + l)];
        sum += product;
        magnitude += std::fabs(product);
      }
      const double expected = c.relu && sum < 0 ? 0 : sum;
      ASSERT_NEAR(expected, y[static_cast<size_t>(i * c.n + j)],
                  magnitude * static_cast<double>(c.k + 1) * 0x1p-24)
          << "row " << i << " column " << j;
    }
  }
}

TEST_P(OnednnInnerProductNumbers, MatchFloat64) {
  const Case& c = GetParam();
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  int64_t m = 1;
  for (const int64_t d : c.leading) {
    m *= d;
  }
  std::vector<float> x(static_cast<size_t>(m * c.k)), w(static_cast<size_t>(c.n * c.k)),
      bias(static_cast<size_t>(c.n));
  for (auto* values : {&x, &w, &bias}) {
    for (float& value : *values) {
      value = uniform(generator);
    }
  }
  const Linear linear(c.leading, c.n, c.k, c.bias, c.relu, c.threads);
  ASSERT_EQ("accepted", refusal(linear.problem));
  const sl_kernel_desc* kernel = findKernel();
  const auto plan = reinterpret_cast<PlanFn>(kernel->plan);
  const auto run = reinterpret_cast<RunFn>(kernel->run);
  sl_ctx ctx{};
  const void* constants[] = {nullptr, w.data(), c.bias ? bias.data() : nullptr};
  void* handle = nullptr;
  ASSERT_EQ(SL_OK, plan(&ctx, &linear.problem, constants, &handle));
  std::vector<float> packedFrom = w;
  // the weights were packed: the original is not read again
  std::fill(w.begin(), w.end(), NAN);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  std::vector<std::vector<float>> results(4, std::vector<float>(static_cast<size_t>(m * c.n), NAN));
  threads.reserve(results.size());
  for (auto& y : results) {
    threads.emplace_back([&] {
      sl_ctx own{};
      std::vector<char> workspace(static_cast<size_t>(kernel->workspace(&linear.problem)) + 64);
      auto* aligned =
          reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
      const void* inputs[] = {x.data(), w.data(), bias.data()};
      void* outputs[] = {y.data()};
      for (int i = 0; i < 3; ++i) {
        failures += run(&own, sl_team{nullptr, 0, 1}, handle, inputs, outputs, aligned) != SL_OK;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  kernel->destroy(handle);
  EXPECT_EQ(0, failures);
  for (const auto& y : results) {
    expectLinear(c, m, x, packedFrom, bias, y);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, OnednnInnerProductNumbers,
    ::testing::Values(Case{{1}, 10, 64, true, false, 1}, Case{{4}, 256, 128, false, false, 1},
                      Case{{2, 3}, 65, 33, true, true, 2}, Case{{64}, 128, 512, true, true, 2},
                      Case{{3}, 70, 40, true, true, 4}, Case{{1}, 200, 31, true, true, 3},
                      Case{{}, 17, 31, true, false, 1}),
    [](const auto& info) {
      const Case& c = info.param;
      std::string name;
      for (const int64_t d : c.leading) {
        name += std::to_string(d) + "x";
      }
      return name + std::to_string(c.n) + "x" + std::to_string(c.k) + (c.bias ? "_bias" : "") +
             (c.relu ? "_relu" : "") + "_" + std::to_string(c.threads) + "t";
    });

// ---- inside a program: prepare builds the primitive, run calls it, the weights own it

const sl_problem* programProblem = nullptr;
std::atomic<int> destroyed{0};

int32_t prepareLinear(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  if (team.index != 0) {
    return SL_OK;
  }
  const auto plan = reinterpret_cast<PlanFn>(sl_symbol("sl_onednn_inner_product_plan"));
  const void* constants[] = {nullptr, io->parameters[0], nullptr};
  return plan(ctx, programProblem, constants, const_cast<void**>(&io->handles[0]));
}

int32_t runLinear(sl_ctx* ctx, sl_team team, const sl_bindings* io) {
  const auto run = reinterpret_cast<RunFn>(sl_symbol("sl_onednn_inner_product_run"));
  const void* inputs[] = {io->inputs[0], nullptr};
  return run(ctx, team, io->handles[0], inputs, io->outputs, io->arenas[0]);
}

TEST(OnednnInnerProduct, LivesInTheWeightsOfAProgram) {
  const Linear linear({2}, 3, 4, false, false, 2);
  programProblem = &linear.problem;
  DescriptionBuilder builder;
  builder.input("x", kFloat32, {builder.constant(2), builder.constant(4)});
  builder.buffer(SL_ROLE_OUTPUT, "y", kFloat32, {builder.constant(2), builder.constant(3)});
  builder.buffer(SL_ROLE_PARAMETER, "w", kFloat32, {builder.constant(3), builder.constant(4)});
  builder.handle([](void* handle) {
    ++destroyed;
    findKernel()->destroy(handle);
  });
  builder.arena(0, builder.constant(findKernel()->workspace(&linear.problem)));
  builder.threads(2);
  float w[12], x[8] = {1, 0, 0, 0, 1, 1, 1, 1}, y[6] = {};
  for (int i = 0; i < 12; ++i) {
    w[i] = static_cast<float>(i);
  }
  void* parameters[] = {w};
  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  sl_message message;
  ASSERT_EQ(SL_OK, sl_program_create(builder.build(runLinear, prepareLinear), nullptr, nullptr,
                                     &program, &message));
  ASSERT_EQ(SL_OK, sl_weights_create(program, parameters, nullptr, nullptr, &weights, &message))
      << message.text;
  ASSERT_EQ(SL_OK, sl_queue_team(2, &queue, &message));
  Call call(program, weights, queue);
  ASSERT_EQ(SL_OK, call({x}, {y})) << call.message.text;
  EXPECT_EQ(4, y[1]);
  EXPECT_EQ(8 + 9 + 10 + 11, y[5]);
  EXPECT_EQ(0, destroyed);
  sl_weights_release(weights);
  EXPECT_EQ(1, destroyed);
  sl_program_release(program);
}

}  // namespace
}  // namespace straightline::testing
