// SPDX-License-Identifier: Apache-2.0
// What a rule says about a kernel that it wants launched.
#ifndef STRAIGHTLINE_PASSES_LOWERING_KERNEL_SPEC_H
#define STRAIGHTLINE_PASSES_LOWERING_KERNEL_SPEC_H

#include <functional>
#include <optional>
#include <string>

#include "dialect/kernel/kernel_dialect.h"

namespace straightline::lowering {

/// One scalar region of a kernel: its arguments and how its body is built (returns what is
/// yielded).
struct Body {
  std::string name;
  llvm::SmallVector<mlir::Type> arguments;
  std::function<llvm::SmallVector<mlir::Value>(mlir::OpBuilder&, mlir::ValueRange)> build;
};

/// Rounds the sums of a product, which has no other epilogue, to the result's type.
Body roundedSums(mlir::Location loc, mlir::Type element);

/// A kernel to be launched: family, schedule, buffers, scalar regions.
struct KernelSpec {
  std::string name;  ///< preferred symbol; made unique
  std::string family;
  llvm::SmallVector<mlir::NamedAttribute> shape;
  llvm::SmallVector<mlir::NamedAttribute> tune;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<mlir::Value> workspace;
  llvm::SmallVector<kernel::Tie> ties;
  llvm::SmallVector<Body> bodies;
  /// outputs that are rows found on the device; LoweringContext::launch sets them
  llvm::SmallVector<kernel::RowAttr> rows;
  bool canFail = false;
  bool updates = false;  ///< the outputs hold values that the kernel reads or leaves
  bool wholeTeam = true;
  std::optional<bool> alone;  ///< a measured choice about the team; nullopt: by the cost
  /// key under which it was or can be measured; empty: nothing to choose
  std::string choice;
  double costUs = 0;  ///< estimated, on one thread of a CPU unless `ownCost`
  /// a kernel's own estimate: for the team, or for the device that it runs on
  bool ownCost = false;
  std::string op;   ///< ops it came from, "linear, relu"
  std::string why;  ///< why this kernel, for `explain`
  mlir::DictionaryAttr
      source;  ///< a user's own text of its body (kernel::ownSourceOf); may be null
  mlir::ArrayAttr alternatives;  ///< what other kernels said (kernel::alternativesOf); may be null

  /// The tunable of this name; null: the kernel has none.
  mlir::NamedAttribute* tunable(llvm::StringRef name) {
    auto* found =
        llvm::find_if(tune, [&](mlir::NamedAttribute entry) { return entry.getName() == name; });
    return found == tune.end() ? nullptr : found;
  }
};

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_KERNEL_SPEC_H
