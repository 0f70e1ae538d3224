// SPDX-License-Identifier: Apache-2.0
// Positions of statements and live ranges of storage inside prepare or run.
#ifndef STRAIGHTLINE_PASSES_LIVE_RANGES_H
#define STRAIGHTLINE_PASSES_LIVE_RANGES_H

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace straightline {

/// First and last statement (both included) that touch a storage.
struct LiveRange {
  int64_t first;
  int64_t last;
  bool overlaps(const LiveRange& other) const { return first <= other.last && other.first <= last; }
};

/// Numbers the statements of a region in program order, nested ones included. A storage that is
/// made outside a loop and touched inside it is live through the whole loop.
class LiveRanges {
 public:
  explicit LiveRanges(mlir::Region& region);
  int64_t position(mlir::Operation* op) const { return positions_.lookup(op); }
  /// Range of the storage that `root` (a slot, an argument, a prepared buffer) owns; views
  /// included. All of the region for what a kernel writes early.
  LiveRange of(mlir::Value root) const;
  /// Every statement that touches the storage, views looked through.
  static llvm::SmallVector<mlir::Operation*> users(mlir::Value root);

 private:
  mlir::Region& region_;
  llvm::DenseMap<mlir::Operation*, int64_t> positions_;
  llvm::DenseMap<mlir::Operation*, int64_t> ends_;  ///< last position inside an op with regions
};

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_LIVE_RANGES_H
