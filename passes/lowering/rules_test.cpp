// SPDX-License-Identifier: Apache-2.0
// Rules of a caller's own: an op of a dialect that the compiler does not know is lowered by a rule
// that this file registers.
#include "passes/lowering/rules.h"

#include <gtest/gtest.h>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/lowering/context.h"
#include "passes/lowering/program.h"

namespace straightline::lowering {
namespace {

using mlir::LogicalResult;
using mlir::Value;

/// y = 2 x, elementwise.
class TwiceOp : public mlir::Op<TwiceOp, mlir::OpTrait::OneResult, mlir::OpTrait::OneOperand,
                                mlir::OpTrait::ZeroRegions, mlir::OpTrait::ZeroSuccessors> {
 public:
  using Op::Op;
  static llvm::StringRef getOperationName() { return "test.twice"; }
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames() { return {}; }
};

class TestDialect : public mlir::Dialect {
 public:
  explicit TestDialect(mlir::MLIRContext* context)
      : Dialect("test", context, mlir::TypeID::get<TestDialect>()) {
    addOperations<TwiceOp>();
  }
  static llvm::StringRef getDialectNamespace() { return "test"; }
};

LogicalResult lowerTwice(TwiceOp op, LoweringContext& context) {
  Value from = context.bufferOf(op->getOperand(0));
  Value to = context.destination(op->getResult(0));
  const mlir::Type scalar = typeOf(to).getElementType();
  KernelSpec spec;
  spec.name = "twice";
  spec.op = "twice";
  spec.inputs = {from};
  spec.outputs = {to};
  spec.bodies.push_back({"body", {scalar}, [](mlir::OpBuilder& builder, mlir::ValueRange given) {
                           return llvm::SmallVector<Value>{mlir::arith::AddFOp::create(
                               builder, builder.getUnknownLoc(), given[0], given[0])};
                         }});
  context.launchPointwise(op->getLoc(), spec, context.extentsOf(op->getResult(0)),
                          {context.stridesOf(typeOf(from)), context.stridesOf(typeOf(to))});
  return mlir::success();
}

LogicalResult refuse(TwiceOp op, LoweringContext&) { return op->emitOpError("is refused"); }

constexpr const char* kTwice = R"(
func.func @forward(%x: tensor<2x3xf32> {op.name = "x"}) -> (tensor<2x3xf32> {op.name = "y"}) {
  %y = "test.twice"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
})";

constexpr const char* kTwiceInCat = R"(
func.func @forward(%x: tensor<2x3xf32> {op.name = "x"}) -> (tensor<4x3xf32> {op.name = "y"}) {
  %twice = "test.twice"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = op.cat %x, %twice {dim = 0} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
})";

constexpr const char* kFusion = R"(
func.func @forward(%x: tensor<3xf32> {op.name = "x"}) -> (tensor<3xf32> {op.name = "y"}) {
  %y = op.fusion(%x) {family = "pointwise"} : (tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>):
    %b = op.relu %a : (tensor<3xf32>) -> tensor<3xf32>
    op.yield %b : tensor<3xf32>
  }
  return %y : tensor<3xf32>
})";

class RulesTest : public ::testing::Test {
 protected:
  RulesTest() {
    context_.loadDialect<TestDialect, op::OpDialect, kernel::KernelDialect, mlir::func::FuncDialect,
                         mlir::arith::ArithDialect>();
  }

  /// The kernel level of `text`; empty where lowering it failed, and `error_` says why.
  std::string lower(const char* text, const RuleSet& rules) {
    mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& diagnostic) {
      error_ = diagnostic.str();
      return mlir::success();
    });
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (!module) {
      return "";
    }
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    if (failed(lowerProgram(*module, function, targetOf(*module), rules)) ||
        failed(mlir::verify(*module))) {
      return "";
    }
    std::string lowered;
    llvm::raw_string_ostream(lowered) << *module;
    return lowered;
  }

  mlir::MLIRContext context_;
  std::string error_;
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_F(RulesTest, LowersAnOpByTheRuleOfATest) {
  RuleSet rules;
  rules.add(lowerTwice);
  const std::string lowered = lower(kTwice, rules);
  EXPECT_TRUE(has(lowered, "kernel.launch @twice_6(%arg0) outs(%arg1)")) << lowered << error_;
  EXPECT_TRUE(has(lowered, "arith.addf")) << lowered;
}

TEST_F(RulesTest, ARuleOfATestWorksBesideThoseOfTheCompiler) {
  RuleSet rules = allRules();
  rules.add(lowerTwice);
  const std::string lowered = lower(kTwiceInCat, rules);
  // Written into its part of the concatenation: what cat copies is the other part.
  EXPECT_TRUE(has(lowered, "kernel.view %arg1 offset(6)")) << lowered << error_;
  EXPECT_TRUE(has(lowered, "@twice_6")) << lowered;
  EXPECT_EQ(lowered.find("@copy_6"), lowered.rfind("@copy_6", lowered.find("kernel.func")))
      << lowered;
}

TEST_F(RulesTest, AnOpHasOneRule) {
  RuleSet rules;
  rules.add(lowerTwice);
  rules.add(refuse);
  ASSERT_EQ(rules.refused().size(), 1u);
  EXPECT_EQ(lower(kTwice, rules), "");
  EXPECT_EQ(error_, "a second lowering rule for test.twice was refused");
}

TEST_F(RulesTest, AFamilyHasOneRule) {
  RuleSet rules = allRules();
  EXPECT_TRUE(rules.refused().empty());
  rules.addFamily("pointwise", [](op::FusionOp, LoweringContext&) { return mlir::success(); });
  EXPECT_EQ(lower(kFusion, rules), "");
  EXPECT_EQ(error_, "a second lowering rule for fusion of pointwise was refused");
}

TEST_F(RulesTest, AnOpWithoutARuleIsUnsupported) {
  EXPECT_EQ(lower(kTwice, allRules()), "");
  EXPECT_TRUE(has(error_, "twice has no lowering to kernels")) << error_;
  EXPECT_TRUE(has(error_, "no rule is registered for test.twice")) << error_;
}

TEST_F(RulesTest, AFamilyWithoutARuleIsUnsupported) {
  EXPECT_EQ(lower(kFusion, RuleSet()), "");
  EXPECT_TRUE(has(error_, "no rule is registered for fusions of family pointwise")) << error_;
}

TEST_F(RulesTest, TheErrorOfARuleIsTheErrorOfTheLowering) {
  RuleSet rules;
  rules.add(refuse);
  EXPECT_EQ(lower(kTwice, rules), "");
  EXPECT_EQ(error_, "'test.twice' op is refused");
}

}  // namespace
}  // namespace straightline::lowering
