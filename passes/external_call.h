// SPDX-License-Identifier: Apache-2.0
// An op of any kind as external kernels are asked about it: which of its attributes they are told,
// and what their descriptions say against it before `accepts` is asked. Contractions and attention
// have problems of their own (contraction_problem.h).
#ifndef STRAIGHTLINE_PASSES_EXTERNAL_CALL_H
#define STRAIGHTLINE_PASSES_EXTERNAL_CALL_H

#include <string>

#include "dialect/op/op_dialect.h"
#include "passes/kernel_choice.h"

namespace straightline {

/// The attribute that names the activation which the kernel does as an epilogue.
inline constexpr llvm::StringLiteral kActivation = "activation";

/// What an external kernel is told of an op beside its tensors.
struct ExternalCall {
  std::string name;  ///< of the op, without its dialect
  /// for each operand: which operand of the op's definition it is
  llvm::SmallVector<int64_t> roles;
  /// i64, f64 and strings. Element i of an array `dims` is `dims_i`. An op that has optional
  /// operands has `operands_i`, how many tensors are given as operand i of its definition.
  mlir::DictionaryAttr told;
  std::string untold;  ///< why an attribute cannot be told; empty: all can
  /// names that a calling rule may list: of the op's attributes, and `operands`
  llvm::SmallVector<std::string> names;
};
ExternalCall describeCall(mlir::Operation* operation);

/// Tells the problem.
void addTold(Problem& problem, mlir::DictionaryAttr told);
/// Those of `told` that the kernel's plan receives by its calling rule, and the activation.
llvm::SmallVector<mlir::NamedAttribute> toldToPlan(const sl_kernel_desc& kernel,
                                                   mlir::DictionaryAttr told);

/// The facts of an operand by its role; operands behind the last described input are as that one.
sl_operand_facts factsOfRole(const sl_kernel_desc& kernel, int64_t role);

/// Why the description of the kernel does not fit the op, with both values; "": it fits.
/// `isKnownEarly` says which tensors exist before the first run. What fits instead is named with a
/// tensor that a plan cannot read.
std::string whyNotCalled(const sl_kernel_desc& kernel, mlir::Operation* operation,
                         const ExternalCall& call,
                         llvm::function_ref<bool(mlir::Value)> isKnownEarly);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_EXTERNAL_CALL_H
