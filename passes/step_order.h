// SPDX-License-Identifier: Apache-2.0
// The partial order of the statements of prepare or run where a device may run some of them
// concurrently (kernel.step), for passes that assign memory. Verifiers have an implementation of
// their own (levels/step_order.cpp).
#ifndef STRAIGHTLINE_PASSES_STEP_ORDER_H
#define STRAIGHTLINE_PASSES_STEP_ORDER_H

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace straightline {

/// The order of the statements of a region's block. Ops that are nested in a statement belong to
/// it, and run in the order of the text.
class StepOrder {
 public:
  explicit StepOrder(mlir::Region& region);
  /// Nothing runs at once: the order is that of the text.
  bool isOneOrder() const { return isOneOrder_; }
  /// Numbers of statements; empty in one order.
  using Places = llvm::BitVector;
  /// The statements that touch the storage `root`, also through views.
  Places placesOf(mlir::Value root) const;
  /// Whether every statement of `earlier` has ended before any of `later` begins, those aside that
  /// are in both. Always true in one order.
  bool isBefore(const Places& earlier, const Places& later) const;
  /// The same for the statements that touch `root`, and `op`.
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
