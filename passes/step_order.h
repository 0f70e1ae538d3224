// SPDX-License-Identifier: Apache-2.0
// Which statements of prepare or run come one behind the other where a device may run some of them
// at once (kernel.step), for passes that give memory to what they touch. Verifiers have their own
// (levels/step_order.cpp).
#ifndef STRAIGHTLINE_PASSES_STEP_ORDER_H
#define STRAIGHTLINE_PASSES_STEP_ORDER_H

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace straightline {

/// Of the statements of a region's block; what is nested in one belongs to it, and is in the order
/// of the text there.
class StepOrder {
 public:
  explicit StepOrder(mlir::Region& region);
  /// Nothing runs at once: the order is that of the text.
  bool isOneOrder() const { return isOneOrder_; }
  /// Numbers of statements; empty in one order.
  using Places = llvm::BitVector;
  /// Of all that touch the storage `root`, views looked through.
  Places placesOf(mlir::Value root) const;
  /// Whether every statement of `earlier` has ended before any of `later` begins, those aside that
  /// are in both. Always true in one order.
  bool isBefore(const Places& earlier, const Places& later) const;
  /// The same of all that touch `root`, before `op`.
  bool isBefore(mlir::Value root, mlir::Operation* op) const;

 private:
  unsigned placeOf(mlir::Operation* op) const;
  bool isBefore(Places earlier, unsigned place) const;

  mlir::Block& block_;
  bool isOneOrder_ = true;
  llvm::DenseMap<mlir::Operation*, unsigned> places_;
  /// of each statement, those that have ended when it begins
  llvm::SmallVector<llvm::BitVector> before_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_STEP_ORDER_H
