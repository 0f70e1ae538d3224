// SPDX-License-Identifier: Apache-2.0
#include "tools/compilation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/jit/temporary_folder_for_tests.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/JSON.h"
#include "tools/compiler_abi.h"
#include "tools/stages_for_tests.h"

namespace straightline {
namespace {

/// A whole program without buffers: `run` reports through the context's detail that it ran.
constexpr const char* kProgram = R"(#include "straightline/abi/entry.h"
extern "C" void sl_fail(sl_ctx*, int32_t, int64_t, int64_t, int64_t);
static int32_t run(sl_ctx* ctx, sl_team, const sl_bindings*) {
  sl_fail(ctx, SL_CHECK_FAILED, 41, 42, 43);
  return ctx->status;
}
static constexpr const char* spaces[] = {"host"};
static constexpr const char* queues[] = {"cpu"};
static constexpr sl_expr_step zero[] = {{'c', 0}};
static constexpr sl_expr bytes[] = {{zero, 1}};
extern "C" const sl_program_desc sl_program = {
    .size = sizeof(sl_program_desc), .abi_version = SL_ABI_VERSION, .name = "probe", .target = "cpu",
    .prepare = nullptr, .run = run, .buffers = nullptr, .buffer_count = 0, .statements = nullptr, .statement_count = 0,
    .extents = nullptr, .extent_count = 0, .results = nullptr, .result_count = 0, .spaces = spaces, .space_count = 1,
    .queues = queues, .queue_count = 1, .arena_bytes = bytes, .scratch_bytes = bytes, .prepared_bytes = bytes,
    .destroy_handle = nullptr, .parameter_count = 0, .handle_count = 0, .input_count = 0, .output_count = 0, .threads = 1};
)";

class CompilationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STRAIGHTLINE_CACHE_DIR", (folder_.path() + "/cache").c_str(), 1);
    ::setenv("STRAIGHTLINE_DUMP", (folder_.path() + "/dump").c_str(), 1);
    stages_.units = {{"probe", kProgram}};
  }
  void TearDown() override {
    ::unsetenv("STRAIGHTLINE_CACHE_DIR");
    ::unsetenv("STRAIGHTLINE_DUMP");
  }

  Failure compile(const char* text = "func.func @f() { return }") {
    std::unique_ptr<Module> module;
    if (Failure failure = parseModule(stages_, text, "test.mlir", &module); failure.failed()) {
      return failure;
    }
    return Compilation::compile(*module, request_, &compilation_);
  }

  int dumped() const {
    std::error_code error;
    int count = 0;
    for (std::filesystem::directory_iterator at(folder_.path() + "/dump", error), end;
         !error && at != end; ++at) {
      // not the folders with the levels of each compilation
      count += at->is_regular_file() ? 1 : 0;
    }
    return count;
  }

  jit::TemporaryFolder folder_;
  TestStages stages_;
  CompileOptions request_;
  std::unique_ptr<Compilation> compilation_;
};

TEST_F(CompilationTest, ProgramRunsAndOutlivesTheCompilation) {
  const Failure failure = compile();
  ASSERT_FALSE(failure.failed()) << failure.message;
  sl_program* program = compilation_->program();
  sl_program_retain(program);
  compilation_.reset();
  const sl_program_desc* description = sl_program_description(program);
  EXPECT_STREQ(description->name, "probe");
  sl_ctx context{};
  context.size = sizeof(context);
  EXPECT_EQ(description->run(&context, {nullptr, 0, 1}, nullptr), SL_CHECK_FAILED);
  EXPECT_EQ(context.detail[1], 42);
  sl_program_release(program);
}

TEST_F(CompilationTest, TheEstimateDecidesAboutTheTeamBeforeAnythingIsCompiled) {
  int planned = 0;
  stages_.body = [&](mlir::ModuleOp) { return ++planned, mlir::success(); };
  request_.team = 4;
  request_.teamFromUs = 100;
  stages_.estimate = 100;
  ASSERT_FALSE(compile().failed());
  EXPECT_EQ(planned, 1);
  EXPECT_NE(compilation_->explain().find("\"threads\": 1"), std::string::npos)
      << compilation_->explain();
  stages_.estimate = 101;
  ASSERT_FALSE(compile().failed());
  EXPECT_EQ(planned, 3);
  EXPECT_EQ(compilation_->compiled() + compilation_->cached(), 1u);
  EXPECT_NE(compilation_->explain().find("\"threads\": 2"), std::string::npos)
      << compilation_->explain();
  for (const auto& [us, threads] : {std::pair(199, 3), std::pair(5000, 4)}) {
    stages_.estimate = us;
    ASSERT_FALSE(compile().failed());
    const std::string expected = "\"threads\": " + std::to_string(threads);
    EXPECT_NE(compilation_->explain().find(expected), std::string::npos) << compilation_->explain();
  }
}

TEST_F(CompilationTest, ExplainSaysWhereTheTimeWent) {
  ASSERT_FALSE(compile().failed());
  llvm::Expected<llvm::json::Value> facts = llvm::json::parse(compilation_->explain());
  ASSERT_TRUE(static_cast<bool>(facts)) << compilation_->explain();
  const llvm::json::Object* seconds = facts->getAsObject()->getObject("compile_seconds");
  ASSERT_NE(seconds, nullptr);
  for (const char* phase : {"passes", "emission", "units", "clang", "link", "load"}) {
    EXPECT_GT(seconds->getNumber(phase).value_or(0), 0) << phase;
  }
}

TEST_F(CompilationTest, SecondTimeComesFromTheCache) {
  ASSERT_FALSE(compile().failed());
  EXPECT_EQ(compilation_->compiled(), 1u);
  ASSERT_FALSE(compile().failed());
  EXPECT_EQ(compilation_->cached(), 1u);
  request_.useCache = false;
  ASSERT_FALSE(compile().failed());
  EXPECT_EQ(compilation_->compiled(), 1u);
}

TEST_F(CompilationTest, BothLevelsCanBeRead) {
  stages_.body = [](mlir::ModuleOp module) {
    module->setAttr("test.lowered", mlir::UnitAttr::get(module.getContext()));
    return mlir::success();
  };
  ASSERT_FALSE(compile().failed());
  std::string op;
  std::string kernel;
  EXPECT_FALSE(compilation_->ir("op", 0, &op).failed());
  EXPECT_FALSE(compilation_->ir("kernel", 0, &kernel).failed());
  EXPECT_EQ(op.find("test.lowered"), std::string::npos);
  EXPECT_NE(kernel.find("test.lowered"), std::string::npos);
  EXPECT_EQ(compilation_->ir("llvm", 0, &op).kind, ErrorKind::user);
}

TEST_F(CompilationTest, EmitOnlyMakesNoProgram) {
  request_.emitOnly = true;
  request_.cpu = "x86-64-v4";
  const Failure failure = compile();
  ASSERT_FALSE(failure.failed()) << failure.message;
  EXPECT_EQ(compilation_->program(), nullptr);
  EXPECT_EQ(compilation_->emitted().explain, "{\"cpu\": \"x86-64-v4\", \"threads\": 1}");
}

TEST_F(CompilationTest, MalformedModuleIsAUserErrorWithItsPlace) {
  const Failure failure = compile("func.func @f() {\n  %0 = bogus.op\n}");
  EXPECT_EQ(failure.kind, ErrorKind::user);
  EXPECT_NE(failure.message.find("test.mlir:2"), std::string::npos) << failure.message;
}

TEST_F(CompilationTest, PassFailuresHaveTheRightKindAndAllDiagnostics) {
  const char* text = "func.func @f() { return } loc(\"fc\"(\"model.py\":12:0))";
  stages_.body = [](mlir::ModuleOp module) {
    mlir::Operation& function = module.getBody()->front();
    emitUnsupported(&function) << "first";
    emitUnsupported(&function) << "func has no kernel; one";
    mlir::InFlightDiagnostic second = emitUnsupported(&function) << "second";
    second.attachNote() << "nearest form";
    second.attachNote() << "see current operation: func.func";
    return mlir::LogicalResult(second);
  };
  Failure failure = compile(text);
  EXPECT_EQ(failure.kind, ErrorKind::unsupported);
  EXPECT_EQ(failure.message,
            "fc (model.py:12): first\nfc (model.py:12): func has no kernel; one\n"
            "fc (model.py:12): second\n  fc (model.py:12): note: nearest form");
  EXPECT_EQ(dumped(), 0);

  stages_.body = [](mlir::ModuleOp module) {
    emitUnsupported(&module.getBody()->front()) << "also this";
    return mlir::LogicalResult(emitUserError(&module.getBody()->front()) << "wrong input");
  };
  failure = compile(text);
  EXPECT_EQ(failure.kind, ErrorKind::user);
  EXPECT_EQ(failure.message, "fc (model.py:12): also this\nfc (model.py:12): wrong input");

  stages_.body = [](mlir::ModuleOp module) {
    emitUnsupported(&module.getBody()->front()) << "not this";
    return mlir::LogicalResult(module.emitError("broken invariant\nof two lines"));
  };
  failure = compile(text);
  EXPECT_EQ(failure.kind, ErrorKind::internal);
  EXPECT_NE(failure.message.find("broken invariant"), std::string::npos);
  EXPECT_EQ(failure.message.find('\n'), std::string::npos) << failure.message;
  EXPECT_EQ(failure.message.find("not this"), std::string::npos) << failure.message;
  const std::size_t at = failure.message.find(folder_.path() + "/dump");
  std::stringstream kept;
  kept << std::ifstream(failure.message.substr(at, failure.message.find(' ', at) - at)).rdbuf();
  EXPECT_NE(kept.str().find("// of two lines"), std::string::npos) << kept.str();
  EXPECT_NE(kept.str().find("not this"), std::string::npos) << kept.str();
  EXPECT_NE(failure.message.find(folder_.path() + "/dump"), std::string::npos) << failure.message;
  EXPECT_EQ(dumped(), 2);
}

TEST_F(CompilationTest, FatalErrorsAndExceptionsBecomeInternalErrors) {
  stages_.body = [](mlir::ModuleOp) -> mlir::LogicalResult {
    llvm::report_fatal_error("planner exploded");
  };
  Failure failure = compile();
  EXPECT_EQ(failure.kind, ErrorKind::internal);
  EXPECT_NE(failure.message.find("planner exploded"), std::string::npos);
  EXPECT_EQ(dumped(), 1);
  stages_.body = [](mlir::ModuleOp) { return mlir::success(); };
  failure = compile();
  EXPECT_FALSE(failure.failed()) << failure.message;
}

TEST_F(CompilationTest, RuntimeRefusalAndBadRequestsAreNamed) {
  std::string text = kProgram;
  text.replace(text.find("= SL_ABI_VERSION"), std::string("= SL_ABI_VERSION").size(), "= 77");
  stages_.units = {{"probe", text}};
  Failure failure = compile();
  EXPECT_EQ(failure.kind, ErrorKind::internal);
  EXPECT_NE(failure.message.find("77"), std::string::npos) << failure.message;
  request_.cpu = "abacus";
  failure = compile();
  EXPECT_EQ(failure.kind, ErrorKind::user);
  EXPECT_EQ(failure.message, "unknown target cpu 'abacus'");
  request_.cpu = "";
  request_.threads = -1;
  EXPECT_EQ(compile().message, "threads is -1 but must be from 1 to 256");
}

}  // namespace
}  // namespace straightline
