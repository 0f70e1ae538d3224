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

using TargetSource = llvm::SmallVector<const Target*> (*)();

llvm::SmallVector<TargetSource>& sources() {
  static llvm::SmallVector<TargetSource> all;
  return all;
}

std::string registeredNames() {
  return llvm::join(
      llvm::map_range(allTargets(), [](const Target* target) { return target->name(); }), ", ");
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

void registerTargetSource(TargetSource all) { sources().push_back(all); }

llvm::SmallVector<const Target*> allTargets() {
  llvm::SmallVector<const Target*> targets = registered();
  for (TargetSource source : sources()) {
    targets.append(source());
  }
  llvm::sort(targets, [](const Target* a, const Target* b) { return a->name() < b->name(); });
  return targets;
}

bool isOwnTarget(llvm::StringRef name) {
  return llvm::any_of(registered(), [&](const Target* target) { return target->name() == name; });
}

const Target* findTarget(llvm::StringRef name) {
  const auto isNamed = [&](const Target* target) { return target->name() == name; };
  auto* own = llvm::find_if(registered(), isNamed);
  if (own != registered().end()) {
    return *own;
  }
  for (TargetSource source : sources()) {
    const llvm::SmallVector<const Target*> others = source();
    const auto* found = llvm::find_if(others, isNamed);
    if (found != others.end()) {
      return *found;
    }
  }
  return nullptr;
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
