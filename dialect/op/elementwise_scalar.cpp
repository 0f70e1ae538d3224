// SPDX-License-Identifier: Apache-2.0
// The scalar meaning of each elementwise op, as PyTorch defines it, in upstream arith and math.
// Printers, lowering and the constant folder all use this and nothing else.
#include <cmath>

#include "dialect/op/op_verify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace straightline::op {

namespace arith = mlir::arith;
namespace math = mlir::math;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using mlir::Location;
using mlir::OpBuilder;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

namespace {

/// Builds scalars of one element type; knows whether integers are unsigned.
class Scalar {
 public:
  Scalar(OpBuilder& builder, Location loc, mlir::Operation* operation, unsigned operand = 0)
      : builder_(builder), loc_(loc) {
    auto tensor = llvm::cast<mlir::RankedTensorType>(operation->getOperand(operand).getType());
    element_ = tensor.getElementType();
    type_ = scalarType(element_);
  }

  bool isFloat() const { return llvm::isa<mlir::FloatType>(type_); }
  bool isUnsigned() const { return element_.isUnsignedInteger() || type_.isInteger(1); }
  Type type() const { return type_; }

  Value number(double value) { return numberOf(type_, value); }
  Value numberOf(Type type, double value) {
    mlir::TypedAttr attribute =
        llvm::isa<mlir::FloatType>(type)
            ? mlir::TypedAttr(builder_.getFloatAttr(type, value))
            : mlir::TypedAttr(builder_.getIntegerAttr(type, static_cast<int64_t>(value)));
    return arith::ConstantOp::create(builder_, loc_, attribute);
  }
  Value attribute(mlir::Attribute value) {
    if (auto real = llvm::dyn_cast<mlir::FloatAttr>(value)) {
      return number(real.getValueAsDouble());
    }
    const llvm::APInt bits = llvm::cast<mlir::IntegerAttr>(value).getValue();
    const unsigned width = type_.getIntOrFloatBitWidth();
    const llvm::APInt fitted =
        bits.getBitWidth() == 1 ? bits.zextOrTrunc(width) : bits.sextOrTrunc(width);
    return arith::ConstantOp::create(builder_, loc_, builder_.getIntegerAttr(type_, fitted));
  }

  template <typename Float, typename Signed, typename Unsigned = Signed>
  Value binary(Value a, Value b) {
    if (isFloat()) {
      return make<Float>(a, b);
    }
    return isUnsigned() ? make<Unsigned>(a, b) : make<Signed>(a, b);
  }
  template <typename Op, typename... Operands>
  Value make(Operands... operands) {
    return Op::create(builder_, loc_, operands...);
  }
  Value add(Value a, Value b) { return binary<arith::AddFOp, arith::AddIOp>(a, b); }
  Value sub(Value a, Value b) { return binary<arith::SubFOp, arith::SubIOp>(a, b); }
  Value mul(Value a, Value b) { return binary<arith::MulFOp, arith::MulIOp>(a, b); }
  Value div(Value a, Value b) { return make<arith::DivFOp>(a, b); }
  /// A quotient in an activation that eager's kernels round differently from each other: a device
  /// may compute it by a reciprocal.
  Value ratio(Value a, Value b) { return make<arith::DivFOp>(a, b, arith::FastMathFlags::arcp); }
  Value exp(Value a) { return make<math::ExpOp>(a); }
  Value neg(Value a) { return isFloat() ? make<arith::NegFOp>(a) : sub(number(0), a); }
  Value select(Value condition, Value a, Value b) { return make<arith::SelectOp>(condition, a, b); }
  Value maximum(Value a, Value b) {
    return binary<arith::MaximumFOp, arith::MaxSIOp, arith::MaxUIOp>(a, b);
  }
  Value minimum(Value a, Value b) {
    return binary<arith::MinimumFOp, arith::MinSIOp, arith::MinUIOp>(a, b);
  }

  Value compare(CmpFPredicate real, CmpIPredicate whole, CmpIPredicate natural, Value a, Value b) {
    if (isFloat()) {
      return arith::CmpFOp::create(builder_, loc_, real, a, b);
    }
    return arith::CmpIOp::create(builder_, loc_, isUnsigned() ? natural : whole, a, b);
  }
  Value equal(Value a, Value b) {
    return compare(CmpFPredicate::OEQ, CmpIPredicate::eq, CmpIPredicate::eq, a, b);
  }
  Value differ(Value a, Value b) {
    return compare(CmpFPredicate::UNE, CmpIPredicate::ne, CmpIPredicate::ne, a, b);
  }
  Value less(Value a, Value b) {
    return compare(CmpFPredicate::OLT, CmpIPredicate::slt, CmpIPredicate::ult, a, b);
  }
  Value lessEqual(Value a, Value b) {
    return compare(CmpFPredicate::OLE, CmpIPredicate::sle, CmpIPredicate::ule, a, b);
  }
  Value greater(Value a, Value b) { return less(b, a); }
  /// x != 0 (NaN is true).
  Value truth(Value a) { return type_.isInteger(1) ? a : differ(a, number(0)); }
  Value logicalNot(Value a) { return equal(a, number(0)); }

  /// x - y * round(x / y) done exactly: fmod, then moved by y if the signs differ.
  Value remainder(Value a, Value b) {
    if (isUnsigned()) {
      return make<arith::RemUIOp>(a, b);
    }
    const Value rest = binary<arith::RemFOp, arith::RemSIOp>(a, b);
    const Value zero = number(0);
    const Value opposite = make<arith::XOrIOp>(less(rest, zero), less(b, zero));
    const Value moved = make<arith::AndIOp>(differ(rest, zero), opposite);
    return select(moved, add(rest, b), rest);
  }

 private:
  OpBuilder& builder_;
  Location loc_;
  Type element_;
  Type type_;
};

}  // namespace

#define SL_SCALAR(Class, expression)                                               \
  Value Class::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) { \
    Scalar s(builder, loc, *this);                                                 \
    [[maybe_unused]] const Value x = scalars[0];                                   \
    [[maybe_unused]] const Value y = scalars.back();                               \
    return expression;                                                             \
  }

SL_SCALAR(NegOp, s.neg(x))
SL_SCALAR(AbsOp, s.isFloat()      ? s.make<math::AbsFOp>(x)
                 : s.isUnsigned() ? x
                                  : s.make<math::AbsIOp>(x))
SL_SCALAR(ExpOp, s.exp(x))
SL_SCALAR(Expm1Op, s.make<math::ExpM1Op>(x))
SL_SCALAR(LogOp, s.make<math::LogOp>(x))
SL_SCALAR(Log1pOp, s.make<math::Log1pOp>(x))
SL_SCALAR(Log2Op, s.make<math::Log2Op>(x))
// log2(x) / log2(10), exact at 1.
SL_SCALAR(Log10Op, s.div(s.make<math::Log2Op>(x), s.number(3.321928094887362)))
SL_SCALAR(SqrtOp, s.make<math::SqrtOp>(x))
SL_SCALAR(RsqrtOp, s.make<math::RsqrtOp>(x))
SL_SCALAR(ReciprocalOp, s.div(s.number(1), x))
SL_SCALAR(SinOp, s.make<math::SinOp>(x))
SL_SCALAR(CosOp, s.make<math::CosOp>(x))
SL_SCALAR(TanOp, s.make<math::TanOp>(x))
SL_SCALAR(TanhOp, s.make<math::TanhOp>(x))
SL_SCALAR(SigmoidOp, s.ratio(s.number(1), s.add(s.number(1), s.exp(s.neg(x)))))
SL_SCALAR(ReluOp, s.maximum(x, s.number(0)))
SL_SCALAR(ErfOp, s.make<math::ErfOp>(x))
SL_SCALAR(SiluOp, s.ratio(x, s.add(s.number(1), s.exp(s.neg(x)))))
SL_SCALAR(FloorOp, s.isFloat() ? s.make<math::FloorOp>(x) : x)
SL_SCALAR(CeilOp, s.isFloat() ? s.make<math::CeilOp>(x) : x)
SL_SCALAR(RoundOp, s.isFloat() ? s.make<math::RoundEvenOp>(x) : x)
SL_SCALAR(TruncOp, s.isFloat() ? s.make<math::TruncOp>(x) : x)
SL_SCALAR(LogicalNotOp, s.logicalNot(x))
SL_SCALAR(HardsigmoidOp,
          s.ratio(s.minimum(s.maximum(s.add(x, s.number(3)), s.number(0)), s.number(6)),
                  s.number(6)))
SL_SCALAR(HardswishOp,
          s.ratio(s.mul(x, s.minimum(s.maximum(s.add(x, s.number(3)), s.number(0)), s.number(6))),
                  s.number(6)))
SL_SCALAR(AddOp, s.type().isInteger(1) ? s.make<arith::OrIOp>(x, y) : s.add(x, y))
SL_SCALAR(SubOp, s.sub(x, y))
SL_SCALAR(MulOp, s.mul(x, y))
SL_SCALAR(DivOp, s.div(x, y))
SL_SCALAR(RemainderOp, s.remainder(x, y))
SL_SCALAR(FmodOp, (s.binary<arith::RemFOp, arith::RemSIOp, arith::RemUIOp>(x, y)))
SL_SCALAR(MaximumOp, s.maximum(x, y))
SL_SCALAR(MinimumOp, s.minimum(x, y))
SL_SCALAR(Atan2Op, s.make<math::Atan2Op>(x, y))
SL_SCALAR(BitwiseAndOp, s.make<arith::AndIOp>(x, y))
SL_SCALAR(BitwiseOrOp, s.make<arith::OrIOp>(x, y))
SL_SCALAR(BitwiseXorOp, s.make<arith::XOrIOp>(x, y))
SL_SCALAR(LogicalAndOp, s.make<arith::AndIOp>(s.truth(x), s.truth(y)))
SL_SCALAR(LogicalOrOp, s.make<arith::OrIOp>(s.truth(x), s.truth(y)))
SL_SCALAR(LogicalXorOp, s.make<arith::XOrIOp>(s.truth(x), s.truth(y)))
SL_SCALAR(EqOp, s.equal(x, y))
SL_SCALAR(NeOp, s.differ(x, y))
SL_SCALAR(LtOp, s.less(x, y))
SL_SCALAR(LeOp, s.lessEqual(x, y))
SL_SCALAR(GtOp, s.less(y, x))
SL_SCALAR(GeOp, s.lessEqual(y, x))
SL_SCALAR(TruncDivideOp, s.isFloat()
                             ? s.make<math::TruncOp>(s.div(x, y))
                             : (s.binary<arith::DivFOp, arith::DivSIOp, arith::DivUIOp>(x, y)))

#undef SL_SCALAR

Value BitwiseNotOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value ones = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(s.type(), -1));
  return s.make<arith::XOrIOp>(scalars[0], ones);
}

Value SignOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0], zero = s.number(0);
  if (s.isUnsigned()) {
    return s.select(s.differ(x, zero), s.number(1), zero);
  }
  return s.select(s.greater(x, zero), s.number(1), s.select(s.less(x, zero), s.number(-1), zero));
}

Value IsnanOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  if (!s.isFloat()) {
    return s.numberOf(builder.getI1Type(), 0);
  }
  return arith::CmpFOp::create(builder, loc, CmpFPredicate::UNO, scalars[0], scalars[0]);
}

Value IsinfOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  if (!s.isFloat()) {
    return s.numberOf(builder.getI1Type(), 0);
  }
  return s.equal(s.make<math::AbsFOp>(scalars[0]),
                 s.number(std::numeric_limits<double>::infinity()));
}

Value GeluOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0], half = s.number(0.5), one = s.number(1);
  if (getApproximate() == "none") {
    return s.mul(s.mul(x, half),
                 s.add(one, s.make<math::ErfOp>(s.mul(x, s.number(0.70710678118654752440)))));
  }
  const Value cube = s.mul(s.mul(x, x), x);
  const Value inner =
      s.mul(s.number(0.79788456080286535588), s.add(x, s.mul(s.number(0.044715), cube)));
  return s.mul(s.mul(half, x), s.add(one, s.make<math::TanhOp>(inner)));
}

Value LeakyReluOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0];
  return s.select(s.greater(x, s.number(0)), x,
                  s.mul(x, s.number(getNegativeSlope().convertToDouble())));
}

Value EluOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0];
  const Value below = s.mul(s.make<math::ExpM1Op>(x), s.number(getAlpha().convertToDouble()));
  return s.select(s.greater(x, s.number(0)), x, below);
}

Value SoftplusOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0], beta = s.number(getBeta().convertToDouble());
  const Value scaled = s.mul(x, beta);
  const Value soft = s.div(s.make<math::Log1pOp>(s.exp(scaled)), beta);
  return s.select(s.greater(scaled, s.number(getThreshold().convertToDouble())), x, soft);
}

Value ClampOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  Value x = scalars[0];
  if (mlir::Attribute min = getMinAttr()) {
    x = s.maximum(x, s.attribute(min));
  }
  if (mlir::Attribute max = getMaxAttr()) {
    x = s.minimum(x, s.attribute(max));
  }
  return x;
}

Value WhereOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  return arith::SelectOp::create(builder, loc, scalars[0], scalars[1], scalars[2]);
}

// Floats: ATen's div_floor, which is exact where floor(x / y) rounds wrongly.
Value FloorDivideOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0], y = scalars[1];
  if (!s.isFloat()) {
    return s.binary<arith::DivFOp, arith::FloorDivSIOp, arith::DivUIOp>(x, y);
  }
  const Value zero = s.number(0), one = s.number(1);
  const Value rest = s.make<arith::RemFOp>(x, y);
  const Value plain = s.div(s.sub(x, rest), y);
  const Value opposite = s.make<arith::XOrIOp>(s.less(rest, zero), s.less(y, zero));
  const Value moved = s.make<arith::AndIOp>(s.differ(rest, zero), opposite);
  const Value quotient = s.select(moved, s.sub(plain, one), plain);
  const Value floored = s.make<math::FloorOp>(quotient);
  const Value nearest =
      s.select(s.greater(s.sub(quotient, floored), s.number(0.5)), s.add(floored, one), floored);
  const Value ratio = s.div(x, y);
  const Value signedZero = s.make<math::CopySignOp>(zero, ratio);
  const Value finite = s.select(s.equal(quotient, zero), signedZero, nearest);
  return s.select(s.equal(y, zero), ratio, finite);
}

// Integers: the power by squaring is a loop, which scalars have none of; math.ipowi is one helper
// of the kernels.
Value PowOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  return s.isFloat() ? s.make<math::PowFOp>(scalars[0], scalars[1])
                     : s.make<math::IPowIOp>(scalars[0], scalars[1]);
}

/// Whether a float has been clamped to numbers of 32 bits (it may be NaN): then the nearest integer
/// needs no 64.
static bool isWithin32Bits(Value x) {
  auto limit = [](Value constant) {
    auto op = constant.getDefiningOp<arith::ConstantOp>();
    auto number = op ? llvm::dyn_cast<mlir::FloatAttr>(op.getValue()) : mlir::FloatAttr();
    return number && std::abs(number.getValueAsDouble()) < 0x1p31;
  };
  auto below = x.getDefiningOp<arith::MinimumFOp>();
  auto above = below ? below.getLhs().getDefiningOp<arith::MaximumFOp>() : arith::MaximumFOp();
  return above && limit(below.getRhs()) && limit(above.getRhs());
}

Value ToDtypeOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  Scalar s(builder, loc, *this);
  const Value x = scalars[0];
  const Type from = s.type(), element = getType().getElementType(), to = scalarType(element);
  if (from == to) {
    return x;
  }
  if (to.isInteger(1)) {
    return s.truth(x);
  }
  const unsigned fromWidth = from.getIntOrFloatBitWidth(), toWidth = to.getIntOrFloatBitWidth();
  if (s.isFloat() && llvm::isa<mlir::FloatType>(to)) {
    if (fromWidth == toWidth) {  // f16 and bf16: neither holds the other
      const Value wide = arith::ExtFOp::create(builder, loc, builder.getF32Type(), x);
      return arith::TruncFOp::create(builder, loc, to, wide);
    }
    return fromWidth < toWidth ? arith::ExtFOp::create(builder, loc, to, x).getResult()
                               : arith::TruncFOp::create(builder, loc, to, x).getResult();
  }
  if (s.isFloat()) {
    // As C through int64_t (int32_t where that is the same): a negative float wraps in an unsigned
    // type instead of being undefined.
    const unsigned throughWidth = toWidth < 32 && isWithin32Bits(x) ? 32 : 64;
    const Value wide =
        arith::FPToSIOp::create(builder, loc, builder.getIntegerType(throughWidth), x);
    return toWidth == throughWidth ? wide
                                   : arith::TruncIOp::create(builder, loc, to, wide).getResult();
  }
  if (llvm::isa<mlir::FloatType>(to)) {
    return s.isUnsigned() ? arith::UIToFPOp::create(builder, loc, to, x).getResult()
                          : arith::SIToFPOp::create(builder, loc, to, x).getResult();
  }
  if (fromWidth > toWidth) {
    return arith::TruncIOp::create(builder, loc, to, x);
  }
  return s.isUnsigned() ? arith::ExtUIOp::create(builder, loc, to, x).getResult()
                        : arith::ExtSIOp::create(builder, loc, to, x).getResult();
}

Value BitCastOp::buildScalar(OpBuilder& builder, Location loc, ValueRange scalars) {
  const Type to = scalarType(getType().getElementType());
  return scalars[0].getType() == to
             ? scalars[0]
             : arith::BitcastOp::create(builder, loc, to, scalars[0]).getResult();
}

}  // namespace straightline::op
