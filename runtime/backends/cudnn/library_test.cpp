// SPDX-License-Identifier: Apache-2.0
// What is said where there is no cuDNN or no device. What it computes is asked on a device:
// bench/cuda_convolutions.py.
#include "library.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

const sl_kernel_desc* kernelNamed(const std::string& name) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* backend = sl_backend_at(i);
    for (int32_t k = 0; std::string(backend->name) == "cudnn" && k < backend->kernel_count; ++k) {
      EXPECT_STREQ(backend->runs_on, "cuda");
      if (name == backend->kernels[k].name) {
        return &backend->kernels[k];
      }
    }
  }
  return nullptr;
}

using Plan = int32_t (*)(sl_ctx*, const sl_problem*, const void* const*, void**);

TEST(CudnnLibrary, AMissingLibraryIsSaidByName) {
  if (whyMissing().empty()) {
    GTEST_SKIP() << "there is one";
  }
  EXPECT_EQ(whyMissing(), "cuDNN is missing: libcudnn.so.9 cannot be opened");
  EXPECT_EQ(library().error, whyMissing());
  EXPECT_EQ(words("cudnnBackendExecute", 5001), "cuDNN: cudnnBackendExecute fails with 5001");
}

TEST(CudnnLibrary, APlanWithoutADeviceFailsInWords) {
  const sl_kernel_desc* kernel = kernelNamed("cudnn.convolution");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(sl_symbol("sl_cudnn_convolution_run"), kernel->run);
  EXPECT_EQ(sl_symbol("sl_cudnn_convolution_plan_destroy"),
            reinterpret_cast<void*>(kernel->destroy));
  const sl_operand operands[3] = {
      {{2, 16, 1}, 4, {1, 8, 9, 9}, {648, 1, 72, 8}, 0},
      {{2, 16, 1}, 4, {8, 8, 3, 3}, {72, 1, 24, 8}, 1},
      {{2, 16, 1}, 4, {1, 8, 7, 7}, {392, 1, 56, 8}, 0},
  };
  const sl_attribute attributes[] = {
      {"n", 1},  {"c", 8},  {"h", 9},  {"w", 9},  {"k", 8},
      {"ho", 7}, {"wo", 7}, {"kh", 3}, {"kw", 3}, {"workspace_bytes", 1 << 20}};
  sl_problem problem{};
  problem.size = sizeof problem;
  problem.op = "convolution";
  problem.operands = operands;
  problem.inputs = 2;
  problem.outputs = 1;
  problem.attributes = attributes;
  problem.attribute_count = static_cast<int32_t>(std::size(attributes));
  problem.attribute_stride = sizeof(sl_attribute);
  char reason[256] = "";
  EXPECT_EQ(kernel->workspace(&problem), 1 << 20) << "the least that is asked for";
  sl_ctx ctx{};
  void* handle = nullptr;
  const int32_t status = reinterpret_cast<Plan>(kernel->plan)(&ctx, &problem, nullptr, &handle);
  if (status == SL_OK) {
    kernel->destroy(handle);
    GTEST_SKIP() << "there is a device, with the library";
  }
  EXPECT_EQ(status, SL_UNSUPPORTED);
  EXPECT_EQ(handle, nullptr);
  EXPECT_TRUE(kernel->accepts(&problem, reason, sizeof reason) == 1 ||
              std::string(reason).find("cuDNN") == 0)
      << reason;
}

/// Queries, keys, values (, a mask), result of 16-bit floats: 2 images of 8 heads of 64, 2 of keys,
/// 100 queries, 130 keys.
class CudnnAttention : public ::testing::Test {
 protected:
  static sl_operand dense(std::vector<int64_t> extents, sl_dtype dtype = {2, 16, 1}) {
    sl_operand made{dtype, 4, {}, {}, 0};
    int64_t stride = 1;
    for (int32_t dim = 3; dim >= 0; --dim) {
      made.extents[dim] = extents[static_cast<size_t>(dim)];
      made.strides[dim] = stride;
      stride *= made.extents[dim];
    }
    return made;
  }
  void mask(sl_operand operand) { operands.insert(operands.begin() + 3, operand); }

  sl_problem problem() {
    sl_problem made{};
    made.size = sizeof made;
    made.op = "attention";
    made.operands = operands.data();
    made.inputs = static_cast<int32_t>(operands.size()) - 1;
    made.outputs = 1;
    made.attributes = attributes.data();
    made.attribute_count = static_cast<int32_t>(attributes.size());
    made.attribute_stride = sizeof(sl_attribute);
    return made;
  }
  /// Empty: it accepts.
  std::string refusal() {
    char reason[256] = "";
    const sl_problem asked = problem();
    const bool accepts = kernel->accepts(&asked, reason, sizeof reason) == 1;
    EXPECT_EQ(accepts, std::string(reason).empty()) << reason;
    return reason;
  }

  const sl_kernel_desc* kernel = kernelNamed("cudnn.attention");
  std::vector<sl_operand> operands = {dense({2, 8, 100, 64}), dense({2, 2, 130, 64}),
                                      dense({2, 2, 130, 64}), dense({2, 8, 100, 64})};
  std::vector<sl_attribute> attributes = {{"is_causal", 1}, {"scale", 0, SL_FLOAT, 0.125}};
};

TEST_F(CudnnAttention, WhatItTakes) {
  ASSERT_NE(kernel, nullptr);
  if (!refusal().empty()) {
    GTEST_SKIP() << "there is a device, and no library: " << refusal();
  }
  mask(dense({1, 1, 100, 130}));
  EXPECT_EQ("", refusal()) << "a mask of the type of q, broadcast";
  operands[3] = dense({2, 8, 1, 130}, {2, 32, 1});
  EXPECT_EQ("", refusal()) << "a float32 mask of the keys";
  const sl_problem asked = problem();
  EXPECT_EQ(kernel->workspace(&asked), 1 << 20);
}

TEST_F(CudnnAttention, AnotherType) {
  for (sl_operand& operand : operands) {
    operand.dtype = {2, 32, 1};
  }
  EXPECT_EQ("operand 0 is float32, needs 16 bits", refusal());
}

TEST_F(CudnnAttention, KeysInParts) {
  attributes.push_back({"parts", 2});
  EXPECT_EQ("keys and values come in 2 parts, needs one", refusal());
}

TEST_F(CudnnAttention, NanWhereNoKeyIsKept) {
  attributes.push_back({"empty_is_nan", 1});
  EXPECT_EQ("a query whose mask keeps no key is NaN, needs zeros", refusal());
}

TEST_F(CudnnAttention, MasksByTurns) {
  attributes.push_back({"mask_images", 3});
  EXPECT_EQ("the mask has 3 images, needs one or those of q", refusal());
}

TEST_F(CudnnAttention, AnotherRank) {
  operands[1].rank = 3;
  EXPECT_EQ("operand 1 has rank 3, needs 4 (b, h, s, d)", refusal());
}

TEST_F(CudnnAttention, SizesThatAreNotKnown) {
  operands[0].extents[2] = SL_DYNAMIC;
  EXPECT_EQ("extent 2 of operand 0 is dynamic, needs sizes that are known when it is planned",
            refusal());
}

TEST_F(CudnnAttention, NoQueries) {
  operands[0].extents[2] = operands[3].extents[2] = 0;
  EXPECT_EQ("extent 2 of operand 0 is 0, needs 1 or more", refusal());
}

TEST_F(CudnnAttention, AHeadThatIsNoMultipleOfEight) {
  operands[0] = dense({2, 8, 100, 20});
  EXPECT_EQ("head size of operand 0 is 20, needs a multiple of 8 up to 256", refusal());
  operands[0] = dense({2, 8, 100, 264});
  EXPECT_EQ("head size of operand 0 is 264, needs a multiple of 8 up to 256", refusal());
}

TEST_F(CudnnAttention, StridesBetweenPiecesOf16Bytes) {
  operands[2].strides[2] = 68;
  EXPECT_EQ("stride of dim 2 of operand 2 is 68, needs a multiple of 8", refusal());
  operands[2].strides[2] = 64;
  operands[3].strides[3] = 2;
  EXPECT_EQ("stride of dim 3 of operand 3 is 2, needs 1", refusal());
}

TEST_F(CudnnAttention, TooManyElements) {
  operands[1] = dense({2, 2, int64_t{1} << 23, 64});
  EXPECT_EQ("operand 1 has 2147483648 elements, at most 2147483647", refusal());
}

TEST_F(CudnnAttention, TooManyImages) {
  operands = {dense({70000, 1, 1, 64}), dense({70000, 1, 1, 64}), dense({70000, 1, 1, 64}),
              dense({70000, 1, 1, 64})};
  EXPECT_EQ("70000 images of 1 heads, at most 65535 of each", refusal());
}

TEST_F(CudnnAttention, HeadsThatShareNoKeys) {
  operands[1] = operands[2] = dense({2, 3, 130, 64});
  EXPECT_EQ("8 query heads and 3 key heads, needs a multiple", refusal());
}

TEST_F(CudnnAttention, AMaskOfAnotherKind) {
  mask(dense({1, 1, 100, 130}, {6, 8, 1}));
  EXPECT_EQ("mask is bool8, needs float32 or the type of q", refusal());
  operands[3] = dense({1, 1, 100, 1});
  EXPECT_EQ("mask has 1 elements along the keys, needs 130", refusal());
}

TEST_F(CudnnAttention, APlanWithoutADeviceFailsInWords) {
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(sl_symbol("sl_cudnn_attention_run"), kernel->run);
  EXPECT_EQ(sl_symbol("sl_cudnn_attention_plan_destroy"), reinterpret_cast<void*>(kernel->destroy));
  const sl_problem asked = problem();
  sl_ctx ctx{};
  void* handle = nullptr;
  if (reinterpret_cast<Plan>(kernel->plan)(&ctx, &asked, nullptr, &handle) == SL_OK) {
    kernel->destroy(handle);
    GTEST_SKIP() << "there is a device, with the library";
  }
  EXPECT_EQ(ctx.status, SL_UNSUPPORTED);
  EXPECT_EQ(handle, nullptr);
  EXPECT_NE(std::string(ctx.text), "");
}

}  // namespace
}  // namespace straightline::cudnn
