// SPDX-License-Identifier: Apache-2.0
// Verifiers and folders of the family "shape".
#include "dialect/op/canonicalize.h"
#include "dialect/op/op_verify.h"
#include "llvm/ADT/SmallBitVector.h"
#include "mlir/IR/PatternMatch.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::failure;
using mlir::OpFoldResult;
using mlir::success;
using mlir::Value;
using Extents = ExtentSpace::Extents;

namespace {

/// Constraint numbers of a family member: `(NAME_cN)`.
std::string numbered(mlir::Operation* operation, int number) {
  return (mnemonicOf(operation) + "_c" + llvm::Twine(number)).str();
}

/// All operands but indices have the result's element type: constraint 1 of the family.
llvm::LogicalResult verifyMoved(mlir::Operation* operation, mlir::ValueRange moved) {
  const mlir::Type expected =
      llvm::cast<mlir::RankedTensorType>(operation->getResult(0).getType()).getElementType();
  for (Value value : moved) {
    if (failed(verifyElements(operation, value, "an operand", expected, numbered(operation, 1)))) {
      return failure();
    }
  }
  return success();
}

llvm::LogicalResult verifyStep(mlir::Operation* operation, int64_t step) {
  if (step > 0) {
    return success();
  }
  return opError(operation) << "step is " << step << " but must be at least 1 ("
                            << numbered(operation, 3) << ")";
}

llvm::LogicalResult verifyIndex(mlir::Operation* operation, const ExtentSpace& space,
                                AffineExpr extent, int64_t index) {
  std::optional<int64_t> size = symbolic::constantValue(extent);
  if (!size || (index >= -*size && index < *size)) {
    return success();
  }
  return opError(operation) << "index " << index << " is outside extent " << space.print(extent)
                            << " (" << numbered(operation, 3) << ")";
}

Extents without(llvm::ArrayRef<AffineExpr> extents, int64_t dim) {
  Extents result(extents);
  result.erase(result.begin() + dim);
  return result;
}

Extents with(llvm::ArrayRef<AffineExpr> extents, int64_t dim, AffineExpr extent) {
  Extents result(extents);
  result[dim] = extent;
  return result;
}

/// Distinct dims of a tensor of this rank; constraint 2 of the family.
llvm::LogicalResult verifyDistinct(mlir::Operation* operation, llvm::ArrayRef<int64_t> dims,
                                   int64_t rank) {
  llvm::SmallBitVector seen(rank);
  for (int64_t dim : dims) {
    if (failed(verifyDim(operation, dim, rank, numbered(operation, 2)))) {
      return failure();
    }
    if (seen.test(dim)) {
      return opError(operation) << "dim " << dim << " stands twice in [" << dims << "] ("
                                << numbered(operation, 2) << ")";
    }
    seen.set(dim);
  }
  return success();
}

}  // namespace

llvm::LogicalResult ExpandOp::verify() {
  if (failed(verifyMoved(*this, getX()))) {
    return failure();
  }
  ExtentSpace space;
  const Extents from = space.of(getX()), to = space.of(getResult());
  if (from.size() > to.size()) {
    return opError(*this) << "x has rank " << from.size() << " but the result " << to.size()
                          << " (expand_c2)";
  }
  for (auto [a, b] : llvm::zip(from, llvm::drop_begin(to, to.size() - from.size()))) {
    if (a != 1 && !space.equal(a, b)) {
      return opError(*this) << "x has extents " << space.print(from) << ", which do not expand to "
                            << space.print(to) << " (expand_c3)";
    }
  }
  return success();
}

llvm::LogicalResult ReshapeOp::verify() {
  if (failed(verifyMoved(*this, getX()))) {
    return failure();
  }
  ExtentSpace space;
  const Extents from = space.of(getX()), to = space.of(getResult());
  if (space.equalProducts(from, to)) {
    return success();
  }
  return opError(*this) << "x has extents " << space.print(from) << " but the result "
                        << space.print(to) << ": not equally many elements (reshape_c2)";
}

llvm::LogicalResult PermuteOp::verify() {
  if (failed(verifyMoved(*this, getX()))) {
    return failure();
  }
  ExtentSpace space;
  const Extents from = space.of(getX());
  if (getDims().size() != from.size()) {
    return opError(*this) << "x has rank " << from.size() << " but " << getDims().size()
                          << " dims are given (permute_c2)";
  }
  if (failed(verifyDistinct(*this, getDims(), from.size()))) {
    return failure();
  }
  Extents expected;
  for (int64_t dim : getDims()) {
    expected.push_back(from[dim]);
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected, "permute_c3");
}

llvm::LogicalResult SliceOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, getX())) ||
      failed(verifyDim(*this, dim, from.size(), "slice_c2")) ||
      failed(verifyStep(*this, getStep()))) {
    return failure();
  }
  const SliceRange range = sliceRange(from[dim], getStart(), getEnd(), getStep());
  return verifyExtents(*this, space, "the result", space.of(getResult()),
                       with(from, dim, range.length), "slice_c4");
}

llvm::LogicalResult SelectOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, getX())) ||
      failed(verifyDim(*this, dim, from.size(), "select_c2")) ||
      failed(verifyIndex(*this, space, from[dim], getIndex()))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), without(from, dim),
                       "select_c4");
}

llvm::LogicalResult CatOp::verify() {
  if (getTensors().empty()) {
    return opError(*this) << "0 tensors but at least 1 is needed (cat_c4)";
  }
  if (failed(verifyMoved(*this, getTensors()))) {
    return failure();
  }
  ExtentSpace space;
  const int64_t dim = getDim();
  AffineExpr sum = mlir::getAffineConstantExpr(0, getContext());
  const Extents result = space.of(getResult());
  for (Value tensor : getTensors()) {
    const Extents extents = space.of(tensor);
    if (failed(verifyDim(*this, dim, extents.size(), "cat_c2"))) {
      return failure();
    }
    sum = sum + extents[dim];
    if (extents.size() != result.size() || !space.equal(with(extents, dim, result[dim]), result)) {
      return opError(*this) << "a tensor has extents " << space.print(extents) << " but the result "
                            << space.print(result) << " (cat_c3)";
    }
  }
  return verifyExtents(*this, space, "the result", result, with(result, dim, sum), "cat_c3");
}

llvm::LogicalResult FlipOp::verify() {
  if (failed(verifyMoved(*this, getX())) ||
      failed(verifyDistinct(*this, getDims(), getX().getType().getRank()))) {
    return failure();
  }
  ExtentSpace space;
  const Extents from = space.of(getX());
  return verifyExtents(*this, space, "the result", space.of(getResult()), from, "flip_c3");
}

llvm::LogicalResult ConstantPadNdOp::verify() {
  ExtentSpace space;
  Extents expected = space.of(getX());
  llvm::ArrayRef<int64_t> pad = getPad();
  if (failed(verifyMoved(*this, getX()))) {
    return failure();
  }
  if (pad.size() % 2 != 0 || pad.size() > 2 * expected.size()) {
    return opError(*this) << "has " << pad.size() << " widths for rank " << expected.size()
                          << " (constant_pad_nd_c2)";
  }
  for (size_t pair = 0; pair < pad.size() / 2; ++pair) {
    AffineExpr& extent = expected[expected.size() - 1 - pair];
    extent = extent + pad[2 * pair] + pad[2 * pair + 1];
  }
  const mlir::Type element = getType().getElementType();
  if (!isOfKind(getValue(), element)) {
    return opError(*this) << "value " << getValue() << " does not suit elements " << element
                          << " (constant_pad_nd_c4)";
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected,
                       "constant_pad_nd_c3");
}

llvm::LogicalResult CloneOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  if (failed(verifyMoved(*this, getX()))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), from, "clone_c2");
}

llvm::LogicalResult SliceScatterOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, {getX(), getSrc()})) ||
      failed(verifyDim(*this, dim, from.size(), "slice_scatter_c2")) ||
      failed(verifyStep(*this, getStep()))) {
    return failure();
  }
  const SliceRange range = sliceRange(from[dim], getStart(), getEnd(), getStep());
  if (failed(verifyExtents(*this, space, "src", space.of(getSrc()), with(from, dim, range.length),
                           "slice_scatter_c4"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), from, "slice_scatter_c5");
}

llvm::LogicalResult SelectScatterOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, {getX(), getSrc()})) ||
      failed(verifyDim(*this, dim, from.size(), "select_scatter_c2")) ||
      failed(verifyIndex(*this, space, from[dim], getIndex())) ||
      failed(verifyExtents(*this, space, "src", space.of(getSrc()), without(from, dim),
                           "select_scatter_c4"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), from,
                       "select_scatter_c5");
}

llvm::LogicalResult DynamicSliceOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, getX())) ||
      failed(verifyDim(*this, dim, from.size(), "dynamic_slice_c2"))) {
    return failure();
  }
  const AffineExpr length = mlir::getAffineConstantExpr(getLength(), getContext());
  return verifyExtents(*this, space, "the result", space.of(getResult()), with(from, dim, length),
                       "dynamic_slice_c3");
}

llvm::LogicalResult DynamicUpdateSliceOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX()), src = space.of(getSrc());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, {getX(), getSrc()})) ||
      failed(verifyDim(*this, dim, from.size(), "dynamic_update_slice_c2"))) {
    return failure();
  }
  const Extents expected = src.size() == from.size() ? with(from, dim, src[dim]) : from;
  if (failed(verifyExtents(*this, space, "src", src, expected, "dynamic_update_slice_c3"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), from,
                       "dynamic_update_slice_c4");
}

OpFoldResult ExpandOp::fold(FoldAdaptor) {
  if (getX().getType() == getType()) {
    return getX();
  }
  if (auto inner = getX().getDefiningOp<ExpandOp>()) {
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getType()) {
    return getX();
  }
  if (auto inner = getX().getDefiningOp<ReshapeOp>()) {
    getXMutable().assign(inner.getX());
    return getResult();
  }
  return {};
}

OpFoldResult PermuteOp::fold(FoldAdaptor) {
  if (llvm::is_sorted(getDims())) {
    return getX().getType() == getType() ? OpFoldResult(getX()) : OpFoldResult();
  }
  auto inner = getX().getDefiningOp<PermuteOp>();
  if (!inner) {
    return {};
  }
  llvm::SmallVector<int64_t> dims;
  for (int64_t dim : getDims()) {
    dims.push_back(inner.getDims()[dim]);
  }
  setDims(dims);
  getXMutable().assign(inner.getX());
  return getResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  const bool whole = getStep() == 1 && getX().getType() == getType();
  return whole ? OpFoldResult(getX()) : OpFoldResult();
}

OpFoldResult CatOp::fold(FoldAdaptor) {
  const bool alone = getTensors().size() == 1 && getTensors()[0].getType() == getType();
  return alone ? OpFoldResult(getTensors()[0]) : OpFoldResult();
}

namespace {

/// clone(x) -> x where nobody can tell: the clone is no result (values never change, so an alias
/// inside is harmless), or x is a fresh value that is no result itself.
struct InvisibleClone : mlir::OpRewritePattern<CloneOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(CloneOp op, mlir::PatternRewriter& rewriter) const override {
    const bool visible = escapes(op.getResult()) && (!isFresh(op.getX()) || escapes(op.getX()));
    if (visible || op.getX().getType() != op.getType()) {
      return rewriter.notifyMatchFailure(
          op, "a result would become an alias of an input, a parameter or a result");
    }
    rewriter.replaceOp(op, op.getX());
    return success();
  }
};

}  // namespace

void CloneOp::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns,
                                          mlir::MLIRContext* context) {
  patterns.add<InvisibleClone>(context);
}

}  // namespace straightline::op
