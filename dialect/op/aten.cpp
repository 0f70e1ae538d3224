// SPDX-License-Identifier: Apache-2.0
// Verifier and effects of the long tail's one op.
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::success;

llvm::LogicalResult AtenOp::verify() {
  const auto [space, rest] = getName().split("::");
  const auto [base, overload] = rest.rsplit('.');
  if (space.empty() || base.empty() || overload.empty()) {
    return opError(*this) << "the name is \"" << getName()
                          << "\" but \"namespace::name.overload\" is needed (aten_c1)";
  }
  if (getDoor() != "dispatcher" && getDoor() != "python") {
    return opError(*this) << "the door is \"" << getDoor()
                          << "\" but dispatcher or python is needed (aten_c2)";
  }
  const llvm::ArrayRef<int64_t> updates = getUpdates().value_or(llvm::ArrayRef<int64_t>());
  bool paired = updates.size() % 2 == 0;
  for (size_t i = 0; paired && i < updates.size(); i += 2) {
    paired = updates[i] >= 0 && updates[i] < static_cast<int64_t>(getNumResults()) &&
             updates[i + 1] >= 0 && updates[i + 1] < static_cast<int64_t>(getNumOperands()) &&
             getResult(updates[i]).getType() == getOperand(updates[i + 1]).getType();
  }
  if (!paired) {
    return opError(*this) << "updates [" << updates
                          << "] are no pairs of a result and an operand of its type (aten_c3)";
  }
  for (llvm::StringRef text : {getName(), getSchema(), getTorch(), getArguments(), getOutcome()}) {
    if (text.contains('\n')) {
      return opError(*this) << "\"" << text << "\" has a line break (aten_c4)";
    }
  }
  return success();
}

void AtenOp::getEffects(
    llvm::SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>&
        effects) {
  if (getEffectful()) {
    effects.emplace_back(mlir::MemoryEffects::Read::get());
    effects.emplace_back(mlir::MemoryEffects::Write::get());
  }
}

}  // namespace straightline::op
