// SPDX-License-Identifier: Apache-2.0
// linear, matmul and convolution with their epilogues. The kernel was chosen by select_kernels
// (#op.kernel_choice); here its operands are brought into the form that the kernel's family asks
// for: weights packed in prepare, rows collapsed, activations channels-last with their zero border.
#ifndef STRAIGHTLINE_PASSES_LOWERING_CONTRACTION_H
#define STRAIGHTLINE_PASSES_LOWERING_CONTRACTION_H

#include <optional>

#include "passes/contraction_problem.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

/// Lowers one fusion around a contraction. Defined in contraction.cpp (epilogues, packing, linear
/// and matmul), contraction_library.cpp (calls of libraries) and convolution.cpp.
class ContractionLowering {
 public:
  ContractionLowering(LoweringContext& lowering, op::FusionOp fusion);

  mlir::LogicalResult lower();

 private:
  ContractionLowering(LoweringContext& lowering, op::FusionOp fusion, Problem problem);
  /// By the kernel for calls with few pixels.
  ContractionLowering(LoweringContext& lowering, op::FusionOp fusion, op::SmallImagesAttr small);
  /// A branch by the pixels of the result, where these decide about the kernel (#op.small_images).
  mlir::LogicalResult lowerBySize(llvm::ArrayRef<op::SmallImagesAttr> small);
  /// Tells spec_ what the chosen kernel is.
  void describeKernel();
  mlir::LogicalResult lowerByKernel();
  mlir::LogicalResult lowerEmitted();
  mlir::AffineExpr constant(int64_t value) { return lowering_.constant(value); }
  int64_t tuneValue(llvm::StringRef key);
  /// The fusion's input that the root's operand `i` is.
  mlir::Value outer(unsigned i) { return fusionInput(fusion_, root_->getOperand(i)); }
  mlir::Value outer(mlir::Value operand) { return fusionInput(fusion_, operand); }

  // --- epilogue

  mlir::Value epilogueBias();
  int64_t channelDim() {
    return llvm::isa<op::ConvolutionOp>(root_) ? 1 : static_cast<int64_t>(extents_.size()) - 1;
  }

  mlir::LogicalResult findEpilogue();

  mlir::OperandRange yielded() { return fusion_.getBody().front().getTerminator()->getOperands(); }
  mlir::Type element() {
    return llvm::cast<mlir::RankedTensorType>(root_->getResult(0).getType()).getElementType();
  }
  /// What the kernel sums products of `element()` in.
  mlir::Type accumulator() {
    return element().getIntOrFloatBitWidth() < 32 ? mlir::Float32Type::get(lowering_.context())
                                                  : element();
  }
  /// What the kernel writes.
  mlir::Type written() { return plain_ ? element() : elementOf(fusion_.getResult(0)); }
  /// Whether the kernel is a library's that puts its work on a device's queue and gets operands as
  /// those of CUDA do. Kernels of a plug-in's device get them as on a CPU.
  bool runsOnQueue() {
    const Target& target = targetNamedBy(lowering_.target());
    return target.hasQueue() && !target.sharesWithHost() && spec_.family.empty();
  }

  /// The epilogue operands as buffers of the result's extents (strides 0 where broadcast).
  void bindEpilogue();

  /// Copies epilogue operand `i` to memory laid out as `strides`.
  void materialise(size_t i, const Exprs& strides);

  void addEpilogueBody();

  mlir::Attribute epilogueStrideAttribute(llvm::ArrayRef<Exprs> rows);

  /// Whether the kernel can run the epilogue. Kernels take up to four operands beside the
  /// accumulator and write one result. On a device these may have any type, since an epilogue works
  /// on scalars there. On a CPU they have the kernel's element type; where that is float32 also
  /// 16-bit floats, where it is int32 any type of 8 to 32 bits.
  bool epilogueFits();
  static mlir::Type elementOf(mlir::Value tensor) {
    return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
  }

  /// The contraction with its bias alone, then an elementwise kernel for the rest.
  mlir::LogicalResult lowerInTwo();
  /// The place that the contraction's own result is to be written to.
  mlir::Value wantedPlace() {
    return plain_ ? plainResult_ : lowering_.destination(fusion_.getResult(0));
  }

  // --- packing

  /// The weight in the kernel's own layout: made in prepare when the weight is known then, per call
  /// otherwise. One pack serves every launch that wants the same layout of the same weight.
  mlir::Value pack(mlir::Value weight, KernelSpec packing, const Exprs& packedExtents);

  static std::string weightName(mlir::Value weight);

  mlir::AffineExpr ceilDiv(mlir::AffineExpr value, int64_t by) {
    return (value + (by - 1)).floorDiv(by);
  }

  // --- linear

  /// Buffer and row stride of a [.., k] operand whose leading dims are one loop; copied when they
  /// are not.
  std::pair<mlir::Value, mlir::AffineExpr> collapseRows(mlir::Value buffer, llvm::StringRef why);

  mlir::LogicalResult lowerLinear();

  /// A linear as one product with its weight [n, k] as it is stored, read as [k, n].
  mlir::LogicalResult finishAsMatmul(
      llvm::ArrayRef<mlir::AffineExpr> size, std::pair<mlir::Value, mlir::AffineExpr> x,
      mlir::Value weight,
      const std::pair<std::pair<mlir::Value, mlir::AffineExpr>, mlir::Value>& result,
      llvm::ArrayRef<Exprs> epilogueRows);

  /// Where the kernel writes: the wanted place when its rows are one stride apart, else memory of
  /// its own that is copied.
  std::pair<std::pair<mlir::Value, mlir::AffineExpr>, mlir::Value> resultPlace();

  /// "_bias_relu": what the epilogue does, for the kernel's name.
  std::string suffix() { return (epilogueBias() ? "_bias" : "") + elementwiseNames(); }
  /// "_relu": the same without the bias.
  std::string elementwiseNames();

  /// Sets the tunable `early` of a kernel that has one (LoweringContext::earliness), for its B.
  void setEarly(mlir::Value b);
  mlir::LogicalResult finish(mlir::Value a, mlir::Value b, mlir::Value out, mlir::Value wanted);

  // --- external libraries

  /// A product by a library on a device's queue: with any strides of which one is 1, the bias of a
  /// linear, and one activation.
  mlir::LogicalResult lowerProductOnQueue();

  /// The activation that the library applies to its product, one of the epilogues of its
  /// description; "" if the epilogue is empty; nullopt if the library cannot apply all of the
  /// epilogue.
  std::optional<llvm::StringRef> libraryActivation();
  /// Adds the attribute that names it.
  void tellActivation(llvm::StringRef name,
                      llvm::SmallVectorImpl<mlir::NamedAttribute>& attributes);

  /// A convolution by a library on a device's queue: dense and channels last, with bias, residual
  /// and ReLU.
  mlir::LogicalResult lowerConvolutionOnQueue();

  /// The epilogue after the bias as relu(y + residual), of which ReLU, residual or both may be
  /// missing. `isAll` is false if it has any other op.
  struct AddAndRelu {
    bool isAll = false, hasRelu = false;
    mlir::Value residual;  ///< argument of the fusion, of the type of the result
  };
  AddAndRelu addAndRelu();
  /// The buffer that the library adds to a linear, where this is the whole epilogue and both it and
  /// the result are row-major; else null.
  mlir::Value denseResidual();

  bool isDenseChannelsLast(kernel::BufferType type);
  /// The buffer, or a copy of it.
  mlir::Value denseChannelsLast(mlir::Value buffer, llvm::StringRef why);
  /// A bias of `count` zeros, of the convolution's type; made in prepare, once for all
  /// convolutions.
  mlir::Value zeroBias(mlir::AffineExpr count);

  /// The buffer, or a dense copy where neither of its last two dims lies densely.
  mlir::Value withUnitStride(mlir::Value buffer);

  /// Notes the strides of an operand of a batched product, whose leading dims are one loop; copied
  /// when they are not.
  mlir::Value putBatched(llvm::StringRef name, mlir::Value buffer,
                         llvm::SmallVectorImpl<mlir::NamedAttribute>& attributes);

  mlir::LogicalResult lowerExternal();
  mlir::LogicalResult lowerExternalConvolution();
  /// Of op "matmul": dense [.., m, k] and [.., k, n], and the bias of a linear whose weight is
  /// computed while running.
  mlir::LogicalResult lowerExternalProduct();
  /// libraryActivation() of a kernel on the host: none that wants a bias, where there is none.
  std::optional<llvm::StringRef> hostActivation();
  /// What is left behind the call of a kernel on the host that wrote `whole`: nothing, a copy to
  /// `wanted`, or if that is null the rest of the fusion.
  void finishExternal(mlir::Value whole, mlir::Value wanted);

  /// The buffer of a value known before the first run; when its elements do not lie densely, a
  /// dense copy made in prepare.
  mlir::Value denseConstant(mlir::Value tensor);
  static constexpr llvm::StringLiteral kDense = "the library takes dense rows";

  /// New storage that prepare fills, named after `tensor`.
  mlir::Value preparedBuffer(mlir::Value tensor, llvm::StringRef suffix, kernel::BufferType type) {
    return lowering_.preparedBuffer(fusion_.getLoc(), type, weightName(tensor) + suffix.str());
  }

  /// `constants`: those at the end of `inputs` that the plan reads.
  void callLibrary(llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Value> constants,
                   mlir::Value out, llvm::ArrayRef<mlir::NamedAttribute> attributes);

  /// The epilogue beyond the bias as an elementwise kernel.
  void launchRest(mlir::Value from);

  // --- matmul (also a linear whose weight is computed while running)

  mlir::LogicalResult lowerMatmul();

  /// a[.., m, k], b[.., k, n] and c[.., m, n] as the kernel reads and writes them, with at least
  /// two dims each.
  struct MatmulOperands {
    mlir::Value a, b, out, wanted;
    mlir::AffineExpr k;
    Exprs extents;  ///< of c
    Exprs aStrides, bStrides, outStrides;
    mlir::AffineExpr items;         ///< how many products
    llvm::SmallVector<Loop> batch;  ///< three loops; strides of a, b, c and the epilogue operands
    llvm::SmallVector<Exprs> epilogueRows;  ///< [b0, b1, b2, m, n]
  };
  void bindMatmul(MatmulOperands& operands);
  mlir::LogicalResult mergeBatch(MatmulOperands& operands);

  /// A product with one row (m = 1) or one column (n = 1).
  mlir::LogicalResult finishAsMatvec(const MatmulOperands& operands);

  /// Copies what matvec cannot read where it lies: a vector that is not dense, a matrix dense along
  /// neither side.
  void makeDenseForMatvec(mlir::Value& a, mlir::Value& b);

  // --- convolution

  /// A [n, c, h, w] buffer with channels contiguous and at least this border; copied to one when it
  /// is not.
  mlir::Value channelsLast(mlir::Value buffer, llvm::ArrayRef<int64_t> need);

  /// 1-D convolutions are 2-D ones of height 1.
  mlir::Value as2d(mlir::Value buffer);

  mlir::LogicalResult lowerConvolution();
  /// Where the kernel writes, channels last: `out` when it is, else memory of its own. Brings the
  /// epilogue operands to the same order.
  mlir::Value channelsLastResult(mlir::Value out);
  void putConvolutionSizes(const ConvolutionGeometry& g, mlir::Value in, mlir::Value out);
  void putConvolutionStrides(const ConvolutionGeometry& g, mlir::Value in, mlir::Value weight,
                             mlir::Value out);

  mlir::Value packConvolution(mlir::Value weight, const ConvolutionGeometry& g, mlir::Value in);

  /// The number of channels, rounded up to whole pieces of 16 bytes, which the tiles of a device
  /// load at once; channels beyond the image's own are zeros.
  int64_t wholePieces(const ConvolutionGeometry& g);

  /// Strides over `extents`, [n, channels, ...], with the channels innermost.
  Exprs channelsInnermost(const Exprs& extents);

  /// Copies `from` to `to`, which may have more channels: zeros.
  void copyChannels(mlir::Value from, mlir::Value to, llvm::StringRef op, llvm::StringRef why);

  mlir::Value paddedImage(mlir::Value image, int64_t channels);

  /// The weight as [k][kh][kw][c], which the tiles of a device read along.
  mlir::Value channelsLastWeight(mlir::Value weight, const ConvolutionGeometry& g);

  /// A depthwise weight as [kh][kw][k], where it is known early and channels of `in` lie side by
  /// side; else as it is.
  mlir::Value tapsFirstWeight(mlir::Value weight, mlir::Value in);

  /// The weight in another order: once in prepare where it is known early, else by a copy.
  mlir::Value reorderedWeight(mlir::Value weight, kernel::BufferType wanted, llvm::StringRef suffix,
                              llvm::StringRef why);

  /// Strides of the weight as convolution_direct names its dims: group, output, input, kh, kw.
  Exprs directWeightStrides(mlir::Value weight, const ConvolutionGeometry& g);

  LoweringContext& lowering_;
  op::FusionOp fusion_;
  Problem problem_;
  mlir::Operation* root_;
  const sl_kernel_desc* kernel_ = nullptr;
  Exprs extents_;
  mlir::AffineMap identity_;
  llvm::SmallVector<Access> accesses_;
  llvm::SmallVector<mlir::Value> epilogueBuffers_;
  llvm::SmallVector<Exprs> epilogueStrides_;
  KernelSpec spec_;
  bool plain_ = false;  ///< only the contraction and its bias are being lowered
  mlir::Value plainResult_;
};

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_CONTRACTION_H
