// SPDX-License-Identifier: Apache-2.0
// A contraction fusion (linear, matmul, convolution with an epilogue) as the problem that kernels
// are asked about.
#ifndef STRAIGHTLINE_PASSES_CONTRACTION_PROBLEM_H
#define STRAIGHTLINE_PASSES_CONTRACTION_PROBLEM_H

#include "dialect/op/recorded.h"
#include "passes/kernel_choice.h"

namespace straightline {

/// The linear, matmul or convolution of the fusion; null when there is none.
mlir::Operation* contractionRoot(op::FusionOp fusion);
/// The fusion's input behind a block argument of its body.
unsigned fusionInputIndex(op::FusionOp fusion, mlir::Value argument);
mlir::Value fusionInput(op::FusionOp fusion, mlir::Value argument);
/// Known before the first run: computed in prepare, a literal, a parameter that is not live
/// (freeze=false), or a view of one.
bool isKnownEarly(mlir::Value tensor);

/// Whether no kernel of a run writes the tensor, so that a kernel may read it before the kernels
/// before it have ended: results of prepare, literals, parameters (live ones, too), arguments of
/// the function that it does not update, and views of these. A run's first kernel waits for all
/// that the caller enqueued before.
bool isFixedInRun(mlir::Value tensor);

/// Whether some kernel of a run reads or writes the tensor where the caller has it: it is an
/// argument of the function, a result, or a view of one, also through loops and branches that pass
/// it on, and the program may be launched as a graph (its options do not say "stream").
bool isAtGraphEdge(mlir::Value tensor);

/// Numbers of a 2-D convolution; a 1-D one has h = 1 and kh = 1.
struct ConvolutionGeometry {
  int64_t n, c, h, w, k, ho, wo;  ///< SL_DYNAMIC where symbolic
  int64_t kh, kw, strideH, strideW, padH, padW, dilationH, dilationW, groups;
  bool transposed;
};
ConvolutionGeometry convolutionGeometry(op::ConvolutionOp convolution);

/// The tensor that a linear's float32 weight is widened from, if it is of 16-bit floats (on a CPU
/// also of 8-bit integers) and known early; else null.
mlir::Value storedWeight(mlir::Value weight);

/// The bfloat16 value that a float32 x is widened from: by an op of its own, or by the last op of
/// the fusion that yields x.
struct Bfloat {
  mlir::Value source;   ///< the tensor that is widened, where nothing else is done
  op::FusionOp fusion;  ///< else the fusion that yields x
  unsigned result = 0;  ///< which of its results x is
  explicit operator bool() const { return source || fusion; }
};
Bfloat bfloatBehind(mlir::Value x);
/// Whether the linear of float32 has been given x and weight as bfloat16.
bool isReadAsBfloat(op::LinearOp linear);

/// Whether a and b of the product are bfloat16: read as such, or by themselves widened for this
/// product alone.
bool isOfBfloat(op::FusionOp fusion, op::MatmulOp matmul);

/// A linear's operands as they are stored, before they are widened to float32, in which it is
/// computed.
struct StoredOperands {
  mlir::Value x, weight;     ///< inputs of the fusion
  mlir::Type weightElement;  ///< what the weight is stored as
  bool bothBfloat = false;   ///< x and weight are bfloat16 there
};
StoredOperands storedOperands(op::FusionOp fusion, op::LinearOp linear);

/// The kernel that select-kernels recorded; null: none.
const sl_kernel_desc* chosenKernel(op::FusionOp fusion);

/// Records the bytes of weights that a call reads, where the module does not say it yet.
void recordResidentBytes(mlir::ModuleOp module);

/// Attribute tf32 = 1 where the module says that products of a kind ("matmul", "convolution") may
/// be rounded, so that a kernel can do it. A null module says nothing.
void addTf32(Problem& problem, mlir::ModuleOp module, llvm::StringRef kind);

/// The problem, with the variant that the fusion's choice names. A linear's weight counts as of the
/// type that it is computed with; what it is stored as is the attribute stored_bits.
Problem contractionProblem(op::FusionOp fusion, kernel::TargetAttr target);

/// Images and their sizes, of the result of a convolution.
struct ImageSizes {
  int64_t images, height, width;
};
/// Whether it is a convolution, not transposed, of which only a call knows some of these sizes.
bool hasOpenImages(op::FusionOp fusion);
/// The problem of such a convolution as if its result had these sizes, without a variant; sizes
/// that are known stay as they are.
Problem contractionProblemAt(op::FusionOp fusion, kernel::TargetAttr target,
                             const ImageSizes& sizes);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_CONTRACTION_PROBLEM_H
