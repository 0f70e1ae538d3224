// SPDX-License-Identifier: Apache-2.0
// Verifiers and folders of the family "elementwise".
#include "dialect/op/canonicalize.h"
#include "dialect/op/op_verify.h"
#include "mlir/IR/Matchers.h"

namespace straightline::op {

using mlir::OpFoldResult;
using mlir::success;
using mlir::Value;

namespace {

/// Whether every element of `value` is this number. -0.0 is not 0.
bool isAll(Value value, double number) {
  mlir::TypedAttr splat = splatOf(value);
  if (auto real = llvm::dyn_cast_if_present<mlir::FloatAttr>(splat)) {
    return real.getValue().bitwiseIsEqual(
        llvm::cast<mlir::FloatAttr>(mlir::FloatAttr::get(real.getType(), number)).getValue());
  }
  auto integer = llvm::dyn_cast_if_present<mlir::IntegerAttr>(splat);
  return integer && !integer.getType().isInteger(1) &&
         integer.getValue() == static_cast<uint64_t>(number);
}

bool isFloat(Value value) { return hasFloatElements(value.getType()); }

}  // namespace

llvm::LogicalResult GeluOp::verify() {
  if (failed(verifySameElements(*this))) {
    return mlir::failure();
  }
  if (getApproximate() == "none" || getApproximate() == "tanh") {
    return success();
  }
  return opError(*this) << "approximate is \"" << getApproximate()
                        << "\" but none or tanh is needed (gelu_c1)";
}

llvm::LogicalResult BitCastOp::verify() {
  const mlir::Type from = getX().getType().getElementType(), to = getType().getElementType();
  const unsigned width = from.getIntOrFloatBitWidth();
  if ((width == 32 || width == 64) && to.getIntOrFloatBitWidth() == width) {
    return success();
  }
  return opError(*this) << "the bits of " << from << " are asked for as " << to
                        << " but two types of 32 or of 64 bits are needed (bit_cast_c1)";
}

llvm::LogicalResult ClampOp::verify() {
  if (failed(verifySameElements(*this))) {
    return mlir::failure();
  }
  const mlir::Type element = getType().getElementType();
  if (!getMinAttr() && !getMaxAttr()) {
    return opError(*this) << "neither min nor max is given for " << element << " (clamp_c1)";
  }
  for (mlir::Attribute bound : {getMinAttr(), getMaxAttr()}) {
    if (bound && !isOfKind(bound, element)) {
      return opError(*this) << "bound " << bound << " does not suit elements " << element
                            << " (clamp_c2)";
    }
  }
  return success();
}

llvm::LogicalResult WhereOp::verify() {
  if (failed(verifyElements(*this, getX(), "x", getType().getElementType(), "where_c1"))) {
    return mlir::failure();
  }
  return verifyElements(*this, getY(), "y", getType().getElementType(), "where_c1");
}

OpFoldResult NegOp::fold(FoldAdaptor) {
  auto inner = getX().getDefiningOp<NegOp>();
  return inner ? ifNoAlias(*this, inner.getX()) : Value();
}

OpFoldResult ReluOp::fold(FoldAdaptor) {
  return getX().getDefiningOp<ReluOp>() ? ifNoAlias(*this, getX()) : Value();
}

OpFoldResult ToDtypeOp::fold(FoldAdaptor) {
  return getX().getType() == getType() ? ifNoAlias(*this, getX()) : Value();
}

// -0.0 + 0.0 is 0.0, so x + 0.0 differs from x in the sign of zero only, which the numeric policy
// allows.
OpFoldResult AddOp::fold(FoldAdaptor) {
  for (auto [kept, zero] :
       {std::pair<Value, Value>(getX(), getY()), std::pair<Value, Value>(getY(), getX())}) {
    if (isAll(zero, 0.0) || (isFloat(zero) && isAll(zero, -0.0))) {
      return ifNoAlias(*this, kept);
    }
  }
  return {};
}

OpFoldResult SubOp::fold(FoldAdaptor) {
  return isAll(getY(), 0.0) ? ifNoAlias(*this, getX()) : Value();
}

// x * 0 stays for floats: NaN and infinity give NaN.
OpFoldResult MulOp::fold(FoldAdaptor) {
  for (auto [kept, other] :
       {std::pair<Value, Value>(getX(), getY()), std::pair<Value, Value>(getY(), getX())}) {
    if (isAll(other, 1.0)) {
      return ifNoAlias(*this, kept);
    }
    if (!isFloat(other) && isAll(other, 0.0)) {
      return ifNoAlias(*this, other);
    }
  }
  return {};
}

OpFoldResult DivOp::fold(FoldAdaptor) {
  return isAll(getY(), 1.0) ? ifNoAlias(*this, getX()) : Value();
}
OpFoldResult MaximumOp::fold(FoldAdaptor) {
  return getX() == getY() ? ifNoAlias(*this, getX()) : Value();
}
OpFoldResult MinimumOp::fold(FoldAdaptor) {
  return getX() == getY() ? ifNoAlias(*this, getX()) : Value();
}
OpFoldResult WhereOp::fold(FoldAdaptor) {
  if (getX() == getY()) {
    return ifNoAlias(*this, getX());
  }
  auto all = llvm::dyn_cast_if_present<mlir::IntegerAttr>(splatOf(getCondition()));
  return all ? ifNoAlias(*this, all.getValue().isZero() ? getY() : getX()) : Value();
}

namespace {

/// pow(x, 2) -> x * x; pow(x, 1) -> x; pow(x, 0.5) stays: sqrt differs from it at -inf and -0.
struct PowOfSmall : mlir::OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(PowOp op, mlir::PatternRewriter& rewriter) const override {
    if (isAll(op.getY(), 1.0) && ifNoAlias(op, op.getX())) {
      rewriter.replaceOp(op, op.getX());
      return success();
    }
    if (isAll(op.getY(), 2.0)) {
      rewriter.replaceOpWithNewOp<MulOp>(op, op.getX(), op.getX());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "the exponent is neither 1 nor 2");
  }
};

}  // namespace

void PowOp::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns,
                                        mlir::MLIRContext* context) {
  patterns.add<PowOfSmall>(context);
}

}  // namespace straightline::op
