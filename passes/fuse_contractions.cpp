// SPDX-License-Identifier: Apache-2.0
#include "passes/fusion_group.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FUSECONTRACTIONS
#include "passes/passes.h.inc"

using mlir::Operation;
using mlir::Value;

namespace {

/// The longest epilogue that is looked for.
constexpr size_t kLongestEpilogue = 32;

llvm::StringRef familyOf(Operation* contraction) {
  return llvm::isa<op::LinearOp>(contraction) ? "gemm" : llvm::isa<op::MatmulOp>(contraction) ? "matmul" : "convolution";
}

bool sameShape(Value a, Value b) {
  auto x = llvm::cast<mlir::RankedTensorType>(a.getType()), y = llvm::cast<mlir::RankedTensorType>(b.getType());
  return x.getShape() == y.getShape() && x.getEncoding() == y.getEncoding();
}

/// Elementwise ops that the contraction's result reaches without leaving its shape, in block order.
llvm::SmallVector<Operation*> reachable(Operation* contraction) {
  llvm::SetVector<Operation*> found;
  llvm::SmallVector<Operation*> open = {contraction};
  while (!open.empty() && found.size() < kLongestEpilogue) {
    for (Operation* user : open.pop_back_val()->getUsers()) {
      const bool fits = user->getBlock() == contraction->getBlock() && llvm::isa<op::ElementwiseOpInterface>(user) &&
                        inSamePhase(user, contraction) && sameShape(user->getResult(0), contraction->getResult(0));
      if (fits && found.insert(user)) {
        open.push_back(user);
      }
    }
  }
  llvm::SmallVector<Operation*> ordered(found.begin(), found.end());
  llvm::sort(ordered, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Nothing but the last member's result is seen outside.
bool isClosed(const FusionGroup& group) {
  return llvm::all_of(llvm::ArrayRef<Operation*>(group.getArrayRef()).drop_back(), [&](Operation* member) {
    return !member->use_empty() &&
           llvm::all_of(member->getUsers(), [&](Operation* user) { return group.contains(user); });
  });
}

FusionGroup withEpilogue(Operation* contraction) {
  FusionGroup group, longest;
  group.insert(contraction);
  longest.insert(contraction);
  for (Operation* candidate : reachable(contraction)) {
    group.insert(candidate);
    if (isClosed(group)) {
      longest = group;
    }
  }
  return longest;
}

struct FuseContractionsPass : impl::FuseContractionsBase<FuseContractionsPass> {
  void runOnOperation() override {
    forEachBlock(getOperation(), [](mlir::Block& block) {
      llvm::SmallVector<Operation*> contractions;
      for (Operation& operation : block) {
        if (operation.hasTrait<op::Contraction>() && !operation.use_empty()) {
          contractions.push_back(&operation);
        }
      }
      for (Operation* contraction : contractions) {
        const llvm::SmallVector<Value> leading(contraction->getOperands());
        outline(withEpilogue(contraction), familyOf(contraction), leading);
      }
    });
  }
};

}  // namespace

}  // namespace straightline::passes
