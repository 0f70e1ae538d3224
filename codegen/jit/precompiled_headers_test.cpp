// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/precompiled_headers.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/temporary_folder_for_tests.h"

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

/// Makes this process forget what it built: it keeps a few lists of arguments alone.
void forget() {
  ObjectCache none("", 0);
  for (const char* i : {"0", "1", "2", "3"}) {
    EXPECT_EQ(
        buildPrecompiledHeaders(
            clangArguments({hostTarget(), false, {std::string("-no-such-argument") + i}}), none),
        nullptr);
  }
}

std::vector<std::filesystem::path> entriesOf(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return {begin(all), end(all)};
}

TEST(PrecompiledHeaders, ObjectsAreTheSameWithThem) {
  ObjectCache none("", 0);
  for (const bool lines : {false, true}) {
    const std::vector<std::string> arguments = clangArguments({hostTarget(), lines, {}});
    const PrecompiledHeaders headers = buildPrecompiledHeaders(arguments, none);
    ASSERT_NE(headers, nullptr) << compileHeaders(arguments).diagnostics;
    EXPECT_EQ(headers, findPrecompiledHeaders(arguments, none));
    const ClangOutput with = compileToObject("unit", kUnit, arguments, headers.get());
    const ClangOutput without = compileToObject("unit", kUnit, arguments);
    ASSERT_TRUE(with.ok) << with.diagnostics;
    ASSERT_TRUE(without.ok) << without.diagnostics;
    EXPECT_EQ(with.object, without.object);
  }
}

TEST(PrecompiledHeaders, ServeUnitsThatRunOnceToo) {
  ObjectCache none("", 0);
  const std::vector<std::string> arguments = clangArguments({hostTarget(), false, {}});
  const PrecompiledHeaders headers = buildPrecompiledHeaders(arguments, none);
  ASSERT_NE(headers, nullptr);
  const ClangOutput once = compileToObject("unit", kUnit, arguments, headers.get(), true);
  ASSERT_TRUE(once.ok) << once.diagnostics;
  EXPECT_EQ(once.object, compileToObject("unit", kUnit, arguments, nullptr, true).object);
  EXPECT_NE(once.object, compileToObject("unit", kUnit, arguments).object) << "the same level";
}

TEST(PrecompiledHeaders, AreOfOneListOfArguments) {
  ObjectCache none("", 0);
  const std::vector<std::string> arguments =
      clangArguments({hostTarget(), false, {"-DSL_UNUSED=1"}});
  EXPECT_EQ(findPrecompiledHeaders(arguments, none), nullptr);
  EXPECT_EQ(
      buildPrecompiledHeaders(clangArguments({hostTarget(), false, {"-no-such-argument"}}), none),
      nullptr);
  EXPECT_EQ(findPrecompiledHeaders(arguments, none), nullptr);
  EXPECT_NE(buildPrecompiledHeaders(arguments, none), nullptr);
}

/// Headers that clang cannot use are as good as none: compileProgram compiles such a unit without
/// them.
TEST(PrecompiledHeaders, DamageIsRefused) {
  ObjectCache none("", 0);
  const std::vector<std::string> arguments = clangArguments({hostTarget(), false, {}});
  std::string damaged = *buildPrecompiledHeaders(arguments, none);
  damaged.resize(damaged.size() / 2);
  EXPECT_FALSE(compileToObject("unit", kUnit, arguments, &damaged).ok);
}

TEST(PrecompiledHeaders, AnotherProcessReadsThemFromTheCache) {
  const TemporaryFolder folder;
  ObjectCache cache(folder.path(), std::uint64_t{1} << 30);
  const std::vector<std::string> arguments =
      clangArguments({hostTarget(), false, {"-DSL_OF_THE_CACHE=1"}});
  const PrecompiledHeaders built = buildPrecompiledHeaders(arguments, cache);
  ASSERT_NE(built, nullptr);
  EXPECT_EQ(entriesOf(folder).size(), 1u);
  forget();
  const PrecompiledHeaders read = findPrecompiledHeaders(arguments, cache);
  ASSERT_NE(read, nullptr);
  EXPECT_NE(read, built) << "it was not read";
  EXPECT_EQ(*read, *built);
  EXPECT_TRUE(compileToObject("unit", kUnit, arguments, read.get()).ok);
  const CacheCounts counts = cache.counts();
  EXPECT_EQ(counts.hits + counts.misses + counts.stored, 0u) << "headers are no unit";
}

TEST(PrecompiledHeaders, DamagedOnDiskTheyAreBuiltAnew) {
  const TemporaryFolder folder;
  ObjectCache cache(folder.path(), std::uint64_t{1} << 30);
  const std::vector<std::string> arguments =
      clangArguments({hostTarget(), false, {"-DSL_DAMAGED=1"}});
  ASSERT_NE(buildPrecompiledHeaders(arguments, cache), nullptr);
  forget();
  std::filesystem::resize_file(entriesOf(folder).front(), 100000);
  EXPECT_EQ(findPrecompiledHeaders(arguments, cache), nullptr);
  EXPECT_EQ(cache.counts().damaged, 1u);
  EXPECT_TRUE(entriesOf(folder).empty());
  EXPECT_NE(buildPrecompiledHeaders(arguments, cache), nullptr);
  EXPECT_EQ(entriesOf(folder).size(), 1u);
}

}  // namespace
}  // namespace straightline::jit
