// SPDX-License-Identifier: Apache-2.0
// Ops that a user's own C function computes: the generated definitions, verifier and effects.
#include "dialect/op/own_kernel.h"

#include "dialect/op/op_verify.h"
#include "dialect/own_argument.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/MathExtras.h"
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
      if (isGood && argument->isOnHost &&
          (kernel.getSource() ||
           (tensor.isOutput && tensor.number < static_cast<int64_t>(kernel.getUpdates())))) {
        return opError(kernel) << "the argument \"" << text
                               << "\" lies on the host but is updated, or one of a source "
                                  "(own_kernel_c9)";
      }
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

/// Whether the text is a number, or a size that there is.
bool isBlocks(OwnKernelOp kernel, llvm::StringRef text) {
  const std::optional<OwnArgument> blocks = parseOwnArgument(text);
  return blocks && !blocks->isList &&
         (blocks->kind == OwnArgumentKind::integers ||
          (blocks->kind == OwnArgumentKind::size && kernel.getSizes() &&
           static_cast<size_t>(blocks->integers.front()) < kernel.getSizes()->getExprs().size()));
}

/// What a parameter of machine code may be: the driver reads its bits.
bool isParameter(llvm::StringRef text) {
  const std::optional<OwnArgument> argument = parseOwnArgument(text);
  return argument && !argument->isList &&
         llvm::is_contained({OwnArgumentKind::tensors, OwnArgumentKind::absent,
                             OwnArgumentKind::integers, OwnArgumentKind::size},
                            argument->kind);
}

llvm::LogicalResult verifyImage(OwnKernelOp kernel) {
  if (!kernel.getImage()) {
    if (kernel.getAlignments() || kernel.getMoreBlocks() || kernel.getSharedBytes() != 0 ||
        !kernel.getMachine().empty() || kernel.getWaits() || kernel.getCooperative()) {
      return opError(kernel)
             << "has machine, alignments, more_blocks, shared_bytes, waits or cooperative but no "
                "image (own_kernel_c8)";
    }
    return success();
  }
  std::vector<char> bytes;
  if (llvm::Error error = llvm::decodeBase64(*kernel.getImage(), bytes)) {
    return opError(kernel) << "the image is no base64: " << llvm::toString(std::move(error))
                           << " (own_kernel_c8)";
  }
  if (!kernel.getSource() || kernel.getMachine().empty() ||
      static_cast<int64_t>(kernel.getSharedBytes()) < 0) {
    return opError(kernel) << "has an image, " << (kernel.getSource() ? "a" : "no")
                           << " source, the machine \"" << kernel.getMachine() << "\" and "
                           << static_cast<int64_t>(kernel.getSharedBytes())
                           << " bytes of shared memory (own_kernel_c8)";
  }
  const llvm::ArrayRef<int64_t> alignments =
      kernel.getAlignments().value_or(llvm::ArrayRef<int64_t>());
  if (alignments.size() != kernel.getArguments().size() ||
      !llvm::all_of(alignments, [](int64_t bytes) {
        return bytes > 0 && llvm::isPowerOf2_64(static_cast<uint64_t>(bytes));
      })) {
    return opError(kernel) << "has " << alignments.size() << " alignments of "
                           << kernel.getArguments().size()
                           << " arguments, or one that is no power of two (own_kernel_c8)";
  }
  for (auto text : kernel.getArguments().getAsValueRange<mlir::StringAttr>()) {
    if (!isParameter(text)) {
      return opError(kernel) << "the argument \"" << text
                             << "\" is no parameter of machine code (own_kernel_c8)";
    }
  }
  const mlir::ArrayAttr more = kernel.getMoreBlocksAttr();
  if (!more || more.size() != 2 ||
      !llvm::all_of(more.getAsValueRange<mlir::StringAttr>(),
                    [&](llvm::StringRef text) { return isBlocks(kernel, text); })) {
    return opError(kernel) << "has an image but no two numbers of blocks in more_blocks "
                              "(own_kernel_c8)";
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
  const bool isLaunch =
      getSource() && isBlocks(*this, getBlocks()) && threads >= 1 && threads <= 1024;
  if (getSource() ? !isLaunch : threads != 0 || !getBlocks().empty()) {
    return opError(*this) << "has " << (getSource() ? "a source" : "no source") << ", blocks \""
                          << getBlocks() << "\" and " << threads << " threads (own_kernel_c7)";
  }
  return failed(verifyImage(*this)) ? mlir::failure() : verifyArguments(*this);
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
