// SPDX-License-Identifier: Apache-2.0
// Tensors made of others with something beside them: cat, constant_pad_nd.
#include <algorithm>
#include <optional>

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/attention.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// The index of the first operand of `whole` from which on its operands are those of `part`, in the
/// same order; nullopt if there is none.
std::optional<size_t> runOf(op::CatOp part, op::CatOp whole) {
  const mlir::ValueRange run = part.getTensors(), all = whole.getTensors();
  if (part.getDim() != whole.getDim()) {
    return std::nullopt;
  }
  for (size_t first = 0; first + run.size() <= all.size(); ++first) {
    if (llvm::equal(run, all.slice(first, run.size()))) {
      return first;
    }
  }
  return std::nullopt;
}

/// The other concatenations in the block of `cat` that read `tensor`, in their order; without those
/// of which one reads the result of the other.
llvm::SmallVector<op::CatOp> othersThatRead(Value tensor, op::CatOp cat) {
  llvm::SmallVector<op::CatOp> found;
  for (Operation* user : tensor.getUsers()) {
    auto other = llvm::dyn_cast<op::CatOp>(user);
    if (other && other != cat && other->getBlock() == cat->getBlock() &&
        !llvm::is_contained(found, other) &&
        !llvm::is_contained(cat.getTensors(), other.getResult()) &&
        !llvm::is_contained(other.getTensors(), cat.getResult())) {
      found.push_back(other);
    }
  }
  llvm::sort(found, [](op::CatOp a, op::CatOp b) { return a->isBeforeInBlock(b); });
  return found;
}

/// The parts [first, first + count) of a concatenation inside its buffer.
Value placeOfRun(op::CatOp cat, size_t first, size_t count, LoweringContext& context) {
  const Value whole = context.destination(cat.getResult());
  const Exprs strides = context.stridesOf(typeOf(whole));
  const int64_t dim = cat.getDim();
  const auto length = [&](size_t from, size_t to) {
    AffineExpr sum = context.constant(0);
    for (Value part : cat.getTensors().slice(from, to - from)) {
      sum = sum + context.extentsOf(part)[dim];
    }
    return sum;
  };
  Exprs extents = context.extentsOf(cat.getResult());
  extents[dim] = length(first, first + count);
  return context.view(cat.getLoc(), whole,
                      context.type(extents, typeOf(whole).getElementType(), strides),
                      length(0, first) * strides[dim]);
}

/// A concatenation that grows (the input of each layer is those of all layers before and one more):
/// its parts stand in a later one as well, one behind the other, and both have the same memory.
/// Then none of these parts is copied. The later one keeps the place under the result of `cat`.
Value placeInLonger(Value tensor, LoweringContext& context) {
  auto cat = tensor.getDefiningOp<op::CatOp>();
  if (!cat || cat.getTensors().empty()) {
    return {};
  }
  for (op::CatOp longer : othersThatRead(cat.getTensors().front(), cat)) {
    const std::optional<size_t> first = runOf(cat, longer);
    if (!first || longer->isBeforeInBlock(cat) || isReadInParts(longer, context) ||
        op::layoutOf(longer) != op::layoutOf(cat)) {
      continue;
    }
    if (const op::LayoutAttr layout = op::layoutOf(cat);
        layout && llvm::any_of(layout.getBorder(), [](int64_t width) { return width != 0; })) {
      continue;
    }
    return context.keptPlace(longer, tensor) =
               placeOfRun(longer, *first, cat.getTensors().size(), context);
  }
  return {};
}

LogicalResult lowerCat(op::CatOp cat, LoweringContext& context) {
  if (isReadInParts(cat, context)) {
    return success();  // attention reads the parts where they are
  }
  context.destination(cat.getResult());
  llvm::SmallVector<bool> isThere(cat.getTensors().size(), false);
  for (auto [number, part] : llvm::enumerate(cat.getTensors())) {
    for (op::CatOp shorter : othersThatRead(part, cat)) {
      const Value place = context.keptPlace(cat, shorter.getResult());
      if (!place || place != context.boundTo(shorter.getResult())) {
        continue;
      }
      const size_t first = *runOf(shorter, cat);
      std::fill_n(isThere.begin() + first, shorter.getTensors().size(), true);
    }
    if (isThere[number]) {
      continue;
    }
    const Value from = context.bufferOf(part);
    // A part that occurs twice in this cat is written to one place and copied to the other. A place
    // in another cat does not matter here.
    const Value placed =
        llvm::count(cat.getTensors(), part) == 1 ? context.keptPlace(cat, part) : Value();
    if (!placed || !context.isSamePlace(from, placed)) {
      context.copy(cat.getLoc(), from, placeOfRun(cat, number, 1, context), "cat",
                   "the part could not be written in place by what made it");
    }
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
  for (auto [number, part] : llvm::enumerate(cat.getTensors())) {
    context.keptPlace(cat, part) = placeOfRun(cat, number, 1, context);
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
  Rule& cat = rules.add(lowerCat);
  cat.place = placeForPart;
  cat.writesRows = true;
  rules.addPlaceFinder(placeInLonger);
  rules.add(lowerPad);
}

}  // namespace straightline::lowering
