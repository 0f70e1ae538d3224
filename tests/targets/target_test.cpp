// SPDX-License-Identifier: Apache-2.0
// A third target is added by a folder (simulated/): the pipeline runs its pass, asks for its
// schedule, its plans and its costs, and the options name its machines. No file of passes/,
// codegen/ or tools/ knows it.
#include "passes/targets/target.h"

#include <gtest/gtest.h>

#include "codegen/entry_points.h"
#include "dialect/op/recorded.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "passes/pipeline.h"
#include "tools/pipeline_options.h"
#include "tools/target_facts.h"

namespace straightline {
namespace {

constexpr char kPointwise[] = R"(
func.func @f(%x: tensor<4x8xf32> {op.name = "x"}, %y: tensor<4x8xf32> {op.name = "y"})
    -> (tensor<4x8xf32> {op.name = "z"}) {
  %s = op.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = op.exp %s : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
})";

constexpr char kSums[] = R"(
func.func @f(%x: tensor<4x8xf32> {op.name = "x"}) -> (tensor<4xf32> {op.name = "z"}) {
  %z = op.sum %x {dims = array<i64: 1>, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
})";

constexpr char kProduct[] = R"(
func.func @f(%x: tensor<4x8xf32> {op.name = "x"}, %y: tensor<8x5xf32> {op.name = "y"})
    -> (tensor<4x5xf32> {op.name = "z"}) {
  %z = op.matmul %x, %y : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return %z : tensor<4x5xf32>
})";

constexpr char kTopk[] = R"(
func.func @f(%x: tensor<4x8xf32> {op.name = "x"})
    -> (tensor<4x3xf32> {op.name = "v"}, tensor<4x3xi64> {op.name = "i"}) {
  %v, %i = op.topk %x {k = 3 : i64, dim = 1 : i64, largest = true}
      : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
  return %v, %i : tensor<4x3xf32>, tensor<4x3xi64>
})";

constexpr char kTopkOfLongRows[] = R"(
func.func @f(%x: tensor<4x17xf32> {op.name = "x"})
    -> (tensor<4x3xf32> {op.name = "v"}, tensor<4x3xi64> {op.name = "i"}) {
  %v, %i = op.topk %x {k = 3 : i64, dim = 1 : i64, largest = true}
      : (tensor<4x17xf32>) -> (tensor<4x3xf32>, tensor<4x3xi64>)
  return %v, %i : tensor<4x3xf32>, tensor<4x3xi64>
})";

class TargetTest : public ::testing::Test {
 protected:
  TargetTest() {
    mlir::DialectRegistry dialects;
    dialects.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect,
                    kernel::KernelDialect, op::OpDialect>();
    context_.appendDialectRegistry(dialects);
    context_.loadAllAvailableDialects();
  }

  /// Runs the pipeline; collects what it says in `errors_`.
  mlir::LogicalResult compile(const char* text, llvm::StringRef target, llvm::StringRef machine) {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (!module_) {
      return mlir::failure();
    }
    PipelineOptions options;
    options.target = targetNamed(target).attribute(&context_, machine, {"x86-64-v3"});
    op::setTarget(*module_, options.target);
    mlir::PassManager manager(&context_);
    buildPipeline(manager, options);
    const mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& diagnostic) {
      errors_ += diagnostic.str() + "\n";
      return mlir::success();
    });
    return manager.run(*module_);
  }

  kernel::LaunchOp onlyLaunch() {
    kernel::LaunchOp found;
    module_->walk([&](kernel::LaunchOp launch) {
      EXPECT_FALSE(found) << "a second launch";
      found = launch;
    });
    return found;
  }

  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::string errors_;
};

TEST_F(TargetTest, TargetsRegisterThemselves) {
  std::vector<std::string> names;
  for (const Target* target : allTargets()) {
    names.push_back(target->name().str());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "cuda", "simulated"}));
  EXPECT_EQ(findTarget("abacus"), nullptr);
}

TEST_F(TargetTest, PipelineRunsTheTargetsPassesAndAsksForScheduleAndCost) {
  ASSERT_TRUE(succeeded(compile(kPointwise, "simulated", "v2"))) << errors_;
  EXPECT_EQ((*module_)->getAttrOfType<mlir::IntegerAttr>("simulated.ops").getInt(), 2);
  kernel::LaunchOp launch = onlyLaunch();
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch.getQueue(), "stream");
  EXPECT_EQ(launch->getAttrOfType<mlir::FloatAttr>("kernel.cost_us").getValueAsDouble(), 7);
  for (mlir::Value operand : launch->getOperands()) {
    EXPECT_EQ(llvm::cast<kernel::BufferType>(operand.getType()).getSpace(), "simulated");
  }
  auto function = llvm::cast<kernel::FuncOp>(launch.getEntryOp());
  EXPECT_EQ(function.getSchedule().getFamily(), "pointwise");
  EXPECT_EQ(llvm::cast<mlir::IntegerAttr>(function.getSchedule().getTuneValue("width")).getInt(),
            2);
}

TEST_F(TargetTest, OtherTargetsAreNotTouched) {
  ASSERT_TRUE(succeeded(compile(kPointwise, "cpu", ""))) << errors_;
  EXPECT_FALSE((*module_)->hasAttr("simulated.ops"));
  EXPECT_EQ(onlyLaunch().getQueue(), "team");
  ASSERT_TRUE(succeeded(compile(kPointwise, "cuda", "sm_90"))) << errors_;
  EXPECT_FALSE((*module_)->hasAttr("simulated.ops"));
  auto function = llvm::cast<kernel::FuncOp>(onlyLaunch().getEntryOp());
  EXPECT_FALSE(function.getSchedule().getTuneValue("width"));
}

TEST_F(TargetTest, TheLoweringAsksForPlans) {
  ASSERT_TRUE(succeeded(compile(kTopk, "simulated", "v1"))) << errors_;
  auto function = llvm::cast<kernel::FuncOp>(onlyLaunch().getEntryOp());
  EXPECT_EQ(llvm::cast<mlir::IntegerAttr>(function.getSchedule().getTuneValue("held")).getInt(), 8);
  EXPECT_FALSE(function.getSchedule().getTuneValue("variant"));
  ASSERT_TRUE(succeeded(compile(kTopk, "cpu", ""))) << errors_;
  function = llvm::cast<kernel::FuncOp>(onlyLaunch().getEntryOp());
  EXPECT_FALSE(function.getSchedule().getTuneValue("held"));
  EXPECT_TRUE(failed(compile(kTopkOfLongRows, "simulated", "v1")));
  EXPECT_NE(errors_.find("the nearest supported forms on a device are rows of at most 16"),
            std::string::npos)
      << errors_;
}

TEST_F(TargetTest, TheEmittedTextNamesItsBackend) {
  ASSERT_TRUE(succeeded(compile(kPointwise, "simulated", "v2"))) << errors_;
  EXPECT_EQ(codegen::backendOf(onlyLaunch().getEntryOp()), "simulated");
  llvm::SmallVector<bool> areTeams;
  module_->walk([&](kernel::QueueOp queue) { areTeams.push_back(queue.isTeam()); });
  EXPECT_EQ(areTeams, (llvm::SmallVector<bool>{true, false}));
  module_->walk([&](kernel::ProgramOp program) { EXPECT_FALSE(program.getTarget().isHost()); });
  ASSERT_TRUE(succeeded(compile(kPointwise, "cpu", ""))) << errors_;
  EXPECT_EQ(codegen::backendOf(onlyLaunch().getEntryOp()), "native");
}

TEST_F(TargetTest, FamilyWithoutAFormIsUnsupported) {
  EXPECT_TRUE(failed(compile(kSums, "simulated", "v1")));
  EXPECT_NE(
      errors_.find("sum on simulated: kernels of family 'row_reduction' have no simulated form"),
      std::string::npos)
      << errors_;
}

TEST_F(TargetTest, ProductWithoutAKernelIsUnsupported) {
  EXPECT_TRUE(failed(compile(kProduct, "simulated", "v1")));
  EXPECT_NE(errors_.find("has no kernel"), std::string::npos) << errors_;
}

TEST_F(TargetTest, OptionsNameItsMachines) {
  CompileOptions options;
  EXPECT_EQ(targetIn(options).target, findTarget("cpu"));
  options.target = "simulated:v3";
  EXPECT_FALSE(checkTarget(options).failed());
  EXPECT_EQ(targetIn(options).target, findTarget("simulated"));
  EXPECT_EQ(targetIn(options).machine, "v3");
  options.target = "simulated:x";
  EXPECT_EQ(checkTarget(options).message,
            "unknown target 'simulated:x'; valid are cuda:sm_NN, such as cuda:sm_90, with a behind "
            "it from 90 on and f from 100 on; simulated:vN, N from 1 to 9");
  options.target = "cpu:x";
  EXPECT_TRUE(checkTarget(options).failed());
}

TEST_F(TargetTest, FrontEndsAskForFacts) {
  std::string facts;
  EXPECT_FALSE(targetFacts("simulated:v3", &facts).failed());
  EXPECT_EQ(facts, R"({"computes_halves_wide":false,"convolves_few_channels":false,)"
                   R"("copies_elements":false,"interpolates_by_scale":false,)"
                   R"("most_compared_pairs":99,"most_matrix_rows":128,)"
                   R"("multiplies_bytes":true,"resamples_bytes_as_integers":true,)"
                   R"("rolls_by_rows":false,"runs_framework_ops":true,"sums_named_extents":true,)"
                   R"("sums_named_groups":false})");
  facts.clear();
  EXPECT_FALSE(targetFacts("", &facts).failed());
  EXPECT_NE(facts.find(R"("most_compared_pairs":131072)"), std::string::npos) << facts;
  EXPECT_TRUE(targetFacts("abacus", &facts).failed());
}

TEST_F(TargetTest, FrontEndsAskForTheNearestTopk) {
  std::string nearest;
  EXPECT_FALSE(nearestTopk("simulated:v3", {4, 17, 3, 4}, &nearest).failed());
  EXPECT_EQ(nearest, "rows of at most 16");
  EXPECT_FALSE(nearestTopk("cuda:sm_90", {4, 300000, 300000, 4}, &nearest).failed());
  EXPECT_EQ(nearest, "rows of at most 32768 elements");
  EXPECT_FALSE(nearestTopk("cuda:sm_90", {4, 300000, 2000, 4}, &nearest).failed());
  EXPECT_EQ(nearest, "rows of at most 32768 elements, or k up to 1024");
  EXPECT_FALSE(nearestTopk("cuda:sm_90", {4, 300000, 1000, 4}, &nearest).failed());
  EXPECT_EQ(nearest, "rows of at most 32768 elements, or k up to 1024");  // too many parts
  EXPECT_FALSE(nearestTopk("cuda:sm_90", {4, 300000, 100, 4}, &nearest).failed());
  EXPECT_EQ(nearest, "");
  EXPECT_TRUE(nearestTopk("abacus", {4, 17, 3, 4}, &nearest).failed());
}

TEST_F(TargetTest, OptionsAreCheckedAgainstTheTarget) {
  CompileOptions options;
  options.launch = "graph";
  EXPECT_EQ(checkTarget(options).message,
            "launch is 'graph' but the program is for the cpu: only a cuda or simulated device "
            "takes graphs");
  options.internal.deviceBackend = "test_device";
  options.target = "simulated:v3";
  EXPECT_EQ(checkTarget(options).message,
            "device_backend is 'test_device' but the target is the device simulated:v3 already");
  options.internal.deviceBackend = "";
  EXPECT_FALSE(checkTarget(options).failed());
  options.allow = {"simulated", "native"};
  EXPECT_EQ(checkTarget(options).message.rfind(
                "allow has the backend 'native'; valid on simulated are simulated", 0),
            0U);
  options.allow = {"simulated"};
  EXPECT_FALSE(checkTarget(options).failed());
  options.target = "cuda:sm_90";
  options.allow = {"cublaslt"};
  EXPECT_EQ(checkTarget(options).message,
            "allow is cublaslt but must have 'cuda': only it has elementwise and row kernels");
  options.allow = {"cuda", "onednn"};
  EXPECT_EQ(checkTarget(options).message.rfind(
                "allow has the backend 'onednn'; valid on cuda are cuda, cublaslt, cudnn", 0),
            0U);
  options.target = "";
  options.launch = "";
  EXPECT_EQ(checkTarget(options).message.rfind(
                "allow has the backend 'cuda'; valid on cpu are native, onednn", 0),
            0U);
}

TEST_F(TargetTest, UnknownTargetOfAModuleIsAnError) {
  module_ = mlir::parseSourceString<mlir::ModuleOp>(kPointwise, &context_);
  const HostMachine host;
  const kernel::TargetAttr target =
      kernel::TargetAttr::get(&context_, "abacus", "", host.threads, host.vectorBytes, host.l1Bytes,
                              host.l2Bytes, 0, host.fmaBytes);
  const mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& diagnostic) {
    errors_ += diagnostic.str();
    return mlir::success();
  });
  EXPECT_TRUE(failed(verifyTarget(*module_, target)));
  EXPECT_EQ(errors_, "has target 'abacus', expected one of cpu, cuda, simulated");
}

}  // namespace
}  // namespace straightline
