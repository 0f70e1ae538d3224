// SPDX-License-Identifier: Apache-2.0
#include "tools/module_builder.h"

#include <gtest/gtest.h>

#include "tools/stages_for_tests.h"

namespace straightline {
namespace {

using List = std::vector<const char*>;

class ModuleBuilderTest : public ::testing::Test {
 protected:
  int32_t begin() {
    int32_t value = -1;
    const Failure failure =
        builder_.beginFunction("forward", List{"x"}, List{"tensor<2xi1>"}, &value);
    EXPECT_FALSE(failure.failed()) << failure.message;
    return value;
  }
  Failure constant(const char* type, const std::vector<char>& data, int32_t* value) {
    if (Failure failure = builder_.attributeDense("value", type, data); failure.failed()) {
      return failure;
    }
    return builder_.op("arith.constant", {}, List{type}, {}, false, 0, {"layer.0", "model.py", 7},
                       value);
  }

  TestStages stages_;
  ModuleBuilder builder_{stages_};
};

TEST_F(ModuleBuilderTest, BuildsAFunctionWithNamesAndPlaces) {
  const int32_t x = begin();
  int32_t mask = -1;
  int32_t both = -1;
  Failure failure = constant("tensor<2xi1>", {1, 0}, &mask);
  ASSERT_FALSE(failure.failed()) << failure.message;
  failure = builder_.op("arith.andi", {x, mask}, List{"tensor<2xi1>"}, {}, false, 0, {}, &both);
  ASSERT_FALSE(failure.failed()) << failure.message;
  failure = builder_.endFunction({{both, "z", ""}, {x, "x_new", "input:x"}});
  ASSERT_FALSE(failure.failed()) << failure.message;
  std::unique_ptr<Module> module;
  failure = builder_.finish(&module);
  ASSERT_FALSE(failure.failed()) << failure.message;
  const std::string text = printModule(*module->op, 1);
  EXPECT_NE(text.find("dense<[true, false]>"), std::string::npos) << text;
  EXPECT_NE(text.find("op.name = \"x\""), std::string::npos) << text;
  EXPECT_NE(text.find("op.tie = \"input:x\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"layer.0\"("), std::string::npos) << text;
  EXPECT_NE(text.find("\"model.py\":7:0"), std::string::npos) << text;
}

TEST_F(ModuleBuilderTest, DenseConstantsKeepTheirBytes) {
  begin();
  int32_t value = -1;
  EXPECT_FALSE(constant("tensor<2xi16>", {1, 0, 2, 1}, &value).failed());
  EXPECT_FALSE(constant("tensor<0xf32>", {}, &value).failed());
  EXPECT_FALSE(constant("tensor<i8>", {5}, &value).failed());
  const Failure wrong = constant("tensor<3xf32>", {0, 0, 0, 0}, &value);
  EXPECT_EQ(wrong.kind, ErrorKind::internal);
  EXPECT_EQ(wrong.message, "builder: constant of type 'tensor<3xf32>' needs 12 bytes but has 4");
  ASSERT_FALSE(builder_.endFunction({}).failed());
  std::unique_ptr<Module> module;
  ASSERT_FALSE(builder_.finish(&module).failed());
  EXPECT_NE(printModule(*module->op, 0).find("dense<[1, 258]>"), std::string::npos);
}

TEST_F(ModuleBuilderTest, MistakesAreInternalErrorsWithWords) {
  int32_t value = -1;
  EXPECT_NE(builder_.op("arith.andi", {}, {}, {}, false, 0, {}, &value).message.find("no function"),
            std::string::npos);
  begin();
  EXPECT_EQ(builder_.op("op.nonsense", {}, {}, {}, false, 0, {}, &value).message,
            "builder: unknown op 'op.nonsense'");
  EXPECT_EQ(builder_.op("arith.andi", {9}, {}, {}, false, 0, {}, &value).message,
            "builder: value 9 of 1");
  EXPECT_NE(builder_.op("arith.andi", {0, 0}, List{"tensor<"}, {}, false, 0, {}, &value)
                .message.find("not a type: 'tensor<'"),
            std::string::npos);
  EXPECT_TRUE(builder_.attribute("value", "dense<").failed());
  EXPECT_EQ(builder_.op("arith.andi", {0, 0}, {}, {}, false, 2, {}, &value).message,
            "builder: 'arith.andi' takes 2 regions of 0");
  EXPECT_TRUE(builder_.endRegion({}, {}).failed());
  ASSERT_FALSE(builder_.beginRegion(List{"i1"}, &value).failed());
  EXPECT_EQ(builder_.endFunction({}).message,
            "builder: the function ends with 1 open and 0 unused regions");
}

TEST_F(ModuleBuilderTest, ModuleThatDoesNotVerifyIsKept) {
  int32_t value = begin();
  ASSERT_FALSE(
      builder_.op("arith.addf", {value, value}, List{"tensor<2xi1>"}, {}, false, 0, {}, &value)
          .failed());
  ASSERT_FALSE(builder_.endFunction({}).failed());
  std::unique_ptr<Module> module;
  const Failure failure = builder_.finish(&module);
  EXPECT_EQ(failure.kind, ErrorKind::internal);
  EXPECT_NE(failure.message.find("floating-point"), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find(".mlir"), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace straightline
