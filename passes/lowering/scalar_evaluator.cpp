// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/scalar_evaluator.h"

#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::failure;
using mlir::FailureOr;
using mlir::Operation;
using mlir::Value;

namespace {

bool isOne(Value tensor, int64_t dim) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getDimSize(dim) == 1;
}

}  // namespace

mlir::TypedAttr splatOf(Operation* op) {
  while (op && op->hasTrait<op::View>()) {
    op = op->getOperand(0).getDefiningOp();
  }
  if (auto full = llvm::dyn_cast_if_present<op::FullOp>(op)) {
    mlir::Type type = scalarType(full.getResult().getType().getElementType());
    return scalarAttribute(full.getValue(), type);
  }
  if (auto constant = llvm::dyn_cast_if_present<op::ConstantOp>(op)) {
    auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    if (dense && dense.isSplat()) {
      mlir::Type type = scalarType(dense.getElementType());
      auto value = dense.getSplatValue<mlir::Attribute>();
      if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(value)) {
        return mlir::IntegerAttr::get(type, integer.getValue());
      }
      return llvm::cast<mlir::TypedAttr>(value);
    }
  }
  return {};
}

mlir::TypedAttr scalarAttribute(mlir::Attribute value, mlir::Type type) {
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    return mlir::FloatAttr::get(type, real.getValueAsDouble());
  }
  if (auto flag = llvm::dyn_cast<mlir::BoolAttr>(value)) {
    return mlir::IntegerAttr::get(type, flag.getValue() ? 1 : 0);
  }
  return mlir::IntegerAttr::get(type, llvm::cast<mlir::IntegerAttr>(value).getValue().sextOrTrunc(
                                          type.getIntOrFloatBitWidth()));
}

AccessMap operandMap(Operation* view, AccessMap resultMap) {
  Value from = view->getOperand(0);
  mlir::MLIRContext* context = view->getContext();
  const int64_t rank = llvm::cast<mlir::RankedTensorType>(from.getType()).getRank();
  const int64_t resultRank = resultMap.getNumResults();
  llvm::SmallVector<AffineExpr> exprs(rank, mlir::getAffineConstantExpr(0, context));
  if (llvm::isa<op::ExpandOp>(view)) {
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (!isOne(from, dim)) {
        exprs[dim] = resultMap.getResult(resultRank - rank + dim);
      }
    }
  } else if (auto permute = llvm::dyn_cast<op::PermuteOp>(view)) {
    for (auto [to, dim] : llvm::enumerate(permute.getDims())) {
      exprs[dim] = resultMap.getResult(to);
    }
  } else if (llvm::isa<op::ReshapeOp>(view)) {
    // Only dims of size one may come or go.
    int64_t to = 0;
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (isOne(from, dim)) {
        continue;
      }
      while (to < resultRank && isOne(view->getResult(0), to)) {
        ++to;
      }
      if (to == resultRank ||
          op::extentsOf(llvm::cast<mlir::RankedTensorType>(from.getType())).exprs[dim] !=
              op::extentsOf(llvm::cast<mlir::RankedTensorType>(view->getResult(0).getType()))
                  .exprs[to]) {
        return {};
      }
      exprs[dim] = resultMap.getResult(to++);
    }
    while (to < resultRank && isOne(view->getResult(0), to)) {
      ++to;
    }
    if (to != resultRank) {
      return {};
    }
  } else {
    return {};
  }
  return AffineMap::get(resultMap.getNumDims(), 0, exprs, context);
}

FailureOr<Value> ScalarEvaluator::evaluate(Value value, AccessMap map) {
  if (Value known = known_.lookup(value)) {
    return known;
  }
  const std::pair<Value, AccessMap> key(value, map);
  auto found = llvm::find_if(memo_, [&](const auto& entry) { return entry.first == key; });
  if (found != memo_.end()) {
    return found->second;
  }
  auto remember = [&](Value scalar) {
    memo_.push_back({key, scalar});
    return scalar;
  };
  Operation* op = value.getDefiningOp();
  if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
    Operation* source = fusion_.getInputs()[argument.getArgNumber()].getDefiningOp();
    if (mlir::TypedAttr splat = splatOf(source)) {
      return remember(mlir::arith::ConstantOp::create(builder_, value.getLoc(), splat).getResult());
    }
    return remember(leaf_(argument.getArgNumber(), map));
  }
  if (mlir::TypedAttr splat = splatOf(op)) {
    return remember(mlir::arith::ConstantOp::create(builder_, value.getLoc(), splat).getResult());
  }
  if (op->hasTrait<op::View>()) {
    AccessMap inner = operandMap(op, map);
    if (!inner) {
      return op->emitOpError(
          "cannot be read inside a fusion: only expand, permute and unit dims can");
    }
    FailureOr<Value> scalar = evaluate(op->getOperand(0), inner);
    return failed(scalar) ? scalar : FailureOr<Value>(remember(*scalar));
  }
  auto elementwise = llvm::dyn_cast<op::ElementwiseOpInterface>(op);
  if (!elementwise) {
    return op->emitOpError("has no scalar meaning, so it cannot stand in this fusion");
  }
  llvm::SmallVector<Value> scalars;
  for (Value operand : op->getOperands()) {
    FailureOr<Value> scalar = evaluate(operand, map);
    if (failed(scalar)) {
      return failure();
    }
    scalars.push_back(*scalar);
  }
  return remember(elementwise.buildScalar(builder_, op->getLoc(), scalars));
}

std::string opNames(op::FusionOp fusion) {
  std::string names;
  for (Operation& op : fusion.getBody().front().without_terminator()) {
    if (llvm::isa<op::ExpandOp, op::ReshapeOp, op::FullOp, op::ConstantOp>(op)) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + op.getName().stripDialect().str();
  }
  return names.empty() ? "copy" : names;
}

}  // namespace straightline::lowering
