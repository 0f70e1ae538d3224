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
using mlir::RankedTensorType;
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

namespace {

/// The length of a slice of a dim that `whole` is the extent of, whose own type says `typed`.
mlir::FailureOr<AffineExpr> sliceLength(mlir::Operation* slice, AffineExpr whole, AffineExpr typed,
                                        int64_t start, int64_t end, int64_t step) {
  if (end != kSliceEndByType) {
    return sliceRange(whole, start, end, step).length;
  }
  const std::optional<int64_t> size = symbolic::constantValue(whole);
  const std::optional<int64_t> length = symbolic::constantValue(typed);
  if (start < 0 || step != 1 || (size && length && start + *length > *size)) {
    return opError(slice) << "a slice whose end its type says begins at " << start << " with step "
                          << step << " and has " << length.value_or(0)
                          << " elements, but must begin at 0 or later, with step 1, and end within "
                             "the dim (slice_c5)";
  }
  return typed;
}

}  // namespace

llvm::LogicalResult SliceOp::verify() {
  ExtentSpace space;
  const Extents from = space.of(getX());
  const int64_t dim = getDim();
  if (failed(verifyMoved(*this, getX())) ||
      failed(verifyDim(*this, dim, from.size(), "slice_c2")) ||
      failed(verifyStep(*this, getStep()))) {
    return failure();
  }
  const Extents to = space.of(getResult());
  const mlir::FailureOr<AffineExpr> length =
      sliceLength(*this, from[dim], to.size() == from.size() ? to[dim] : from[dim], getStart(),
                  getEnd(), getStep());
  return failed(length)
             ? failure()
             : verifyExtents(*this, space, "the result", to, with(from, dim, *length), "slice_c4");
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
    const int64_t before = pad[2 * pair], after = pad[2 * pair + 1];
    const int64_t cut = std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (const auto size = symbolic::constantValue(extent); size && *size + cut < 0) {
      return opError(*this) << "cuts " << -cut << " elements off a dim of " << *size
                            << " (constant_pad_nd_c5)";
    }
    extent = extent + before + after;
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
  const Extents src = space.of(getSrc());
  const mlir::FailureOr<AffineExpr> length =
      sliceLength(*this, from[dim], src.size() == from.size() ? src[dim] : from[dim], getStart(),
                  getEnd(), getStep());
  if (failed(length) || failed(verifyExtents(*this, space, "src", src, with(from, dim, *length),
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
  const Extents to = space.of(getResult());
  const AffineExpr length = getLength() == -1 && to.size() == from.size()
                                ? to[dim]
                                : mlir::getAffineConstantExpr(getLength(), getContext());
  return verifyExtents(*this, space, "the result", to, with(from, dim, length), "dynamic_slice_c3");
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

namespace {

/// A part of a dim: dims of one shape are products of the same parts as those of another shape of
/// the same elements, in the same order.
struct DimPart {
  int64_t extent;
  size_t from, to;  ///< the dims of the two shapes that it is a part of
};

/// The coarsest parts of two static shapes; none where their dims have no common ones. Dims of one
/// element have no part.
std::optional<llvm::SmallVector<DimPart>> commonParts(llvm::ArrayRef<int64_t> a,
                                                      llvm::ArrayRef<int64_t> b) {
  llvm::SmallVector<DimPart> parts;
  size_t i = 0, j = 0;
  int64_t left = 1, right = 1;
  for (;;) {
    while (left == 1 && i < a.size()) {
      left = a[i++];
    }
    while (right == 1 && j < b.size()) {
      right = b[j++];
    }
    if (left == 1 && right == 1) {
      return parts;
    }
    const int64_t part = std::min(left, right);
    if (part <= 1 || std::max(left, right) % part != 0) {
      return std::nullopt;
    }
    parts.push_back({part, i - 1, j - 1});
    left /= part;
    right /= part;
  }
}

/// reshape(permute(reshape(x))), where the first reshape joins dims that the last one takes apart
/// again: only then are all three views whatever the strides of x.
///
///   x [l, n, h * e] -> [l, n * h, e] -> permute [n * h, l, e] -> [n, h, l, e]
///     ->  x -> [l, n, h, e] -> permute [n, h, l, e]
struct NothingJoined : mlir::OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(ReshapeOp last,
                                      mlir::PatternRewriter& rewriter) const override {
    auto permute = last.getX().getDefiningOp<PermuteOp>();
    auto first = permute ? permute.getX().getDefiningOp<ReshapeOp>() : ReshapeOp();
    if (!first) {
      return rewriter.notifyMatchFailure(last, "no reshape of a permuted reshape");
    }
    const auto typeOf = [](Value value) { return llvm::cast<RankedTensorType>(value.getType()); };
    const RankedTensorType own = typeOf(first.getX()), joined = typeOf(first.getResult()),
                           moved = typeOf(permute.getResult()), wanted = last.getType();
    if (!own.hasStaticShape() || !wanted.hasStaticShape() || own.getNumElements() == 0) {
      return rewriter.notifyMatchFailure(last, "named extents, or no elements");
    }
    const auto before = commonParts(own.getShape(), joined.getShape());
    const auto after = commonParts(moved.getShape(), wanted.getShape());
    if (!before || !after) {
      return rewriter.notifyMatchFailure(last, "dims that have no common parts");
    }
    // Parts of each joined dim, as both sides have them together.
    const size_t rank = joined.getShape().size();
    llvm::SmallVector<llvm::SmallVector<int64_t>> given(rank), taken(rank);
    llvm::SmallVector<llvm::SmallVector<size_t>> places(rank);
    bool joins = false;
    for (auto [number, part] : llvm::enumerate(*before)) {
      joins |= number > 0 && (*before)[number - 1].to == part.to &&
               (*before)[number - 1].from != part.from;
      given[part.to].push_back(part.extent);
    }
    for (auto [number, part] : llvm::enumerate(*after)) {
      if (number > 0 && (*after)[number - 1].to == part.to) {
        return rewriter.notifyMatchFailure(last, "the last reshape joins dims as well");
      }
      taken[permute.getDims()[part.from]].push_back(part.extent);
    }
    if (!joins) {
      return rewriter.notifyMatchFailure(last, "the first reshape joins nothing");
    }
    llvm::SmallVector<int64_t> shape;
    for (size_t dim = 0; dim < rank; ++dim) {
      const auto common = commonParts(given[dim], taken[dim]);
      if (!common || common->size() != taken[dim].size()) {
        return rewriter.notifyMatchFailure(last, "a dim stays joined in part");
      }
      for (const DimPart& part : *common) {
        places[dim].push_back(shape.size());
        shape.push_back(part.extent);
      }
    }
    llvm::SmallVector<int64_t> dims, order;
    for (int64_t dim : permute.getDims()) {
      for (size_t place : places[dim]) {
        dims.push_back(static_cast<int64_t>(place));
        order.push_back(shape[place]);
      }
    }
    const mlir::Location loc = last.getLoc();
    const Value apart = ReshapeOp::create(
        rewriter, loc, RankedTensorType::get(shape, own.getElementType()), first.getX());
    const Value turned = PermuteOp::create(
        rewriter, loc, RankedTensorType::get(order, own.getElementType()), apart, dims);
    rewriter.replaceOpWithNewOp<ReshapeOp>(last, wanted, turned);
    return success();
  }
};

}  // namespace

void ReshapeOp::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns,
                                            mlir::MLIRContext* context) {
  patterns.add<NothingJoined>(context);
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

/// What x, a chain of reshapes, is made from.
Value beforeReshapes(Value x) {
  while (auto reshape = x.getDefiningOp<ReshapeOp>()) {
    x = reshape.getX();
  }
  return x;
}

/// clone(x) -> x where nobody can tell: the clone is no result (values never change, so an alias
/// inside is harmless), or x is a fresh value, perhaps reshaped, that is no result itself.
struct InvisibleClone : mlir::OpRewritePattern<CloneOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(CloneOp op, mlir::PatternRewriter& rewriter) const override {
    const Value source = beforeReshapes(op.getX());
    const bool visible = escapes(op.getResult()) && (!isFresh(source) || escapes(source));
    if (visible || op.getX().getType() != op.getType()) {
      return rewriter.notifyMatchFailure(
          op, "a result would become an alias of an input, a parameter or a result");
    }
    rewriter.replaceOp(op, op.getX());
    return success();
  }
};

/// clone(reshape(x)) -> reshape(clone(x)) where x is turned: the reshape is a copy in most cases,
/// and the clone another one.
struct CloneOfTurned : mlir::OpRewritePattern<CloneOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(CloneOp op, mlir::PatternRewriter& rewriter) const override {
    const Value source = beforeReshapes(op.getX());
    if (source == op.getX() || !source.getDefiningOp<PermuteOp>()) {
      return rewriter.notifyMatchFailure(op, "what is cloned is no reshape of a turned tensor");
    }
    const Value copy = CloneOp::create(rewriter, op.getLoc(), source.getType(), source);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), copy);
    return success();
  }
};

}  // namespace

void CloneOp::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns,
                                          mlir::MLIRContext* context) {
  patterns.add<InvisibleClone, CloneOfTurned>(context);
}

}  // namespace straightline::op
