// SPDX-License-Identifier: Apache-2.0
// Control flow: carried values live in one place each; a region writes its yields there, in place
// where that is safe.
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/lowering.h"

namespace straightline::lowering {

using mlir::failure;
using mlir::FailureOr;
using mlir::Location;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

LogicalResult Lowering::lowerControl(Operation* op) {
  if (auto branch = llvm::dyn_cast<op::IfOp>(op)) {
    return lowerIf(branch);
  }
  if (auto loop = llvm::dyn_cast<op::ForOp>(op)) {
    return lowerFor(loop);
  }
  return lowerWhile(llvm::cast<op::WhileOp>(op));
}

/// Lowers a region whose yields go to `places`.
LogicalResult Lowering::lowerRegion(mlir::Block& block, llvm::ArrayRef<Value> places) {
  Operation* terminator = block.getTerminator();
  for (auto [value, place] : llvm::zip(terminator->getOperands(), places)) {
    if (value.getParentBlock() == &block && value.getDefiningOp()) {
      placeOfYield_[value] = place;
    }
  }
  if (failed(lowerBlock(block))) {
    return failure();
  }
  yieldInto(terminator->getLoc(), terminator, places);
  return success();
}

void Lowering::yieldInto(Location loc, Operation* terminator, llvm::ArrayRef<Value> places) {
  llvm::SmallVector<std::pair<Value, Value>> copies;
  for (auto [value, place] : llvm::zip(terminator->getOperands(), places)) {
    Value from = bufferOf(value);
    if (from != place) {
      copies.push_back({from, place});
    }
  }
  // A value that lives in a place which another copy overwrites goes through memory of its own
  // first.
  for (auto& [from, place] : copies) {
    const bool overwritten = llvm::any_of(copies, [&](const auto& other) {
      return &other.first != &from && root(other.second) == root(from);
    });
    if (overwritten) {
      Value saved = slot(contiguousType(extentsOf(typeOf(from)), typeOf(from).getElementType()));
      copy(loc, from, saved, "yield", "carried values change places");
      from = saved;
    }
  }
  for (auto& [from, place] : copies) {
    copy(loc, from, place, "yield", "the carried value has storage of its own");
  }
}

LogicalResult Lowering::lowerIf(op::IfOp op) {
  Value condition = kernel::LoadOp::create(builder_, op.getLoc(), builder_.getI1Type(),
                                           bufferOf(op.getCondition()), mlir::ValueRange());
  llvm::SmallVector<Value> places =
      llvm::map_to_vector(op.getResults(), [&](Value result) { return destination(result); });
  auto branch = kernel::IfOp::create(builder_, op.getLoc(), condition, true);
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(&to.front());
    if (failed(lowerRegion(from.front(), places))) {
      return failure();
    }
  }
  return success();
}

bool Lowering::isWrittenByLoops(Value tensor) {
  auto full = tensor.getDefiningOp<op::FullOp>();
  return full && !full->hasAttr("op.prepare") && !full->use_empty() &&
         llvm::all_of(full->getUsers(), [&](Operation* user) {
           return llvm::isa<op::ForOp>(user) && user->getBlock() == full->getBlock() &&
                  !user->hasAttr("op.prepare");
         });
}

op::DynamicUpdateSliceOp Lowering::rowUpdate(mlir::BlockArgument carried) {
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
  op::DimsAttr bounds = loop.getBounds();
  const Exprs limits = llvm::map_to_vector(
      bounds.getExprs(), [&](mlir::AffineExpr expr) { return rebased(expr, bounds.getNames()); });
  const int64_t dim = update.getDim();
  const mlir::AffineExpr rows = extentsOf(carried)[dim];
  if (limits[0] != constant(0) || limits[1] != rows || limits[2] != constant(1) ||
      extentsOf(update.getSrc())[dim] != constant(1)) {
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
  return last && rows == constant(last.getInt() + 1) ? update : op::DynamicUpdateSliceOp();
}

Value Lowering::takeRow(Value tensor) {
  for (Operation* user : tensor.getUsers()) {
    auto reshape = llvm::dyn_cast<op::ReshapeOp>(user);
    Value src = reshape ? reshape.getResult() : tensor;
    auto update = reshape && src.hasOneUse()
                      ? llvm::dyn_cast<op::DynamicUpdateSliceOp>(*src.user_begin())
                      : llvm::dyn_cast<op::DynamicUpdateSliceOp>(user);
    auto carried = update && update.getSrc() == src
                       ? llvm::dyn_cast<mlir::BlockArgument>(update.getX())
                       : mlir::BlockArgument();
    if (!carried || taken_.contains(update) || tensor.getParentBlock() != update->getBlock() ||
        rowUpdate(carried) != update) {
      continue;
    }
    Value whole = destination(update.getResult());
    FailureOr<Value> row =
        whole == bufferOf(carried)
            ? dynamicPart(update.getLoc(), whole, update.getIndex(), update.getDim(), src)
            : FailureOr<Value>(Value());
    Value place = succeeded(row) && *row && reshape
                      ? tryReshape(user->getLoc(), *row, extentsOf(tensor))
                  : succeeded(row) ? *row
                                   : Value();
    if (place) {
      taken_.insert(update);
      return place;
    }
  }
  return {};
}

LogicalResult Lowering::lowerFor(op::ForOp op) {
  llvm::SmallVector<Value> places =
      llvm::map_to_vector(op.getResults(), [&](Value result) { return destination(result); });
  mlir::Block& body = op.getBody().front();
  for (auto [init, place, carried] :
       llvm::zip(op.getInits(), places, body.getArguments().drop_front())) {
    if (rowUpdate(carried)) {
      continue;  // nobody sees the first value
    }
    if (isWrittenByLoops(init)) {
      if (failed(lowerGenerated(init.getDefiningOp(), place))) {
        return failure();
      }
      continue;
    }
    Value from = bufferOf(init);
    if (from != place) {
      copy(op.getLoc(), from, place, "for", "the first value of what the loop carries");
    }
  }
  op::DimsAttr bounds = op.getBounds();
  llvm::SmallVector<Value> limits =
      llvm::map_to_vector(bounds.getExprs(), [&](mlir::AffineExpr expr) -> Value {
        return kernel::SizeOp::create(builder_, op.getLoc(), builder_.getIndexType(),
                                      kernel::ExtentAttr::get(context_, bounds.getNames(), expr));
      });
  auto loop = kernel::ForOp::create(builder_, op.getLoc(), limits[0], limits[1], limits[2]);
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToEnd(&loop.getBody().front());
  counters_[body.getArgument(0)] = loop.getCounter();
  for (auto [argument, place] : llvm::zip(body.getArguments().drop_front(), places)) {
    bind(argument, place);
  }
  return lowerRegion(body, places);
}

LogicalResult Lowering::lowerWhile(op::WhileOp op) {
  llvm::SmallVector<Value> places =
      llvm::map_to_vector(op.getResults(), [&](Value result) { return destination(result); });
  for (auto [init, place] : llvm::zip(op.getInits(), places)) {
    copy(op.getLoc(), bufferOf(init), place, "while", "the first value of what the loop carries");
  }
  auto loop = kernel::WhileOp::create(builder_, op.getLoc());
  for (mlir::Region* region : {&op.getCondition(), &op.getBody()}) {
    for (auto [argument, place] : llvm::zip(region->front().getArguments(), places)) {
      bind(argument, place);
    }
  }
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToEnd(&loop.getBefore().front());
  if (failed(lowerBlock(op.getCondition().front()))) {
    return failure();
  }
  Value holds = bufferOf(op.getCondition().front().getTerminator()->getOperand(0));
  Value condition = kernel::LoadOp::create(builder_, op.getLoc(), builder_.getI1Type(), holds,
                                           mlir::ValueRange());
  kernel::ConditionOp::create(builder_, op.getLoc(), condition);
  builder_.setInsertionPointToEnd(&loop.getBody().front());
  return lowerRegion(op.getBody().front(), places);
}

FailureOr<Value> Lowering::indexValue(Location loc, Value tensor) {
  if (Value counter = counters_.lookup(tensor)) {
    return counter;
  }
  FailureOr<Value> number = scalarIndex(loc, tensor);
  if (failed(number)) {
    return failure();
  }
  return mlir::arith::IndexCastOp::create(builder_, loc, builder_.getIndexType(), *number)
      .getResult();
}

/// A 0-d integer tensor as a scalar: arithmetic on loop counters (a reversed sequence) never
/// becomes a kernel; anything else is loaded from its buffer.
FailureOr<Value> Lowering::scalarIndex(Location loc, Value tensor) {
  if (Value counter = counters_.lookup(tensor)) {
    return mlir::arith::IndexCastOp::create(builder_, loc, builder_.getI64Type(), counter)
        .getResult();
  }
  Operation* op = tensor.getDefiningOp();
  if (mlir::TypedAttr splat = splatOf(op)) {
    return mlir::arith::ConstantOp::create(builder_, loc, splat).getResult();
  }
  if (auto elementwise = llvm::dyn_cast_if_present<op::ElementwiseOpInterface>(op)) {
    llvm::SmallVector<Value> scalars;
    for (Value operand : op->getOperands()) {
      FailureOr<Value> scalar = scalarIndex(loc, operand);
      if (failed(scalar)) {
        return failure();
      }
      scalars.push_back(*scalar);
    }
    return elementwise.buildScalar(builder_, loc, scalars);
  }
  Value buffer = bufferOf(tensor);
  return kernel::LoadOp::create(builder_, loc, scalarType(typeOf(buffer).getElementType()), buffer,
                                mlir::ValueRange())
      .getResult();
}

}  // namespace straightline::lowering
