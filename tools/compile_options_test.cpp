// SPDX-License-Identifier: Apache-2.0
#include "tools/compile_options.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace straightline {
namespace {

sl_compile_options given() {
  sl_compile_options options{};
  options.size = sizeof(options);
  return options;
}

std::string refusal(const sl_compile_options& options) {
  CompileOptions own;
  const Failure failure = readCompileOptions(&options, &own);
  EXPECT_EQ(failure.kind, ErrorKind::user);
  return failure.message;
}

TEST(CompileOptions, AllZeroIsEveryDefault) {
  for (const bool none : {true, false}) {
    const sl_compile_options zero = given();
    CompileOptions own;
    ASSERT_FALSE(readCompileOptions(none ? nullptr : &zero, &own).failed());
    EXPECT_EQ(own.target, "");
    EXPECT_EQ(own.threads, 1);
    EXPECT_TRUE(own.freeze && own.concurrentBranches && own.winograd && own.useCache);
    EXPECT_FALSE(own.emitOnly);
    EXPECT_EQ(own.internal.kernelsPerUnit, 1);
  }
}

TEST(CompileOptions, EveryOptionArrives) {
  const char* allow[] = {"native", "aten"};
  const sl_pair routes[] = {{"linear", "native.gemm"}};
  const sl_pair choices[] = {{"linear(8)", "native.gemv"}};
  sl_internal_options internal{};
  internal.size = sizeof(internal);
  internal.kernels_per_unit = 3;
  internal.list_candidates = internal.profile = internal.poison = internal.every_branch = 1;
  internal.choices = choices;
  internal.choice_count = 1;
  internal.prefer = "onednn";
  internal.device_backend = "test_device";
  sl_progress progress{};
  sl_compile_options options = given();
  options.cpu = "x86-64-v3";
  options.target = "cpu";
  options.threads = 2;
  options.team = 4;
  options.team_from_us = 10;
  options.device = 1;
  options.emit_only = 1;
  options.freeze = options.concurrent_branches = options.winograd = options.cache = SL_SWITCH_OFF;
  options.launch = "stream";
  options.tf32 = "matmul";
  options.allow = allow;
  options.allow_count = 2;
  options.routes = routes;
  options.route_count = options.slot_rules = 1;
  options.progress = &progress;
  options.internal = &internal;
  CompileOptions own;
  const Failure failure = readCompileOptions(&options, &own);
  ASSERT_FALSE(failure.failed()) << failure.message;
  EXPECT_EQ(own.cpu, "x86-64-v3");
  EXPECT_EQ(own.threads, 2);
  EXPECT_EQ(own.team, 4);
  EXPECT_EQ(own.teamFromUs, 10);
  EXPECT_EQ(own.device, 1);
  EXPECT_TRUE(own.emitOnly);
  EXPECT_FALSE(own.freeze || own.concurrentBranches || own.winograd || own.useCache);
  EXPECT_EQ(own.launch, "stream");
  EXPECT_EQ(own.tf32, "matmul");
  EXPECT_EQ(own.allow, (std::vector<std::string>{"native", "aten"}));
  EXPECT_EQ(own.routes.at(0), std::pair(std::string("linear"), std::string("native.gemm")));
  EXPECT_EQ(own.slotRules, 1);
  EXPECT_EQ(own.progress, &progress);
  EXPECT_EQ(own.internal.kernelsPerUnit, 3);
  EXPECT_TRUE(own.internal.listCandidates && own.internal.profile && own.internal.poison &&
              own.internal.everyBranch);
  EXPECT_EQ(own.internal.choices.at(0).second, "native.gemv");
  EXPECT_EQ(own.internal.prefer, "onednn");
  EXPECT_EQ(own.internal.deviceBackend, "test_device");
}

TEST(CompileOptions, AShorterStructIsTakenAndALongerOneWhereItIsZero) {
  sl_compile_options options = given();
  options.freeze = SL_SWITCH_OFF;
  options.launch = "no way to launch";
  options.size = offsetof(sl_compile_options, launch);  // a caller from before there was `launch`
  CompileOptions own;
  ASSERT_FALSE(readCompileOptions(&options, &own).failed());
  EXPECT_FALSE(own.freeze);
  EXPECT_EQ(own.launch, "");

  struct {
    sl_compile_options options = given();
    int64_t later = 0;
  } longer;
  longer.options.size = sizeof(longer);
  EXPECT_FALSE(readCompileOptions(&longer.options, &own).failed());
  longer.later = 1;
  EXPECT_NE(refusal(longer.options).find("that this library does not know"), std::string::npos);
  longer.options.size = 4;
  EXPECT_EQ(refusal(longer.options),
            "sl_compile_options has the size 4, expected " + std::to_string(sizeof(options)));
}

TEST(CompileOptions, ARefusalNamesTheOptionTheValueAndWhatIsValid) {
  sl_compile_options options = given();
  options.threads = 257;
  EXPECT_EQ(refusal(options), "threads is 257 but must be from 1 to 256");
  options = given();
  options.launch = "fast";
  EXPECT_EQ(refusal(options), "launch is 'fast' but must be one of stream, graph");
  options = given();
  options.tf32 = "all";
  EXPECT_EQ(refusal(options),
            "tf32 is 'all' but must be one of convolution, matmul, convolution+matmul");
  options = given();
  options.winograd = 3;
  EXPECT_EQ(refusal(options),
            "winograd is 3 but must be SL_SWITCH_DEFAULT, SL_SWITCH_ON or SL_SWITCH_OFF");
}

}  // namespace
}  // namespace straightline
