// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/canonicalize.h"
#include "passes/fusion_group.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FUSEPOINTWISE
#include "passes/passes.h.inc"

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

namespace {

bool isPointwise(Operation* operation) {
  return llvm::isa<op::ElementwiseOpInterface>(operation) && !isIndexArithmetic(operation);
}

bool sameShape(Value a, Value b) {
  auto x = llvm::cast<RankedTensorType>(a.getType()), y = llvm::cast<RankedTensorType>(b.getType());
  return x.getShape() == y.getShape() && x.getEncoding() == y.getEncoding();
}

/// A reshape of the value needs no copy whatever the layout of inputs: it is a splat, one number
/// for all elements, or made contiguous by its op.
bool reshapesFreely(Value value) {
  if (op::splatOf(value)) {
    return true;
  }
  Operation* maker = value.getDefiningOp();
  if (auto expand = llvm::dyn_cast_if_present<op::ExpandOp>(maker)) {
    const auto from = llvm::cast<RankedTensorType>(expand.getX().getType());
    const std::optional<int64_t> count = op::elementCount(from);
    return count == 1 ||
           (count && count == op::elementCount(expand.getType()) && reshapesFreely(expand.getX()));
  }
  if (llvm::isa_and_nonnull<op::ReshapeOp>(maker)) {
    return reshapesFreely(maker->getOperand(0));
  }
  return maker &&
         (op::isFresh(value) || llvm::isa<op::ParameterOp, op::ConstantOp, op::FusionOp>(maker));
}

/// reshape(add(a, b)) -> add(reshape(a), reshape(b)), so that what follows the reshape joins the
/// add.
bool moveReshapeUp(op::ReshapeOp reshape) {
  Operation* producer = reshape.getX().getDefiningOp();
  auto feeds = [](Operation* user) { return llvm::isa<op::ElementwiseOpInterface>(user); };
  if (!producer || !isPointwise(producer) || !producer->hasOneUse() ||
      producer->getBlock() != reshape->getBlock() || !inSamePhase(producer, reshape) ||
      !llvm::any_of(reshape->getUsers(), feeds) ||
      !llvm::all_of(producer->getOperands(), reshapesFreely)) {
    return false;
  }
  mlir::OpBuilder builder(reshape);
  const RankedTensorType shape = reshape.getType();
  llvm::SmallVector<Value> operands;
  for (Value operand : producer->getOperands()) {
    const mlir::Type element = llvm::cast<RankedTensorType>(operand.getType()).getElementType();
    const RankedTensorType type = op::withElementType(shape, element);
    auto full = operand.getDefiningOp<op::FullOp>();
    Operation* moved =
        full ? op::FullOp::create(builder, full.getLoc(), type, full.getValue()).getOperation()
             : op::ReshapeOp::create(builder, reshape.getLoc(), type, operand).getOperation();
    if (op::isPrepared(reshape)) {
      op::setPrepared(moved);
    }
    operands.push_back(moved->getResult(0));
  }
  Operation* copy = builder.clone(*producer);
  copy->setOperands(operands);
  copy->getResult(0).setType(op::withElementType(
      shape, llvm::cast<RankedTensorType>(producer->getResult(0).getType()).getElementType()));
  reshape.replaceAllUsesWith(copy->getResult(0));
  reshape.erase();
  producer->erase();
  return true;
}

void moveReshapesUp(mlir::Block& block) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (op::ReshapeOp reshape : llvm::to_vector(block.getOps<op::ReshapeOp>())) {
      if (moveReshapeUp(reshape)) {
        changed = true;
        break;
      }
    }
  }
}

struct FusePointwisePass : impl::FusePointwiseBase<FusePointwisePass> {
  void runOnOperation() override {
    forEachBlock(getOperation(), [](mlir::Block& block) {
      moveReshapesUp(block);
      while (Operation* seed = nextSeed(block)) {
        FusionGroup group;
        group.insert(seed);
        grow(group, [&](Operation* candidate) {
          return isPointwise(candidate) && sameShape(candidate->getResult(0), seed->getResult(0));
        });
        outline(group, "pointwise");
      }
    });
  }

 private:
  static Operation* nextSeed(mlir::Block& block) {
    for (Operation& operation : block) {
      if (isPointwise(&operation) && !operation.use_empty()) {
        return &operation;
      }
    }
    return nullptr;
  }
};

}  // namespace

}  // namespace straightline::passes
