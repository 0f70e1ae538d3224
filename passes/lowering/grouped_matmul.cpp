// SPDX-License-Identifier: Apache-2.0
// grouped_matmul: rows of several groups, each group with a matrix of its own; or a result for each
// of several groups of terms.
#include "passes/contraction_problem.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// Whether groups are of terms of the sums, not of rows.
bool isOfTerms(op::GroupedMatmulOp product) { return product.getB().getType().getRank() == 2; }

Problem problemOf(op::GroupedMatmulOp product, llvm::ArrayRef<Value> buffers,
                  LoweringContext& context) {
  Problem problem("grouped_matmul", context.target());
  for (Value buffer : buffers) {
    problem.addOperand(typeOf(buffer).getElementType(),
                       staticOrDynamic(context.extentsOf(typeOf(buffer))),
                       staticOrDynamic(context.stridesOf(typeOf(buffer))), false);
  }
  problem.setInputs(3);
  const Exprs a = context.extentsOf(product.getA()), b = context.extentsOf(product.getB());
  const int64_t groups = staticOrDynamic(context.extentsOf(product.getEnds())[0]);
  // Costs and tiles are those of the mean number of rows or terms.
  const auto mean = [&](mlir::AffineExpr size) {
    const std::optional<int64_t> all = symbolic::constantValue(size);
    return all && groups != SL_DYNAMIC
               ? int64_t(llvm::divideCeil(*all, std::max<int64_t>(groups, 1)))
               : SL_DYNAMIC;
  };
  problem.addAttribute("batch", groups);
  problem.addAttribute("m", isOfTerms(product) ? staticOrDynamic(a[0]) : mean(a[0]));
  problem.addAttribute("k", isOfTerms(product) ? mean(a[1]) : staticOrDynamic(a[1]));
  problem.addAttribute("n", staticOrDynamic(b.back()));
  addTf32(problem, context.module(), "matmul");
  return problem;
}

LogicalResult lowerGroupedMatmul(op::GroupedMatmulOp product, LoweringContext& context) {
  const mlir::Location loc = product.getLoc();
  Value a = context.bufferOf(product.getA());
  Value b = context.bufferOf(product.getB());
  Value ends = context.bufferOf(product.getEnds());
  Value wanted = context.destination(product.getResult());
  const mlir::Type element = typeOf(wanted).getElementType();
  const Exprs extents = context.extentsOf(product.getResult());
  Value to = context.stridesOf(typeOf(wanted)).back() == context.constant(1)
                 ? wanted
                 : context.slot(context.contiguousType(extents, element));
  const Problem problem = problemOf(product, {a, b, ends, to}, context);
  const KernelChoice choice = chooseKernel(problem);
  if (!choice.kernel) {
    emitNoKernel(product, choice, {});
    return failure();
  }
  const Exprs aExtents = context.extentsOf(product.getA());
  const mlir::AffineExpr groups = context.extentsOf(product.getEnds())[0];
  const bool ofTerms = isOfTerms(product);
  const Exprs aStrides = context.stridesOf(typeOf(a)), bStrides = context.stridesOf(typeOf(b));
  const Exprs strides = context.stridesOf(typeOf(to));
  KernelSpec spec;
  spec.family = choice.kernel->family;
  spec.op = "grouped_matmul";
  spec.name = spec.op + (ofTerms ? "_terms" : "") +
              sizeName({groups, aExtents[0], extents.back(), aExtents[1]});
  spec.why = choice.why;
  spec.costUs = choice.costUs;
  spec.ownCost = true;
  spec.tune = tuneAttributes(context.context(), *choice.kernel, problem);
  auto put = [&](llvm::StringRef key, mlir::AffineExpr value) {
    spec.shape.push_back(context.named(key, context.number(value)));
  };
  put("groups", groups);
  put("m", aExtents[0]);
  put("n", extents.back());
  put("k", aExtents[1]);
  put("aRow", aStrides[0]);
  put("aCol", aStrides[1]);
  if (!ofTerms) {
    put("bGroup", bStrides[0]);
  }
  put("bRow", bStrides[bStrides.size() - 2]);
  put("bCol", bStrides.back());
  put("cRow", strides[strides.size() - 2]);
  put("endStride", context.stridesOf(typeOf(ends))[0]);
  if (ofTerms) {
    put("cGroup", strides[0]);
  }
  spec.inputs = {a, b, ends};
  spec.outputs = {to};
  spec.bodies.push_back(roundedSums(loc, element));
  const sl_problem asked = problem.view();
  if (const int64_t bytes = choice.kernel->workspace ? choice.kernel->workspace(&asked) : 0;
      bytes > 0) {
    spec.workspace.push_back(context.slot(
        context.contiguousType({context.constant(bytes)}, context.builder().getI8Type())));
  }
  context.launch(loc, spec);
  if (to != wanted) {
    context.copy(loc, to, wanted, "copy", "the result is wanted in another layout than rows");
  }
  return success();
}

}  // namespace

void registerGroupedMatmulRules(RuleSet& rules) { rules.add(lowerGroupedMatmul); }

}  // namespace straightline::lowering
