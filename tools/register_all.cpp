// SPDX-License-Identifier: Apache-2.0
#include "tools/register_all.h"

#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/op_dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/Passes.h"
#include "passes/levels/levels.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/sharing/passes.h"
#include "passes/targets/target.h"

namespace straightline {

void registerAllDialects(mlir::DialectRegistry& registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect,
                  kernel::KernelDialect, op::OpDialect>();
}

void registerAllPasses() {
  mlir::registerTransformsPasses();
  passes::registerStraightlinePasses();
  passes::registerSharingPasses();
  registerKernelPasses();
  registerLevelPasses();
  for (const Target* target : allTargets()) {
    target->registerPasses();
  }
}

}  // namespace straightline
