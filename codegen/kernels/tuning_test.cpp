// SPDX-License-Identifier: Apache-2.0
// The native registry against the templates it describes: what it accepts and refuses, that its
// tunables are in range and legal for the template, and that workspace sizes agree with the
// template's own formula.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backends/native/native.h"
#include "straightline/kernels/attention.h"
#include "straightline/kernels/convolution_direct.h"
#include "straightline/kernels/matmul.h"
#include "straightline/kernels/winograd.h"

namespace {

constexpr sl_dtype kFloat32{2, 32, 1};

sl_operand operand(const std::vector<int64_t>& extents, bool constant = false,
                   bool channelsLast = false, sl_dtype dtype = kFloat32) {
  sl_operand o{};
  o.dtype = dtype;
  o.rank = static_cast<int32_t>(extents.size());
  o.constant = constant ? 1 : 0;
  std::vector<int> order;
  for (int d = 0; d < o.rank; ++d) {
    order.push_back(d);
  }
  if (channelsLast) {
    order = {0, 2, 3, 1};
  }
  int64_t stride = 1;
  for (int i = o.rank - 1; i >= 0; --i) {
    o.extents[order[i]] = extents[order[i]];
    o.strides[order[i]] = stride;
    stride *= std::max<int64_t>(extents[order[i]], 1);
  }
  return o;
}

struct Problem {
  std::vector<sl_operand> operands;
  std::vector<sl_attribute> attributes;
  sl_problem raw{};

  Problem(const char* op, std::vector<sl_operand> all, std::vector<sl_attribute> values,
          int32_t threads, int32_t vectorBytes)
      : operands(std::move(all)), attributes(std::move(values)) {
    raw.size = sizeof(raw);
    raw.op = op;
    raw.operands = operands.data();
    raw.inputs = static_cast<int32_t>(operands.size()) - 1;
    raw.outputs = 1;
    raw.attributes = attributes.data();
    raw.attribute_count = static_cast<int32_t>(attributes.size());
    raw.attribute_stride = sizeof(sl_attribute);
    raw.threads = threads;
    raw.vector_bytes = vectorBytes;
    raw.l1_bytes = 32 << 10;
    raw.l2_bytes = 1 << 20;
  }
  Problem(const Problem&) = delete;
  Problem(Problem&&) = default;
};

const sl_kernel_desc& find(const std::string& name) {
  for (int32_t i = 0; i < sl_backend_native.kernel_count; ++i) {
    if (name == sl_backend_native.kernels[i].name) {
      return sl_backend_native.kernels[i];
    }
  }
  throw std::runtime_error("no kernel " + name);
}

std::string refusal(const std::string& kernel, const Problem& p) {
  char reason[256] = "";
  return find(kernel).accepts(&p.raw, reason, sizeof(reason)) == 1 ? "" : reason;
}

std::map<std::string, int64_t> tuned(const std::string& kernel, const Problem& p) {
  const sl_kernel_desc& k = find(kernel);
  std::vector<int64_t> values(static_cast<size_t>(k.tunable_count));
  k.tune(&p.raw, values.data());
  std::map<std::string, int64_t> named;
  for (int32_t i = 0; i < k.tunable_count; ++i) {
    named[k.tunables[i].name] = values[static_cast<size_t>(i)];
    EXPECT_GE(values[static_cast<size_t>(i)], k.tunables[i].lowest)
        << kernel << " " << k.tunables[i].name;
    EXPECT_LE(values[static_cast<size_t>(i)], k.tunables[i].highest)
        << kernel << " " << k.tunables[i].name;
  }
  EXPECT_GT(k.cost(&p.raw), 0) << kernel;
  return named;
}

/// Cheapest kernel of the op that accepts the problem.
std::string best(const Problem& p) {
  std::string name;
  double lowest = 1e300;
  for (int32_t i = 0; i < sl_backend_native.kernel_count; ++i) {
    const sl_kernel_desc& k = sl_backend_native.kernels[i];
    char reason[256] = "";
    if (std::strcmp(k.op, p.raw.op) == 0 && k.accepts(&p.raw, reason, sizeof(reason)) == 1 &&
        k.cost(&p.raw) < lowest) {
      lowest = k.cost(&p.raw);
      name = k.name;
    }
  }
  return name;
}

Problem linear(int64_t m, int64_t n, int64_t k, int32_t vectorBytes = 32, int32_t threads = 1,
               bool constant = true) {
  return Problem("linear",
                 {operand({m == SL_DYNAMIC ? 1 : m, k}), operand({n, k}, constant),
                  operand({m == SL_DYNAMIC ? 1 : m, n})},
                 {{"m", m}, {"n", n}, {"k", k}}, threads, vectorBytes);
}

Problem convolution(int64_t n, int64_t c, int64_t h, int64_t k, int64_t kernel, int64_t stride,
                    bool channelsLast = true, int64_t groups = 1, int32_t vectorBytes = 32,
                    int32_t threads = 1) {
  const int64_t pad = kernel / 2, ho = (h + 2 * pad - kernel) / stride + 1;
  return Problem(
      "convolution",
      {operand({n, c, h, h}, false, channelsLast), operand({k, c / groups, kernel, kernel}, true),
       operand({n, k, ho, ho}, false, channelsLast)},
      {{"stride_h", stride},
       {"stride_w", stride},
       {"pad_h", pad},
       {"pad_w", pad},
       {"groups", groups}},
      threads, vectorBytes);
}

TEST(NativeBackend, DescribesEveryKernelCompletely) {
  EXPECT_EQ(sl_backend_native.abi_version, uint32_t(SL_KERNEL_ABI_VERSION));
  ASSERT_GE(sl_backend_native.kernel_count, 19);
  for (int32_t i = 0; i < sl_backend_native.kernel_count; ++i) {
    const sl_kernel_desc& k = sl_backend_native.kernels[i];
    ASSERT_NE(k.accepts, nullptr);
    ASSERT_NE(k.cost, nullptr);
    EXPECT_EQ(k.size, sizeof(sl_kernel_desc));
    // native.gemm_bf16: family gemm
    EXPECT_EQ(std::string(k.name).find(std::string("native.") + k.family), 0u);
    for (int32_t t = 0; t < k.tunable_count; ++t) {
      EXPECT_LE(k.tunables[t].lowest, k.tunables[t].fallback) << k.name;
      EXPECT_LE(k.tunables[t].fallback, k.tunables[t].highest) << k.name;
    }
  }
}

TEST(NativeBackend, ChoosesTheKernelOfALinear) {
  EXPECT_EQ(best(linear(1, 1024, 1024)), "native.gemm");  // packed: one stream over large pages
  EXPECT_EQ(best(linear(1, 1024, 1024, 32, 1, false)), "native.gemv");
  EXPECT_EQ(best(linear(16, 1024, 1024)), "native.gemm");
  EXPECT_EQ(best(linear(SL_DYNAMIC, 64, 64)), "native.gemm");
  EXPECT_EQ(refusal("native.gemv", linear(16, 8, 8)), "m=16, needs 1 to 4");
  EXPECT_EQ(refusal("native.gemv", linear(SL_DYNAMIC, 8, 8)), "m is dynamic, needs 1 to 4");
  EXPECT_EQ(refusal("native.gemm", linear(16, 8, 8, 32, 1, false)),
            "weight is not constant, so it cannot be packed before the run");
  Problem half = linear(2, 8, 8);
  half.operands[0].dtype = sl_dtype{2, 16, 1};
  EXPECT_EQ(refusal("native.gemm", half), "operand 0 is float16, needs float32 or float64");
}

Problem product(int64_t m, int64_t n, int64_t k) {
  return Problem("matmul", {operand({m, k}), operand({k, n}), operand({m, n})},
                 {{"batch", 1}, {"m", m}, {"n", n}, {"k", k}}, 1, 64);
}

TEST(NativeBackend, ChoosesTheKernelOfAProduct) {
  EXPECT_EQ(best(product(2048, 1, 2048)), "native.matvec");
  EXPECT_EQ(best(product(1, 2048, 2048)), "native.matvec");
  EXPECT_EQ(best(product(1, SL_DYNAMIC, 64)), "native.matvec");
  EXPECT_EQ(best(product(2, 2048, 2048)), "native.matmul");
  EXPECT_EQ(refusal("native.matvec", product(2, SL_DYNAMIC, 64)),
            "m=2 and n=-1, needs one of them to be 1");
  EXPECT_EQ(best(product(1, 2, SL_DYNAMIC)), "native.matvec");
  const Problem open = product(7, 20, SL_DYNAMIC);
  EXPECT_EQ(best(open), "native.matmul");
  auto t = tuned("native.matmul", open);
  EXPECT_EQ(t["blocks"], 1);
  sl::MatmulShape shape{};
  EXPECT_EQ(find("native.matmul").workspace(&open.raw),
            sl::matmulWorkspace<float>(
                shape, sl::MatmulTune{.nr = int(t["nr"]), .kc = int(t["kc"]), .blocks = 1}, 1));
}

TEST(NativeBackend, ChoosesTheKernelOfAConvolution) {
  EXPECT_EQ(best(convolution(1, 64, 56, 64, 3, 1)), "native.winograd");
  EXPECT_EQ(best(convolution(1, 512, 7, 512, 3, 1)), "native.winograd");
  EXPECT_EQ(best(convolution(1, 64, 56, 128, 3, 2)), "native.convolution");
  EXPECT_EQ(best(convolution(1, 3, 224, 64, 7, 2)), "native.convolution");
  EXPECT_EQ(best(convolution(1, 64, 56, 64, 3, 1, true, 64)), "native.convolution_direct");
  EXPECT_EQ(best(convolution(1, 64, 56, 64, 3, 1, false)), "native.convolution_direct");
  EXPECT_EQ(refusal("native.winograd", convolution(1, 64, 56, 64, 3, 2)),
            "stride is 2x2 and dilation 1x1, needs 1");
  EXPECT_EQ(refusal("native.winograd", convolution(1, 24, 56, 64, 3, 1)),
            "24 and 64 channels, needs multiples of 16");
  EXPECT_EQ(refusal("native.convolution", convolution(1, 64, 56, 64, 3, 1, true, 2)),
            "groups=2, needs 1");
  EXPECT_EQ(refusal("native.convolution", convolution(1, 64, 56, 64, 3, 1, false)),
            "channel stride of x is 3136, needs 1");
}

TEST(NativeBackend, SevenBySevenTakesTheSmallerTransformAtBatchOne) {
  EXPECT_EQ(tuned("native.winograd", convolution(1, 512, 7, 512, 3, 1))["m"], 2);
  EXPECT_EQ(tuned("native.winograd", convolution(10, 512, 7, 512, 3, 1))["m"], 4);
  EXPECT_EQ(tuned("native.winograd", convolution(1, 64, 56, 64, 3, 1))["m"], 4);
}

/// The same on a CPU that begins two multiply-adds of 64 bytes in a cycle, in a program whose
/// weights have `resident` bytes.
Problem twoWide(Problem p, int64_t resident = 0) {
  p.attributes.push_back({"resident", resident});
  p.raw.attributes = p.attributes.data();
  p.raw.attribute_count = static_cast<int32_t>(p.attributes.size());
  p.raw.operands = p.operands.data();
  p.raw.vector_bytes = 64;
  p.raw.fma_bytes = 128;
  p.raw.l2_bytes = 2 << 20;
  return p;
}

TEST(NativeBackend, EachLoadServesSeveralMultiplyAddsWhereTwoAreBegunInACycle) {
  for (int64_t m : {5, 16, 17, 23, 24, 64, 1000}) {
    for (int64_t n : {17, 64, 80, 1000, 1024}) {
      auto t = tuned("native.gemm", twoWide(linear(m, n, 256)));
      EXPECT_GE(t["nr"], 32) << m << " " << n;
      EXPECT_LE(t["mr"] * t["nr"] / 16, 28) << "registers";
      EXPECT_EQ(t["mc"] % t["mr"], 0);
    }
  }
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(16, 1024, 256)))["mr"], 8);
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(64, 1024, 256)))["nr"], 64);
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(64, 80, 256)))["nr"], 32)
      << "panels of 64 would be empty for the most part";
  EXPECT_EQ(tuned("native.gemm", linear(16, 1024, 256, 64))["nr"], 16)
      << "one multiply-add in a cycle";
  EXPECT_EQ(tuned("native.convolution", twoWide(convolution(1, 64, 56, 128, 3, 2)))["mr"], 8)
      << "784 pixels are whole tiles";
  EXPECT_EQ(tuned("native.winograd", twoWide(convolution(1, 64, 56, 64, 3, 1)))["mr"], 12);
}

TEST(NativeBackend, TilesHaveOneHeightWhereADivisorOfTheRowsIsNear) {
  EXPECT_EQ(tuned("native.gemm", linear(64, 256, 256, 64))["mr"], 8);
  EXPECT_EQ(tuned("native.gemm", linear(53, 256, 256, 64))["mr"], 11) << "53 is a prime";
  const auto wide = [](int64_t h) { return convolution(1, 64, h, 128, 1, 1, true, 1, 64); };
  EXPECT_EQ(tuned("native.convolution", wide(7))["mr"], 7) << "there are registers for one more";
  EXPECT_EQ(tuned("native.convolution", convolution(1, 64, 7, 128, 1, 1))["mr"], 6)
      << "here there are none";
  EXPECT_EQ(tuned("native.convolution", wide(8))["mr"], 6) << "4 x 2 vectors would be too low";
}

TEST(NativeBackend, WeightsThatOthersPushOutOfTheCacheAreFetchedAhead) {
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(16, 1024, 256)))["prefetch"], 0)
      << "1 MiB stays in L2 by itself";
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(16, 1024, 256), 3 << 20))["prefetch"], 4);
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(8, 1024, 256), 3 << 20))["prefetch"], 8)
      << "one block fetches all of a panel";
  EXPECT_EQ(tuned("native.gemm", twoWide(linear(16, 1024, 256, 64, 2), 3 << 20))["prefetch"], 0)
      << "each thread has half of them";
}

TEST(NativeBackend, SeveralStreamsAreFetchedAheadWhereACoreFollowsThem) {
  auto streams = [](const char* kernel, Problem p, int64_t resident = 40 << 20) {
    return tuned(kernel, twoWide(std::move(p), resident))["prefetchStreams"];
  };
  EXPECT_EQ(streams("native.gemm", linear(1, 1024, 64)), 1) << "one row has nothing to gain";
  EXPECT_EQ(streams("native.gemm", linear(4, 1024, 64)), 8);
  EXPECT_EQ(streams("native.gemm", linear(4, 1024, 64), 3 << 20), 1)
      << "few rows ask for too much where L3 serves them";
  EXPECT_EQ(streams("native.gemm", linear(8, 1024, 64), 3 << 20), 8);
  EXPECT_EQ(streams("native.winograd", convolution(1, 512, 7, 512, 3, 1)), 4);
  EXPECT_EQ(streams("native.convolution", convolution(1, 256, 14, 512, 3, 2)), 2);
  EXPECT_EQ(tuned("native.gemm", linear(16, 1024, 4096, 64))["prefetchStreams"], 1)
      << "measured where two multiply-adds a cycle begin";
}

TEST(NativeBackend, WinogradChunksAreOfOneSize) {
  for (int64_t size : {7, 14, 28, 30, 56, 57}) {
    for (int32_t threads : {1, 2, 3}) {
      auto t = tuned("native.winograd", convolution(1, 128, size, 128, 3, 1, true, 1, 64, threads));
      const int64_t across = (size + t["m"] - 1) / t["m"];
      const int64_t tiles = across * across,
                    own = t["mode"] == 1 ? tiles : (tiles + threads - 1) / threads;
      const int64_t chunks = (own + t["tiles"] - 1) / t["tiles"];
      EXPECT_LT(chunks * t["tiles"] - own, chunks) << size << " " << threads;
    }
  }
}

TEST(NativeBackend, GemmTunablesAreLegal) {
  for (int32_t bytes : {32, 64}) {
    for (int64_t m :
         {int64_t(SL_DYNAMIC), int64_t(1), int64_t(2), int64_t(7), int64_t(64), int64_t(1000)}) {
      for (int64_t n : {1, 10, 17, 64, 1000}) {
        for (int64_t k : {1, 64, 4096}) {
          auto t = tuned("native.gemm", linear(m, n, k, bytes));
          EXPECT_EQ(t["nr"] % (bytes / 4), 0) << "nr is whole vectors";
          EXPECT_EQ(t["kc"] % 4, 0);
          EXPECT_EQ(t["mc"] % t["mr"], 0);
          EXPECT_LE(t["mr"] * t["nr"] / (bytes / 4), bytes == 64 ? 24 : 12) << "registers";
        }
      }
    }
    for (int64_t m = 1; m <= 4; ++m) {
      auto t = tuned("native.gemv", linear(m, 10, 64, bytes));
      EXPECT_EQ((bytes / 4) % t["rows"], 0);
    }
  }
}

constexpr sl_dtype kInt8{0, 8, 1};

Problem int8Linear(int64_t m, int64_t n, int64_t k, int32_t bytes, bool constant = true,
                   sl_dtype weight = kInt8) {
  return Problem("linear",
                 {operand({m, k}, false, false, kInt8), operand({n, k}, constant, false, weight),
                  operand({m, n})},
                 {{"m", m}, {"n", n}, {"k", k}}, 1, bytes);
}

TEST(NativeBackend, LinearOfInt8) {
  EXPECT_EQ(best(int8Linear(16, 100, 64, 64)), "native.gemm_int8");
  // packed on each call
  EXPECT_EQ(best(int8Linear(16, 100, 64, 32, false)), "native.gemm_int8");
  EXPECT_EQ(tuned("native.gemm_int8", twoWide(int8Linear(6, 1024, 256, 64), 3 << 20))["prefetch"],
            16);
  EXPECT_EQ(tuned("native.gemm_int8", int8Linear(6, 1024, 256, 64))["prefetch"], 0);
  EXPECT_EQ(refusal("native.gemm_int8", int8Linear(16, 100, 64, 64, true, kFloat32)),
            "x and weight are not both int8");
  EXPECT_EQ(refusal("native.gemm_int8", int8Linear(16, SL_DYNAMIC, 64, 64)),
            "n=-1 and k=64, needs static sizes of at least 1");
  for (int32_t bytes : {32, 64}) {
    for (int64_t m : {int64_t(SL_DYNAMIC), int64_t(1), int64_t(5), int64_t(1000)}) {
      for (int64_t n : {1, 17, 40, 1000}) {
        Problem p = int8Linear(m, n, 64, bytes);
        for (; p.raw.variant < find("native.gemm_int8").variants(&p.raw); ++p.raw.variant) {
          auto t = tuned("native.gemm_int8", p);
          EXPECT_EQ(t["nr"] % (bytes / 4), 0) << "nr is whole vectors";
          EXPECT_EQ(t["mc"] % t["mr"], 0);
          EXPECT_LE(t["mr"] * t["nr"] / (bytes / 4), bytes == 64 ? 24 : 16) << "registers";
        }
      }
    }
  }
}

TEST(NativeBackend, EveryWayIsLegal) {
  const auto checkWays = [](const std::string& kernel, Problem&& p, const auto& check) {
    for (; p.raw.variant < find(kernel).variants(&p.raw); ++p.raw.variant) {
      check(tuned(kernel, p));
    }
  };
  for (int32_t bytes : {32, 64}) {
    const int64_t lanes = bytes / 4;
    for (int64_t m : {int64_t(SL_DYNAMIC), int64_t(1), int64_t(3), int64_t(7), int64_t(1000)}) {
      for (int64_t n : {1, 17, 1000}) {
        for (int64_t k : {1, 300, 4096, 30000}) {
          checkWays("native.gemm", linear(m, n, k, bytes), [&](std::map<std::string, int64_t> t) {
            EXPECT_EQ(t["nr"] % lanes, 0) << "nr is whole vectors";
            EXPECT_EQ(t["kc"] % 4, 0);
            EXPECT_EQ(t["mc"] % t["mr"], 0);
          });
        }
      }
    }
    for (int64_t m = 1; m <= 4; ++m) {
      checkWays("native.gemv", linear(m, 10, 64, bytes),
                [&](std::map<std::string, int64_t> t) { EXPECT_EQ(lanes % t["rows"], 0); });
    }
    for (int64_t size : {5, 56}) {
      checkWays("native.convolution", convolution(1, 16, size, 24, 3, 1, true, 1, bytes, 2),
                [&](std::map<std::string, int64_t> t) {
                  EXPECT_EQ(t["nr"] % lanes, 0);
                  EXPECT_EQ(t["mc"] % t["mr"], 0);
                });
    }
  }
}

TEST(NativeBackend, WinogradWorkspaceIsTheTemplatesOwn) {
  for (int32_t bytes : {32, 64}) {
    for (int64_t size : {7, 14, 28, 56, 5}) {
      for (int64_t channels : {16, 48, 64, 256, 512}) {
        for (int32_t threads : {1, 2, 3}) {
          Problem p = convolution(1, channels, size, channels, 3, 1, true, 1, bytes, threads);
          ASSERT_EQ(refusal("native.winograd", p), "");
          for (; p.raw.variant < find("native.winograd").variants(&p.raw); ++p.raw.variant) {
            auto t = tuned("native.winograd", p);
            const sl::WinogradTune tune{.m = int(t["m"]),
                                        .tiles = int(t["tiles"]),
                                        .kb = int(t["kb"]),
                                        .mr = int(t["mr"]),
                                        .nr = int(t["nr"]),
                                        .mode = int(t["mode"]),
                                        .prefetch = int(t["prefetch"])};
            EXPECT_EQ(channels % tune.kb, 0);
            EXPECT_EQ(tune.kb % tune.nr, 0);
            EXPECT_EQ(find("native.winograd").workspace(&p.raw),
                      sl::winogradWorkspace(channels, tune, threads));
          }
        }
      }
    }
  }
}

TEST(NativeBackend, OtherWorkspacesAreTheTemplatesOwn) {
  for (int32_t threads : {1, 3}) {
    const Problem d = convolution(1, 12, 9, 8, 3, 1, true, 4, 32, threads);
    EXPECT_EQ(find("native.convolution_direct").workspace(&d.raw),
              sl::convolutionDirectWorkspace<float>(
                  sl::ConvolutionDirectShape{.c = 12, .kh = 3, .kw = 3, .groups = 4}, 32, threads));
    for (int64_t size : {7, 56, 300}) {
      for (int64_t stride : {1, 2}) {
        const Problem deep = convolution(1, 12, size, 12, 5, stride, true, 12, 64, threads);
        const int64_t out = (size + 4 - 5) / stride + 1;
        const sl::ConvolutionDirectShape shape{.h = size,
                                               .w = size,
                                               .c = 12,
                                               .ho = out,
                                               .wo = out,
                                               .kh = 5,
                                               .kw = 5,
                                               .groups = 12,
                                               .strideH = stride,
                                               .strideW = stride,
                                               .padH = 2,
                                               .padW = 2,
                                               .dilationH = 1,
                                               .dilationW = 1};
        EXPECT_EQ(find("native.convolution_direct").workspace(&deep.raw),
                  sl::convolutionDirectWorkspace<float>(shape, 64, threads));
      }
    }
    const Problem m("matmul", {operand({2, 7, 33}), operand({2, 33, 20}), operand({2, 7, 20})},
                    {{"batch", 2}, {"m", 7}, {"n", 20}, {"k", 33}}, threads, 32);
    ASSERT_EQ(refusal("native.matmul", m), "");
    sl::MatmulShape shape{};
    shape.k = 33;
    EXPECT_EQ(find("native.matmul").workspace(&m.raw),
              sl::matmulWorkspace<float>(
                  shape, sl::MatmulTune{.nr = int(tuned("native.matmul", m)["nr"])}, threads));
    const Problem a("attention",
                    {operand({1, 4, 50, 24}), operand({1, 2, 33, 24}), operand({1, 2, 33, 24}),
                     operand({1, 4, 50, 24})},
                    {{"is_causal", 1}}, threads, 32);
    ASSERT_EQ(refusal("native.attention", a), "");
    auto t = tuned("native.attention", a);
    EXPECT_EQ(t["causal"], 1);
    EXPECT_EQ(t["rows"] % t["mr"], 0);
    EXPECT_EQ(t["keys"] % t["nr"], 0);
    EXPECT_EQ(find("native.attention").workspace(&a.raw),
              sl::attentionWorkspace(24,
                                     sl::AttentionTune{.mr = int(t["mr"]),
                                                       .nr = int(t["nr"]),
                                                       .rows = int(t["rows"]),
                                                       .keys = int(t["keys"])},
                                     threads));
  }
}

// A unit of attention turns all keys anew, so it has as many queries as leave each thread a unit.
TEST(Tuning, UnitsOfAttention) {
  const auto rows = [](int64_t heads, int64_t queries, bool isCausal, int32_t threads) {
    Problem a("attention",
              {operand({1, heads, queries, 64}), operand({1, heads, queries, 64}),
               operand({1, heads, queries, 64}), operand({1, heads, queries, 64})},
              {{"is_causal", isCausal ? 1 : 0}}, threads, 64);
    a.raw.fma_bytes = 128;
    return tuned("native.attention", a)["rows"];
  };
  EXPECT_EQ(rows(12, 197, false, 1), 200);
  EXPECT_EQ(rows(12, 197, false, 2), 200);
  EXPECT_LE(rows(2, 197, false, 2), 50);
  EXPECT_LE(rows(12, 197, true, 1), 50);
  EXPECT_EQ(rows(12, 300, false, 1), 150);
}

// Few queries have no keys turned, and no room for them; blocks of keys are of one size.
TEST(Tuning, KeysOfAttention) {
  const auto tune = [](int64_t queries, int64_t keys, int64_t size, int64_t l2 = 0) {
    Problem a("attention",
              {operand({1, 8, queries, size}), operand({1, 8, keys, size}),
               operand({1, 8, keys, size}), operand({1, 8, queries, size})},
              {{"is_causal", 0}}, 1, 64);
    a.raw.fma_bytes = 128;
    a.raw.l2_bytes = l2 != 0 ? l2 : a.raw.l2_bytes;
    auto values = tuned("native.attention", a);
    values["bytes"] = find("native.attention").workspace(&a.raw);
    return values;
  };
  EXPECT_EQ(tune(1, 100, 64)["few"], 1);
  EXPECT_EQ(tune(4, 100, 64)["few"], 4);
  EXPECT_EQ(tune(5, 100, 64)["few"], 0);
  EXPECT_EQ(tune(1, 100, 8)["few"], 0);
  EXPECT_EQ(tune(SL_DYNAMIC, SL_DYNAMIC, 64)["few"], 4);
  EXPECT_LE(tune(1, 100, 64)["bytes"], 4 * (112 + 64 + 64));
  EXPECT_EQ(tune(197, 197, 64, 2 << 20)["keys"], 224);
  EXPECT_EQ(tune(197, 512, 64, 2 << 20)["keys"], 256);
  EXPECT_EQ(tune(197, 300, 64, 2 << 20)["keys"], 160);
  EXPECT_EQ(tune(197, 512, 64, 256 << 10)["keys"], 64);
  EXPECT_EQ(tune(16, 16, 64)["nr"], 16);
}

}  // namespace
