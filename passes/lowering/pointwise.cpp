// SPDX-License-Identifier: Apache-2.0
// Elementwise fusions: one loop nest over the result's extents; every operand is read through
// strides, so that broadcasts, permutations and slices cost nothing.
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
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

/// So many elements read and written stay in a core's own caches.
static constexpr double kCached = 128 << 10;

void Lowering::launchPointwise(mlir::Location loc, KernelSpec& spec, const Exprs& extents,
                               llvm::ArrayRef<Exprs> strides) {
  llvm::SmallVector<Loop> loops = makeLoops(*this, extents, strides);
  // the output is written in the order of its memory
  orderLoops(*this, loops, strides.size() - 1);
  loops = mergeLoops(std::move(loops));
  llvm::SmallVector<mlir::Attribute> strideRows;
  for (size_t operand = 0; operand < strides.size(); ++operand) {
    strideRows.push_back(numbers(lowering::stridesOf(loops, operand)));
  }
  spec.family = "pointwise";
  spec.name += sizeName(loops);
  spec.tune = {named("rank", number(static_cast<int64_t>(loops.size()))),
               named("inputs", number(static_cast<int64_t>(spec.inputs.size())))};
  spec.shape = {named("extent", numbers(lowering::extentsOf(loops))),
                named("stride", mlir::ArrayAttr::get(context_, strideRows))};
  const double elements = static_cast<double>(upperBound(product(extents)));
  const double touched = elements * static_cast<double>(spec.inputs.size() + spec.outputs.size());
  spec.costUs = touched * (touched < kCached ? 0.00005 : 0.0002);
  launch(loc, spec);
}

Exprs Lowering::stridesThrough(Value buffer, AccessMap map) {
  Exprs result(map.getNumDims(), constant(0));
  const Exprs strides = stridesOf(typeOf(buffer));
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    if (auto iteration = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) {
      result[iteration.getPosition()] = result[iteration.getPosition()] + strides[dim];
    }
  }
  return result;
}

LogicalResult Lowering::lowerPointwise(op::FusionOp fusion) {
  mlir::Block& body = fusion.getBody().front();
  Operation* yield = body.getTerminator();
  const Exprs extents = extentsOf(fusion.getResult(0));
  const AccessMap identity = AffineMap::getMultiDimIdentityMap(extents.size(), context_);

  // First walk: which operands are read, through which maps.
  llvm::SmallVector<Access> accesses;
  {
    mlir::Block scratch;
    mlir::OpBuilder scratchBuilder(context_);
    scratchBuilder.setInsertionPointToEnd(&scratch);
    ScalarEvaluator evaluator(fusion, scratchBuilder, [&](unsigned operand, AccessMap map) {
      accesses.push_back({operand, map});
      mlir::Type element = llvm::cast<mlir::RankedTensorType>(fusion.getInputs()[operand].getType())
                               .getElementType();
      return scratch.addArgument(scalarType(element), fusion.getLoc());
    });
    for (Value value : yield->getOperands()) {
      if (failed(evaluator.evaluate(value, identity))) {
        return failure();
      }
    }
  }
  KernelSpec spec;
  spec.op = opNames(fusion);
  spec.name = "pointwise_" + body.front().getName().stripDialect().str();
  llvm::SmallVector<Exprs> strides;
  llvm::SmallVector<mlir::Type> argumentTypes;
  for (const Access& access : accesses) {
    Value buffer = bufferOf(fusion.getInputs()[access.operand]);
    spec.inputs.push_back(buffer);
    strides.push_back(stridesThrough(buffer, access.map));
    argumentTypes.push_back(scalarType(typeOf(buffer).getElementType()));
  }
  for (Value result : fusion.getResults()) {
    Value buffer = destination(result);
    spec.outputs.push_back(buffer);
    strides.push_back(stridesOf(typeOf(buffer)));
  }
  // What a loop carries and is a row of another thing that it carries (h and y) is written to both
  // at once.
  llvm::SmallVector<Value> yielded(yield->getOperands());
  for (auto [result, value] : llvm::zip(fusion.getResults(), yield->getOperands())) {
    if (Value row = inPrepare_ ? Value() : takeRow(result)) {
      yielded.push_back(value);
      spec.outputs.push_back(row);
      strides.push_back(stridesOf(typeOf(row)));
    }
  }
  // An operand of the same strides as an output may share its storage: each element is read before
  // it is written.
  for (size_t input = 0; input < accesses.size(); ++input) {
    for (size_t output = 0; output < spec.outputs.size(); ++output) {
      if (strides[input] == strides[accesses.size() + output] &&
          typeOf(spec.inputs[input]).getElementType() ==
              typeOf(spec.outputs[output]).getElementType()) {
        spec.ties.push_back({static_cast<int64_t>(input), static_cast<int64_t>(output)});
      }
    }
  }
  spec.why = "native.pointwise: one pass over " + std::to_string(spec.inputs.size()) + " operands";
  spec.bodies.push_back(
      {"body", argumentTypes, [&](mlir::OpBuilder& builder, mlir::ValueRange arguments) {
         ScalarEvaluator evaluator(fusion, builder, [&](unsigned operand, AccessMap map) {
           return arguments[llvm::find(accesses, Access{operand, map}) - accesses.begin()];
         });
         return llvm::map_to_vector(
             yielded, [&](Value value) { return *evaluator.evaluate(value, identity); });
       }});
  launchPointwise(fusion.getLoc(), spec, extents, strides);
  return success();
}

}  // namespace straightline::lowering
