// SPDX-License-Identifier: Apache-2.0
// Tensors made of others with something beside them: cat, constant_pad_nd.
#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/attention.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

LogicalResult lowerCat(op::CatOp cat, LoweringContext& context) {
  if (isReadInParts(cat, context)) {
    return success();  // attention reads the parts where they are
  }
  Value whole = context.destination(cat.getResult());
  const Exprs strides = context.stridesOf(typeOf(whole));
  const int64_t dim = cat.getDim();
  AffineExpr at = context.constant(0);
  for (Value part : cat.getTensors()) {
    const Exprs extents = context.extentsOf(part);
    Value from = context.bufferOf(part);
    // A part that occurs twice in this cat is written to one place and copied to the other. A place
    // in another cat does not matter here.
    Value placed =
        llvm::count(cat.getTensors(), part) == 1 ? context.keptPlace(cat, part) : Value();
    if (!placed || !context.isSamePlace(from, placed)) {
      Value to = context.view(cat.getLoc(), whole,
                              context.type(extents, typeOf(whole).getElementType(), strides),
                              at * strides[dim]);
      context.copy(cat.getLoc(), from, to, "cat",
                   "the part could not be written in place by what made it");
    }
    at = at + extents[dim];
  }
  return success();
}

/// A tensor that occurs once in the concatenation is written directly into the result.
Value placeForPart(mlir::OpOperand& operand, LoweringContext& context) {
  auto cat = llvm::cast<op::CatOp>(operand.getOwner());
  Value tensor = operand.get();
  if (llvm::count(cat.getTensors(), tensor) != 1 || isReadInParts(cat, context)) {
    return {};
  }
  if (Value place = context.keptPlace(cat, tensor);
      place || cat->getBlock() != tensor.getParentBlock()) {
    return place;
  }
  Value whole = context.destination(cat.getResult());
  const Exprs strides = context.stridesOf(typeOf(whole));
  AffineExpr at = context.constant(0);
  for (Value part : cat.getTensors()) {
    const Exprs extents = context.extentsOf(part);
    Value place = context.view(cat.getLoc(), whole,
                               context.type(extents, typeOf(whole).getElementType(), strides),
                               at * strides[cat.getDim()]);
    context.keptPlace(cat, part) = place;
    at = at + extents[cat.getDim()];
  }
  return context.keptPlace(cat, tensor);
}

LogicalResult lowerPad(op::ConstantPadNdOp pad, LoweringContext& context) {
  Value whole = context.destination(pad.getResult());
  const Exprs strides = context.stridesOf(typeOf(whole));
  Exprs extents = context.extentsOf(pad.getX());
  Value from = context.bufferOf(pad.getX());
  Exprs fromStrides = context.stridesOf(typeOf(from));
  AffineExpr offset = context.constant(0);
  AffineExpr fromOffset = context.constant(0);
  const size_t rank = extents.size();
  for (size_t i = 0; i < pad.getPad().size() / 2; ++i) {
    const size_t dim = rank - 1 - i;
    const int64_t before = pad.getPad()[2 * i];
    const int64_t after = pad.getPad()[2 * i + 1];
    offset = offset + strides[dim] * std::max<int64_t>(before, 0);
    fromOffset = fromOffset + fromStrides[dim] * std::max<int64_t>(-before, 0);
    extents[dim] = extents[dim] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
  }
  const mlir::Type scalar = scalarType(elementType(pad.getX()));
  context.fill(pad.getLoc(), whole, scalarAttribute(pad.getValue(), scalar), "constant_pad_nd",
               "the border's value; the inside is copied over it");
  Value inside = context.view(
      pad.getLoc(), whole, context.type(extents, typeOf(whole).getElementType(), strides), offset);
  Value source =
      context.view(pad.getLoc(), from,
                   context.type(extents, typeOf(whole).getElementType(), fromStrides), fromOffset);
  context.copy(pad.getLoc(), source, inside, "constant_pad_nd", "the inside of the padded tensor");
  return success();
}

}  // namespace

void registerPadAndCatRules(RuleSet& rules) {
  rules.add(lowerCat).place = placeForPart;
  rules.add(lowerPad);
}

}  // namespace straightline::lowering
