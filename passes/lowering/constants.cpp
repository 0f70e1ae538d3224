// SPDX-License-Identifier: Apache-2.0
// Values that no op computes: parameters, states, literals; and full and iota, which are memory
// where an op that is not elementwise reads them.
#include "passes/lowering/constants.h"

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

constexpr llvm::StringLiteral kReadAsMemory = "read as memory by an op that is not elementwise";

/// Fusions and index arithmetic print equal elements as literals; anything else reads memory.
bool readAsMemory(Value tensor, const LoweringContext& context) {
  return llvm::any_of(tensor.getUsers(), [&](Operation* user) {
    if (user->hasTrait<op::View>()) {
      return readAsMemory(user->getResult(0), context);
    }
    if (llvm::isa<op::ElementwiseOpInterface>(user)) {
      return false;  // outside a fusion: index arithmetic
    }
    const Rule* rule = context.ruleOf(user);
    return !rule || !rule->readsLiterals;
  });
}

}  // namespace

bool isLiteralOnly(Operation* op, const LoweringContext& context) {
  return splatOf(op) && !readAsMemory(op->getResult(0), context);
}

bool isWrittenByLoops(Value tensor) {
  auto full = tensor.getDefiningOp<op::FullOp>();
  return full && !op::isPrepared(full) && !full->use_empty() &&
         llvm::all_of(full->getUsers(), [&](Operation* user) {
           return llvm::isa<op::ForOp>(user) && user->getBlock() == full->getBlock() &&
                  !op::isPrepared(user);
         });
}

void writeElements(op::FullOp full, Value place, LoweringContext& context) {
  const mlir::Type scalar = scalarType(elementType(full.getResult()));
  context.fill(full.getLoc(), place, scalarAttribute(full.getValue(), scalar), "full",
               kReadAsMemory);
}

void writeElements(op::IotaOp iota, Value place, LoweringContext& context) {
  const mlir::Type scalar = scalarType(elementType(iota.getResult()));
  KernelSpec spec;
  spec.name = "iota";
  spec.family = "iota";
  spec.op = "iota";
  spec.why = kReadAsMemory;
  spec.outputs = {place};
  spec.shape = {
      context.named("count", context.number(context.product(context.extentsOf(iota.getResult())))),
      context.named("stride", context.number(context.stridesOf(typeOf(place))[0]))};
  mlir::Attribute start = iota.getStart();
  mlir::Attribute step = iota.getStep();
  spec.bodies.push_back(
      {"body",
       {context.builder().getI64Type()},
       [=](mlir::OpBuilder& builder, mlir::ValueRange given) {
         const mlir::Location loc = builder.getUnknownLoc();
         Value index = given[0];
         // 16-bit floats are computed in f32 and rounded once.
         const bool isHalf =
             llvm::isa<mlir::FloatType>(scalar) && scalar.getIntOrFloatBitWidth() < 32;
         const mlir::Type computed = isHalf ? builder.getF32Type() : scalar;
         Value first =
             mlir::arith::ConstantOp::create(builder, loc, scalarAttribute(start, computed));
         Value by = mlir::arith::ConstantOp::create(builder, loc, scalarAttribute(step, computed));
         if (llvm::isa<mlir::FloatType>(scalar)) {
           index = mlir::arith::SIToFPOp::create(builder, loc, computed, index);
           Value scaled = mlir::arith::MulFOp::create(builder, loc, index, by);
           Value sum = mlir::arith::AddFOp::create(builder, loc, first, scaled);
           if (isHalf) {
             sum = mlir::arith::TruncFOp::create(builder, loc, scalar, sum);
           }
           return llvm::SmallVector<Value>{sum};
         }
         if (scalar != index.getType()) {
           index = mlir::arith::TruncIOp::create(builder, loc, scalar, index);
         }
         Value scaled = mlir::arith::MulIOp::create(builder, loc, index, by);
         return llvm::SmallVector<Value>{mlir::arith::AddIOp::create(builder, loc, first, scaled)};
       }});
  context.launch(iota.getLoc(), spec);
}

namespace {

/// The type of what the caller hands over: its strides are told by the op, or row-major.
kernel::BufferType givenType(Operation* op, LoweringContext& context) {
  Value tensor = op->getResult(0);
  const Exprs extents = context.extentsOf(tensor);
  const op::DimsAttr dims = op::stridesOf(op);
  return context.type(extents, elementType(tensor),
                      dims ? context.rebased(dims) : context.rowMajor(extents));
}

LogicalResult declareParameter(op::ParameterOp op, LoweringContext& context) {
  mlir::OpBuilder builder = context.declarations();
  auto parameter =
      kernel::ParameterOp::create(builder, op.getLoc(), givenType(op, context), op.getName());
  context.bind(op.getResult(), parameter.getBuffer());
  return success();
}

LogicalResult declareState(op::StateOp op, LoweringContext& context) {
  mlir::OpBuilder builder = context.declarations();
  auto state = kernel::StateOp::create(builder, op.getLoc(), givenType(op, context), op.getName());
  context.bind(op.getResult(), state.getBuffer());
  return success();
}

LogicalResult declareConstant(op::ConstantOp op, LoweringContext& context) {
  mlir::OpBuilder builder = context.declarations();
  Value tensor = op.getResult();
  auto constant = kernel::ConstantOp::create(
      builder, op.getLoc(), context.contiguousType(context.extentsOf(tensor), elementType(tensor)),
      op.getValue());
  context.bind(tensor, constant.getBuffer());
  return success();
}

/// Written once, where it stands or is first read.
template <typename Op>
LogicalResult declareGenerated(Op op, LoweringContext& context) {
  Value tensor = op.getResult();
  if (!context.boundTo(tensor) && !isWrittenByLoops(tensor)) {
    mlir::OpBuilder::InsertionGuard guard(context.builder());
    writeElements(op, context.destination(tensor), context);
  }
  return success();
}

template <typename Op>
LogicalResult lowerGenerated(Op op, LoweringContext& context) {
  return isLiteralOnly(op, context) ? success() : declareGenerated(op, context);
}

template <typename Op>
void addGenerated(RuleSet& rules) {
  rules.add<Op>(lowerGenerated<Op>).declare = [](Operation* op, LoweringContext& context) {
    return declareGenerated(llvm::cast<Op>(op), context);
  };
}

}  // namespace

void registerConstantsRules(RuleSet& rules) {
  rules.addDeclared(declareParameter);
  rules.addDeclared(declareState);
  rules.addDeclared(declareConstant);
  addGenerated<op::FullOp>(rules);
  addGenerated<op::IotaOp>(rules);
}

}  // namespace straightline::lowering
