// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/canonicalize.h"
#include "passes/fusion_group.h"
#include "passes/passes.h"
#include "passes/targets/target.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FUSECONTRACTIONS
#include "passes/passes.h.inc"

using mlir::Operation;
using mlir::Value;

namespace {

/// The longest epilogue that is looked for.
constexpr size_t kLongestEpilogue = 32;

llvm::StringRef familyOf(Operation* contraction) {
  return llvm::isa<op::LinearOp>(contraction)   ? "gemm"
         : llvm::isa<op::MatmulOp>(contraction) ? "matmul"
                                                : "convolution";
}

bool sameShape(Value a, Value b) {
  auto x = llvm::cast<mlir::RankedTensorType>(a.getType()),
       y = llvm::cast<mlir::RankedTensorType>(b.getType());
  return x.getShape() == y.getShape() && x.getEncoding() == y.getEncoding();
}

/// Elementwise ops that the contraction's result reaches without leaving its shape, in block order.
llvm::SmallVector<Operation*> reachable(Operation* contraction) {
  llvm::SetVector<Operation*> found;
  llvm::SmallVector<Operation*> open = {contraction};
  while (!open.empty() && found.size() < kLongestEpilogue) {
    for (Operation* user : open.pop_back_val()->getUsers()) {
      const bool fits = user->getBlock() == contraction->getBlock() &&
                        llvm::isa<op::ElementwiseOpInterface>(user) &&
                        inSamePhase(user, contraction) &&
                        sameShape(user->getResult(0), contraction->getResult(0));
      if (fits && found.insert(user)) {
        open.push_back(user);
      }
    }
  }
  llvm::SmallVector<Operation*> ordered(found.begin(), found.end());
  llvm::sort(ordered, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Whether ops outside the group read the last member's result alone.
bool isClosed(const FusionGroup& group) {
  return llvm::all_of(
      llvm::ArrayRef<Operation*>(group.getArrayRef()).drop_back(), [&](Operation* member) {
        return !member->use_empty() && llvm::all_of(member->getUsers(), [&](Operation* user) {
          return group.contains(user);
        });
      });
}

/// Whether the op only widens elements of 16 bits.
bool isWidening(Operation* operation) {
  auto cast = llvm::dyn_cast_if_present<op::ToDtypeOp>(operation);
  return cast && cast.getX().getType().getElementType().getIntOrFloatBitWidth() == 16 &&
         cast.getType().getElementType().getIntOrFloatBitWidth() > 16;
}

/// Whether all that read the widened elements can widen them themselves (the norm behind a
/// residual, the next residual).
bool isWidenedByReaders(Operation* widening) {
  return llvm::all_of(widening->getUsers(), [&](Operation* user) {
    return user->getBlock() == widening->getBlock() &&
           llvm::isa<op::ElementwiseOpInterface, op::ReductionOpInterface>(user);
  });
}

/// The longest group whose last result alone is read outside. It ends with the 16-bit result where
/// its readers widen it: half the bytes, and a type that a library's kernel stores.
FusionGroup withEpilogue(Operation* contraction) {
  FusionGroup group, longest;
  group.insert(contraction);
  longest.insert(contraction);
  for (Operation* candidate : reachable(contraction)) {
    group.insert(candidate);
    if (isClosed(group) && !(isWidening(candidate) && isWidenedByReaders(candidate))) {
      longest = group;
    }
  }
  return longest;
}

/// For kernels whose epilogues take any type: an op that only widens a 16-bit operand of the
/// epilogue joins the group, and each group gets a copy of that op.
void takeWidening(FusionGroup& group) {
  for (Operation* member :
       llvm::to_vector(llvm::ArrayRef<Operation*>(group.getArrayRef()).drop_front())) {
    for (mlir::OpOperand& operand : member->getOpOperands()) {
      Operation* widening = operand.get().getDefiningOp();
      if (!isWidening(widening) || group.contains(widening) || !inSamePhase(widening, member)) {
        continue;
      }
      mlir::OpBuilder builder(member);
      Operation* own = builder.clone(*widening);
      operand.set(own->getResult(0));
      group.insert(own);
    }
  }
}

/// reshape(linear(x)) of the same last extent, read by elementwise ops -> linear(reshape(x)), so
/// that they join it. x must be contiguous whatever the inputs' layout: made by an op, or reshaped
/// already.
bool moveReshapeUp(op::ReshapeOp reshape) {
  auto linear = reshape.getX().getDefiningOp<op::LinearOp>();
  auto feeds = [](Operation* user) { return llvm::isa<op::ElementwiseOpInterface>(user); };
  if (!linear || !linear->hasOneUse() || linear->getBlock() != reshape->getBlock() ||
      !inSamePhase(linear, reshape) || !llvm::any_of(reshape->getUsers(), feeds)) {
    return false;
  }
  const symbolic::ExprList from = op::extentsOf(linear.getX().getType()),
                           to = op::extentsOf(reshape.getType());
  const Value x = linear.getX();
  const bool contiguous =
      op::isFresh(x) || x.getDefiningOp<op::ReshapeOp>() || x.getDefiningOp<op::FusionOp>();
  if (!contiguous || to.exprs.empty() ||
      linear.getType().getShape().back() != reshape.getType().getShape().back() ||
      reshape.getType().isDynamicDim(reshape.getType().getRank() - 1)) {
    return false;
  }
  symbolic::ExprList wanted = to;
  llvm::SmallVector<mlir::StringAttr> names = wanted.names;
  wanted.exprs.back() = symbolic::rebase(from.exprs.back(), from.names, names);
  wanted = symbolic::canonical(names, wanted.exprs);
  mlir::OpBuilder builder(reshape);
  const mlir::Type element = linear.getX().getType().getElementType();
  auto inner = x.getDefiningOp<op::ReshapeOp>();
  auto moved = op::ReshapeOp::create(builder, reshape.getLoc(), op::tensorType(element, wanted),
                                     inner ? Value(inner.getX()) : x);
  Operation* copy = builder.clone(*linear.getOperation());
  copy->setOperand(0, moved);
  copy->getResult(0).setType(reshape.getType());
  if (op::isPrepared(linear)) {
    op::setPrepared(moved);
  }
  reshape.replaceAllUsesWith(copy->getResult(0));
  reshape.erase();
  linear.erase();
  return true;
}

struct FuseContractionsPass : impl::FuseContractionsBase<FuseContractionsPass> {
  void runOnOperation() override {
    const bool takesWidenings =
        factsOf(getOperation()->getParentOfType<mlir::ModuleOp>()).hasEpiloguesOfAnyType;
    forEachBlock(getOperation(), [takesWidenings](mlir::Block& block) {
      for (op::ReshapeOp reshape : llvm::to_vector(block.getOps<op::ReshapeOp>())) {
        moveReshapeUp(reshape);
      }
      llvm::SmallVector<Operation*> contractions;
      for (Operation& operation : block) {
        if (operation.hasTrait<op::Contraction>() && !operation.use_empty()) {
          contractions.push_back(&operation);
        }
      }
      for (Operation* contraction : contractions) {
        const llvm::SmallVector<Value> leading(contraction->getOperands());
        FusionGroup group = withEpilogue(contraction);
        if (takesWidenings) {
          takeWidening(group);
        }
        outline(group, familyOf(contraction), leading);
      }
    });
  }
};

}  // namespace

}  // namespace straightline::passes
