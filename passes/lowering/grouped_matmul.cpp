// SPDX-License-Identifier: Apache-2.0
// grouped_matmul: rows of several groups, each group with a matrix of its own.
#include "passes/contraction_problem.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::failure;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

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
  const std::optional<int64_t> m = symbolic::constantValue(a[0]);
  const std::optional<int64_t> groups = symbolic::constantValue(b[0]);
  // Costs and tiles are those of the mean number of rows.
  problem.addAttribute("batch", groups.value_or(SL_DYNAMIC));
  problem.addAttribute(
      "m", m && groups ? llvm::divideCeil(*m, std::max<int64_t>(*groups, 1)) : SL_DYNAMIC);
  problem.addAttribute("k", staticOrDynamic(b[1]));
  problem.addAttribute("n", staticOrDynamic(b[2]));
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
  const Exprs matrix = context.extentsOf(product.getB());
  const Exprs aStrides = context.stridesOf(typeOf(a)), bStrides = context.stridesOf(typeOf(b));
  KernelSpec spec;
  spec.family = choice.kernel->family;
  spec.op = "grouped_matmul";
  spec.name = spec.op + sizeName({matrix[0], extents[0], matrix[2], matrix[1]});
  spec.why = choice.why;
  spec.costUs = choice.costUs;
  spec.ownCost = true;
  spec.tune = tuneAttributes(context.context(), *choice.kernel, problem);
  auto put = [&](llvm::StringRef key, mlir::AffineExpr value) {
    spec.shape.push_back(context.named(key, context.number(value)));
  };
  put("groups", matrix[0]);
  put("m", extents[0]);
  put("n", matrix[2]);
  put("k", matrix[1]);
  put("aRow", aStrides[0]);
  put("aCol", aStrides[1]);
  put("bGroup", bStrides[0]);
  put("bRow", bStrides[1]);
  put("bCol", bStrides[2]);
  put("cRow", context.stridesOf(typeOf(to))[0]);
  put("endStride", context.stridesOf(typeOf(ends))[0]);
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
