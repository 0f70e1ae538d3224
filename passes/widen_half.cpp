// SPDX-License-Identifier: Apache-2.0
#include "passes/widen_half.h"

#include "dialect/op/op_dialect.h"
#include "mlir/IR/IRMapping.h"
#include "passes/value_builder.h"

namespace straightline::passes {

using mlir::Operation;
using mlir::Value;

namespace {

bool isHalf(mlir::Type type) {
  auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && (tensor.getElementType().isF16() || tensor.getElementType().isBF16());
}

/// Computes with the numbers; everything else only moves them (or is the conversion itself).
bool isArithmetic(Operation* operation) {
  if (llvm::isa<op::ToDtypeOp>(operation)) {
    return ValueBuilder::elementOf(operation->getResult(0)).isInteger(1);  // x != 0
  }
  if (llvm::isa<op::WhereOp>(operation)) {
    return false;
  }
  return llvm::isa<op::ElementwiseOpInterface, op::ReductionOpInterface>(operation) ||
         operation->hasTrait<op::Contraction>() ||
         llvm::isa<op::MaxPool2dOp, op::AvgPool2dOp, op::CumsumOp, op::BatchNormOp, op::GroupNormOp,
                   op::AdaptiveAvgPool2dOp, op::ScaledDotProductAttentionOp>(operation);
}

struct WidenHalf : mlir::RewritePattern {
  WidenHalf(mlir::MLIRContext* context, std::function<bool(Operation*)> keeps)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context), keeps(std::move(keeps)) {}

  llvm::LogicalResult matchAndRewrite(Operation* operation,
                                      mlir::PatternRewriter& rewriter) const override {
    if (!isArithmetic(operation)) {
      return rewriter.notifyMatchFailure(operation, "does no arithmetic");
    }
    if (keeps(operation)) {
      return rewriter.notifyMatchFailure(operation, "has kernels for 16-bit floats");
    }
    if (llvm::none_of(operation->getOperandTypes(), isHalf)) {
      return rewriter.notifyMatchFailure(operation, "has no operand of 16-bit floats");
    }
    ValueBuilder build(rewriter, operation->getLoc());
    const mlir::Type wide = rewriter.getF32Type();
    mlir::IRMapping operands;
    for (Value operand : operation->getOperands()) {
      if (isHalf(operand.getType()) && !operands.contains(operand)) {
        operands.map(operand, build.toDtype(operand, wide));
      }
    }
    Operation* widened = rewriter.clone(*operation, operands);
    llvm::SmallVector<Value> results;
    for (auto [before, after] : llvm::zip(operation->getResults(), widened->getResults())) {
      if (!isHalf(before.getType())) {
        results.push_back(after);
        continue;
      }
      after.setType(
          op::withElementType(llvm::cast<mlir::RankedTensorType>(before.getType()), wide));
      results.push_back(build.toDtype(after, ValueBuilder::elementOf(before)));
    }
    rewriter.replaceOp(operation, results);
    return mlir::success();
  }

  std::function<bool(Operation*)> keeps;
};

}  // namespace

void addWidenHalfPatterns(mlir::RewritePatternSet& patterns,
                          std::function<bool(Operation*)> keeps) {
  patterns.add<WidenHalf>(patterns.getContext(), std::move(keeps));
}

}  // namespace straightline::passes
