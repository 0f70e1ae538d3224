// SPDX-License-Identifier: Apache-2.0
// Views, which make no statement: another shape and strides over the same storage. A reshape that
// the strides forbid is a copy; so are clone and flip.
#include "llvm/ADT/STLExtras.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/constants.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// Row-major copy of `base` in its old shape, seen with `extents`; made by prepare when `base` is
/// prepare's.
Value reshapedCopy(op::ReshapeOp op, Value base, const Exprs& extents, LoweringContext& context) {
  const mlir::Location loc = op.getLoc();
  const kernel::BufferType type = context.contiguousType(extents, typeOf(base).getElementType());
  auto copyInto = [&](Value whole, Value from) {
    // In the old shape: the new storage is row-major in either.
    const kernel::BufferType old =
        context.contiguousType(context.extentsOf(typeOf(from)), type.getElementType());
    context.copy(loc, from, context.view(loc, whole, old, context.constant(0)), "reshape",
                 "the strides of the operand do not allow this shape as a view");
    return whole;
  };
  Value place = context.wantedPlace(op.getResult());
  if (!context.inPrepare() && !place && isKnownEarly(op.getResult()) &&
      context.isFromPrepare(base)) {
    Value whole = context.preparedBuffer(loc, type, "prepared.");
    context.atEndOfPrepare([&] { copyInto(whole, context.viewInPrepare(base)); });
    return whole;
  }
  const bool fits = place && context.stridesOf(typeOf(place)) == context.rowMajor(extents);
  return copyInto(fits ? place : context.slot(type), base);
}

LogicalResult lowerReshape(op::ReshapeOp reshape, LoweringContext& context) {
  if (isLiteralOnly(reshape, context)) {
    return success();
  }
  Value base = context.bufferOf(reshape.getX());
  if (context.boundTo(reshape.getResult())) {
    return success();  // its storage was chosen for it (the operand was written there)
  }
  const Exprs extents = context.extentsOf(reshape.getResult());
  Value reshaped = context.tryReshape(reshape.getLoc(), base, extents);
  if (!reshaped) {
    reshaped = reshapedCopy(reshape, base, extents, context);
  }
  context.bind(reshape.getResult(), reshaped);
  return success();
}

/// Where a view's elements are in the storage of its base.
struct Geometry {
  Exprs strides;
  AffineExpr offset;
};

/// `geometry`: of the base's extents and strides, and the extents of the view.
template <typename Op>
LogicalResult lowerStrided(
    Op op, LoweringContext& context,
    llvm::function_ref<Geometry(const Exprs&, const Exprs&, const Exprs&)> geometry) {
  if (isLiteralOnly(op, context)) {
    return success();
  }
  Value base = context.bufferOf(op.getX());
  if (context.boundTo(op.getResult())) {
    return success();  // its storage was chosen for it (the operand was written there)
  }
  const kernel::BufferType from = typeOf(base);
  const Exprs extents = context.extentsOf(op.getResult());
  const Geometry found = geometry(context.extentsOf(from), context.stridesOf(from), extents);
  context.bind(
      op.getResult(),
      context.view(op.getLoc(), base, context.type(extents, from.getElementType(), found.strides),
                   found.offset));
  return success();
}

LogicalResult lowerExpand(op::ExpandOp expand, LoweringContext& context) {
  const AffineExpr zero = context.constant(0), one = context.constant(1);
  return lowerStrided(expand, context,
                      [&](const Exprs& from, const Exprs& given, const Exprs& extents) {
                        Exprs strides(extents.size(), zero);
                        const size_t added = extents.size() - given.size();
                        for (size_t dim = 0; dim < given.size(); ++dim) {
                          if (from[dim] != one || extents[added + dim] == one) {
                            strides[added + dim] = given[dim];
                          }
                        }
                        return Geometry{strides, zero};
                      });
}

LogicalResult lowerPermute(op::PermuteOp permute, LoweringContext& context) {
  return lowerStrided(permute, context,
                      [&](const Exprs&, const Exprs& given, const Exprs& extents) {
                        Exprs strides(extents.size());
                        for (auto [to, dim] : llvm::enumerate(permute.getDims())) {
                          strides[to] = given[dim];
                        }
                        return Geometry{strides, context.constant(0)};
                      });
}

LogicalResult lowerSlice(op::SliceOp slice, LoweringContext& context) {
  return lowerStrided(slice, context, [&](const Exprs& from, const Exprs& given, const Exprs&) {
    const int64_t dim = slice.getDim();
    Exprs strides = given;
    strides[dim] = given[dim] * slice.getStep();
    return Geometry{strides, given[dim] * context.sliceStart(slice.getStart(), from[dim])};
  });
}

LogicalResult lowerSelect(op::SelectOp select, LoweringContext& context) {
  return lowerStrided(select, context, [&](const Exprs& from, const Exprs& given, const Exprs&) {
    const int64_t dim = select.getDim();
    Exprs strides = given;
    strides.erase(strides.begin() + dim);
    return Geometry{strides, given[dim] * context.sliceStart(select.getIndex(), from[dim])};
  });
}

LogicalResult lowerDynamicSlice(op::DynamicSliceOp slice, LoweringContext& context) {
  FailureOr<Value> part = context.viewAtIndex(slice.getLoc(), context.bufferOf(slice.getX()),
                                              slice.getIndex(), slice.getDim(), slice.getResult());
  if (failed(part)) {
    return failure();
  }
  context.bind(slice.getResult(), *part);
  return success();
}

LogicalResult lowerClone(op::CloneOp clone, LoweringContext& context) {
  Value from = context.bufferOf(clone.getX());
  context.copy(clone.getLoc(), from, context.destination(clone.getResult()), "clone",
               "the copy was asked for");
  return success();
}

/// A view that walks backwards, copied.
LogicalResult lowerFlip(op::FlipOp flip, LoweringContext& context) {
  Value from = context.bufferOf(flip.getX());
  Exprs strides = context.stridesOf(typeOf(from));
  const Exprs extents = context.extentsOf(flip.getX());
  AffineExpr offset = context.constant(0);
  for (int64_t dim : flip.getDims()) {
    offset = offset + strides[dim] * (extents[dim] + (-1));
    strides[dim] = strides[dim] * -1;
  }
  Value backwards = context.view(
      flip.getLoc(), from, context.type(extents, typeOf(from).getElementType(), strides), offset);
  context.copy(flip.getLoc(), backwards, context.destination(flip.getResult()), "flip",
               "emitted.pointwise: read backwards");
  return success();
}

// --- places: a view's operand is written where the view's users want it, with its own strides

Value placeForReshape(mlir::OpOperand& operand, LoweringContext& context) {
  Operation* reshape = operand.getOwner();
  Value outer = context.wantedPlace(reshape->getResult(0));
  return outer ? context.tryReshape(reshape->getLoc(), outer, context.extentsOf(operand.get()))
               : Value();
}

/// Only dims of one element are added.
Value placeForExpand(mlir::OpOperand& operand, LoweringContext& context) {
  Operation* expand = operand.getOwner();
  const bool isReshape = context.product(context.extentsOf(operand.get())) ==
                         context.product(context.extentsOf(expand->getResult(0)));
  return isReshape ? placeForReshape(operand, context) : Value();
}

Value placeForPermute(mlir::OpOperand& operand, LoweringContext& context) {
  auto permute = llvm::cast<op::PermuteOp>(operand.getOwner());
  Value outer = context.wantedPlace(permute.getResult());
  if (!outer) {
    return {};
  }
  const Exprs extents = context.extentsOf(operand.get());
  const Exprs outerStrides = context.stridesOf(typeOf(outer));
  Exprs strides(extents.size());
  for (auto [to, from] : llvm::enumerate(permute.getDims())) {
    strides[from] = outerStrides[to];
  }
  return context.view(permute.getLoc(), outer,
                      context.type(extents, typeOf(outer).getElementType(), strides),
                      context.constant(0));
}

}  // namespace

void registerViewsRules(RuleSet& rules) {
  rules.add(lowerReshape).place = placeForReshape;
  rules.add(lowerPermute).place = placeForPermute;
  rules.add(lowerExpand).place = placeForExpand;
  rules.add(lowerSlice);
  rules.add(lowerSelect);
  rules.add(lowerDynamicSlice);
  rules.add(lowerClone);
  rules.add(lowerFlip);
}

}  // namespace straightline::lowering
