// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/precompiled_headers.h"

#include <gtest/gtest.h>

#include "codegen/jit/clang_driver.h"

namespace straightline::jit {
namespace {

constexpr const char* kUnit = R"(#include "straightline/kernels/pointwise.h"
#include "straightline/kernels/scalar.h"
extern "C" void twice(sl_ctx* ctx, sl_team team, const float* a0, float* o0) {
  sl::pointwise<sl::PointwiseTune{.rank = 2, .inputs = 1}>(
      ctx, team, sl::Fixed<sl::PointwiseShape{.extent = {5, 7}, .stride = {{1, 5}, {7, 1}}}>{},
      [](auto x0, auto& y0) SL_LAMBDA { y0 = sl::exp(x0 + x0); }, a0, o0);
}
)";

TEST(PrecompiledHeaders, ObjectsAreTheSameWithThem) {
  for (const bool lines : {false, true}) {
    const std::vector<std::string> arguments = clangArguments({hostTarget(), lines, {}});
    const PrecompiledHeaders headers = buildPrecompiledHeaders(arguments);
    ASSERT_NE(headers, nullptr) << compileHeaders(arguments).diagnostics;
    EXPECT_EQ(headers, findPrecompiledHeaders(arguments));
    const ClangOutput with = compileToObject("unit", kUnit, arguments, headers.get());
    const ClangOutput without = compileToObject("unit", kUnit, arguments);
    ASSERT_TRUE(with.ok) << with.diagnostics;
    ASSERT_TRUE(without.ok) << without.diagnostics;
    EXPECT_EQ(with.object, without.object);
  }
}

TEST(PrecompiledHeaders, AreOfOneListOfArguments) {
  const std::vector<std::string> arguments =
      clangArguments({hostTarget(), false, {"-DSL_UNUSED=1"}});
  EXPECT_EQ(findPrecompiledHeaders(arguments), nullptr);
  EXPECT_EQ(buildPrecompiledHeaders(clangArguments({hostTarget(), false, {"-no-such-argument"}})),
            nullptr);
  EXPECT_EQ(findPrecompiledHeaders(arguments), nullptr);
  EXPECT_NE(buildPrecompiledHeaders(arguments), nullptr);
}

/// Headers that clang cannot use are as good as none: compileProgram compiles such a unit without
/// them.
TEST(PrecompiledHeaders, DamageIsRefused) {
  const std::vector<std::string> arguments = clangArguments({hostTarget(), false, {}});
  std::string damaged = *buildPrecompiledHeaders(arguments);
  damaged.resize(damaged.size() / 2);
  EXPECT_FALSE(compileToObject("unit", kUnit, arguments, &damaged).ok);
}

}  // namespace
}  // namespace straightline::jit
