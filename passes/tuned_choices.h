// SPDX-License-Identifier: Apache-2.0
// Choices that were measured: which kernel does a contraction, with which tunables, and whether the
// team shares it. This lists what there is to measure and applies what was chosen; who measures is
// outside (python/straightline/_tuning.py).
#ifndef STRAIGHTLINE_PASSES_TUNED_CHOICES_H
#define STRAIGHTLINE_PASSES_TUNED_CHOICES_H

#include <optional>
#include <string>
#include <vector>

#include "passes/contraction_problem.h"

namespace straightline {

/// A kernel for a contraction, with the settings of its tunables.
struct Candidate {
  const sl_kernel_desc* kernel;
  int32_t variant;  ///< of the kernel
  /// thread 0 does it alone, or the whole team does; nullopt: by the estimate
  std::optional<bool> alone;
  llvm::SmallVector<int64_t> tune;  ///< values in the order of the kernel's tunables
  double costUs;                    ///< estimated
  /// extra cost at the edge of a graph (kernel_choice.h), which a measurement of the contraction
  /// alone does not include
  double atEdgeUs;

  /// "native.gemm[mr:6,nr:16]", "native.gemm[mr:6,nr:16]alone", ".. ]shared".
  std::string text() const;
};

/// Distinct candidates of a contraction; the first one is what the estimates choose.
std::vector<Candidate> candidatesOf(op::FusionOp fusion, kernel::TargetAttr target,
                                    const SelectionConstraints& constraints);

/// What makes two contractions one problem for a measurement: op, operands, attributes, epilogue
/// and team, without spaces and '='. Empty where a size is only known per call.
std::string choiceKey(op::FusionOp fusion, kernel::TargetAttr target);

/// The contraction with its epilogue as a captured module of its own: what is known early is a
/// parameter, the rest an argument. It also keeps what decides about kernels beside the problem:
/// whether the contraction is at the edge of a graph, and that a device's images between
/// convolutions lie channels last.
std::string moduleOf(op::FusionOp fusion);

/// One choice of the module's options, by key; empty: there is none.
std::string chosenText(mlir::ModuleOp module, llvm::StringRef key);
/// Choices as (key, text of a candidate).
void setChoices(mlir::ModuleOp module, llvm::ArrayRef<std::pair<std::string, std::string>> choices);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_TUNED_CHOICES_H
