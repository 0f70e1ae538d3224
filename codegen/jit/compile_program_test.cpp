// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/compile_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/temporary_folder_for_tests.h"
#include "straightline/abi/straightline.h"

namespace straightline::jit {
namespace {

class CompileProgramTest : public ::testing::Test {
 protected:
  std::unique_ptr<CompiledProgram> compile(const std::vector<Unit>& units,
                                           const std::vector<std::string>& symbols) {
    return compileProgram(units, symbols, options_, &error_);
  }

  template <typename Function>
  Function* function(CompiledProgram& program, const std::string& name) {
    std::string message;
    void* address = program.code->lookup(name, &message);
    EXPECT_NE(address, nullptr) << message;
    return reinterpret_cast<Function*>(address);
  }

  TemporaryFolder folder_;
  ObjectCache cache_{folder_.path(), std::uint64_t{64} << 20};
  CompileOptions options_{
      .cpu = {}, .threads = 2, .clangExtra = {}, .cache = &cache_, .onUnit = {}, .resolver = {}};
  CompileError error_;
};

Unit addUnit(int constant) {
  const std::string number = std::to_string(constant);
  return {"add_" + number,
          "extern \"C\" int add_" + number + "(int x) { return x + " + number + "; }"};
}

TEST_F(CompileProgramTest, RunsCodeAgainstEmbeddedHeaders) {
  const Unit unit{"context",
                  "#include \"straightline/abi/entry.h\"\n"
                  "extern \"C\" int32_t statement(const sl_ctx* ctx) { return ctx->statement + "
                  "(int32_t)sizeof(size_t); }"};
  const std::unique_ptr<CompiledProgram> program = compile({unit}, {"statement"});
  ASSERT_TRUE(program) << error_.message;
  struct {
    std::uint64_t size;
    std::int32_t status, statement;
  } head{0, 0, 7};
  EXPECT_EQ(function<int(const void*)>(*program, "statement")(&head), 15);
  EXPECT_EQ(program->compiled, 1u);
}

TEST_F(CompileProgramTest, UnitsSeeEachOtherAndTheResolver) {
  const Unit kernel{
      "kernel",
      "extern \"C\" int outside(int); extern \"C\" int kernel(int x) { return outside(x) * 2; }"};
  const Unit main{
      "main",
      "extern \"C\" int kernel(int); extern \"C\" int run(int x) { return kernel(x) + 1; }"};
  options_.resolver = [](const std::string& name) -> void* {
    return name == "outside" ? reinterpret_cast<void*>(+[](int x) { return x + 100; }) : nullptr;
  };
  const std::unique_ptr<CompiledProgram> program = compile({main, kernel}, {"run"});
  ASSERT_TRUE(program) << error_.message;
  EXPECT_EQ(function<int(int)>(*program, "run")(5), 211);
}

TEST_F(CompileProgramTest, ProgramsDoNotSeeEachOther) {
  const auto text = [](int value) {
    return "extern \"C\" int same() { return " + std::to_string(value) + "; }";
  };
  const std::unique_ptr<CompiledProgram> one = compile({{"u", text(1)}}, {"same"});
  const std::unique_ptr<CompiledProgram> two = compile({{"u", text(2)}}, {"same"});
  ASSERT_TRUE(one && two) << error_.message;
  EXPECT_EQ(function<int()>(*one, "same")(), 1);
  EXPECT_EQ(function<int()>(*two, "same")(), 2);
}

TEST_F(CompileProgramTest, SupportFunctionsAreThere) {
  const Unit unit{
      "support",
      "extern \"C\" void move(char* a, const char* b, __SIZE_TYPE__ n) { __builtin_memmove(a, b, "
      "n); }\n"
      "extern \"C\" long divide(long a, long b) { return (long)(((__int128)a << 64) / b >> 32); }\n"
      "extern \"C\" unsigned short half(double x) { _Float16 h = (_Float16)x; return "
      "__builtin_bit_cast(unsigned short, h); }\n"
      "extern \"C\" float brain(float x) { return (float)(__bf16)x; }\n"};
  options_.resolver = [](const std::string& name) { return sl_symbol(name.c_str()); };
  const std::unique_ptr<CompiledProgram> program =
      compile({unit}, {"move", "divide", "half", "brain"});
  ASSERT_TRUE(program) << error_.message;
  EXPECT_EQ(function<unsigned short(double)>(*program, "half")(1.0), 0x3c00);
  EXPECT_EQ(function<float(float)>(*program, "brain")(1.0f + 0x1p-9f), 1.0f);
  EXPECT_EQ(function<long(long, long)>(*program, "divide")(3, 1), 3L << 32);
}

TEST_F(CompileProgramTest, MathLibraryIsNotReachable) {
  EXPECT_FALSE(compile(
      {{"m", "extern \"C\" float expf(float); extern \"C\" float f(float x) { return expf(x); }"}},
      {"f"}));
  EXPECT_EQ(error_.kind, CompileError::Kind::internal);
  EXPECT_NE(error_.message.find("expf"), std::string::npos) << error_.message;
}

TEST_F(CompileProgramTest, RefusedTextIsKeptAndNamed) {
  const TemporaryFolder dump;
  ::setenv("STRAIGHTLINE_DUMP", dump.path().c_str(), 1);
  const std::string text = "extern \"C\" int f() { return undeclared_name; }";
  EXPECT_FALSE(compile({addUnit(1), {"broken", text}}, {"f"}));
  ::unsetenv("STRAIGHTLINE_DUMP");
  EXPECT_EQ(error_.kind, CompileError::Kind::internal);
  EXPECT_NE(error_.message.find("undeclared_name"), std::string::npos) << error_.message;
  const std::size_t at = error_.message.find(dump.path());
  ASSERT_NE(at, std::string::npos) << error_.message;
  EXPECT_EQ(error_.message.find('\n'), std::string::npos) << error_.message;
  const std::string path = error_.message.substr(at);
  std::stringstream kept;
  kept << std::ifstream(path).rdbuf();
  EXPECT_EQ(kept.str().find(text + "\n// "), 0u) << kept.str();
  EXPECT_NE(kept.str().find("^~~"), std::string::npos) << kept.str();  // all that clang said
  EXPECT_TRUE(compile({addUnit(1)}, {"add_1"})) << error_.message;     // and the process goes on
}

TEST_F(CompileProgramTest, NothingOfTheDiskIsSeen) {
  EXPECT_FALSE(compile({{"u", "#include <vector>\nextern \"C\" int f() { return 0; }"}}, {"f"}));
  EXPECT_NE(error_.message.find("'vector' file not found"), std::string::npos) << error_.message;
}

TEST_F(CompileProgramTest, ErrorsOfTheBackEndAreErrorsToo) {
  EXPECT_FALSE(compile({{"u", "extern \"C\" int f() { asm(\"bogus\"); return 0; }"}}, {"f"}));
  EXPECT_NE(error_.message.find("bogus"), std::string::npos) << error_.message;
  EXPECT_TRUE(compile({addUnit(1)}, {"add_1"})) << error_.message;
}

TEST_F(CompileProgramTest, StaticInitialisersAreRefused) {
  EXPECT_FALSE(compile(
      {{"u", "extern \"C\" int g(); int x = g(); extern \"C\" int f() { return x; }"}}, {"f"}));
  EXPECT_NE(error_.message.find("global constructor"), std::string::npos) << error_.message;
}

TEST_F(CompileProgramTest, CacheServesTheSecondTime) {
  std::vector<Unit> units = {addUnit(1), addUnit(2), addUnit(3)};
  ASSERT_TRUE(compile(units, {"add_1"})) << error_.message;
  units[1].text = "// another comment\n" + units[1].text;
  units[2].text = "extern \"C\" int add_3(int x) { return x + 33; }";
  const std::unique_ptr<CompiledProgram> again = compile(units, {"add_1", "add_2", "add_3"});
  ASSERT_TRUE(again) << error_.message;
  EXPECT_EQ(again->cached, 2u);
  EXPECT_EQ(again->compiled, 1u);
  EXPECT_EQ(function<int(int)>(*again, "add_3")(1), 34);
  EXPECT_EQ(function<int(int)>(*again, "add_2")(1), 3);
}

TEST_F(CompileProgramTest, AUnitThatRunsOnceIsAnotherEntry) {
  const Unit often = addUnit(1);
  Unit once = often;
  once.runsOnce = true;
  for (const Unit& unit : {often, once}) {
    const std::unique_ptr<CompiledProgram> first = compile({unit}, {"add_1"});
    ASSERT_TRUE(first) << error_.message;
    EXPECT_EQ(first->compiled, 1u);
    EXPECT_EQ(function<int(int)>(*first, "add_1")(1), 2);
    EXPECT_EQ(compile({unit}, {"add_1"})->cached, 1u);
  }
}

TEST_F(CompileProgramTest, DamagedEntryIsCompiledAnewWithANote) {
  ASSERT_TRUE(compile({addUnit(1)}, {"add_1"})) << error_.message;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    std::filesystem::resize_file(entry.path(), 100);
  }
  const std::unique_ptr<CompiledProgram> again = compile({addUnit(1)}, {"add_1"});
  ASSERT_TRUE(again) << error_.message;
  EXPECT_EQ(again->compiled, 1u);
  ASSERT_EQ(again->notes.size(), 1u);
  EXPECT_NE(again->notes[0].find("damaged"), std::string::npos);
  EXPECT_EQ(function<int(int)>(*again, "add_1")(1), 2);
}

TEST_F(CompileProgramTest, TargetCpu) {
  options_.cpu = "x86-64-v3";
  EXPECT_TRUE(compile({addUnit(1)}, {"add_1"})) << error_.message;
  options_.cpu = "pentium-9000";
  EXPECT_FALSE(compile({addUnit(1)}, {"add_1"}));
  EXPECT_EQ(error_.kind, CompileError::Kind::user);
  EXPECT_EQ(error_.message, "unknown target cpu 'pentium-9000'");
}

TEST(Target, WhoBeginsTwoWideMultiplyAdds) {
  for (const char* cpu :
       {"skylake-avx512", "icelake-server", "sapphirerapids", "graniterapids", "znver5"}) {
    EXPECT_TRUE(beginsTwoWideVectors(*targetNamed(cpu))) << cpu;
  }
  for (const char* cpu : {"x86-64-v3", "x86-64-v4", "znver4", "tigerlake", "haswell"}) {
    EXPECT_FALSE(beginsTwoWideVectors(*targetNamed(cpu))) << cpu;
  }
  const Target hidden{hostTarget().triple, "emeraldrapids", {"+avx512f", "-amx-tile"}};
  EXPECT_TRUE(beginsTwoWideVectors(hidden));
}

TEST(Target, AVersionOfAvx10NeedsTheFeaturesThatItImplies) {
  // a virtual machine that gives a newer processor an older name
  const Target disguised{hostTarget().triple, "rocketlake", {"+avx10.1", "-rtm"}};
  const std::vector<std::string> needed = neededFeatures(disguised);
  const auto has = [&](const char* name) {
    return std::find(needed.begin(), needed.end(), name) != needed.end();
  };
  EXPECT_TRUE(has("avx512fp16"));
  EXPECT_TRUE(has("avx512bf16"));
  EXPECT_FALSE(has("avx10.1"));
  EXPECT_FALSE(has("rtm"));
}

TEST_F(CompileProgramTest, TargetThatCannotRunHere) {
  options_.cpu = "diamondrapids";
  if (featuresMissingHere(*targetNamed(options_.cpu)).empty()) {
    GTEST_SKIP() << "this machine has every feature of " << options_.cpu;
  }
  EXPECT_FALSE(compile({addUnit(1)}, {"add_1"}));
  EXPECT_EQ(error_.kind, CompileError::Kind::unsupported);
  EXPECT_NE(error_.message.find("target cpu diamondrapids needs "), std::string::npos)
      << error_.message;
}

TEST_F(CompileProgramTest, ManyThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::vector<std::string> failures(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; ++i) {
        const int constant = t * 10 + i;
        CompileError error;
        const std::unique_ptr<CompiledProgram> program =
            compileProgram({addUnit(constant), addUnit(1000 + constant)},
                           {"add_" + std::to_string(constant)}, options_, &error);
        std::string message = error.message;
        void* address =
            program ? program->code->lookup("add_" + std::to_string(1000 + constant), &message)
                    : nullptr;
        if (address == nullptr || reinterpret_cast<int (*)(int)>(address)(1) != 1001 + constant) {
          failures[t] = "wrong result; " + message;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& failure : failures) {
    EXPECT_EQ(failure, "");
  }
}

/// Executable mappings of this process that no file stands behind.
int anonymousCodeMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::string range, rights, offset, device, inode;
    fields >> range >> rights >> offset >> device >> inode;
    count += rights.find('x') != std::string::npos && inode == "0" ? 1 : 0;
  }
  return count;
}

long mappedPages() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST_F(CompileProgramTest, CodeIsFreed) {
  const auto once = [&](int i) {
    const std::unique_ptr<CompiledProgram> program =
        compile({addUnit(i)}, {"add_" + std::to_string(i)});
    ASSERT_TRUE(program) << error_.message;
    ASSERT_EQ(function<int(int)>(*program, "add_" + std::to_string(i))(1), i + 1);
  };
  for (int i = 0; i < 20; ++i) {
    once(i);
  }
  const int codeBefore = anonymousCodeMappings();
  const long pagesBefore = mappedPages();
  for (int i = 20; i < 220; ++i) {
    once(i);
  }
  EXPECT_LE(anonymousCodeMappings(), codeBefore);
  // 8 MiB: 200 leaks of even one 64 kB mapping would be seen
  EXPECT_LE(mappedPages() - pagesBefore, 2048);

  std::vector<std::unique_ptr<CompiledProgram>> kept;  // the counter above can count
  kept.push_back(compile({addUnit(1)}, {"add_1"}));
  EXPECT_GT(anonymousCodeMappings(), codeBefore);
}

}  // namespace
}  // namespace straightline::jit
