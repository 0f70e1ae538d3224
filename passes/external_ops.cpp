// SPDX-License-Identifier: Apache-2.0
#include "passes/external_ops.h"

#include "llvm/ADT/STLExtras.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/fusion_group.h"
#include "passes/kernel_facts.h"

namespace straightline {

using mlir::Operation;
using mlir::Value;

namespace {

/// The loop counter that an op.for gives, and what is computed from it.
bool isIndex(Value value) {
  auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
  if (type.getRank() != 0) {
    return false;
  }
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(value);
  return argument ? argument.getArgNumber() == 0 &&
                        llvm::isa<op::ForOp>(argument.getOwner()->getParentOp())
                  : passes::isIndexArithmetic(value.getDefiningOp());
}

}  // namespace

bool mayBeExternal(llvm::StringRef name, mlir::MLIRContext* context) {
  const auto info = mlir::RegisteredOperationName::lookup(("op." + name).str(), context);
  return info && !info->hasTrait<op::View>() && !info->hasTrait<op::Contraction>() &&
         !info->hasTrait<mlir::OpTrait::IsTerminator>() &&
         !info->hasTrait<mlir::OpTrait::ConstantLike>() && name != "parameter" && name != "state" &&
         name != "external" && name != "aten" && name != "own_kernel" &&
         name != "scaled_dot_product_attention" && name != "scalar_special";
}

bool mayBeExternal(Operation* operation) {
  return llvm::isa_and_nonnull<op::OpDialect>(operation->getDialect()) &&
         mayBeExternal(operation->getName().stripDialect(), operation->getContext()) &&
         mlir::isPure(operation) && operation->getNumRegions() == 0 &&
         operation->getNumResults() > 0 && !llvm::any_of(operation->getResults(), isIndex) &&
         !llvm::any_of(operation->getOperands(), isIndex);
}

bool hasExternalKernel(llvm::StringRef name) {
  bool found = false;
  forEachKernel([&](const sl_kernel_desc& kernel) {
    found |= isExternal(kernel) && name == kernel.op && kernel.rule;
  });
  return found;
}

}  // namespace straightline
