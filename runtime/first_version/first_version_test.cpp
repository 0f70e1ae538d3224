// SPDX-License-Identifier: Apache-2.0
// A library that was built with the header of the first version is loaded, its kernels are found
// with what they say, and they read our problems.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "straightline/abi/straightline.h"

namespace {

const sl_kernel_desc* find(const char* name) {
  for (int32_t b = 0; b < sl_backend_count(); ++b) {
    const sl_backend_desc* backend = sl_backend_at(b);
    for (int32_t k = 0; k < backend->kernel_count; ++k) {
      if (std::strcmp(backend->kernels[k].name, name) == 0) {
        return &backend->kernels[k];
      }
    }
  }
  return nullptr;
}

class FirstVersion : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen(SL_FIRST_VERSION_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    using Backend = const sl_backend_desc* (*)();
    const auto backend = reinterpret_cast<Backend>(dlsym(library, "straightline_backend_v1"));
    ASSERT_NE(backend, nullptr);
    sl_message message{};
    ASSERT_EQ(sl_backend_register(backend(), &message), SL_OK) << message.text;
    kernel = find("elder.scale");
    ASSERT_NE(kernel, nullptr);
  }
  const sl_kernel_desc* kernel = nullptr;
};

TEST_F(FirstVersion, EveryFieldIsRead) {
  EXPECT_EQ(kernel->size, sizeof(sl_kernel_desc));
  EXPECT_STREQ(kernel->summary, "a kernel of the first version");
  EXPECT_EQ(kernel->workspace(nullptr), 64);
  ASSERT_EQ(kernel->tunable_count, 2);
  EXPECT_STREQ(kernel->tunables[1].name, "columns");
  EXPECT_EQ(kernel->tunables[1].highest, 16);
  int64_t values[2] = {4, 8};
  kernel->tune(nullptr, values);
  EXPECT_EQ(values[1], 9);
  EXPECT_EQ(kernel->properties, uint32_t{SL_KERNEL_CONCURRENT});
  ASSERT_EQ(kernel->operand_count, 2);
  EXPECT_STREQ(kernel->operands[1].role, "y");
  EXPECT_EQ(kernel->operands[1].layouts, uint32_t{SL_LAYOUT_STRIDED});
  EXPECT_EQ(kernel->operands[1].flags, uint32_t{SL_OPERAND_OUTPUT});
  ASSERT_EQ(kernel->epilogue_count, 2);
  EXPECT_STREQ(kernel->epilogues[1].name, "bias");
  EXPECT_EQ(kernel->epilogues[1].flags, uint32_t{SL_EPILOGUE_WITH_BIAS});
  int64_t widths[2 * SL_MAX_RANK] = {};
  kernel->border(nullptr, 0, widths);
  EXPECT_EQ(widths[4], 1);
  EXPECT_STREQ(kernel->group_op, "scale_group");
  ASSERT_NE(kernel->rule, nullptr);
  EXPECT_EQ(kernel->rule->tells_workspace, 1);
  ASSERT_EQ(kernel->rule->attribute_count, 1);
  EXPECT_STREQ(kernel->rule->attributes[0], "scale");
}

TEST_F(FirstVersion, WhatItLeavesOutHasDefaults) {
  const sl_kernel_desc* second = find("elder.second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->workspace, nullptr);
  EXPECT_EQ(second->tunable_count, 0);
  EXPECT_EQ(second->operand_count, 0);
  EXPECT_EQ(second->rule, nullptr);
}

TEST_F(FirstVersion, ItReadsAProblemWhoseElementsAreLarger) {
  struct Operand {
    sl_operand known;
    char more[40];
  };
  struct Attribute {
    sl_attribute known;
    char more[24];
  };
  std::vector<Operand> operands(2);
  for (Operand& operand : operands) {
    std::memset(operand.more, 0x55, sizeof operand.more);
    operand.known.dtype = {2, 32, 1};
    operand.known.rank = 1;
    operand.known.extents[0] = 4;
    operand.known.strides[0] = 1;
  }
  std::vector<Attribute> attributes(2);
  attributes[0].known = {"other", 1, SL_INT, 0, nullptr};
  attributes[1].known = {"scale", 0, SL_FLOAT, 0.5, nullptr};
  struct {
    sl_problem known;
    char more[16];
  } problem{};
  problem.known.size = sizeof problem;
  problem.known.op = "scale";
  problem.known.operands = &operands[0].known;
  problem.known.inputs = 1;
  problem.known.outputs = 1;
  problem.known.attributes = &attributes[0].known;
  problem.known.attribute_count = 2;
  problem.known.operand_stride = sizeof(Operand);
  problem.known.attribute_stride = sizeof(Attribute);
  char reason[8] = "";
  EXPECT_EQ(kernel->accepts(&problem.known, reason, sizeof reason), 1);
  attributes[1].known.number = -0.5;
  EXPECT_EQ(kernel->accepts(&problem.known, reason, sizeof reason), 0);
  attributes[1].known.number = 0.5;
  operands[1].known.extents[0] = 5;
  EXPECT_EQ(kernel->accepts(&problem.known, reason, sizeof reason), 0);
}

TEST_F(FirstVersion, AProblemWithoutStridesHasAttributesOfIntegers) {
  // As programs have it that were compiled before there were kinds.
  const struct {
    const char* name;
    int64_t value;
  } attributes[] = {{"m", 3}, {"n", 5}};
  sl_problem problem{};
  problem.size = offsetof(sl_problem, operand_stride);
  problem.attributes = reinterpret_cast<const sl_attribute*>(attributes);
  problem.attribute_count = 2;
  problem.attribute_stride = 77;  // beyond the struct
  const sl_attribute second = sl_attribute_at(&problem, 1);
  EXPECT_STREQ(second.name, "n");
  EXPECT_EQ(second.value, 5);
  EXPECT_EQ(second.kind, SL_INT);
  EXPECT_EQ(second.text, nullptr);
}

}  // namespace
