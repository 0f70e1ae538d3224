// SPDX-License-Identifier: Apache-2.0
// Ops that a user's own C function computes: the generated definitions, verifier and effects.
#include "dialect/op/own_kernel.h"

#include "dialect/op/op_verify.h"
#include "dialect/own_argument.h"
#include "llvm/ADT/BitVector.h"
#include "mlir/IR/DialectImplementation.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_own_kernel.cpp.inc"
#pragma GCC diagnostic pop

namespace straightline::op {

using mlir::success;

namespace {

llvm::LogicalResult verifyArguments(OwnKernelOp kernel) {
  llvm::BitVector isGiven(kernel.getNumResults());
  const auto sizes =
      kernel.getSizes() ? static_cast<int64_t>(kernel.getSizes()->getExprs().size()) : int64_t{0};
  for (auto text : kernel.getArguments().getAsValueRange<mlir::StringAttr>()) {
    const std::optional<OwnArgument> argument = parseOwnArgument(text);
    bool isGood = argument.has_value();
    if (isGood && argument->kind == OwnArgumentKind::size) {
      isGood = argument->integers.front() >= 0 && argument->integers.front() < sizes;
    }
    for (const OwnArgument::Tensor& tensor :
         isGood ? llvm::ArrayRef(argument->tensors) : llvm::ArrayRef<OwnArgument::Tensor>()) {
      isGood &= tensor.number < (tensor.isOutput ? kernel.getNumResults() : kernel.countRead());
      if (isGood && tensor.isOutput) {
        isGiven.set(static_cast<unsigned>(tensor.number));
      }
    }
    if (!isGood) {
      return opError(kernel) << "the argument \"" << text << "\" is none of " << kernel.countRead()
                             << " inputs, " << kernel.getNumResults() << " results, " << sizes
                             << " sizes, and no constant (own_kernel_c3)";
    }
  }
  if (!isGiven.all()) {
    return opError(kernel) << "result " << isGiven.find_first_unset()
                           << " is no argument (own_kernel_c5)";
  }
  return success();
}

}  // namespace

llvm::LogicalResult OwnKernelOp::verify() {
  const auto [space, base] = getName().split("::");
  if (space.empty() || base.empty()) {
    return opError(*this) << "the name is \"" << getName()
                          << "\" but \"namespace::name\" is needed (own_kernel_c1)";
  }
  if (!getSource() && !getSymbol().starts_with("sl_own_")) {
    return opError(*this) << "the symbol is \"" << getSymbol()
                          << "\" but \"sl_own_...\" is needed (own_kernel_c2)";
  }
  const int64_t updates = static_cast<int64_t>(getUpdates());
  if (updates < 0 || updates > getNumOperands() || updates > getNumResults()) {
    return opError(*this) << "updates " << updates << " of " << getNumOperands()
                          << " operands, with " << getNumResults() << " results (own_kernel_c4)";
  }
  for (unsigned i = 0; i < updates; ++i) {
    if (getResult(i).getType() != getInputs()[countRead() + i].getType()) {
      return opError(*this) << "result " << i << " is " << getResult(i).getType()
                            << " but the operand that it updates is "
                            << getInputs()[countRead() + i].getType() << " (own_kernel_c4)";
    }
  }
  llvm::SmallVector<llvm::StringRef> traits;
  getTraits().split(traits, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef trait : traits) {
    if (!isOwnTrait(trait)) {
      return opError(*this) << "the trait is \"" << trait
                            << "\" but status, stream, device or outside is needed "
                               "(own_kernel_c6)";
    }
  }
  if (static_cast<int64_t>(getWorkspace()) < 0) {
    return opError(*this) << "the workspace has " << static_cast<int64_t>(getWorkspace())
                          << " bytes (own_kernel_c6)";
  }
  const auto threads = static_cast<int64_t>(getThreads());
  const std::optional<OwnArgument> blocks =
      getSource() ? parseOwnArgument(getBlocks()) : std::optional<OwnArgument>();
  const bool isLaunch =
      blocks && !blocks->isList && threads >= 1 && threads <= 1024 &&
      (blocks->kind == OwnArgumentKind::integers ||
       (blocks->kind == OwnArgumentKind::size && getSizes() &&
        static_cast<size_t>(blocks->integers.front()) < getSizes()->getExprs().size()));
  if (getSource() ? !isLaunch : threads != 0 || !getBlocks().empty()) {
    return opError(*this) << "has " << (getSource() ? "a source" : "no source") << ", blocks \""
                          << getBlocks() << "\" and " << threads << " threads (own_kernel_c7)";
  }
  return verifyArguments(*this);
}

void OwnKernelOp::getEffects(
    llvm::SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>&
        effects) {
  if (getEffectful()) {
    effects.emplace_back(mlir::MemoryEffects::Read::get());
    effects.emplace_back(mlir::MemoryEffects::Write::get());
  }
}

}  // namespace straightline::op
