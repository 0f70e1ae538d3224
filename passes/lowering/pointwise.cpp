// SPDX-License-Identifier: Apache-2.0
// Elementwise fusions: one loop nest over the result's extents; every operand is read through
// strides, so that broadcasts, permutations and slices cost nothing.
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/control.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::AffineMap;
using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

LogicalResult lowerPointwise(op::FusionOp fusion, LoweringContext& context) {
  mlir::Block& body = fusion.getBody().front();
  Operation* yield = body.getTerminator();
  const Exprs extents = context.extentsOf(fusion.getResult(0));
  const AccessMap identity = AffineMap::getMultiDimIdentityMap(extents.size(), context.context());

  // First walk: which operands are read, through which maps.
  llvm::SmallVector<Access> accesses;
  {
    mlir::Block scratch;
    mlir::OpBuilder scratchBuilder(context.context());
    scratchBuilder.setInsertionPointToEnd(&scratch);
    ScalarEvaluator evaluator(fusion, scratchBuilder, [&](unsigned operand, AccessMap map) {
      accesses.push_back({operand, map});
      return scratch.addArgument(scalarType(elementType(fusion.getInputs()[operand])),
                                 fusion.getLoc());
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
    Value buffer = context.bufferOf(fusion.getInputs()[access.operand]);
    spec.inputs.push_back(buffer);
    strides.push_back(context.stridesThrough(buffer, access.map));
    argumentTypes.push_back(scalarType(typeOf(buffer).getElementType()));
  }
  for (Value result : fusion.getResults()) {
    Value buffer = context.destination(result);
    spec.outputs.push_back(buffer);
    strides.push_back(context.stridesOf(typeOf(buffer)));
  }
  // A loop may carry a result both as itself and as a row of another tensor (h and y of a
  // recurrence): the kernel then writes both.
  llvm::SmallVector<Value> yielded(yield->getOperands());
  for (auto [result, value] : llvm::zip(fusion.getResults(), yield->getOperands())) {
    if (Value row = context.inPrepare() ? Value() : takeRow(result, context)) {
      yielded.push_back(value);
      spec.outputs.push_back(row);
      strides.push_back(context.stridesOf(typeOf(row)));
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
  spec.why = "emitted.pointwise: one pass over " + std::to_string(spec.inputs.size()) + " operands";
  spec.bodies.push_back(
      {"body", argumentTypes, [&](mlir::OpBuilder& builder, mlir::ValueRange arguments) {
         ScalarEvaluator evaluator(fusion, builder, [&](unsigned operand, AccessMap map) {
           return arguments[llvm::find(accesses, Access{operand, map}) - accesses.begin()];
         });
         return llvm::map_to_vector(
             yielded, [&](Value value) { return *evaluator.evaluate(value, identity); });
       }});
  context.launchPointwise(fusion.getLoc(), spec, extents, strides);
  return success();
}

}  // namespace

void registerPointwiseRules(RuleSet& rules) {
  Rule& rule = rules.addFamily("pointwise", lowerPointwise);
  rule.isElementwise = true;
  rule.readsLiterals = true;
}

}  // namespace straightline::lowering
