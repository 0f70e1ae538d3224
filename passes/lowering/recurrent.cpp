// SPDX-License-Identifier: Apache-2.0
// lstm_sequence, gru_sequence, rnn_sequence: all steps of one direction of a layer in one launch.
// place-on-cuda chooses how it divides the work.
#include "passes/contraction_problem.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

/// What the kernel reads and writes besides its sizes. `starts` is empty for zeros; `bias` may be
/// null.
struct Lowering::SequenceParts {
  llvm::StringRef cell;
  int64_t gates;
  Value projected, weight;
  llvm::SmallVector<Value> starts;
  Value y;
  llvm::SmallVector<Value> ends;
  bool isReversed;
  Value bias = {};
  bool isRelu = false;

  template <typename Op>
  static SequenceParts of(Op sequence) {
    SequenceParts parts = {Op::getOperationName(),
                           Op::kGates,
                           sequence.getProjected(),
                           sequence.getWeight(),
                           {},
                           sequence.getY(),
                           {sequence.getH()},
                           sequence.getReversed()};
    parts.cell.consume_front("op.");
    parts.cell.consume_back("_sequence");
    if (sequence.getH0()) {
      parts.starts = {sequence.getH0()};
    }
    return parts;
  }
};

LogicalResult Lowering::lowerSequence(op::LstmSequenceOp sequence) {
  SequenceParts parts = SequenceParts::of(sequence);
  parts.ends.push_back(sequence.getC());
  if (sequence.getC0()) {
    parts.starts.push_back(sequence.getC0());
  }
  return lowerSequence(sequence, parts);
}

LogicalResult Lowering::lowerSequence(op::GruSequenceOp sequence) {
  SequenceParts parts = SequenceParts::of(sequence);
  parts.bias = sequence.getBias();
  return lowerSequence(sequence, parts);
}

LogicalResult Lowering::lowerSequence(op::RnnSequenceOp sequence) {
  SequenceParts parts = SequenceParts::of(sequence);
  parts.isRelu = sequence.getNonlinearity() == "relu";
  return lowerSequence(sequence, parts);
}

LogicalResult Lowering::lowerSequence(mlir::Operation* op, const SequenceParts& parts) {
  const mlir::Location loc = op->getLoc();
  const std::string cell = parts.cell.str();
  if (target_.getBackend() == "cpu") {
    return op->emitOpError() << "unsupported: " << cell
                             << "_sequence has a kernel for devices only; " << cell
                             << " is supported";
  }
  // Neighbours of a step lie side by side; of y, any strides.
  auto dense = [&](Value tensor) {
    Value buffer = bufferOf(tensor);
    return stridesOf(typeOf(buffer)).back() == constant(1)
               ? buffer
               : contiguous(loc, buffer, cell + " reads neighbouring units");
  };
  Value projected = dense(parts.projected), weight = dense(parts.weight);
  const Exprs extents = extentsOf(parts.y);
  KernelSpec spec;
  spec.family = "recurrent_sequence";
  spec.op = cell + "_sequence";
  spec.why = "cuda.recurrent_sequence: all steps in one kernel, the weight in registers";
  spec.inputs = {projected, weight};
  if (parts.bias) {
    spec.inputs.push_back(dense(parts.bias));
  }
  Exprs starts(2, constant(0)), ends(2, constant(0));
  for (auto [place, start] : llvm::enumerate(parts.starts)) {
    spec.inputs.push_back(dense(start));
    starts[place] = stridesOf(typeOf(spec.inputs.back()))[0];
  }
  Value y = destination(parts.y);
  spec.outputs = {y};
  llvm::SmallVector<std::pair<Value, Value>> copies;
  for (auto [place, end] : llvm::enumerate(parts.ends)) {
    Value wanted = destination(end);
    Value written = wanted;
    if (stridesOf(typeOf(wanted)).back() != constant(1)) {
      written = slot(contiguousType(extentsOf(end), typeOf(wanted).getElementType()));
      copies.push_back({written, wanted});
    }
    spec.outputs.push_back(written);
    ends[place] = stridesOf(typeOf(written))[0];
  }
  const Exprs from = stridesOf(typeOf(projected));
  const bool isEarly = !inPrepare() && isFixedInRun(parts.weight);
  spec.tune = {named("gates", number(parts.gates)),
               named("hidden", number(extents[2])),
               named("lanes", number(0)),
               named("blocks", number(0)),
               named("rows", number(0)),
               named("threads", number(0)),
               named("bias", number(parts.bias ? 1 : 0)),
               named("start", number(parts.starts.empty() ? 0 : 1)),
               named("reversed", number(parts.isReversed ? 1 : 0)),
               named("early", number(isEarly ? 1 : 0)),
               named("relu", number(parts.isRelu ? 1 : 0))};
  spec.shape = {named("steps", number(extents[0])),
                named("batch", number(extents[1])),
                named("projectedStride", numbers({from[0], from[1]})),
                named("weightStride", number(stridesOf(typeOf(weight))[0])),
                named("startStride", numbers(starts)),
                named("yStride", numbers(stridesOf(typeOf(y)))),
                named("endStride", numbers(ends))};
  spec.name = spec.op + sizeName(extents);
  spec.costUs = static_cast<double>(upperBound(extents[0])) * 0.7;  // a step
  spec.ownCost = true;
  launch(loc, spec);
  for (auto [written, wanted] : copies) {
    copy(loc, written, wanted, "copy",
         "the result is wanted in another layout than " + cell + " writes");
  }
  return success();
}

}  // namespace straightline::lowering
