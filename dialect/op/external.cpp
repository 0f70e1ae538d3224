// SPDX-License-Identifier: Apache-2.0
// Verifier of ops that external kernels compute.
#include "dialect/op/op_verify.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"

namespace straightline::op {

using mlir::success;

llvm::LogicalResult ExternalOp::verify() {
  if (!mlir::RegisteredOperationName::lookup(("op." + getName()).str(), getContext())) {
    return opError(*this) << "the name is \"" << getName()
                          << "\", expected that of an op of this dialect (external_c1)";
  }
  if (getNumResults() == 0) {
    return opError(*this) << "\"" << getName() << "\" has no result, expected one (external_c2)";
  }
  for (mlir::NamedAttribute attribute : getTold()) {
    if (!llvm::isa<mlir::IntegerAttr, mlir::FloatAttr, mlir::StringAttr>(attribute.getValue())) {
      return opError(*this) << "told " << attribute.getName() << " is " << attribute.getValue()
                            << ", expected an integer, a float or a string (external_c3)";
    }
  }
  const llvm::ArrayRef<int64_t> roles = getRoles();
  if (roles.size() != getInputs().size() || !llvm::is_sorted(roles) ||
      (!roles.empty() && roles.front() < 0)) {
    return opError(*this) << "roles are [" << roles << "] of " << getInputs().size()
                          << " inputs, expected a number for each, ascending from 0 on "
                             "(external_c4)";
  }
  if (!kernelChoiceOf(*this)) {
    return opError(*this) << "\"" << getName()
                          << "\" has no op.kernel, expected #op.kernel_choice (external_c5)";
  }
  return success();
}

}  // namespace straightline::op
