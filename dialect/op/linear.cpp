// SPDX-License-Identifier: Apache-2.0
// Verifiers of the family "linear".
#include "dialect/op/op_verify.h"
#include "mlir/IR/PatternMatch.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::failure;
using mlir::success;
using mlir::Value;
using Extents = ExtentSpace::Extents;

static bool isStoredNarrow(Value weight) {
  const mlir::Type element = llvm::cast<mlir::RankedTensorType>(weight.getType()).getElementType();
  return element.isBF16() || element.isF16() || element.isSignlessInteger(8);
}

/// Whether the elements of x and weight are those of a product of 8-bit integers.
static bool isOfBytes(LinearOp op) {
  return op.getX().getType().getElementType().isSignlessInteger(8) &&
         op.getWeight().getType().getElementType().isSignlessInteger(8);
}

llvm::LogicalResult LinearOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), weight = space.of(getWeight());
  if (x.empty() || weight.size() != 2) {
    return opError(*this) << "x has rank " << x.size() << " and weight rank " << weight.size()
                          << " but at least 1 and 2 are needed (linear_c2)";
  }
  if (!space.equal(x.back(), weight[1])) {
    return opError(*this) << "x has " << space.print(x.back()) << " features but weight has "
                          << space.print(weight[1]) << " (linear_c1)";
  }
  const bool pairs = getResult().getType().getElementType().isF32() &&
                     getX().getType().getElementType().isBF16() &&
                     getWeight().getType().getElementType().isBF16();
  const mlir::Type element = isOfBytes(*this) ? mlir::IntegerType::get(getContext(), 32)
                             : pairs          ? getResult().getType().getElementType()
                                              : getX().getType().getElementType();
  if (isOfBytes(*this) && getBias()) {
    return opError(*this) << "bias is of " << getBias().getType()
                          << " but x and weight of i8 have none (linear_c6)";
  }
  for (auto [value, name] : {std::pair<Value, llvm::StringRef>(getWeight(), "weight"),
                             {getBias(), "bias"},
                             {getResult(), "the result"}}) {
    if (value == getWeight() &&
        (isOfBytes(*this) || (element.isF32() && isStoredNarrow(getWeight())))) {
      continue;
    }
    if (failed(verifyElements(*this, value, name, element, "linear_c5"))) {
      return failure();
    }
  }
  if (getBias() &&
      failed(verifyExtents(*this, space, "bias", space.of(getBias()), weight[0], "linear_c3"))) {
    return failure();
  }
  Extents expected = x;
  expected.back() = weight[0];
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected, "linear_c4");
}

llvm::LogicalResult MatmulOp::verify() {
  ExtentSpace space;
  const Extents a = space.of(getA()), b = space.of(getB());
  const llvm::ArrayRef<AffineExpr> batchA =
      llvm::ArrayRef<AffineExpr>(a).drop_back(std::min<size_t>(2, a.size()));
  const llvm::ArrayRef<AffineExpr> batchB =
      llvm::ArrayRef<AffineExpr>(b).drop_back(std::min<size_t>(2, b.size()));
  if (a.size() < 2 || a.size() != b.size() || !space.equal(batchA, batchB)) {
    return opError(*this)
           << "a has extents " << space.print(a) << " and b " << space.print(b)
           << ": equal ranks of at least 2 and equal leading extents are needed (matmul_c2)";
  }
  if (!space.equal(a.back(), b[b.size() - 2])) {
    return opError(*this) << "a has k = " << space.print(a.back())
                          << " but b has k = " << space.print(b[b.size() - 2]) << " (matmul_c1)";
  }
  const mlir::Type element = getA().getType().getElementType();
  const mlir::Type summed = getResult().getType().getElementType();
  // as select_kernels has it for a kernel that reads them so
  const bool pairs = summed.isF32() && element.isBF16();
  if (failed(verifyElements(*this, getB(), "b", element, "matmul_c4")) ||
      failed(verifyElements(*this, getResult(), "the result", pairs ? summed : element,
                            "matmul_c4"))) {
    return failure();
  }
  Extents expected = a;
  expected.back() = b.back();
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected, "matmul_c3");
}

llvm::LogicalResult GroupedMatmulOp::verify() {
  ExtentSpace space;
  const Extents a = space.of(getA()), b = space.of(getB()), ends = space.of(getEnds());
  if (a.size() != 2 || (b.size() != 2 && b.size() != 3) || ends.size() != 1) {
    return opError(*this) << "a has rank " << a.size() << ", b " << b.size() << " and ends "
                          << ends.size() << " but 2, 2 or 3, and 1 are needed (grouped_matmul_c1)";
  }
  const bool ofRows = b.size() == 3;
  const mlir::AffineExpr terms = b[b.size() - 2], columns = b.back();
  if (!space.equal(a[1], terms)) {
    return opError(*this) << "a has k = " << space.print(a[1])
                          << " but b has k = " << space.print(terms) << " (grouped_matmul_c2)";
  }
  const mlir::Type element = getA().getType().getElementType();
  if ((ofRows && failed(verifyExtents(*this, space, "ends", ends, b[0], "grouped_matmul_c3"))) ||
      failed(verifyElements(*this, getB(), "b", element, "grouped_matmul_c5")) ||
      failed(verifyElements(*this, getResult(), "the result", element, "grouped_matmul_c5"))) {
    return failure();
  }
  const Extents wanted = ofRows ? Extents{a[0], columns} : Extents{ends[0], a[0], columns};
  return verifyExtents(*this, space, "the result", space.of(getResult()), wanted,
                       "grouped_matmul_c4");
}

namespace {

/// Leading extents of q against k or v: equal, but for the head dim (third from the end), which may
/// divide q's.
bool headsMatch(const ExtentSpace& space, llvm::ArrayRef<AffineExpr> q,
                llvm::ArrayRef<AffineExpr> other) {
  for (size_t dim = 0; dim + 2 < q.size(); ++dim) {
    const std::optional<int64_t> h = symbolic::constantValue(q[dim]),
                                 g = symbolic::constantValue(other[dim]);
    const bool grouped = dim + 3 == q.size() && h && g && *g != 0 && *h % *g == 0;
    if (!grouped && !space.equal(q[dim], other[dim])) {
      return false;
    }
  }
  return true;
}

llvm::LogicalResult verifyMask(ScaledDotProductAttentionOp op, ExtentSpace& space,
                               llvm::ArrayRef<AffineExpr> scores) {
  if (!op.getMask()) {
    return success();
  }
  const Extents mask = space.of(op.getMask());
  bool fits = mask.size() <= scores.size();
  for (size_t back = 1; fits && back <= mask.size(); ++back) {
    const AffineExpr extent = mask[mask.size() - back];
    fits = extent == 1 || space.equal(extent, scores[scores.size() - back]) ||
           (back == 4 && op.getMaskPeriod());
  }
  const mlir::Type element = op.getMask().getType().getElementType();
  if (!fits || (!element.isInteger(1) && element != op.getQ().getType().getElementType())) {
    return opError(op) << "mask has extents " << space.print(mask) << " of " << element
                       << " but the scores " << space.print(scores) << " of "
                       << op.getQ().getType().getElementType()
                       << " (scaled_dot_product_attention_c4)";
  }
  return success();
}

}  // namespace

std::optional<int64_t> ScaledDotProductAttentionOp::getMaskPeriod() {
  ExtentSpace space;
  const Extents q = space.of(getQ()), mask = getMask() ? space.of(getMask()) : Extents();
  if (q.size() != 4 || mask.size() != 4) {
    return std::nullopt;
  }
  const std::optional<int64_t> images = symbolic::constantValue(mask[0]);
  const bool repeats = images && *images > 1 && mask[0] != q[0] && q[0].isMultipleOf(*images);
  return repeats ? images : std::nullopt;
}

llvm::LogicalResult ScaledDotProductAttentionOp::verify() {
  ExtentSpace space;
  const Extents q = space.of(getQ()), k = space.of(getK()), v = space.of(getV());
  const size_t rank = q.size();
  if (rank < 2 || k.size() != rank || v.size() != rank || !headsMatch(space, q, k) ||
      !headsMatch(space, q, v) ||
      !space.equal(llvm::ArrayRef<AffineExpr>(k).drop_back(2),
                   llvm::ArrayRef<AffineExpr>(v).drop_back(2))) {
    return opError(*this) << "q has extents " << space.print(q) << ", k " << space.print(k)
                          << ", v " << space.print(v) << " (scaled_dot_product_attention_c2)";
  }
  if (!space.equal(q.back(), k.back())) {
    return opError(*this) << "q has e = " << space.print(q.back())
                          << " but k has e = " << space.print(k.back())
                          << " (scaled_dot_product_attention_c1)";
  }
  if (!space.equal(k[rank - 2], v[rank - 2])) {
    return opError(*this) << "k has s = " << space.print(k[rank - 2])
                          << " but v has s = " << space.print(v[rank - 2])
                          << " (scaled_dot_product_attention_c3)";
  }
  const mlir::Type element = getQ().getType().getElementType();
  for (auto [value, name] : {std::pair<Value, llvm::StringRef>(getK(), "k"),
                             {getV(), "v"},
                             {getResult(), "the result"}}) {
    if (failed(verifyElements(*this, value, name, element, "scaled_dot_product_attention_c6"))) {
      return failure();
    }
  }
  Extents scores = q, expected = q;
  scores.back() = k[rank - 2];
  expected.back() = v.back();
  if (failed(verifyMask(*this, space, scores))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected,
                       "scaled_dot_product_attention_c5");
}

namespace {

/// x [.., g, s, e], where `heads` [.., g * n, s, e] has each head of x n times, one behind the
/// other: heads = reshape(expand(reshape(x) [.., g, 1, s, e]) [.., g, n, s, e]). Null: it has not.
Value repeatedHeads(Value heads) {
  auto joined = heads.getDefiningOp<ReshapeOp>();
  auto repeated = joined ? joined.getX().getDefiningOp<ExpandOp>() : ExpandOp();
  auto single = repeated ? repeated.getX().getDefiningOp<ReshapeOp>() : ReshapeOp();
  if (!single) {
    return {};
  }
  ExtentSpace space;
  const Extents all = space.of(heads), times = space.of(repeated.getResult()),
                once = space.of(single.getResult()), own = space.of(single.getX());
  const size_t rank = all.size();
  if (rank < 3 || own.size() != rank || once.size() != rank + 1 || times.size() != rank + 1) {
    return {};
  }
  Extents wanted = own;
  wanted.insert(wanted.begin() + (rank - 2), mlir::getAffineConstantExpr(1, heads.getContext()));
  if (!space.equal(once, wanted)) {
    return {};
  }
  wanted[rank - 2] = times[rank - 2];
  Extents joinedExtents = own;
  joinedExtents[rank - 3] = own[rank - 3] * times[rank - 2];
  return space.equal(times, wanted) && space.equal(all, joinedExtents) ? single.getX() : Value();
}

/// Keys and values whose heads were repeated for the queries (`repeat_kv` of transformers) are read
/// as they were: attention repeats them itself, without a copy.
struct UnrepeatedHeads : mlir::OpRewritePattern<ScaledDotProductAttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(ScaledDotProductAttentionOp attention,
                                      mlir::PatternRewriter& rewriter) const override {
    const Value k = repeatedHeads(attention.getK()), v = repeatedHeads(attention.getV());
    ExtentSpace space;
    if (!k || !v) {
      return rewriter.notifyMatchFailure(attention, "keys or values are not repeated by heads");
    }
    const Extents q = space.of(attention.getQ()), keys = space.of(k), values = space.of(v);
    const size_t head = q.size() - 3;
    if (!headsMatch(space, q, keys) || !space.equal(keys[head], values[head])) {
      return rewriter.notifyMatchFailure(attention, "the number of heads is named, or differs");
    }
    rewriter.modifyOpInPlace(attention, [&] {
      attention.getKMutable().assign(k);
      attention.getVMutable().assign(v);
    });
    return success();
  }
};

}  // namespace

void ScaledDotProductAttentionOp::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns,
                                                              mlir::MLIRContext* context) {
  patterns.add<UnrepeatedHeads>(context);
}

}  // namespace straightline::op
