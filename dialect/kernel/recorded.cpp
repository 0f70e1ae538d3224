// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/recorded.h"

#include "mlir/IR/Builders.h"

namespace straightline::kernel {

using mlir::Operation;

namespace {

constexpr llvm::StringLiteral kCostUs = "kernel.cost_us", kChoice = "kernel.choice",
                              kOutsideGraph = "kernel.outside_graph",
                              kEveryBranch = "kernel.every_branch";

}  // namespace

std::optional<double> costUsOf(Operation* statement) {
  auto cost = statement->getAttrOfType<mlir::FloatAttr>(kCostUs);
  return cost ? std::optional(cost.getValueAsDouble()) : std::nullopt;
}
void setCostUs(Operation* statement, double us) {
  statement->setAttr(kCostUs, mlir::Builder(statement->getContext()).getF64FloatAttr(us));
}

llvm::StringRef choiceKeyOf(Operation* statement) {
  auto key = statement->getAttrOfType<mlir::StringAttr>(kChoice);
  return key ? key.getValue() : llvm::StringRef();
}
void setChoiceKey(Operation* statement, llvm::StringRef key) {
  statement->setAttr(kChoice, mlir::StringAttr::get(statement->getContext(), key));
}

bool isOutsideGraph(Operation* declaration) { return declaration->hasAttr(kOutsideGraph); }
void setOutsideGraph(DeclOp declaration) {
  declaration->setAttr(kOutsideGraph, mlir::UnitAttr::get(declaration.getContext()));
}

bool placesEveryBranch(mlir::ModuleOp module) { return module->hasAttr(kEveryBranch); }
void setPlacesEveryBranch(mlir::ModuleOp module) {
  module->setAttr(kEveryBranch, mlir::UnitAttr::get(module.getContext()));
}

}  // namespace straightline::kernel
