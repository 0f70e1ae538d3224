// SPDX-License-Identifier: Apache-2.0
// Which phase a value belongs to, by dependence.
#ifndef STRAIGHTLINE_PASSES_PHASE_H
#define STRAIGHTLINE_PASSES_PHASE_H

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Value.h"

namespace straightline::passes {

/// The block-level ops of `block` by whether they depend on parameters and constants only.
class PhaseAnalysis {
 public:
  /// With `freeze` false parameters count as inputs.
  explicit PhaseAnalysis(bool freeze = true) : freeze_(freeze) {}

  /// The value depends on parameters and constants only: not on inputs, nor on named sizes.
  bool isPrepared(mlir::Value value);

 private:
  bool isPrepared(mlir::Operation* operation);

  bool freeze_;
  llvm::DenseMap<mlir::Operation*, bool> known_;
};

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_PHASE_H
