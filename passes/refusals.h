// SPDX-License-Identifier: Apache-2.0
// Keeps the reasons for which external kernels refused an op (op.refusals) when a pass replaces the
// op by others.
#ifndef STRAIGHTLINE_PASSES_REFUSALS_H
#define STRAIGHTLINE_PASSES_REFUSALS_H

#include "dialect/op/recorded.h"
#include "mlir/IR/PatternMatch.h"

namespace straightline::passes {

/// Records the refusals of `replaced` on the op that computes `value` now, behind its views.
inline void keepRefusals(mlir::Operation* replaced, mlir::Value value) {
  const mlir::ArrayAttr refusals = op::refusalsOf(replaced);
  mlir::Operation* maker = value ? value.getDefiningOp() : nullptr;
  while (maker && maker->hasTrait<op::View>()) {
    maker = maker->getOperand(0).getDefiningOp();
  }
  if (refusals && maker && maker != replaced) {
    op::addRefusals(maker, refusals);
  }
}

/// For drivers of patterns. Must live as long as the driver runs.
struct RefusalKeeper final : mlir::RewriterBase::Listener {
  void notifyOperationReplaced(mlir::Operation* operation, mlir::ValueRange values) override {
    if (!values.empty()) {
      keepRefusals(operation, values.front());
    }
  }
};

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_REFUSALS_H
