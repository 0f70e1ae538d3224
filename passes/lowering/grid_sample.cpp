// SPDX-License-Identifier: Apache-2.0
// Samples of images at places that a grid names: grid_sampler_2d.
#include <cstdint>
#include <limits>

#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// From so many channels on, lanes (or neighbouring threads) take the contiguous channels of a
/// place.
constexpr int64_t kFewestLanes = 8;

/// Microseconds for an element of the result: 1, 2 x 2 or 4 x 4 elements are read for it.
double costOf(llvm::StringRef interpolation) {
  return interpolation == "nearest" ? 0.0005 : interpolation == "bilinear" ? 0.001 : 0.003;
}

LogicalResult lowerGridSampler(op::GridSampler2dOp sampler, LoweringContext& context) {
  Value from = context.bufferOf(sampler.getX());
  Value grid = context.bufferOf(sampler.getGrid());
  Value to = context.destination(sampler.getResult());
  const Exprs in = context.extentsOf(sampler.getX());
  const Exprs out = context.extentsOf(sampler.getResult());
  const Exprs inStrides = context.stridesOf(typeOf(from));
  const bool channelsLast =
      inStrides[1] == context.constant(1) && context.upperBound(in[1]) >= kFewestLanes;
  // From the first element of an image (one channel of it) to its last one; an unknown size counts
  // as a large one.
  const mlir::AffineExpr reach = (in[2] - 1) * inStrides[2] + (in[3] - 1) * inStrides[3];
  const bool wide = context.upperBound(reach) > std::numeric_limits<int32_t>::max();
  KernelSpec spec;
  spec.op = sampler->getName().stripDialect().str();
  spec.name = spec.op;
  spec.family = "grid_sample";
  auto text = [&](llvm::StringRef key, llvm::StringRef value) {
    spec.tune.push_back(context.named(key, context.builder().getStringAttr(value)));
  };
  text("interpolation", sampler.getInterpolationMode());
  text("padding", sampler.getPaddingMode());
  spec.tune.push_back(
      context.named("alignCorners", context.number(int64_t{sampler.getAlignCorners()})));
  spec.tune.push_back(context.named("channelsLast", context.number(int64_t{channelsLast})));
  spec.tune.push_back(context.named("wide", context.number(int64_t{wide})));
  auto put = [&](llvm::StringRef key, mlir::Attribute value) {
    spec.shape.push_back(context.named(key, value));
  };
  put("batch", context.number(in[0]));
  put("channels", context.number(in[1]));
  put("inH", context.number(in[2]));
  put("inW", context.number(in[3]));
  put("outH", context.number(out[2]));
  put("outW", context.number(out[3]));
  put("inStride", context.numbers(inStrides));
  put("gridStride", context.numbers(context.stridesOf(typeOf(grid))));
  put("outStride", context.numbers(context.stridesOf(typeOf(to))));
  spec.inputs = {from, grid};
  spec.outputs = {to};
  spec.why = channelsLast ? "emitted.grid_sample: vectors of channels"
                          : "emitted.grid_sample: vectors of places, any strides";
  spec.costUs = static_cast<double>(context.upperBound(context.product(out))) *
                costOf(sampler.getInterpolationMode());
  context.launch(sampler.getLoc(), spec);
  return success();
}

}  // namespace

void registerGridSampleRules(RuleSet& rules) { rules.add(lowerGridSampler); }

}  // namespace straightline::lowering
