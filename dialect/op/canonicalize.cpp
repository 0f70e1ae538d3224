// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/canonicalize.h"

#include "dialect/op/op_dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace straightline::op {

using mlir::Attribute;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::TypedAttr;
using mlir::Value;

namespace {

/// Literals beyond this many elements are computed by kernels in `prepare`, not by the compiler.
constexpr int64_t kLargestLiteral = 4096;

/// A Python scalar as one of this element type.
TypedAttr scalarOf(Attribute scalar, mlir::Type elementType) {
  if (auto type = llvm::dyn_cast<mlir::FloatType>(elementType)) {
    return mlir::FloatAttr::get(type, llvm::cast<mlir::FloatAttr>(scalar).getValueAsDouble());
  }
  const llvm::APInt bits = llvm::cast<mlir::IntegerAttr>(scalar).getValue();
  const unsigned width = elementType.getIntOrFloatBitWidth();
  return mlir::IntegerAttr::get(
      elementType, bits.getBitWidth() == 1 ? bits.zextOrTrunc(width) : bits.sextOrTrunc(width));
}

/// The scalar as the attribute of an `op.full`: f64, i64.
TypedAttr pythonScalar(TypedAttr scalar) {
  mlir::MLIRContext* context = scalar.getContext();
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(scalar)) {
    return mlir::FloatAttr::get(mlir::Float64Type::get(context), real.getValueAsDouble());
  }
  const llvm::APInt bits = llvm::cast<mlir::IntegerAttr>(scalar).getValue();
  const bool zeroExtended = scalar.getType().isInteger(1) || scalar.getType().isUnsignedInteger();
  return mlir::IntegerAttr::get(mlir::IntegerType::get(context, 64),
                                zeroExtended ? bits.zext(64) : bits.sext(64));
}

/// Evaluates ops on literals; nullopt if one of them does not fold.
class Evaluator {
 public:
  /// Builds the scalar meaning of `op` once.
  explicit Evaluator(ElementwiseOpInterface op) {
    mlir::OpBuilder builder(op.getContext());
    builder.setInsertionPointToStart(&block_);
    for (Value operand : op->getOperands()) {
      auto type = llvm::cast<RankedTensorType>(operand.getType());
      block_.addArgument(scalarType(type.getElementType()), op.getLoc());
    }
    result_ = op.buildScalar(builder, op.getLoc(), block_.getArguments());
  }

  TypedAttr evaluate(llvm::ArrayRef<TypedAttr> scalars) {
    llvm::DenseMap<Value, Attribute> known;
    for (auto [argument, scalar] : llvm::zip(block_.getArguments(), scalars)) {
      known[argument] = signless(scalar, argument.getType());
    }
    for (Operation& operation : block_) {
      if (llvm::isa<mlir::math::Atan2Op>(operation)) {
        return {};  // upstream folds atan2(0, 0) to NaN instead of 0
      }
      llvm::SmallVector<Attribute> operands;
      for (Value operand : operation.getOperands()) {
        operands.push_back(known.lookup(operand));
      }
      llvm::SmallVector<mlir::OpFoldResult> folded;
      if (failed(operation.fold(operands, folded)) || folded.size() != 1) {
        return {};
      }
      auto attribute = llvm::dyn_cast<Attribute>(folded[0]);
      known[operation.getResult(0)] =
          attribute ? attribute : known.lookup(llvm::cast<Value>(folded[0]));
      if (!known[operation.getResult(0)]) {
        return {};
      }
    }
    return llvm::dyn_cast_if_present<TypedAttr>(known.lookup(result_));
  }

 private:
  static Attribute signless(TypedAttr scalar, mlir::Type type) {
    auto integer = llvm::dyn_cast<mlir::IntegerAttr>(scalar);
    return integer ? Attribute(mlir::IntegerAttr::get(type, integer.getValue()))
                   : Attribute(scalar);
  }

  mlir::Block block_;
  Value result_;
};

/// Elements of a literal: a splat, or all of a small constant.
struct Literal {
  TypedAttr splat;
  mlir::DenseElementsAttr elements;

  TypedAttr at(int64_t index) const {
    return splat ? splat : llvm::cast<TypedAttr>(elements.getValues<Attribute>()[index]);
  }
};

std::optional<Literal> literalOf(Value value) {
  if (TypedAttr splat = splatOf(value)) {
    return Literal{splat, {}};
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!elements || elements.getNumElements() > kLargestLiteral) {
    return std::nullopt;
  }
  return Literal{{}, elements};
}

/// op.add(dense<[1, 2]>, full 3) -> dense<[4, 5]>; op.mul(full 2, full 3) -> full 6, of any shape.
struct FoldLiterals : mlir::OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  llvm::LogicalResult matchAndRewrite(ElementwiseOpInterface op,
                                      mlir::PatternRewriter& rewriter) const override {
    llvm::SmallVector<Literal> literals;
    for (Value operand : op->getOperands()) {
      std::optional<Literal> literal = literalOf(operand);
      if (!literal) {
        return rewriter.notifyMatchFailure(op, "an operand is no literal");
      }
      literals.push_back(*literal);
    }
    Evaluator evaluator(op);
    auto type = llvm::cast<RankedTensorType>(op->getResult(0).getType());
    const bool splat =
        llvm::all_of(literals, [](const Literal& literal) { return bool(literal.splat); });
    const int64_t count = splat ? 1 : type.getNumElements();
    llvm::SmallVector<Attribute> elements;
    for (int64_t index = 0; index < count; ++index) {
      llvm::SmallVector<TypedAttr> scalars;
      llvm::transform(literals, std::back_inserter(scalars),
                      [&](const Literal& each) { return each.at(index); });
      TypedAttr element = evaluator.evaluate(scalars);
      if (!element) {
        return rewriter.notifyMatchFailure(op, "the scalar meaning does not fold");
      }
      elements.push_back(typed(element, type.getElementType()));
    }
    if (splat) {
      rewriter.replaceOpWithNewOp<FullOp>(op, type,
                                          pythonScalar(llvm::cast<TypedAttr>(elements[0])));
    } else {
      rewriter.replaceOpWithNewOp<ConstantOp>(op, mlir::DenseElementsAttr::get(type, elements));
    }
    return mlir::success();
  }

  /// Back from the signless scalar to the tensor's element type.
  static Attribute typed(TypedAttr scalar, mlir::Type elementType) {
    auto integer = llvm::dyn_cast<mlir::IntegerAttr>(scalar);
    return integer ? Attribute(mlir::IntegerAttr::get(elementType, integer.getValue()))
                   : Attribute(scalar);
  }
};

/// A view of a splat is a splat: expand(full 2) -> full 2 of the new shape.
struct ViewOfSplat : mlir::RewritePattern {
  explicit ViewOfSplat(mlir::MLIRContext* context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  llvm::LogicalResult matchAndRewrite(Operation* op,
                                      mlir::PatternRewriter& rewriter) const override {
    TypedAttr splat = op->hasTrait<View>() ? splatOf(op->getOperand(0)) : TypedAttr();
    if (!splat) {
      return rewriter.notifyMatchFailure(op, "not a view of a splat literal");
    }
    rewriter.replaceOpWithNewOp<FullOp>(op, op->getResult(0).getType(), pythonScalar(splat));
    return mlir::success();
  }
};

/// permute(x) that only moves dims of size 1 -> reshape(x), which needs no data movement wherever
/// it stands.
struct PermuteOfUnitDims : mlir::OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(PermuteOp op,
                                      mlir::PatternRewriter& rewriter) const override {
    llvm::SmallVector<int64_t> moved;
    for (int64_t dim : op.getDims()) {
      if (op.getX().getType().getDimSize(dim) != 1) {
        moved.push_back(dim);
      }
    }
    if (!llvm::is_sorted(moved)) {
      return rewriter.notifyMatchFailure(op, "dims larger than 1 change order");
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
    return mlir::success();
  }
};

/// iota of one element -> full of its start.
struct IotaOfOne : mlir::OpRewritePattern<IotaOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(IotaOp op, mlir::PatternRewriter& rewriter) const override {
    const auto type = llvm::cast<RankedTensorType>(op.getType());
    if (!type.hasStaticShape() || type.getNumElements() != 1) {
      return rewriter.notifyMatchFailure(op, "not one element");
    }
    rewriter.replaceOpWithNewOp<FullOp>(op, type, op.getStart());
    return mlir::success();
  }
};

/// cat of one tensor and empty ones: cat(a, empty) -> cat(a).
struct CatOfEmpty : mlir::OpRewritePattern<CatOp> {
  using OpRewritePattern::OpRewritePattern;

  llvm::LogicalResult matchAndRewrite(CatOp op, mlir::PatternRewriter& rewriter) const override {
    llvm::SmallVector<Value> kept;
    llvm::copy_if(op.getTensors(), std::back_inserter(kept), [&](Value tensor) {
      return llvm::cast<RankedTensorType>(tensor.getType()).getDimSize(op.getDim()) != 0;
    });
    if (kept.empty() || kept.size() == op.getTensors().size()) {
      return rewriter.notifyMatchFailure(op, "no tensor is empty, or all are");
    }
    rewriter.modifyOpInPlace(op, [&] { op.getTensorsMutable().assign(kept); });
    return mlir::success();
  }
};

}  // namespace

TypedAttr splatOf(Value value) {
  Operation* maker = value.getDefiningOp();
  if (!maker) {
    return {};
  }
  const mlir::Type element = llvm::cast<RankedTensorType>(value.getType()).getElementType();
  if (auto full = llvm::dyn_cast<FullOp>(maker)) {
    return scalarOf(full.getValue(), element);
  }
  if (auto constant = llvm::dyn_cast<ConstantOp>(maker)) {
    auto dense = llvm::dyn_cast<mlir::SplatElementsAttr>(constant.getValue());
    return dense ? llvm::cast<TypedAttr>(dense.getSplatValue<Attribute>()) : TypedAttr();
  }
  return llvm::isa<ExpandOp, ReshapeOp>(maker) ? splatOf(maker->getOperand(0)) : TypedAttr();
}

bool isFresh(Value value) {
  Operation* maker = value.getDefiningOp();
  return maker && maker->getNumRegions() == 0 && !maker->hasTrait<View>() &&
         !llvm::isa<ParameterOp, StateOp, ConstantOp>(maker);
}

bool escapes(Value value) {
  llvm::SmallVector<Value> open = {value};
  while (!open.empty()) {
    for (Operation* user : open.pop_back_val().getUsers()) {
      if (user->hasTrait<mlir::OpTrait::IsTerminator>()) {
        return true;
      }
      if (user->hasTrait<View>()) {
        open.push_back(user->getResult(0));
      }
    }
  }
  return false;
}

Value ifNoAlias(Operation* operation, Value replacement) {
  if (replacement.getType() != operation->getResult(0).getType()) {
    return {};
  }
  const bool inside = llvm::isa_and_nonnull<FusionOp>(operation->getParentOp());
  const bool safe = inside || !escapes(operation->getResult(0)) ||
                    (isFresh(replacement) && !escapes(replacement));
  return safe ? replacement : Value();
}

void OpDialect::getCanonicalizationPatterns(mlir::RewritePatternSet& patterns) const {
  patterns.add<FoldLiterals, ViewOfSplat, PermuteOfUnitDims, IotaOfOne, CatOfEmpty>(
      patterns.getContext());
}

}  // namespace straightline::op
