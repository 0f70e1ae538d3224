// SPDX-License-Identifier: Apache-2.0
// Ops that read through indices (embedding, index_select, gather), running sums, flips, and
// attention.
#include <bit>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/contraction_problem.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

/// table [outer.., extent, run..], indices [count..]: loops of each group must be one.
LogicalResult Lowering::lowerGatherRows(Operation* op, Value table, int64_t dim, Value indices) {
  const mlir::Location loc = op->getLoc();
  Value from = bufferOf(table);
  Value index = contiguous(loc, bufferOf(indices), "indices are read one after the other");
  Value wanted = destination(op->getResult(0));
  const Exprs tableExtents = extentsOf(table);
  const Exprs resultExtents = extentsOf(op->getResult(0));
  const size_t indexRank = extentsOf(indices).size();
  const size_t inner = tableExtents.size() - 1 - static_cast<size_t>(dim);
  Value to = wanted;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Exprs in = stridesOf(typeOf(from));
    const Exprs out = stridesOf(typeOf(to));
    auto slice = [](const Exprs& values, size_t first, size_t count) {
      return Exprs(values.begin() + first, values.begin() + first + count);
    };
    auto outer = mergeLoops(
        makeLoops(*this, slice(tableExtents, 0, dim), {slice(in, 0, dim), slice(out, 0, dim)}));
    auto count = mergeLoops(
        makeLoops(*this, slice(resultExtents, dim, indexRank), {slice(out, dim, indexRank)}));
    auto run =
        mergeLoops(makeLoops(*this, slice(tableExtents, dim + 1, inner),
                             {slice(in, dim + 1, inner), slice(out, dim + indexRank, inner)}));
    const bool dense = run.empty() || (run.size() == 1 && run[0].strides[0] == constant(1) &&
                                       run[0].strides[1] == constant(1));
    if (outer.size() > 1 || count.size() > 1 || !dense) {
      from = contiguous(loc, from, "rows are gathered from dense memory");
      to = slot(contiguousType(resultExtents, typeOf(wanted).getElementType()));
      continue;
    }
    KernelSpec spec;
    spec.family = "gather_rows";
    spec.name = op->getName().stripDialect().str() + sizeName(count) + sizeName(run);
    spec.op = op->getName().stripDialect().str();
    spec.why = "native.gather_rows: whole rows are copied; every index is checked";
    spec.canFail = true;
    auto one = [&](llvm::ArrayRef<Loop> loops) {
      return loops.empty() ? constant(1) : loops[0].extent;
    };
    auto stride = [&](llvm::ArrayRef<Loop> loops, size_t operand) {
      return loops.empty() ? constant(0) : loops[0].strides[operand];
    };
    spec.shape = {named("outer", number(one(outer))),
                  named("count", number(one(count))),
                  named("run", number(one(run))),
                  named("extent", number(tableExtents[dim])),
                  named("inOuter", number(stride(outer, 0))),
                  named("inRow", number(in[dim])),
                  named("indexStride", number(1)),
                  named("outOuter", number(stride(outer, 1))),
                  named("outRow", number(stride(count, 0)))};
    spec.inputs = {from, index};
    spec.outputs = {to};
    spec.costUs = static_cast<double>(upperBound(product(resultExtents))) * 0.0004;
    launch(loc, spec);
    if (to != wanted) {
      copy(loc, to, wanted, "copy",
           "the result is wanted in another layout than rows are gathered in");
    }
    return success();
  }
  return op->emitOpError("cannot be gathered row by row even from dense memory");
}

/// index_copy and index_add: x in the result's place (it may be there already), then the rows of
/// src over it.
LogicalResult Lowering::lowerScatterRows(Operation* op) {
  const mlir::Location loc = op->getLoc();
  const bool adds = llvm::isa<op::IndexAddOp>(op);
  const int64_t dim = op->getAttrOfType<mlir::IntegerAttr>("dim").getInt();
  const std::string name = op->getName().stripDialect().str();
  Value x = op->getOperand(0);
  Value from = bufferOf(x);
  Value index =
      contiguous(loc, bufferOf(op->getOperand(1)), "indices are read one after the other");
  Value src = bufferOf(op->getOperand(2));
  Value wanted = destination(op->getResult(0));
  const Exprs extents = extentsOf(x);
  const Exprs srcExtents = extentsOf(op->getOperand(2));
  const size_t inner = extents.size() - 1 - static_cast<size_t>(dim);
  Value to = wanted;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Exprs in = stridesOf(typeOf(src));
    const Exprs out = stridesOf(typeOf(to));
    auto slice = [](const Exprs& values, size_t first, size_t count) {
      return Exprs(values.begin() + first, values.begin() + first + count);
    };
    auto outer = mergeLoops(
        makeLoops(*this, slice(extents, 0, dim), {slice(in, 0, dim), slice(out, 0, dim)}));
    auto run = mergeLoops(makeLoops(*this, slice(extents, dim + 1, inner),
                                    {slice(in, dim + 1, inner), slice(out, dim + 1, inner)}));
    const bool dense = run.empty() || (run.size() == 1 && run[0].strides[0] == constant(1) &&
                                       run[0].strides[1] == constant(1));
    if (outer.size() > 1 || !dense) {
      src = contiguous(loc, src, "rows are written from dense memory");
      to = slot(contiguousType(extents, typeOf(wanted).getElementType()));
      continue;
    }
    if (from != to) {
      copy(loc, from, to, name, "the old value is still read, or belongs to the caller");
    }
    KernelSpec spec;
    spec.family = "scatter_rows";
    spec.name = name + sizeName(run);
    spec.op = name;
    spec.why = "native.scatter_rows: whole rows; every index is checked";
    spec.canFail = true;
    spec.updates = true;
    auto one = [&](llvm::ArrayRef<Loop> loops) {
      return loops.empty() ? constant(1) : loops[0].extent;
    };
    auto stride = [&](llvm::ArrayRef<Loop> loops, size_t operand) {
      return loops.empty() ? constant(0) : loops[0].strides[operand];
    };
    spec.tune = {named("add", number(adds ? 1 : 0))};
    spec.shape = {named("outer", number(one(outer))),
                  named("count", number(srcExtents[dim])),
                  named("run", number(one(run))),
                  named("extent", number(extents[dim])),
                  named("srcOuter", number(stride(outer, 0))),
                  named("srcRow", number(in[dim])),
                  named("outOuter", number(stride(outer, 1))),
                  named("outRow", number(out[dim]))};
    spec.inputs = {index, src};
    spec.outputs = {to};
    spec.costUs = static_cast<double>(upperBound(product(srcExtents))) * 0.0006;
    launch(loc, spec);
    if (to != wanted) {
      copy(loc, to, wanted, "copy",
           "the result is wanted in another layout than rows are written in");
    }
    return success();
  }
  return op->emitOpError("cannot be written row by row even in dense memory");
}

LogicalResult Lowering::lowerIndexing(Operation* op) {
  const mlir::Location loc = op->getLoc();
  if (auto embedding = llvm::dyn_cast<op::EmbeddingOp>(op)) {
    return lowerGatherRows(op, embedding.getWeight(), 0, embedding.getIndices());
  }
  if (auto select = llvm::dyn_cast<op::IndexSelectOp>(op)) {
    return lowerGatherRows(op, select.getX(), select.getDim(), select.getIndex());
  }
  if (auto flip = llvm::dyn_cast<op::FlipOp>(op)) {
    // A view that walks backwards, copied.
    Value from = bufferOf(flip.getX());
    Exprs strides = stridesOf(typeOf(from));
    const Exprs extents = extentsOf(flip.getX());
    AffineExpr offset = constant(0);
    for (int64_t dim : flip.getDims()) {
      offset = offset + strides[dim] * (extents[dim] + (-1));
      strides[dim] = strides[dim] * -1;
    }
    Value backwards =
        view(loc, from, type(extents, typeOf(from).getElementType(), strides), offset);
    copy(loc, backwards, destination(flip.getResult()), "flip", "native.pointwise: read backwards");
    return success();
  }
  KernelSpec spec;
  spec.op = op->getName().stripDialect().str();
  spec.name = spec.op;
  if (auto gather = llvm::dyn_cast<op::GatherOp>(op)) {
    const int64_t dim = gather.getDim();
    Value from = bufferOf(gather.getX());
    Value index = bufferOf(gather.getIndex());
    Value to = destination(gather.getResult());
    Exprs in = stridesOf(typeOf(from));
    const AffineExpr dimStride = in[dim];
    in[dim] = constant(0);
    spec.family = "gather_elements";
    spec.canFail = true;
    spec.why = "native.gather_elements: any strides; every index is checked";
    const Exprs extents = extentsOf(gather.getIndex());
    spec.tune = {named("rank", number(static_cast<int64_t>(extents.size())))};
    spec.shape = {named("extent", numbers(extents)),
                  named("stride", mlir::ArrayAttr::get(
                                      context_, {numbers(in), numbers(stridesOf(typeOf(index))),
                                                 numbers(stridesOf(typeOf(to)))})),
                  named("dimExtent", number(extentsOf(gather.getX())[dim])),
                  named("dimStride", number(dimStride))};
    spec.inputs = {from, index};
    spec.outputs = {to};
    spec.costUs = static_cast<double>(upperBound(product(extents))) * 0.0006;
    launch(loc, spec);
    return success();
  }
  auto scan = llvm::cast<op::CumsumOp>(op);
  const int64_t dim = scan.getDim();
  Value from = bufferOf(scan.getX());
  Value to = destination(scan.getResult());
  const Exprs extents = extentsOf(scan.getX());
  const Exprs in = stridesOf(typeOf(from));
  const Exprs out = stridesOf(typeOf(to));
  spec.family = "scan";
  spec.why = "native.scan: one pass along the dim";
  spec.tune = {named("rank", number(static_cast<int64_t>(extents.size()) - 1))};
  spec.shape = {
      named("outer", numbers(without(extents, dim))),
      named("outerStride", mlir::ArrayAttr::get(
                               context_, {numbers(without(in, dim)), numbers(without(out, dim))})),
      named("count", number(extents[dim])), named("stride", numbers({in[dim], out[dim]}))};
  spec.inputs = {from};
  spec.outputs = {to};
  spec.costUs = static_cast<double>(upperBound(product(extents))) * 0.002;
  launch(loc, spec);
  return success();
}

LogicalResult Lowering::lowerAttention(op::ScaledDotProductAttentionOp attention) {
  const mlir::Location loc = attention.getLoc();
  Problem problem("attention", target_);
  auto sizes = [&](llvm::ArrayRef<AffineExpr> exprs) {
    return llvm::map_to_vector(exprs, [](AffineExpr expr) -> int64_t {
      return symbolic::constantValue(expr).value_or(SL_DYNAMIC);
    });
  };
  // [.., h, l, e] with up to one leading dim; missing ones have one element.
  auto four = [&](Exprs values, AffineExpr missing) {
    while (values.size() < 4) {
      values.insert(values.begin(), missing);
    }
    return values;
  };
  Exprs q = four(extentsOf(attention.getQ()), constant(1));
  const Exprs k = four(extentsOf(attention.getK()), constant(1));
  if (q.size() > 4) {
    return attention.emitOpError()
           << "has rank " << q.size() << "; unsupported: the nearest supported form has rank 4";
  }
  llvm::SmallVector<Value> tensors{attention.getQ(), attention.getK(), attention.getV()};
  auto keys = attention.getK().getDefiningOp<op::CatOp>();
  auto values = attention.getV().getDefiningOp<op::CatOp>();
  const bool inParts = keys && isReadInParts(keys);  // then the values are, too
  if (inParts) {
    tensors = {attention.getQ(), keys.getTensors()[0], values.getTensors()[0], keys.getTensors()[1],
               values.getTensors()[1]};
  }
  llvm::SmallVector<Value> inputs;
  for (Value tensor : tensors) {
    Value buffer = bufferOf(tensor);
    const Exprs strides = stridesOf(typeOf(buffer));
    inputs.push_back(strides.back() == constant(1)
                         ? buffer
                         : contiguous(loc, buffer, "attention reads whole heads"));
  }
  Exprs maskStrides(4, constant(0));
  if (attention.getMask()) {
    Value mask = bufferOf(attention.getMask());
    const Exprs extents = extentsOf(attention.getMask());
    Exprs strides = stridesOf(typeOf(mask));
    if (strides.back() != constant(1) && extents.back() != constant(1)) {
      mask = contiguous(loc, mask, "a mask is read along the keys");
      strides = stridesOf(typeOf(mask));
    }
    for (size_t dim = 0; dim < strides.size(); ++dim) {
      maskStrides[4 - strides.size() + dim] =
          extents[dim] == constant(1) ? constant(0) : strides[dim];
    }
    inputs.push_back(mask);
  }
  Value wanted = destination(attention.getResult());
  Value to =
      stridesOf(typeOf(wanted)).back() == constant(1)
          ? wanted
          : slot(contiguousType(extentsOf(attention.getResult()), typeOf(wanted).getElementType()));
  Exprs qStrides = four(stridesOf(typeOf(inputs[0])), constant(0));
  Exprs toStrides = four(stridesOf(typeOf(to)), constant(0));
  // The heads of one query that share keys are queries of one head: each key is read once for them.
  if (target_.getBackend() == "cpu" && q[2] == constant(1) && q[1] != k[1] &&
      !attention.getIsCausal()) {
    const AffineExpr group = q[1].floorDiv(k[1]);
    q[2] = group;
    q[1] = k[1];
    for (Exprs* strides : {&qStrides, &toStrides, &maskStrides}) {
      (*strides)[2] = (*strides)[1];
      (*strides)[1] = (*strides)[1] * group;
    }
  }
  auto add = [&](Value buffer, const Exprs& extents, const Exprs& strides) {
    problem.addOperand(typeOf(buffer).getElementType(), sizes(extents), sizes(strides), false);
  };
  add(inputs[0], q, qStrides);
  add(inputs[1], k, four(stridesOf(typeOf(inputs[1])), constant(0)));
  add(inputs[2], four(extentsOf(attention.getV()), constant(1)),
      four(stridesOf(typeOf(inputs[2])), constant(0)));
  if (attention.getMask()) {
    add(inputs.back(), four(extentsOf(attention.getMask()), constant(1)),
        four(stridesOf(typeOf(inputs.back())), constant(0)));
  }
  problem.setInputs(attention.getMask() ? 4 : 3);
  Exprs result = q;
  result[3] = four(extentsOf(attention.getV()), constant(1))[3];
  add(to, result, toStrides);
  problem.addAttribute("is_causal", attention.getIsCausal() ? 1 : 0);
  if (inParts) {
    problem.addAttribute("parts", 2);
  }
  problem.setAtEdge(llvm::any_of(tensors, isAtGraphEdge) ||
                    (attention.getMask() && isAtGraphEdge(attention.getMask())) ||
                    isAtGraphEdge(attention.getResult()));
  const KernelWishes wishes{{}, routeOf(module_, attention->getName().stripDialect()), {}};
  const KernelChoice choice = chooseKernel(problem, wishes);
  if (!choice.kernel) {
    emitNoKernel(attention, choice, wishes);
    return failure();
  }
  KernelSpec spec;
  spec.family = choice.kernel->family;
  spec.op = "scaled_dot_product_attention";
  spec.why = choice.why;
  spec.costUs = choice.costUs;
  spec.ownCost = true;
  const double scale = attention.getScale() ? attention.getScale()->convertToDouble() : 0.0;
  auto finish = [&] {
    if (to != wanted) {
      copy(loc, to, wanted, "copy", "the result is wanted in another layout than attention writes");
    }
    return success();
  };
  if (spec.family.empty()) {
    // It reads extents and strides from the operands: all of them get four dims. (Of float32, as
    // the library takes it.)
    const float known = static_cast<float>(
        scale != 0.0 ? scale
                     : 1.0 / std::sqrt(static_cast<double>(*symbolic::constantValue(q[3]))));
    auto whole = [&](Value buffer, const Exprs& extents, const Exprs& strides) {
      return extents.size() == 4 && extentsOf(typeOf(buffer)) == extents
                 ? buffer
                 : view(loc, buffer, type(extents, typeOf(buffer).getElementType(), strides),
                        constant(0));
    };
    llvm::SmallVector<Value> given;
    for (auto [buffer, tensor] : llvm::zip(llvm::ArrayRef(inputs).take_front(3), tensors)) {
      given.push_back(whole(buffer, four(extentsOf(tensor), constant(1)),
                            four(stridesOf(typeOf(buffer)), constant(0))));
    }
    if (attention.getMask()) {
      given.push_back(
          whole(inputs.back(), four(extentsOf(attention.getMask()), constant(1)), maskStrides));
    }
    callLibrary(loc, {*choice.kernel, problem, spec}, given, {},
                whole(to, four(extentsOf(attention.getResult()), constant(1)), toStrides),
                {named("is_causal", number(attention.getIsCausal() ? 1 : 0)),
                 named("scale_bits", number(std::bit_cast<uint32_t>(known)))});
    return finish();
  }
  spec.tune = tuneAttributes(context_, *choice.kernel, problem);
  for (mlir::NamedAttribute& entry : spec.tune) {
    if (entry.getName() == "mask") {
      entry.setValue(number(attention.getMask() ? 1 : 0));
    } else if (entry.getName() == "causal") {
      entry.setValue(number(attention.getIsCausal() ? 1 : 0));
    } else if (entry.getName() == "early") {
      entry.setValue(
          number(!inPrepare() && isFixedInRun(tensors[1]) && isFixedInRun(tensors[2]) ? 1 : 0));
    }
  }
  auto three = [&](const Exprs& strides) { return numbers({strides[0], strides[1], strides[2]}); };
  auto threeOf = [&](Value buffer) { return three(four(stridesOf(typeOf(buffer)), constant(0))); };
  spec.shape = {named("b", number(q[0])),
                named("h", number(q[1])),
                named("hk", number(k[1])),
                named("s", number(q[2])),
                named("t", number(k[2])),
                named("d", number(q[3])),
                named("scale", builder_.getF64FloatAttr(scale)),
                named("qStride", three(qStrides)),
                named("kStride", threeOf(inputs[1])),
                named("vStride", threeOf(inputs[2])),
                named("outStride", three(toStrides)),
                named("maskStride", numbers(maskStrides)),
                named("epilogueStride", builder_.getArrayAttr({}))};
  if (inParts) {
    // In the order of the family's structs: behind `causal`, and before the strides of the
    // epilogue.
    auto* causal = llvm::find_if(
        spec.tune, [](mlir::NamedAttribute entry) { return entry.getName() == "causal"; });
    spec.tune.insert(causal == spec.tune.end() ? causal : causal + 1, named("parts", number(2)));
    const mlir::NamedAttribute epilogue = spec.shape.pop_back_val();
    spec.shape.append(
        {named("split", number(four(extentsOf(keys.getTensors()[0]), constant(1))[2])),
         named("k2Stride", threeOf(inputs[3])), named("v2Stride", threeOf(inputs[4])), epilogue});
  }
  spec.inputs = inputs;
  spec.outputs = {to};
  spec.name = "attention" + sizeName({q[0], q[1], q[2], k[2], q[3]});
  const mlir::Type element = typeOf(to).getElementType();
  const mlir::Type sum = element.getIntOrFloatBitWidth() < 32 ? builder_.getF32Type() : element;
  spec.bodies.push_back({"epilogue", {sum}, [=](mlir::OpBuilder& builder, mlir::ValueRange given) {
                           Value result = given[0];
                           if (sum != element) {
                             result = mlir::arith::TruncFOp::create(builder, loc, element, result);
                           }
                           return llvm::SmallVector<Value>{result};
                         }});
  const sl_problem asked = problem.view();
  if (const int64_t bytes = choice.kernel->workspace ? choice.kernel->workspace(&asked) : 0;
      bytes > 0) {
    spec.workspace.push_back(slot(contiguousType({constant(bytes)}, builder_.getI8Type())));
  }
  launch(loc, spec);
  return finish();
}

}  // namespace straightline::lowering
