// SPDX-License-Identifier: Apache-2.0
// Ties the compiler library to the layers below it: the one place that names dialects, the pipeline and emission.
#include "tools/stages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace straightline {
namespace {

class ProductStages final : public Stages {
 public:
  void registerDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect>();
  }

  Failure buildPipeline(mlir::PassManager&, const TargetOptions&) const override {
    return Failure::unsupported("this build has no pass pipeline");
  }

  Failure emit(mlir::ModuleOp, const TargetOptions&, Emitted*) const override {
    return Failure::unsupported("this build has no emission");
  }
};

}  // namespace

const Stages& productStages() {
  static const ProductStages stages;
  return stages;
}

}  // namespace straightline
