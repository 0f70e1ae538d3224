// SPDX-License-Identifier: Apache-2.0
// Verifiers of the family "reduction".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::failure;
using mlir::success;
using mlir::Value;
using Extents = ExtentSpace::Extents;

llvm::LogicalResult verifyReduction(mlir::Operation* operation, mlir::Type resultElements) {
  auto reduction = llvm::cast<ReductionOpInterface>(operation);
  ExtentSpace space;
  const Extents from = space.of(operation->getOperand(0));
  const mlir::Type elements =
      llvm::cast<mlir::RankedTensorType>(operation->getOperand(0).getType()).getElementType();
  if (llvm::isa<MeanOp>(operation) && !llvm::isa<mlir::FloatType>(elements)) {
    return opError(operation) << "x has elements " << elements
                              << " but floats are needed (reduce_c4)";
  }
  const llvm::SmallVector<int64_t> dims = reduction.getReducedDims();
  if (dims.empty() && !from.empty()) {
    return opError(operation) << "no dims of " << from.size() << " are named (reduce_c1)";
  }
  for (auto [place, dim] : llvm::enumerate(dims)) {
    const bool scalarDim = from.empty() && dim == 0;  // ATen allows dim 0 of a scalar
    if (!scalarDim && failed(verifyDim(operation, dim, from.size(), "reduce_c1"))) {
      return failure();
    }
    if (place > 0 && dims[place - 1] >= dim) {
      return opError(operation) << "dim " << dim << " follows dim " << dims[place - 1]
                                << " in dims (reduce_c1)";
    }
  }
  Extents expected;
  for (auto [dim, extent] : llvm::enumerate(from)) {
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim))) {
      expected.push_back(extent);
    } else if (reduction.keepsReducedDims()) {
      expected.push_back(mlir::getAffineConstantExpr(1, operation->getContext()));
    }
  }
  if (failed(verifyElements(operation, operation->getResult(0), "the result", resultElements,
                            "reduce_c3"))) {
    return failure();
  }
  return verifyExtents(operation, space, "the result", space.of(operation->getResult(0)), expected,
                       "reduce_c2");
}

namespace {

/// The result has the first operand's extents and elements.
llvm::LogicalResult verifySameAsX(mlir::Operation* operation, llvm::StringRef constraint) {
  ExtentSpace space;
  const Value x = operation->getOperand(0), result = operation->getResult(0);
  const mlir::Type element = llvm::cast<mlir::RankedTensorType>(x.getType()).getElementType();
  const Extents from = space.of(x);
  if (failed(verifyElements(operation, result, "the result", element, constraint))) {
    return failure();
  }
  return verifyExtents(operation, space, "the result", space.of(result), from, constraint);
}

/// Optional operand: its extents are `expected` and its elements those of x.
llvm::LogicalResult verifyAffine(mlir::Operation* operation, ExtentSpace& space, Value value,
                                 llvm::StringRef name, llvm::ArrayRef<AffineExpr> expected,
                                 mlir::Type element, llvm::StringRef constraint) {
  if (!value) {
    return success();
  }
  if (failed(verifyElements(operation, value, name, element, constraint))) {
    return failure();
  }
  return verifyExtents(operation, space, name, space.of(value), expected, constraint);
}

llvm::LogicalResult verifyRank(mlir::Operation* operation, int64_t normalized, int64_t rank,
                               llvm::StringRef constraint) {
  if (normalized >= 1 && normalized <= rank) {
    return success();
  }
  return opError(operation) << "normalized_rank is " << normalized << " but x has rank " << rank
                            << " (" << constraint << ")";
}

llvm::SmallVector<int64_t> lastDims(int64_t rank, int64_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
}

}  // namespace

llvm::LogicalResult verifyRowMap(mlir::Operation* operation) {
  const int64_t dim = operation->getAttrOfType<mlir::IntegerAttr>("dim").getInt();
  const int64_t rank =
      llvm::cast<mlir::RankedTensorType>(operation->getOperand(0).getType()).getRank();
  if (!(rank == 0 && dim == 0) && failed(verifyDim(operation, dim, rank, "row_c1"))) {
    return failure();
  }
  return verifySameAsX(operation, "row_c2");
}

llvm::LogicalResult CumsumOp::verify() { return verifyRowMap(*this); }

llvm::LogicalResult TopkOp::verify() {
  ExtentSpace space;
  Extents expected = space.of(getX());
  const auto dim = static_cast<int64_t>(getDim()), k = static_cast<int64_t>(getK());
  if (failed(verifyDim(*this, dim, expected.size(), "topk_c1"))) {
    return failure();
  }
  const std::optional<int64_t> extent = symbolic::constantValue(expected[dim]);
  if (k != -1 && (k < 1 || (extent && k > *extent))) {
    return opError(*this) << "k is " << k << " but x has " << space.print(expected[dim])
                          << " elements along dim " << dim << " (topk_c2)";
  }
  if (k != -1) {
    expected[dim] = mlir::getAffineConstantExpr(k, getContext());
  }
  if (failed(verifyExtents(*this, space, "values", space.of(getValues()), expected, "topk_c3")) ||
      failed(verifyExtents(*this, space, "indices", space.of(getIndices()), expected, "topk_c3")) ||
      failed(verifyElements(*this, getValues(), "values", getX().getType().getElementType(),
                            "topk_c4"))) {
    return failure();
  }
  return verifyElements(*this, getIndices(), "indices", mlir::IntegerType::get(getContext(), 64),
                        "topk_c4");
}

llvm::LogicalResult LayerNormOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t rank = getNormalizedRank();
  if (failed(verifyRank(*this, rank, from.size(), "layer_norm_c1"))) {
    return failure();
  }
  const llvm::ArrayRef<AffineExpr> row = llvm::ArrayRef<AffineExpr>(from).take_back(rank);
  const mlir::Type element = getX().getType().getElementType();
  if (failed(verifyAffine(*this, space, getWeight(), "weight", row, element, "layer_norm_c2")) ||
      failed(verifyAffine(*this, space, getBias(), "bias", row, element, "layer_norm_c2"))) {
    return failure();
  }
  return verifySameAsX(*this, "layer_norm_c3");
}

llvm::SmallVector<int64_t> LayerNormOp::getReducedDims() {
  return lastDims(getX().getType().getRank(), getNormalizedRank());
}
bool LayerNormOp::keepsShape() { return true; }
bool LayerNormOp::keepsReducedDims() { return true; }
llvm::StringRef LayerNormOp::getCombineKind() { return mnemonicOf(*this); }

llvm::LogicalResult RmsNormOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t rank = getNormalizedRank();
  if (failed(verifyRank(*this, rank, from.size(), "rms_norm_c1")) ||
      failed(verifyAffine(*this, space, getWeight(), "weight",
                          llvm::ArrayRef<AffineExpr>(from).take_back(rank),
                          getX().getType().getElementType(), "rms_norm_c2"))) {
    return failure();
  }
  return verifySameAsX(*this, "rms_norm_c3");
}

llvm::SmallVector<int64_t> RmsNormOp::getReducedDims() {
  return lastDims(getX().getType().getRank(), getNormalizedRank());
}
bool RmsNormOp::keepsShape() { return true; }
bool RmsNormOp::keepsReducedDims() { return true; }
llvm::StringRef RmsNormOp::getCombineKind() { return mnemonicOf(*this); }

llvm::LogicalResult GroupNormOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t groups = getGroups();
  if (from.size() < 2) {
    return opError(*this) << "x has rank " << from.size()
                          << " but at least 2 is needed (group_norm_c1)";
  }
  const std::optional<int64_t> channels = symbolic::constantValue(from[1]);
  if (!channels || groups < 1 || *channels % groups != 0) {
    return opError(*this) << "x has " << space.print(from[1]) << " channels, which " << groups
                          << " groups do not divide (group_norm_c1)";
  }
  const mlir::Type element = getX().getType().getElementType();
  if (failed(
          verifyAffine(*this, space, getWeight(), "weight", from[1], element, "group_norm_c2")) ||
      failed(verifyAffine(*this, space, getBias(), "bias", from[1], element, "group_norm_c2"))) {
    return failure();
  }
  return verifySameAsX(*this, "group_norm_c3");
}

llvm::LogicalResult BatchNormOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  if (from.size() < 2) {
    return opError(*this) << "x has rank " << from.size()
                          << " but at least 2 is needed (batch_norm_c1)";
  }
  const mlir::Type element = getMean().getType().getElementType();
  for (auto [value, name] : {std::pair<Value, llvm::StringRef>(getWeight(), "weight"),
                             {getBias(), "bias"},
                             {getMean(), "mean"},
                             {getVar(), "var"}}) {
    if (failed(verifyAffine(*this, space, value, name, from[1], element, "batch_norm_c2"))) {
      return failure();
    }
  }
  return verifySameAsX(*this, "batch_norm_c3");
}

}  // namespace straightline::op
