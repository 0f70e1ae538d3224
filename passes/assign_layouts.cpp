// SPDX-License-Identifier: Apache-2.0
// Chooses the memory order of 4-D values, so that no reorder stands between convolutions: what a channels-last kernel
// writes is channels last, and so is what elementwise and pooling ops make of it. A value that convolutions read gets the
// zero border that they rely on. Recorded as op.layout = {order, border} on the op that makes the value; the order lists
// dims from the slowest to the fastest.
//
// Left alone: a value whose readers want row-major memory (a reshape of more than one pixel, a result of the function).
#include "dialect/op/op_dialect.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/contraction_problem.h"
#include "passes/kernel_passes.h"

namespace straightline {

namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

bool isChannelsLastKernel(op::FusionOp fusion) {
  auto kernel = fusion->getAttrOfType<mlir::StringAttr>("op.kernel");
  return kernel && (kernel == "native.convolution" || kernel == "native.winograd");
}

bool wantsRowMajor(Value value) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  const bool onePixel = type.getDimSize(2) == 1 && type.getDimSize(3) == 1;
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    return (llvm::isa<op::ReshapeOp>(user) && !onePixel) || (llvm::isa<mlir::func::ReturnOp>(user) && !onePixel);
  });
}

llvm::SmallVector<int64_t> borderFor(Value value, kernel::TargetAttr target) {
  llvm::SmallVector<int64_t> border(8, 0);
  for (Operation* user : value.getUsers()) {
    auto fusion = llvm::dyn_cast<op::FusionOp>(user);
    auto convolution = fusion ? llvm::dyn_cast_if_present<op::ConvolutionOp>(contractionRoot(fusion)) : op::ConvolutionOp();
    if (!convolution || !isChannelsLastKernel(fusion) || fusionInput(fusion, convolution.getX()) != value) {
      continue;
    }
    const sl_kernel_desc* kernel = findKernel(fusion->getAttrOfType<mlir::StringAttr>("op.kernel").getValue());
    int64_t m = 0;
    for (mlir::NamedAttribute entry : tuneAttributes(value.getContext(), *kernel, contractionProblem(fusion, target))) {
      m = entry.getName() == "m" ? llvm::cast<mlir::IntegerAttr>(entry.getValue()).getInt() : m;
    }
    const llvm::SmallVector<int64_t> need = requiredBorder(convolutionGeometry(convolution), kernel->family, m);
    for (size_t i = 0; i < border.size(); ++i) {
      border[i] = std::max(border[i], need[i]);
    }
  }
  return border;
}

struct AssignLayouts : mlir::PassWrapper<AssignLayouts, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AssignLayouts)
  void getDependentDialects(mlir::DialectRegistry& registry) const override { registry.insert<kernel::KernelDialect>(); }
  llvm::StringRef getArgument() const override { return "assign-layouts"; }
  llvm::StringRef getDescription() const override { return "choose channels-last memory and borders around convolutions"; }

  void runOnOperation() override {
    const kernel::TargetAttr target = targetOf(getOperation());
    auto follows = [](Operation* op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        Operation* maker = operand.getDefiningOp();
        return maker && maker->hasAttr("op.layout") && operand.getType().getTypeID() == RankedTensorType::getTypeID() &&
               llvm::cast<RankedTensorType>(operand.getType()).getRank() == 4;
      });
    };
    getOperation().walk<mlir::WalkOrder::PreOrder>([&](Operation* op) {
      if (op->getNumResults() != 1 || op->hasAttr(op::kPrepare)) {
        return;
      }
      auto type = llvm::dyn_cast<RankedTensorType>(op->getResult(0).getType());
      if (!type || type.getRank() != 4 || llvm::isa<op::FusionOp>(op->getParentOp())) {
        return;
      }
      auto fusion = llvm::dyn_cast<op::FusionOp>(op);
      const bool writes = fusion && isChannelsLastKernel(fusion);
      const bool passesOn = (llvm::isa<op::MaxPool2dOp, op::AvgPool2dOp>(op) || (fusion && fusion.getFamily() == "pointwise")) && follows(op);
      if (!(writes || passesOn) || wantsRowMajor(op->getResult(0))) {
        return;
      }
      mlir::Builder builder(op->getContext());
      op->setAttr("op.layout", builder.getDictionaryAttr({
                                   builder.getNamedAttr("order", builder.getDenseI64ArrayAttr({0, 2, 3, 1})),
                                   builder.getNamedAttr("border", builder.getDenseI64ArrayAttr(borderFor(op->getResult(0), target))),
                               }));
    });
  }
};

}  // namespace

std::unique_ptr<mlir::Pass> createAssignLayoutsPass() { return std::make_unique<AssignLayouts>(); }

}  // namespace straightline
