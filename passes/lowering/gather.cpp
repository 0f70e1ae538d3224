// SPDX-License-Identifier: Apache-2.0
// Ops that read through indices: whole rows (embedding, index_select) and elements (gather, index);
// and running sums along a dim.
#include "dialect/op/scan.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"
#include "passes/lowering/indexed_loops.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// Launches the kernel where the dims before, of and behind the indices are one loop each; false
/// where they are not.
bool gatherRows(Operation* op, Value table, int64_t dim, Value from, Value index, Value to,
                LoweringContext& context) {
  const Exprs tableExtents = context.extentsOf(table);
  const Exprs resultExtents = context.extentsOf(op->getResult(0));
  const size_t indexRank = context.extentsOf(typeOf(index)).size();
  const size_t inner = tableExtents.size() - 1 - static_cast<size_t>(dim);
  const Exprs in = context.stridesOf(typeOf(from));
  const Exprs out = context.stridesOf(typeOf(to));
  auto outer = mergeLoops(
      makeLoops(context, part(tableExtents, 0, dim), {part(in, 0, dim), part(out, 0, dim)}));
  auto count = mergeLoops(
      makeLoops(context, part(resultExtents, dim, indexRank), {part(out, dim, indexRank)}));
  auto run = mergeLoops(makeLoops(context, part(tableExtents, dim + 1, inner),
                                  {part(in, dim + 1, inner), part(out, dim + indexRank, inner)}));
  if (outer.size() > 1 || count.size() > 1 || !isDenseRun(context, run)) {
    return false;
  }
  KernelSpec spec;
  spec.family = "gather_rows";
  spec.op = op->getName().stripDialect().str();
  spec.name = spec.op + sizeName(count) + sizeName(run);
  spec.why = "emitted.gather_rows: whole rows are copied; every index is checked";
  spec.canFail = true;
  auto put = [&](llvm::StringRef key, AffineExpr value) {
    spec.shape.push_back(context.named(key, context.number(value)));
  };
  put("outer", onlyExtent(context, outer));
  put("count", onlyExtent(context, count));
  put("run", onlyExtent(context, run));
  put("extent", tableExtents[dim]);
  put("inOuter", onlyStride(context, outer, 0));
  put("inRow", in[dim]);
  put("indexStride", context.constant(1));
  put("outOuter", onlyStride(context, outer, 1));
  put("outRow", onlyStride(context, count, 0));
  spec.inputs = {from, index};
  spec.outputs = {to};
  spec.costUs = static_cast<double>(context.upperBound(context.product(resultExtents))) * 0.0004;
  context.launch(op->getLoc(), spec);
  return true;
}

/// table [outer.., extent, run..], indices [count..]
LogicalResult lowerRows(Operation* op, Value table, int64_t dim, Value indices,
                        LoweringContext& context) {
  const mlir::Location loc = op->getLoc();
  Value from = context.bufferOf(table);
  Value index =
      context.contiguous(loc, context.bufferOf(indices), "indices are read one after the other");
  Value wanted = context.destination(op->getResult(0));
  if (gatherRows(op, table, dim, from, index, wanted, context)) {
    return success();
  }
  Value dense = context.contiguous(loc, from, "rows are gathered from dense memory");
  Value to = context.slot(
      context.contiguousType(context.extentsOf(op->getResult(0)), typeOf(wanted).getElementType()));
  if (!gatherRows(op, table, dim, dense, index, to, context)) {
    return op->emitOpError("cannot be gathered row by row even from dense memory");
  }
  context.copy(loc, to, wanted, "copy",
               "the result is wanted in another layout than rows are gathered in");
  return success();
}

LogicalResult lowerEmbedding(op::EmbeddingOp embedding, LoweringContext& context) {
  return lowerRows(embedding, embedding.getWeight(), 0, embedding.getIndices(), context);
}

LogicalResult lowerIndexSelect(op::IndexSelectOp select, LoweringContext& context) {
  return lowerRows(select, select.getX(), select.getDim(), select.getIndex(), context);
}

LogicalResult lowerGather(op::GatherOp gather, LoweringContext& context) {
  const int64_t dim = gather.getDim();
  Value from = context.bufferOf(gather.getX());
  Value index = context.bufferOf(gather.getIndex());
  Value to = context.destination(gather.getResult());
  Exprs in = context.stridesOf(typeOf(from));
  const AffineExpr dimStride = in[dim];
  in[dim] = context.constant(0);
  KernelSpec spec;
  spec.op = "gather";
  spec.name = spec.op;
  spec.family = "gather_elements";
  spec.canFail = true;
  spec.why = "emitted.gather_elements: any strides; every index is checked";
  const Exprs extents = context.extentsOf(gather.getIndex());
  spec.tune = {context.named("rank", context.number(static_cast<int64_t>(extents.size())))};
  spec.shape = {context.named("extent", context.numbers(extents)),
                context.named("stride", context.builder().getArrayAttr(
                                            {context.numbers(in),
                                             context.numbers(context.stridesOf(typeOf(index))),
                                             context.numbers(context.stridesOf(typeOf(to)))})),
                context.named("dimExtent", context.number(context.extentsOf(gather.getX())[dim])),
                context.named("dimStride", context.number(dimStride))};
  spec.inputs = {from, index};
  spec.outputs = {to};
  spec.costUs = static_cast<double>(context.upperBound(context.product(extents))) * 0.0006;
  context.launch(gather.getLoc(), spec);
  return success();
}

LogicalResult lowerIndex(op::IndexOp index, LoweringContext& context) {
  Value from = context.bufferOf(index.getX());
  llvm::SmallVector<Value> indices;
  for (Value operand : index.getIndices()) {
    indices.push_back(context.bufferOf(operand));
  }
  Value to = context.destination(index.getResult());
  const Exprs extents = context.extentsOf(index.getResult());
  const IndexedLoops loops = indexedLoops(
      {from, indices, index.getDims(), index.getFirstIndexDim()}, extents.size(), context);
  llvm::SmallVector<mlir::Attribute> strides = {context.numbers(loops.beside)};
  for (const Exprs& of : loops.indices) {
    strides.push_back(context.numbers(of));
  }
  strides.push_back(context.numbers(context.stridesOf(typeOf(to))));
  KernelSpec spec;
  spec.op = "index";
  spec.name = spec.op + sizeName(extents);
  spec.family = "gather_nd";
  spec.canFail = true;
  spec.why = "emitted.gather_nd: any strides; every index is checked";
  spec.tune = {context.named("rank", context.number(static_cast<int64_t>(extents.size()))),
               context.named("indices", context.number(static_cast<int64_t>(indices.size())))};
  spec.shape = {context.named("extent", context.numbers(extents)),
                context.named("stride", context.builder().getArrayAttr(strides)),
                context.named("dimExtent", context.numbers(loops.dimExtents)),
                context.named("dimStride", context.numbers(loops.dimStrides))};
  spec.inputs = {from};
  spec.inputs.append(indices);
  spec.outputs = {to};
  spec.costUs = static_cast<double>(context.upperBound(context.product(extents))) * 0.001;
  context.launch(index.getLoc(), spec);
  return success();
}

/// `combine`: a number of scanCombine; 0 is the sum.
void launchScan(mlir::Operation* scan, int64_t dim, llvm::StringRef name, int64_t combine,
                LoweringContext& context) {
  Value from = context.bufferOf(scan->getOperand(0));
  Value to = context.destination(scan->getResult(0));
  const Exprs extents = context.extentsOf(scan->getOperand(0));
  const Exprs in = context.stridesOf(typeOf(from));
  const Exprs out = context.stridesOf(typeOf(to));
  KernelSpec spec;
  spec.op = name.str();
  spec.name = spec.op;
  spec.family = "scan";
  spec.why = "emitted.scan: one pass along the dim";
  spec.tune = {context.named("rank", context.number(static_cast<int64_t>(extents.size()) - 1))};
  if (combine != 0) {
    spec.tune.push_back(context.named("combine", context.number(combine)));
  }
  spec.shape = {context.named("outer", context.numbers(without(extents, dim))),
                context.named("outerStride",
                              context.builder().getArrayAttr({context.numbers(without(in, dim)),
                                                              context.numbers(without(out, dim))})),
                context.named("count", context.number(extents[dim])),
                context.named("stride", context.numbers({in[dim], out[dim]}))};
  spec.inputs = {from};
  spec.outputs = {to};
  const double costOfOne = name == "logcumsumexp" ? 0.02 : 0.002;
  spec.costUs = static_cast<double>(context.upperBound(context.product(extents))) * costOfOne;
  context.launch(scan->getLoc(), spec);
}

LogicalResult lowerCumsum(op::CumsumOp scan, LoweringContext& context) {
  launchScan(scan, static_cast<int64_t>(scan.getDim()), "cumsum", 0, context);
  return success();
}

LogicalResult lowerScan(op::ScanOp scan, LoweringContext& context) {
  const llvm::StringRef combine = scan.getCombine();
  const std::string name = combine.starts_with("log") ? combine.str() : "cum" + combine.str();
  launchScan(scan, static_cast<int64_t>(scan.getDim()), name, *op::scanCombine(combine), context);
  return success();
}

}  // namespace

void registerGatherRules(RuleSet& rules) {
  rules.add(lowerEmbedding);
  rules.add(lowerIndexSelect);
  rules.add(lowerGather);
  rules.add(lowerIndex);
  rules.add(lowerCumsum);
  rules.add(lowerScan);
}

}  // namespace straightline::lowering
