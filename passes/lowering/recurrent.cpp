// SPDX-License-Identifier: Apache-2.0
// lstm_sequence: all steps of one direction of a layer in one launch. place-on-cuda chooses how it divides the work.
#include "passes/contraction_problem.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

LogicalResult Lowering::lowerLstmSequence(op::LstmSequenceOp sequence) {
  const mlir::Location loc = sequence.getLoc();
  if (target_.getBackend() == "cpu") {
    return sequence.emitOpError() << "unsupported: lstm_sequence has a kernel for devices only; lstm is supported";
  }
  // Neighbours of a step lie side by side; of y, any strides.
  auto dense = [&](Value tensor) {
    Value buffer = bufferOf(tensor);
    return stridesOf(typeOf(buffer)).back() == constant(1) ? buffer : contiguous(loc, buffer, "lstm reads neighbouring units");
  };
  Value projected = dense(sequence.getProjected()), weight = dense(sequence.getWeight());
  const Exprs extents = extentsOf(sequence.getY());
  KernelSpec spec;
  spec.family = spec.op = "lstm_sequence";
  spec.why = "cuda.lstm_sequence: all steps in one kernel, the weight in registers";
  spec.inputs = {projected, weight};
  Exprs starts(2, constant(0)), ends;
  if (sequence.getH0()) {
    starts.clear();
    for (Value start : {sequence.getH0(), sequence.getC0()}) {
      spec.inputs.push_back(dense(start));
      starts.push_back(stridesOf(typeOf(spec.inputs.back()))[0]);
    }
  }
  Value y = destination(sequence.getY());
  spec.outputs = {y};
  llvm::SmallVector<std::pair<Value, Value>> copies;
  for (Value end : {Value(sequence.getH()), Value(sequence.getC())}) {
    Value wanted = destination(end);
    Value written = wanted;
    if (stridesOf(typeOf(wanted)).back() != constant(1)) {
      written = slot(contiguousType(extentsOf(end), typeOf(wanted).getElementType()));
      copies.push_back({written, wanted});
    }
    spec.outputs.push_back(written);
    ends.push_back(stridesOf(typeOf(written))[0]);
  }
  const Exprs from = stridesOf(typeOf(projected));
  const bool isEarly = !inPrepare() && isFixedInRun(sequence.getWeight());
  spec.tune = {named("hidden", number(extents[2])),
               named("lanes", number(0)),
               named("blocks", number(0)),
               named("rows", number(0)),
               named("threads", number(0)),
               named("start", number(sequence.getH0() ? 1 : 0)),
               named("reversed", number(sequence.getReversed() ? 1 : 0)),
               named("early", number(isEarly ? 1 : 0))};
  spec.shape = {named("steps", number(extents[0])),
                named("batch", number(extents[1])),
                named("projectedStride", numbers({from[0], from[1]})),
                named("weightStride", number(stridesOf(typeOf(weight))[0])),
                named("startStride", numbers(starts)),
                named("yStride", numbers(stridesOf(typeOf(y)))),
                named("endStride", numbers(ends))};
  spec.name = spec.family + sizeName(extents);
  spec.costUs = static_cast<double>(upperBound(extents[0])) * 0.7;  // a step
  launch(loc, spec);
  for (auto [written, wanted] : copies) {
    copy(loc, written, wanted, "copy", "the result is wanted in another layout than lstm writes");
  }
  return success();
}

}  // namespace straightline::lowering
