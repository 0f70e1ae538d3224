// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/recorded.h"

#include "mlir/IR/Builders.h"

namespace straightline::kernel {

using mlir::Operation;

namespace {

constexpr llvm::StringLiteral kCostUs = "kernel.cost_us", kChoice = "kernel.choice",
                              kApart = "kernel.apart", kEveryLane = "kernel.every_lane";

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

bool isApart(Operation* declaration) { return declaration->hasAttr(kApart); }
void setApart(DeclOp declaration) {
  declaration->setAttr(kApart, mlir::UnitAttr::get(declaration.getContext()));
}

bool placesEveryLane(mlir::ModuleOp module) { return module->hasAttr(kEveryLane); }
void setPlacesEveryLane(mlir::ModuleOp module) {
  module->setAttr(kEveryLane, mlir::UnitAttr::get(module.getContext()));
}

}  // namespace straightline::kernel
