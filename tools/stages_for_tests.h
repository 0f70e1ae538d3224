// SPDX-License-Identifier: Apache-2.0
// Stages for unit tests: MLIR's own dialects, a pipeline of one pass that the test gives, and
// emission of fixed text.
#ifndef STRAIGHTLINE_TOOLS_STAGES_FOR_TESTS_H
#define STRAIGHTLINE_TOOLS_STAGES_FOR_TESTS_H

#include <functional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "tools/stages.h"

namespace straightline {

/// Runs a function on the module as a pass.
class FunctionPass final
    : public mlir::PassWrapper<FunctionPass, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FunctionPass)
  using Body = std::function<mlir::LogicalResult(mlir::ModuleOp)>;
  explicit FunctionPass(Body body) : body_(std::move(body)) {}
  void runOnOperation() override {
    if (failed(body_(getOperation()))) {
      signalPassFailure();
    }
  }

 private:
  Body body_;
};

class TestStages final : public Stages {
 public:
  FunctionPass::Body body = [](mlir::ModuleOp) { return mlir::success(); };
  std::vector<jit::Unit> units;
  double estimate = 0;  ///< us

  void registerDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect>();
  }
  void setTarget(mlir::ModuleOp, const TargetOptions&) const override {}
  Failure buildPipeline(mlir::PassManager& manager, mlir::ModuleOp, const TargetOptions&,
                        llvm::json::Array*) const override {
    manager.addPass(std::make_unique<FunctionPass>(body));
    return Failure::none();
  }
  mlir::LogicalResult verifyText(mlir::ModuleOp) const override { return mlir::success(); }
  mlir::LogicalResult fixExtents(mlir::ModuleOp, const std::vector<std::string>&) const override {
    return mlir::success();
  }
  double estimatedUs(mlir::ModuleOp) const override { return estimate; }
  Failure emit(mlir::ModuleOp, const TargetOptions& target, Emitted* emitted) const override {
    emitted->units = units;
    emitted->symbol = "sl_program";
    emitted->listing = units.empty() ? "" : units.front().text;
    emitted->explain =
        "{\"cpu\": \"" + target.cpu + "\", \"threads\": " + std::to_string(target.threads) + "}";
    return Failure::none();
  }
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_STAGES_FOR_TESTS_H
