// SPDX-License-Identifier: Apache-2.0
#include "passes/phase.h"

#include "dialect/op/op_dialect.h"
#include "dialect/op/own_kernel.h"
#include "mlir/Transforms/RegionUtils.h"

namespace straightline::passes {

using mlir::Operation;
using mlir::Value;

/// Whether the op, or an op in its regions, has sizes that are only known per call: extents of a
/// result, or an attribute (bounds of a loop).
static bool dependsOnNamedSizes(Operation* operation) {
  auto isNamed = [](mlir::Attribute attribute) {
    auto dims = llvm::dyn_cast_if_present<op::DimsAttr>(attribute);
    return dims && !dims.getNames().empty();
  };
  const mlir::WalkResult result = operation->walk([&](Operation* nested) {
    const bool named =
        llvm::any_of(nested->getAttrs(),
                     [&](mlir::NamedAttribute a) { return isNamed(a.getValue()); }) ||
        llvm::any_of(nested->getResultTypes(), [&](mlir::Type type) {
          auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
          return tensor && isNamed(tensor.getEncoding());
        });
    return named ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
  });
  return result.wasInterrupted();
}

bool PhaseAnalysis::isPrepared(Value value) {
  Operation* maker = value.getDefiningOp();
  return maker && isPrepared(maker);
}

// A worklist instead of recursion: chains of thousands of ops over parameters are real.
bool PhaseAnalysis::isPrepared(Operation* operation) {
  llvm::SmallVector<Operation*> open = {operation};
  while (!open.empty()) {
    Operation* current = open.back();
    if (known_.contains(current)) {
      open.pop_back();
      continue;
    }
    auto aten = llvm::dyn_cast<op::AtenOp>(current);
    auto own = llvm::dyn_cast<op::OwnKernelOp>(current);
    const bool input =
        llvm::isa<op::StateOp>(current) || (aten && aten.getEffectful()) ||
        (own && own.getEffectful()) || (!freeze_ && llvm::isa<op::ParameterOp>(current)) ||
        dependsOnNamedSizes(current) || current->getName().getDialectNamespace() != "op";
    llvm::SetVector<Value> operands(current->operand_begin(), current->operand_end());
    mlir::getUsedValuesDefinedAbove(current->getRegions(), operands);
    bool prepared = !input, complete = true;
    for (Value operand : operands) {
      Operation* maker = operand.getDefiningOp();
      if (!maker) {
        prepared = false;
        break;
      }
      auto found = known_.find(maker);
      if (found == known_.end()) {
        open.push_back(maker);
        complete = false;
      } else {
        prepared &= found->second;
      }
    }
    if (!prepared || complete) {
      known_[current] = prepared;
    }
  }
  return known_[operation];
}

}  // namespace straightline::passes
