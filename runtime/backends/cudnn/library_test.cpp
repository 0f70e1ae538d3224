// SPDX-License-Identifier: Apache-2.0
// What is said where there is no cuDNN or no device. What it computes is asked on a device: bench/cuda_convolutions.py.
#include "library.h"

#include <gtest/gtest.h>

#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

const sl_kernel_desc* convolution() {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* backend = sl_backend_at(i);
    if (std::string(backend->name) == "cudnn") {
      EXPECT_STREQ(backend->runs_on, "cuda");
      return backend->kernel_count == 1 ? &backend->kernels[0] : nullptr;
    }
  }
  return nullptr;
}

TEST(CudnnLibrary, AMissingLibraryIsSaidByName) {
  if (whyMissing().empty()) {
    GTEST_SKIP() << "there is one";
  }
  EXPECT_EQ(whyMissing(), "cuDNN is missing: libcudnn.so.9 cannot be opened");
  EXPECT_EQ(library().error, whyMissing());
  EXPECT_EQ(words("cudnnBackendExecute", 5001), "cuDNN: cudnnBackendExecute fails with 5001");
}

TEST(CudnnLibrary, APlanWithoutADeviceFailsInWords) {
  const sl_kernel_desc* kernel = convolution();
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(sl_symbol("sl_cudnn_convolution_run"), kernel->run);
  EXPECT_EQ(sl_symbol("sl_cudnn_convolution_plan_destroy"), reinterpret_cast<void*>(kernel->destroy));
  const sl_operand operands[3] = {
      {{2, 16, 1}, 4, {1, 8, 9, 9}, {648, 1, 72, 8}, 0},
      {{2, 16, 1}, 4, {8, 8, 3, 3}, {72, 1, 24, 8}, 1},
      {{2, 16, 1}, 4, {1, 8, 7, 7}, {392, 1, 56, 8}, 0},
  };
  const sl_attribute attributes[] = {{"n", 1}, {"c", 8}, {"h", 9}, {"w", 9}, {"k", 8}, {"ho", 7}, {"wo", 7}, {"kh", 3},
                                     {"kw", 3}, {"workspace_bytes", 1 << 20}};
  sl_problem problem{};
  problem.size = sizeof problem;
  problem.op = "convolution";
  problem.operands = operands;
  problem.inputs = 2;
  problem.outputs = 1;
  problem.attributes = attributes;
  problem.attribute_count = static_cast<int32_t>(std::size(attributes));
  char reason[256] = "";
  EXPECT_EQ(kernel->workspace(&problem), 1 << 20) << "the least that is asked for";
  using Plan = int32_t (*)(sl_ctx*, const sl_problem*, const void* const*, void**);
  sl_ctx ctx{};
  void* handle = nullptr;
  const int32_t status = reinterpret_cast<Plan>(kernel->plan)(&ctx, &problem, nullptr, &handle);
  if (status == SL_OK) {
    kernel->destroy(handle);
    GTEST_SKIP() << "there is a device, with the library";
  }
  EXPECT_EQ(status, SL_UNSUPPORTED);
  EXPECT_EQ(handle, nullptr);
  EXPECT_TRUE(kernel->accepts(&problem, reason, sizeof reason) == 1 || std::string(reason).find("cuDNN") == 0) << reason;
}

}  // namespace
}  // namespace straightline::cudnn
