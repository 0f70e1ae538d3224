// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/target.h"

#include "dialect/kernel/recorded.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace straightline {

namespace {

// In a function, because targets register themselves before main, in any order.
llvm::SmallVector<const Target*>& registered() {
  static llvm::SmallVector<const Target*> targets;
  return targets;
}

std::string registeredNames() {
  return llvm::join(
      llvm::map_range(registered(), [](const Target* target) { return target->name(); }), ", ");
}

}  // namespace

double Target::estimateUs(mlir::Operation* statement) const {
  return kernel::costUsOf(statement).value_or(0);
}

void registerTarget(const Target& target) {
  if (findTarget(target.name())) {
    llvm::reportFatalInternalError("two targets are named '" + target.name() + "'");
  }
  llvm::SmallVector<const Target*>& targets = registered();
  targets.insert(
      llvm::find_if(targets, [&](const Target* other) { return target.name() < other->name(); }),
      &target);
}

llvm::ArrayRef<const Target*> allTargets() { return registered(); }

const Target* findTarget(llvm::StringRef name) {
  auto* found =
      llvm::find_if(registered(), [&](const Target* target) { return target->name() == name; });
  return found == registered().end() ? nullptr : *found;
}

const Target& targetNamed(llvm::StringRef name) {
  const Target* target = findTarget(name);
  if (target == nullptr) {
    llvm::reportFatalInternalError("no target '" + name + "' is registered, expected one of " +
                                   registeredNames());
  }
  return *target;
}

kernel::TargetAttr targetOf(mlir::ModuleOp module) {
  if (auto target = llvm::dyn_cast_if_present<kernel::TargetAttr>(op::targetOf(module))) {
    return target;
  }
  return kernel::TargetAttr::get(module.getContext(), kDefaultTarget, "x86-64-v3", 1, 32, 32768,
                                 1048576, 0, 64);
}

const Target& targetNamedBy(kernel::TargetAttr target) {
  return targetNamed(target ? target.getBackend() : llvm::StringRef(kDefaultTarget));
}

const Target& targetNamedBy(mlir::ModuleOp module) {
  return targetNamedBy(llvm::dyn_cast_if_present<kernel::TargetAttr>(op::targetOf(module)));
}

TargetFacts factsOf(kernel::TargetAttr target) { return targetNamedBy(target).facts(target); }

// Passes of the op level ask in contexts that may not have loaded the kernel dialect: no attribute
// is made for a module that names no target.
TargetFacts factsOf(mlir::ModuleOp module) {
  return factsOf(llvm::dyn_cast_if_present<kernel::TargetAttr>(op::targetOf(module)));
}

mlir::LogicalResult verifyTarget(mlir::Operation* op, kernel::TargetAttr target) {
  if (target && findTarget(target.getBackend()) == nullptr) {
    return op->emitError() << "has target '" << target.getBackend() << "', expected one of "
                           << registeredNames();
  }
  return mlir::success();
}

}  // namespace straightline
