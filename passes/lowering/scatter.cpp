// SPDX-License-Identifier: Apache-2.0
// Ops that replace a part of their first operand: it is brought to the result's place (it may be
// there already), and the part is written over it.
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"
#include "passes/lowering/indexed_loops.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::failure;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// Copies the operand that `op` updates to `to`, unless it is there already.
void bringTo(Operation* op, Value from, Value to, LoweringContext& context) {
  if (from != to) {
    context.copy(op->getLoc(), from, to, op->getName().stripDialect(),
                 "the old value is still read, or belongs to the caller");
  }
}

/// The one row that an op replaces: the extents of what is written there are those of its src.
struct ReplacedRow {
  Value src, index;
  int64_t dim;    ///< of the rows
  Exprs strides;  ///< of the whole buffer along the dims of src
  bool wraps;
};

ReplacedRow replacedRow(op::IndexCopyOp copy, Value whole, LoweringContext& context) {
  return {copy->getOperand(2), copy->getOperand(1), static_cast<int64_t>(copy.getDim()),
          context.stridesOf(typeOf(whole)), false};
}

/// Without src where it is no row along one dim.
ReplacedRow replacedRow(op::IndexPutOp put, Value whole, LoweringContext& context) {
  if (put.getIndices().size() != 1 || put.getAccumulate()) {
    return {};
  }
  const size_t rank = context.extentsOf(put.getValues()).size();
  const IndexedLoops loops =
      indexedLoops({whole, {}, put.getDims(), put.getFirstIndexDim()}, rank, context);
  return {put.getValues(), put.getIndices()[0], put.getDims()[0], loops.beside, true};
}

/// The buffer of an index that is there where `place` stands; views of such a one are made there.
/// Null: it is not.
Value earlyIndex(Value index, Operation* place, LoweringContext& context) {
  Operation* maker = index.getDefiningOp();
  const Rule* rule = maker ? context.ruleOf(maker) : nullptr;
  if (maker && maker->hasTrait<op::View>()) {
    const bool isThere = earlyIndex(maker->getOperand(0), place, context) &&
                         (context.boundTo(index) || succeeded(context.lowerOp(maker)));
    return isThere ? context.bufferOf(index) : Value();
  }
  const bool isDeclared = rule && rule->declare;
  const bool isBefore = !maker || (isDeclared && !rule->lower) ||
                        (maker->getBlock() == place->getBlock() && maker->isBeforeInBlock(place));
  return isBefore && (isDeclared || context.boundTo(index)) ? context.bufferOf(index) : Value();
}

/// The buffer of what an op updates if all that it holds has been written where `place` stands.
/// Null: it may not have been.
Value earlyOld(Value old, Operation* place, LoweringContext& context) {
  Operation* maker = old.getDefiningOp();
  const Rule* rule = maker ? context.ruleOf(maker) : nullptr;
  const bool isDeclared = rule && rule->declare && !rule->lower;
  const bool isWritten =
      context.boundTo(old) &&
      (!maker || (maker->getBlock() == place->getBlock() && maker->isBeforeInBlock(place)));
  return isDeclared || isWritten ? context.bufferOf(old) : Value();
}

/// Where the value that replaces one row is made in that row: the storage has all else that it is
/// to hold by then, and every reader of the old row stands before. Null where the row is copied.
template <typename Op>
Value placeInRow(mlir::OpOperand& operand, LoweringContext& context) {
  auto op = llvm::cast<Op>(operand.getOwner());
  if (Value kept = context.keptPlace(op, operand.get())) {
    return kept;
  }
  Operation* current = context.currentIn(op->getBlock());
  const Value whole = context.facts().writesRowsAtIndex && current && current->isBeforeInBlock(op)
                          ? earlyOld(op.getX(), current, context)
                          : Value();
  const ReplacedRow row = whole ? replacedRow(op, whole, context) : ReplacedRow();
  if (row.src != operand.get() || row.index == operand.get()) {
    return {};
  }
  const auto isNumber = [](AffineExpr expr) { return symbolic::constantValue(expr).has_value(); };
  const Exprs extents = context.extentsOf(op.getX());
  const AffineExpr stride = context.stridesOf(typeOf(whole))[row.dim];
  if (context.product(context.extentsOf(row.index)) != context.constant(1) ||
      !llvm::all_of(extents, isNumber) || !llvm::all_of(row.strides, isNumber) ||
      !isNumber(stride) || context.wantedPlace(op.getResult()) != whole) {
    return {};
  }
  const Value index = earlyIndex(row.index, current, context);
  if (!index) {
    return {};
  }
  context.bind(op.getResult(), whole);
  const kernel::BufferType type =
      context.type(context.extentsOf(row.src), typeOf(whole).getElementType(), row.strides);
  const Value place =
      context.rowPlace(type, {whole, index, *symbolic::constantValue(extents[row.dim]),
                              *symbolic::constantValue(stride), row.wraps});
  context.keptPlace(op, operand.get()) = place;
  return place;
}

/// Whether what replaces the row is in it already.
bool isInRow(Operation* op, Value src, LoweringContext& context) {
  const Value place = context.keptPlace(op, src);
  return place && context.isSamePlace(context.bufferOf(src), place);
}

/// Writes the rows where the dims before and behind the indices are one loop each; false where they
/// are not.
bool scatterRows(Operation* op, int64_t dim, Value from, Value index, Value src, Value to,
                 LoweringContext& context) {
  const Exprs extents = context.extentsOf(op->getOperand(0));
  const Exprs srcExtents = context.extentsOf(op->getOperand(2));
  const size_t inner = extents.size() - 1 - static_cast<size_t>(dim);
  const Exprs in = context.stridesOf(typeOf(src));
  const Exprs out = context.stridesOf(typeOf(to));
  auto outer =
      mergeLoops(makeLoops(context, part(extents, 0, dim), {part(in, 0, dim), part(out, 0, dim)}));
  auto run = mergeLoops(makeLoops(context, part(extents, dim + 1, inner),
                                  {part(in, dim + 1, inner), part(out, dim + 1, inner)}));
  if (outer.size() > 1 || !isDenseRun(context, run)) {
    return false;
  }
  bringTo(op, from, to, context);
  KernelSpec spec;
  spec.family = "scatter_rows";
  spec.op = op->getName().stripDialect().str();
  spec.name = spec.op + sizeName(run);
  spec.why = "emitted.scatter_rows: whole rows; every index is checked";
  spec.canFail = true;
  spec.updates = true;
  auto put = [&](llvm::StringRef key, AffineExpr value) {
    spec.shape.push_back(context.named(key, context.number(value)));
  };
  spec.tune = {context.named("add", context.number(llvm::isa<op::IndexAddOp>(op) ? 1 : 0))};
  put("outer", onlyExtent(context, outer));
  put("count", srcExtents[dim]);
  put("run", onlyExtent(context, run));
  put("extent", extents[dim]);
  put("srcOuter", onlyStride(context, outer, 0));
  put("srcRow", in[dim]);
  put("outOuter", onlyStride(context, outer, 1));
  put("outRow", out[dim]);
  spec.inputs = {index, src};
  spec.outputs = {to};
  spec.costUs = static_cast<double>(context.upperBound(context.product(srcExtents))) * 0.0006;
  context.launch(op->getLoc(), spec);
  return true;
}

/// index_copy and index_add.
template <typename Op>
LogicalResult lowerRows(Op op, LoweringContext& context) {
  const mlir::Location loc = op.getLoc();
  const int64_t dim = op.getDim();
  if (isInRow(op, op->getOperand(2), context)) {
    return success();
  }
  Value from = context.bufferOf(op->getOperand(0));
  Value index = context.contiguous(loc, context.bufferOf(op->getOperand(1)),
                                   "indices are read one after the other");
  Value src = context.bufferOf(op->getOperand(2));
  Value wanted = context.destination(op.getResult());
  if (scatterRows(op, dim, from, index, src, wanted, context)) {
    return success();
  }
  Value dense = context.contiguous(loc, src, "rows are written from dense memory");
  Value to = context.slot(
      context.contiguousType(context.extentsOf(op.getResult()), typeOf(wanted).getElementType()));
  if (!scatterRows(op, dim, from, index, dense, to, context)) {
    return op->emitOpError("cannot be written row by row even in dense memory");
  }
  context.copy(loc, to, wanted, "copy",
               "the result is wanted in another layout than rows are written in");
  return success();
}

/// A launch of family scatter_nd: its loops in the order of the dims of what is written.
struct ElementWrites {
  llvm::SmallVector<Value> indices;
  Value src, to;
  Exprs extents;
  llvm::SmallVector<Exprs> indexStrides;
  Exprs srcStrides, toStrides;
  llvm::SmallVector<bool> isIndexDim;  ///< the loops along which the indices, not `to`, say where
  Exprs dimExtents, dimStrides;
  bool wrap = false;
  int64_t combine = 0;  ///< as the family numbers it
};

void launchElementWrites(Operation* op, llvm::StringRef name, const ElementWrites& writes,
                         LoweringContext& context) {
  llvm::SmallVector<size_t> order;  // the family wants the loops of the indices last
  for (bool isIndexDim : {false, true}) {
    for (size_t loop = 0; loop < writes.extents.size(); ++loop) {
      if (writes.isIndexDim[loop] == isIndexDim) {
        order.push_back(loop);
      }
    }
  }
  const auto ordered = [&](const Exprs& of) {
    return context.numbers(
        llvm::map_to_vector<8>(order, [&](size_t loop) -> AffineExpr { return of[loop]; }));
  };
  llvm::SmallVector<mlir::Attribute> strides = llvm::map_to_vector(
      writes.indexStrides, [&](const Exprs& of) -> mlir::Attribute { return ordered(of); });
  strides.push_back(ordered(writes.srcStrides));
  strides.push_back(ordered(writes.toStrides));
  KernelSpec spec;
  spec.op = name.str();
  spec.name = spec.op + sizeName(writes.extents);
  spec.family = "scatter_nd";
  spec.canFail = true;
  spec.updates = true;
  spec.why = "emitted.scatter_nd: any strides; every index is checked";
  auto tune = [&](llvm::StringRef key, int64_t value) {
    spec.tune.push_back(context.named(key, context.number(value)));
  };
  tune("rank", static_cast<int64_t>(order.size()));
  tune("beside", llvm::count(writes.isIndexDim, false));
  tune("indices", static_cast<int64_t>(writes.indices.size()));
  tune("wrap", writes.wrap ? 1 : 0);
  tune("combine", writes.combine);
  spec.shape = {context.named("extent", ordered(writes.extents)),
                context.named("stride", context.builder().getArrayAttr(strides)),
                context.named("dimExtent", context.numbers(writes.dimExtents)),
                context.named("dimStride", context.numbers(writes.dimStrides))};
  spec.inputs = writes.indices;
  spec.inputs.push_back(writes.src);
  spec.outputs = {writes.to};
  spec.costUs = static_cast<double>(context.upperBound(context.product(writes.extents))) * 0.001;
  context.launch(op->getLoc(), spec);
}

LogicalResult lowerIndexPut(op::IndexPutOp put, LoweringContext& context) {
  if (isInRow(put, put.getValues(), context)) {
    return success();
  }
  Value from = context.bufferOf(put.getX());
  ElementWrites writes;
  for (Value index : put.getIndices()) {
    writes.indices.push_back(context.bufferOf(index));
  }
  writes.src = context.bufferOf(put.getValues());
  writes.to = context.destination(put.getResult());
  bringTo(put, from, writes.to, context);
  writes.extents = context.extentsOf(put.getValues());
  IndexedLoops loops =
      indexedLoops({writes.to, writes.indices, put.getDims(), put.getFirstIndexDim()},
                   writes.extents.size(), context);
  writes.indexStrides = std::move(loops.indices);
  writes.srcStrides = context.stridesOf(typeOf(writes.src));
  writes.toStrides = std::move(loops.beside);
  writes.isIndexDim = std::move(loops.isIndexDim);
  writes.dimExtents = std::move(loops.dimExtents);
  writes.dimStrides = std::move(loops.dimStrides);
  writes.wrap = true;
  writes.combine = put.getAccumulate() ? 1 : 0;
  launchElementWrites(put, put.getAccumulate() ? "index_put_add" : "index_put", writes, context);
  return success();
}

LogicalResult lowerScatter(op::ScatterOp scatter, LoweringContext& context) {
  constexpr llvm::StringLiteral kReductions[] = {"none", "sum", "prod", "amin", "amax"};
  const auto dim = static_cast<int64_t>(scatter.getDim());
  Value from = context.bufferOf(scatter.getX());
  ElementWrites writes;
  writes.indices = {context.bufferOf(scatter.getIndex())};
  writes.src = context.bufferOf(scatter.getSrc());
  writes.to = context.destination(scatter.getResult());
  bringTo(scatter, from, writes.to, context);
  writes.extents = context.extentsOf(scatter.getIndex());
  writes.indexStrides = {context.stridesOf(typeOf(writes.indices.front()))};
  writes.srcStrides = context.stridesOf(typeOf(writes.src));
  writes.toStrides = context.stridesOf(typeOf(writes.to));
  writes.isIndexDim.assign(writes.extents.size(), false);
  writes.isIndexDim[dim] = true;
  writes.dimExtents = {context.extentsOf(scatter.getX())[dim]};
  writes.dimStrides = {writes.toStrides[dim]};
  writes.toStrides[dim] = context.constant(0);
  writes.combine =
      std::distance(std::begin(kReductions), llvm::find(kReductions, scatter.getReduce()));
  const bool replaces = writes.combine == 0;
  launchElementWrites(scatter, replaces ? "scatter" : "scatter_" + scatter.getReduce().str(),
                      writes, context);
  return success();
}

LogicalResult lowerSliceScatter(op::SliceScatterOp scatter, LoweringContext& context) {
  Value from = context.bufferOf(scatter.getX());
  Value src = context.bufferOf(scatter.getSrc());
  Value whole = context.destination(scatter.getResult());
  bringTo(scatter, from, whole, context);
  Exprs strides = context.stridesOf(typeOf(whole));
  const int64_t dim = scatter.getDim();
  const AffineExpr offset =
      strides[dim] * context.sliceStart(scatter.getStart(), context.extentsOf(scatter.getX())[dim]);
  strides[dim] = strides[dim] * scatter.getStep();
  Value part = context.view(
      scatter.getLoc(), whole,
      context.type(context.extentsOf(scatter.getSrc()), typeOf(whole).getElementType(), strides),
      offset);
  context.copy(scatter.getLoc(), src, part, "slice_scatter", "the slice that is replaced");
  return success();
}

LogicalResult lowerDynamicUpdateSlice(op::DynamicUpdateSliceOp update, LoweringContext& context) {
  Value from = context.bufferOf(update.getX());
  Value src = context.bufferOf(update.getSrc());
  Value whole = context.destination(update.getResult());
  bringTo(update, from, whole, context);
  FailureOr<Value> part = context.viewAtIndex(update.getLoc(), whole, update.getIndex(),
                                              update.getDim(), update.getSrc());
  if (failed(part)) {
    return failure();
  }
  context.copy(update.getLoc(), src, *part, "dynamic_update_slice", "the slice that is replaced");
  return success();
}

}  // namespace

void registerScatterRules(RuleSet& rules) {
  Rule& copy = rules.add(lowerRows<op::IndexCopyOp>);
  copy.updatesFirstOperand = true;
  copy.place = placeInRow<op::IndexCopyOp>;
  rules.add(lowerRows<op::IndexAddOp>).updatesFirstOperand = true;
  Rule& put = rules.add(lowerIndexPut);
  put.updatesFirstOperand = true;
  put.place = placeInRow<op::IndexPutOp>;
  rules.add(lowerScatter).updatesFirstOperand = true;
  rules.add(lowerSliceScatter).updatesFirstOperand = true;
  rules.add(lowerDynamicUpdateSlice).updatesFirstOperand = true;
}

}  // namespace straightline::lowering
