// SPDX-License-Identifier: Apache-2.0
// What passes record for each other: attributes op.* that stand on ops of any dialect. Each has a
// function that reads it and one that writes it; nobody else spells their names. The dialect's
// verifiers say which op, argument or result may carry which of them, and of what kind it is.
#ifndef STRAIGHTLINE_DIALECT_OP_RECORDED_H
#define STRAIGHTLINE_DIALECT_OP_RECORDED_H

#include <optional>

#include "dialect/op/op_dialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

// Generated builders leave parameters unused.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_ATTRDEF_CLASSES
#include "dialect/op/op_recorded.h.inc"
#pragma GCC diagnostic pop

namespace straightline::op {

// --- on an op

/// op.prepare: the op depends on parameters and constants only, and is done before the first run.
bool isPrepared(mlir::Operation* op);
void setPrepared(mlir::Operation* op);
void clearPrepared(mlir::Operation* op);

/// op.kernel: the kernel chosen for an op.fusion or op.external; null: none.
KernelChoiceAttr kernelChoiceOf(mlir::Operation* op);
void setKernelChoice(mlir::Operation* op, KernelChoiceAttr choice);

/// op.small_images: the kernels for calls with few pixels, of an op.fusion around a convolution, by
/// growing `below`; empty: there is one kernel for all calls.
llvm::SmallVector<SmallImagesAttr> smallImagesOf(mlir::Operation* op);
/// An empty list removes them.
void setSmallImages(mlir::Operation* op, llvm::ArrayRef<SmallImagesAttr> small);

/// op.refusals: what external kernels said that did not get the op, for `explain`, a dictionary
/// each: `kernel`, `said`, `op` (by whose name rules give it work), and `us` of one that would have
/// taken it; null: none was asked.
mlir::ArrayAttr refusalsOf(mlir::Operation* op);
/// Appends refusals to those that the op has, each once.
void addRefusals(mlir::Operation* op, mlir::ArrayAttr refusals);

/// op.layout: the memory layout of the op's result; null: the lowering decides.
LayoutAttr layoutOf(mlir::Operation* op);
/// `border`: pairs (before, after) of each dim.
void setLayout(mlir::Operation* op, llvm::ArrayRef<int64_t> order, llvm::ArrayRef<int64_t> border);

/// op.strides: strides of the storage of a parameter or state, of an argument, and of the state
/// that a result overwrites; null: row-major.
DimsAttr stridesOf(mlir::Operation* op);
DimsAttr stridesOfArgument(mlir::FunctionOpInterface function, unsigned argument);
DimsAttr stridesOfResult(mlir::FunctionOpInterface function, unsigned result);
void setStrides(mlir::Operation* op, DimsAttr strides);
void setStridesOfArgument(mlir::FunctionOpInterface function, unsigned argument,
                          mlir::Attribute strides);
void setStridesOfResult(mlir::FunctionOpInterface function, unsigned result, DimsAttr strides);

// --- on a function, its arguments and results

/// op.live_parameters: its parameters may change between calls, so nothing made from them is kept.
bool hasLiveParameters(mlir::FunctionOpInterface function);
void setLiveParameters(mlir::FunctionOpInterface function);

/// op.name: what messages and explanations call it; null: it has none.
mlir::StringAttr nameOfArgument(mlir::FunctionOpInterface function, unsigned argument);
mlir::StringAttr nameOfResult(mlir::FunctionOpInterface function, unsigned result);
void setNameOfArgument(mlir::FunctionOpInterface function, unsigned argument, llvm::StringRef name);
void setNameOfResult(mlir::FunctionOpInterface function, unsigned result, llvm::StringRef name);

/// op.tie: what a result overwrites.
struct Tie {
  bool isState;          ///< a module buffer; else an input
  llvm::StringRef name;  ///< of it
  llvm::StringRef text;  ///< "state:NAME", "input:NAME"
};
std::optional<Tie> tieOf(mlir::FunctionOpInterface function, unsigned result);
void setTie(mlir::FunctionOpInterface function, unsigned result, llvm::StringRef text);

/// op.alias: the result is what a tied result writes, or a view of it. Its text is that of the tie;
/// without one it is whichever tied result has the value.
bool isAliasOfTied(mlir::FunctionOpInterface function, unsigned result);
llvm::StringRef aliasedTie(mlir::FunctionOpInterface function, unsigned result);
void setAliasOfTied(mlir::FunctionOpInterface function, unsigned result, llvm::StringRef tie);

// --- on a module

/// op.target: a #kernel.target; null: the default one. passes/targets/target.h gives it a type.
mlir::Attribute targetOf(mlir::ModuleOp module);
void setTarget(mlir::ModuleOp module, mlir::Attribute target);

/// op.options: what the user asked of kernels; without it, one whose parameters are all absent.
OptionsAttr optionsOf(mlir::ModuleOp module);
void setOptions(mlir::ModuleOp module, OptionsAttr options);

/// op.resident_bytes: bytes of weights that a call reads; nullopt: they were not counted.
std::optional<int64_t> residentBytesOf(mlir::ModuleOp module);
void setResidentBytes(mlir::ModuleOp module, int64_t bytes);

/// op.candidates: the contractions that may be measured; nullopt: nobody asked for them.
std::optional<llvm::SmallVector<MeasurementAttr>> candidatesOf(mlir::ModuleOp module);
void setCandidates(mlir::ModuleOp module, llvm::ArrayRef<MeasurementAttr> measurements);

/// Removes what the op level alone reads: op.target and op.options.
void clearOpLevel(mlir::ModuleOp module);

}  // namespace straightline::op

#endif  // STRAIGHTLINE_DIALECT_OP_RECORDED_H
