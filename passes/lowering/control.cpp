// SPDX-License-Identifier: Apache-2.0
// Control flow: each carried value has one place, to which a region writes its yield, in place
// where that is safe.
#include "passes/lowering/control.h"

#include "dialect/error_kind.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/constants.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// The op that updates one row of `carried` in each iteration, where the iterations together
/// replace every row and read none; else null.
op::DynamicUpdateSliceOp rowUpdate(mlir::BlockArgument carried, LoweringContext& context) {
  mlir::Block* body = carried.getOwner();
  auto loop = llvm::dyn_cast<op::ForOp>(body->getParentOp());
  if (!loop || carried.getArgNumber() == 0 || !carried.hasOneUse()) {
    return {};
  }
  auto update = llvm::dyn_cast<op::DynamicUpdateSliceOp>(*carried.user_begin());
  if (!update || update->getBlock() != body || update.getX() != carried ||
      !update.getResult().hasOneUse()) {
    return {};
  }
  mlir::OpOperand& use = *update.getResult().use_begin();
  if (use.getOwner() != body->getTerminator() ||
      use.getOperandNumber() != carried.getArgNumber() - 1) {
    return {};
  }
  const Exprs limits = context.rebased(loop.getBounds());
  const int64_t dim = update.getDim();
  const mlir::AffineExpr rows = context.extentsOf(carried)[dim];
  if (limits[0] != context.constant(0) || limits[1] != rows || limits[2] != context.constant(1) ||
      context.extentsOf(update.getSrc())[dim] != context.constant(1)) {
    return {};
  }
  Value counter = body->getArgument(0);
  if (update.getIndex() == counter) {
    return update;
  }
  // From the last row to the first.
  auto back = update.getIndex().getDefiningOp<op::SubOp>();
  auto last =
      back && back.getY() == counter
          ? llvm::dyn_cast_if_present<mlir::IntegerAttr>(splatOf(back.getX().getDefiningOp()))
          : mlir::IntegerAttr();
  return last && rows == context.constant(last.getInt() + 1) ? update : op::DynamicUpdateSliceOp();
}

}  // namespace

Value takeRow(Value tensor, LoweringContext& context) {
  for (Operation* user : tensor.getUsers()) {
    auto reshape = llvm::dyn_cast<op::ReshapeOp>(user);
    Value src = reshape ? reshape.getResult() : tensor;
    auto update = reshape && src.hasOneUse()
                      ? llvm::dyn_cast<op::DynamicUpdateSliceOp>(*src.user_begin())
                      : llvm::dyn_cast<op::DynamicUpdateSliceOp>(user);
    auto carried = update && update.getSrc() == src
                       ? llvm::dyn_cast<mlir::BlockArgument>(update.getX())
                       : mlir::BlockArgument();
    if (!carried || context.isDone(update) || tensor.getParentBlock() != update->getBlock() ||
        rowUpdate(carried, context) != update) {
      continue;
    }
    Value whole = context.destination(update.getResult());
    FailureOr<Value> row =
        whole == context.bufferOf(carried)
            ? context.viewAtIndex(update.getLoc(), whole, update.getIndex(), update.getDim(), src)
            : FailureOr<Value>(Value());
    Value place = succeeded(row) && *row && reshape
                      ? context.tryReshape(user->getLoc(), *row, context.extentsOf(tensor))
                  : succeeded(row) ? *row
                                   : Value();
    if (place) {
      context.setDone(update);
      return place;
    }
  }
  return {};
}

namespace {

LogicalResult lowerIf(op::IfOp op, LoweringContext& context) {
  Value condition =
      kernel::LoadOp::create(context.builder(), op.getLoc(), context.builder().getI1Type(),
                             context.bufferOf(op.getCondition()), mlir::ValueRange());
  llvm::SmallVector<Value> places = llvm::map_to_vector(
      op.getResults(), [&](Value result) { return context.destination(result); });
  auto branch = kernel::IfOp::create(context.builder(), op.getLoc(), condition, true);
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    mlir::OpBuilder::InsertionGuard guard(context.builder());
    context.builder().setInsertionPointToEnd(&to.front());
    if (failed(context.lowerRegion(from.front(), places))) {
      return failure();
    }
  }
  return success();
}

/// A use of a counter, or of a number computed from one, that needs it in memory; null: each use is
/// an index. A counter is a scalar of the emitted loop.
Operation* readOfMemory(Value counter) {
  for (mlir::OpOperand& use : counter.getUses()) {
    Operation* user = use.getOwner();
    auto slice = llvm::dyn_cast<op::DynamicSliceOp>(user);
    auto update = llvm::dyn_cast<op::DynamicUpdateSliceOp>(user);
    if ((slice && use.get() == slice.getIndex()) ||
        (update && use.get() == update.getIndex() && use.get() != update.getSrc())) {
      continue;
    }
    if (!llvm::isa<op::ElementwiseOpInterface>(user)) {
      return user;
    }
    if (Operation* read = readOfMemory(user->getResult(0))) {
      return read;
    }
  }
  return nullptr;
}

LogicalResult lowerFor(op::ForOp op, LoweringContext& context) {
  if (Operation* read = readOfMemory(op.getBody().front().getArgument(0))) {
    return emitUnsupported(read)
           << read->getName() << " reads the counter of a loop as a tensor, but a counter can only "
           << "be the index of op.dynamic_slice and op.dynamic_update_slice; nearest supported "
           << "form: a number that the loop carries (iter) and adds to in each round";
  }
  llvm::SmallVector<Value> places = llvm::map_to_vector(
      op.getResults(), [&](Value result) { return context.destination(result); });
  mlir::Block& body = op.getBody().front();
  for (auto [init, place, carried] :
       llvm::zip(op.getInits(), places, body.getArguments().drop_front())) {
    if (rowUpdate(carried, context)) {
      continue;  // every element of the initial value is overwritten
    }
    if (isWrittenByLoops(init)) {
      writeElements(init.getDefiningOp<op::FullOp>(), place, context);
      continue;
    }
    Value from = context.bufferOf(init);
    if (from != place) {
      context.copy(op.getLoc(), from, place, "for", "the first value of what the loop carries");
    }
  }
  op::DimsAttr bounds = op.getBounds();
  llvm::SmallVector<Value> limits =
      llvm::map_to_vector(bounds.getExprs(), [&](mlir::AffineExpr expr) -> Value {
        return kernel::SizeOp::create(
            context.builder(), op.getLoc(), context.builder().getIndexType(),
            kernel::ExtentAttr::get(context.context(), bounds.getNames(), expr));
      });
  auto loop =
      kernel::ForOp::create(context.builder(), op.getLoc(), limits[0], limits[1], limits[2]);
  mlir::OpBuilder::InsertionGuard guard(context.builder());
  context.builder().setInsertionPointToEnd(&loop.getBody().front());
  context.setCounter(body.getArgument(0), loop.getCounter());
  for (auto [argument, place] : llvm::zip(body.getArguments().drop_front(), places)) {
    context.bind(argument, place);
  }
  return context.lowerRegion(body, places);
}

LogicalResult lowerWhile(op::WhileOp op, LoweringContext& context) {
  llvm::SmallVector<Value> places = llvm::map_to_vector(
      op.getResults(), [&](Value result) { return context.destination(result); });
  for (auto [init, place] : llvm::zip(op.getInits(), places)) {
    context.copy(op.getLoc(), context.bufferOf(init), place, "while",
                 "the first value of what the loop carries");
  }
  auto loop = kernel::WhileOp::create(context.builder(), op.getLoc());
  for (mlir::Region* region : {&op.getCondition(), &op.getBody()}) {
    for (auto [argument, place] : llvm::zip(region->front().getArguments(), places)) {
      context.bind(argument, place);
    }
  }
  mlir::OpBuilder::InsertionGuard guard(context.builder());
  context.builder().setInsertionPointToEnd(&loop.getBefore().front());
  if (failed(context.lowerBlock(op.getCondition().front()))) {
    return failure();
  }
  Value holds = context.bufferOf(op.getCondition().front().getTerminator()->getOperand(0));
  Value condition = kernel::LoadOp::create(
      context.builder(), op.getLoc(), context.builder().getI1Type(), holds, mlir::ValueRange());
  kernel::ConditionOp::create(context.builder(), op.getLoc(), condition);
  context.builder().setInsertionPointToEnd(&loop.getBody().front());
  return context.lowerRegion(op.getBody().front(), places);
}

}  // namespace

void registerControlRules(RuleSet& rules) {
  rules.add(lowerIf);
  rules.add(lowerFor);
  rules.add(lowerWhile);
  rules.addPlaceFinder(takeRow);
}

}  // namespace straightline::lowering
