// SPDX-License-Identifier: Apache-2.0
// Pools over two dims: max_pool2d, avg_pool2d.
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// The attributes of either op.
struct Window {
  llvm::StringRef kind;
  llvm::ArrayRef<int64_t> kernelSize, stride, padding;
  std::array<int64_t, 2> dilation = {1, 1};
  bool includePad = false;
  int64_t divisor = 0;
};

/// [n, c, h, w]; a missing n has one element.
void addBatch(Exprs& values, mlir::AffineExpr missing) {
  if (values.size() == 3) {
    values.insert(values.begin(), missing);
  }
}

LogicalResult lowerWindow(Operation* op, const Window& window, LoweringContext& context) {
  Value from = context.bufferOf(op->getOperand(0));
  Value to = context.destination(op->getResult(0));
  Exprs in = context.extentsOf(op->getOperand(0));
  Exprs out = context.extentsOf(op->getResult(0));
  Exprs inStrides = context.stridesOf(typeOf(from));
  Exprs outStrides = context.stridesOf(typeOf(to));
  addBatch(in, context.constant(1));
  addBatch(out, context.constant(1));
  addBatch(inStrides, context.constant(0));
  addBatch(outStrides, context.constant(0));
  const bool channelsLast =
      inStrides[1] == context.constant(1) && outStrides[1] == context.constant(1);
  KernelSpec spec;
  spec.name = op->getName().stripDialect().str();
  spec.family = "pool";
  spec.inputs = {from};
  spec.outputs = {to};
  spec.tune = {context.named("kind", context.builder().getStringAttr(window.kind)),
               context.named("channelsLast", context.number(channelsLast ? 1 : 0))};
  auto put = [&](llvm::StringRef key, auto value) {
    spec.shape.push_back(context.named(key, context.number(value)));
  };
  put("batch", in[0]);
  put("channels", in[1]);
  put("inH", in[2]);
  put("inW", in[3]);
  put("outH", out[2]);
  put("outW", out[3]);
  put("kernelH", window.kernelSize[0]);
  put("kernelW", window.kernelSize[1]);
  put("strideH", window.stride[0]);
  put("strideW", window.stride[1]);
  put("padH", window.padding[0]);
  put("padW", window.padding[1]);
  put("dilationH", window.dilation[0]);
  put("dilationW", window.dilation[1]);
  put("includePad", int64_t{window.includePad});
  put("divisor", window.divisor);
  spec.shape.push_back(context.named("inStride", context.numbers(inStrides)));
  spec.shape.push_back(context.named("outStride", context.numbers(outStrides)));
  spec.op = spec.name;
  spec.why = channelsLast ? "emitted.pool: vectors of channels" : "emitted.pool: any strides";
  spec.costUs = static_cast<double>(context.upperBound(context.product(out))) *
                static_cast<double>(window.kernelSize[0] * window.kernelSize[1]) * 0.0001;
  context.launch(op->getLoc(), spec);
  return success();
}

LogicalResult lowerMaxPool(op::MaxPool2dOp pool, LoweringContext& context) {
  return lowerWindow(pool,
                     {.kind = "max",
                      .kernelSize = pool.getKernelSize(),
                      .stride = pool.getStride(),
                      .padding = pool.getPadding(),
                      .dilation = {pool.getDilation()[0], pool.getDilation()[1]}},
                     context);
}

LogicalResult lowerAveragePool(op::AvgPool2dOp pool, LoweringContext& context) {
  return lowerWindow(pool,
                     {.kind = "avg",
                      .kernelSize = pool.getKernelSize(),
                      .stride = pool.getStride(),
                      .padding = pool.getPadding(),
                      .includePad = pool.getCountIncludePad(),
                      .divisor = static_cast<int64_t>(pool.getDivisorOverride().value_or(0))},
                     context);
}

}  // namespace

void registerPoolRules(RuleSet& rules) {
  rules.add(lowerMaxPool);
  rules.add(lowerAveragePool);
}

}  // namespace straightline::lowering
