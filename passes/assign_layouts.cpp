// SPDX-License-Identifier: Apache-2.0
// Chooses the memory order of images [n, c, h, w] and signals [n, c, w], so that no copy between
// convolutions reorders them. A channels-last kernel's result is channels last, and so is what
// elementwise ops, pools, samples of images and convolutions of any layout (depthwise, grouped,
// transposed) compute from it, from a part of it or from a tensor [n, h, w, c] permuted to an
// image, and what concatenations make of such values alone. A value that convolutions read gets the
// zero border that they need. Attention and reductions of rows write in the order to which their
// readers permute the result. Recorded as op.layout = {order, border} on the op that makes the
// value; the order lists dims from slowest to fastest.
//
// Left alone: a value whose readers want row-major memory (a reshape of more than one pixel, a
// result of the function).
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/channels_last.h"
#include "passes/contraction_problem.h"
#include "passes/passes.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

bool isChannelsLastKernel(op::FusionOp fusion) {
  const sl_kernel_desc* kernel = chosenKernel(fusion);
  return kernel && prefersChannelsLast(*kernel);
}

/// Whether the kernel reads and writes any order, so that its result has the order of its image.
bool isConvolutionOfAnyLayout(op::FusionOp fusion) {
  const sl_kernel_desc* kernel = chosenKernel(fusion);
  return kernel && passesLayoutsOn(*kernel);
}

/// The dims of the permutes that are all readers of the op's result; empty: not all are, or they
/// differ.
llvm::SmallVector<int64_t> dimsOfReaders(Operation* op) {
  auto dimsOf = [](Operation* user) {
    auto permute = llvm::dyn_cast<op::PermuteOp>(user);
    return permute ? llvm::SmallVector<int64_t>(permute.getDims()) : llvm::SmallVector<int64_t>();
  };
  if (op->getResult(0).use_empty()) {
    return {};
  }
  const llvm::SmallVector<int64_t> order = dimsOf(*op->user_begin());
  const bool same =
      llvm::all_of(op->getUsers(), [&](Operation* user) { return dimsOf(user) == order; });
  return same ? order : llvm::SmallVector<int64_t>();
}

/// The order in which all readers of an attention's result, [b, h, s, d], want it, if they keep the
/// elements of a head together (usually the heads of a position lie side by side). The kernel
/// writes any such order at no cost. Empty: there is no such order.
llvm::SmallVector<int64_t> orderOfHeads(Operation* op) {
  const llvm::SmallVector<int64_t> order = dimsOfReaders(op);
  return llvm::isa<op::ScaledDotProductAttentionOp>(op) && order.size() == 4 && order.back() == 3
             ? order
             : llvm::SmallVector<int64_t>();
}

/// The same for rows that a reduction makes (a norm) and that are read in another order, each as it
/// is, by a product: it would copy them.
llvm::SmallVector<int64_t> orderOfRows(Operation* op) {
  auto fusion = llvm::dyn_cast<op::FusionOp>(op);
  if (!fusion || fusion.getFamily() != "row_reduction") {
    return {};
  }
  const llvm::SmallVector<int64_t> order = dimsOfReaders(op);
  const bool keepsRows = !order.empty() && order.back() == static_cast<int64_t>(order.size()) - 1;
  const bool isProduct = llvm::any_of(op->getUsers(), [](Operation* permute) {
    return llvm::any_of(permute->getUsers(), [](Operation* user) {
      auto product = llvm::dyn_cast<op::FusionOp>(user);
      return llvm::isa<op::ReshapeOp>(user) || (product && contractionRoot(product));
    });
  });
  return keepsRows && isProduct ? order : llvm::SmallVector<int64_t>();
}

bool wantsRowMajor(Value value) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  const bool onePixel =
      llvm::all_of(type.getShape().drop_front(2), [](int64_t size) { return size == 1; });
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    return (llvm::isa<op::ReshapeOp>(user) && !onePixel) ||
           (llvm::isa<mlir::func::ReturnOp>(user) && !onePixel);
  });
}

/// Zero elements around an image or a signal: pairs (before, after) per dim.
llvm::SmallVector<int64_t> borderFor(Value value, kernel::TargetAttr target) {
  llvm::SmallVector<int64_t> border(8, 0);
  for (Operation* user : value.getUsers()) {
    auto fusion = llvm::dyn_cast<op::FusionOp>(user);
    auto convolution = fusion
                           ? llvm::dyn_cast_if_present<op::ConvolutionOp>(contractionRoot(fusion))
                           : op::ConvolutionOp();
    if (!convolution || !isChannelsLastKernel(fusion) ||
        fusionInput(fusion, convolution.getX()) != value) {
      continue;
    }
    const llvm::SmallVector<int64_t> need =
        borderOf(*chosenKernel(fusion), contractionProblem(fusion, target), 0);
    for (size_t i = 0; i < border.size(); ++i) {
      border[i] = std::max(border[i], need[i]);
    }
  }
  if (llvm::cast<RankedTensorType>(value.getType()).getRank() == 3) {
    // a signal is an image of height 1, which has no border there
    border.erase(border.begin() + 4, border.begin() + 6);
  }
  return border;
}

struct AssignLayoutsPass : impl::AssignLayoutsBase<AssignLayoutsPass> {
  void runOnOperation() override {
    const kernel::TargetAttr target = targetOf(getOperation());
    auto follows = [](Operation* op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        auto type = llvm::dyn_cast<RankedTensorType>(operand.getType());
        return type && liesChannelsLast(operand) &&
               type.getRank() == llvm::cast<RankedTensorType>(op->getResult(0).getType()).getRank();
      });
    };
    getOperation().walk<mlir::WalkOrder::PreOrder>([&](Operation* op) {
      if (op->getNumResults() != 1 || op::isPrepared(op)) {
        return;
      }
      auto type = llvm::dyn_cast<RankedTensorType>(op->getResult(0).getType());
      if (!type || type.getRank() < 3 || type.getRank() > 4 ||
          llvm::isa<op::FusionOp>(op->getParentOp())) {
        return;
      }
      for (const auto orderOf : {orderOfHeads, orderOfRows}) {
        if (const llvm::SmallVector<int64_t> order = orderOf(op); !order.empty()) {
          op::setLayout(op, order, {});
          return;
        }
      }
      auto fusion = llvm::dyn_cast<op::FusionOp>(op);
      const bool writes = fusion && isChannelsLastKernel(fusion);
      auto sampler = llvm::dyn_cast<op::GridSampler2dOp>(op);
      const bool passesOn =
          (sampler && liesChannelsLast(sampler.getX())) ||
          ((llvm::isa<op::MaxPool2dOp, op::AvgPool2dOp>(op) ||
            (fusion && (fusion.getFamily() == "pointwise" || isConvolutionOfAnyLayout(fusion)))) &&
           follows(op));
      const bool joins =
          llvm::isa<op::CatOp>(op) && llvm::all_of(op->getOperands(), liesChannelsLast);
      if (!(writes || passesOn || joins) || wantsRowMajor(op->getResult(0))) {
        return;
      }
      op::setLayout(op, channelsLast(type.getRank()), borderFor(op->getResult(0), target));
    });
  }
};

}  // namespace

}  // namespace straightline::passes
