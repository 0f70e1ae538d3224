// SPDX-License-Identifier: Apache-2.0
// lstm_sequence, gru_sequence, rnn_sequence: all steps of one direction of a layer in one launch.
// The target's schedule says how it divides the work.
#include "dialect/error_kind.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// What the kernel reads and writes besides its sizes. `starts` is empty for zeros; `bias` may be
/// null.
struct SequenceParts {
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

LogicalResult lowerSequence(mlir::Operation* op, const SequenceParts& parts,
                            LoweringContext& context) {
  const mlir::Location loc = op->getLoc();
  const std::string cell = parts.cell.str();
  const Target& target = targetNamedBy(context.target());
  const auto state = llvm::cast<mlir::RankedTensorType>(parts.ends[0].getType());
  if (!target.hasKernelFor(
          {parts.gates, state.getDimSize(1), state.getDimSize(0), state.getElementType()},
          context.target())) {
    return emitUnsupported(op) << op->getName().stripDialect() << " with the state " << state
                               << " has no kernel on " << target.title() << "; " << cell
                               << " is supported";
  }
  // Neighbours of a step lie side by side; of y, any strides.
  auto dense = [&](Value tensor) {
    Value buffer = context.bufferOf(tensor);
    return context.stridesOf(typeOf(buffer)).back() == context.constant(1)
               ? buffer
               : context.contiguous(loc, buffer, cell + " reads neighbouring units");
  };
  Value projected = dense(parts.projected), weight = dense(parts.weight);
  const Exprs extents = context.extentsOf(parts.y);
  KernelSpec spec;
  spec.family = "recurrent_sequence";
  spec.op = cell + "_sequence";
  spec.why = "emitted.recurrent_sequence: all steps in one kernel, the weight in registers";
  spec.inputs = {projected, weight};
  if (parts.bias) {
    spec.inputs.push_back(dense(parts.bias));
  }
  Exprs starts(2, context.constant(0)), ends(2, context.constant(0));
  for (auto [place, start] : llvm::enumerate(parts.starts)) {
    spec.inputs.push_back(dense(start));
    starts[place] = context.stridesOf(typeOf(spec.inputs.back()))[0];
  }
  Value y = context.destination(parts.y);
  spec.outputs = {y};
  llvm::SmallVector<std::pair<Value, Value>> copies;
  for (auto [place, end] : llvm::enumerate(parts.ends)) {
    Value wanted = context.destination(end);
    Value written = wanted;
    if (context.stridesOf(typeOf(wanted)).back() != context.constant(1)) {
      written = context.slot(
          context.contiguousType(context.extentsOf(end), typeOf(wanted).getElementType()));
      copies.push_back({written, wanted});
    }
    spec.outputs.push_back(written);
    ends[place] = context.stridesOf(typeOf(written))[0];
  }
  const Exprs from = context.stridesOf(typeOf(projected));
  const bool isEarly = context.isFixedInRun(parts.weight, weight);
  spec.tune = {context.named("gates", context.number(parts.gates)),
               context.named("hidden", context.number(extents[2])),
               context.named("lanes", context.number(0)),
               context.named("blocks", context.number(0)),
               context.named("rows", context.number(0)),
               context.named("threads", context.number(0)),
               context.named("bias", context.number(parts.bias ? 1 : 0)),
               context.named("start", context.number(parts.starts.empty() ? 0 : 1)),
               context.named("reversed", context.number(parts.isReversed ? 1 : 0)),
               context.named("early", context.number(isEarly ? 1 : 0)),
               context.named("relu", context.number(parts.isRelu ? 1 : 0))};
  spec.shape = {context.named("steps", context.number(extents[0])),
                context.named("batch", context.number(extents[1])),
                context.named("projectedStride", context.numbers({from[0], from[1]})),
                context.named("weightStride", context.number(context.stridesOf(typeOf(weight))[0])),
                context.named("startStride", context.numbers(starts)),
                context.named("yStride", context.numbers(context.stridesOf(typeOf(y)))),
                context.named("endStride", context.numbers(ends))};
  spec.name = spec.op + sizeName(extents);
  spec.costUs = static_cast<double>(context.upperBound(extents[0])) * 0.7;  // a step
  spec.ownCost = true;
  context.launch(loc, spec);
  for (auto [written, wanted] : copies) {
    context.copy(loc, written, wanted, "copy",
                 "the result is wanted in another layout than " + cell + " writes");
  }
  return success();
}

LogicalResult lowerLstm(op::LstmSequenceOp sequence, LoweringContext& context) {
  SequenceParts parts = SequenceParts::of(sequence);
  parts.ends.push_back(sequence.getC());
  if (sequence.getC0()) {
    parts.starts.push_back(sequence.getC0());
  }
  return lowerSequence(sequence, parts, context);
}

LogicalResult lowerGru(op::GruSequenceOp sequence, LoweringContext& context) {
  SequenceParts parts = SequenceParts::of(sequence);
  parts.bias = sequence.getBias();
  return lowerSequence(sequence, parts, context);
}

LogicalResult lowerRnn(op::RnnSequenceOp sequence, LoweringContext& context) {
  SequenceParts parts = SequenceParts::of(sequence);
  parts.isRelu = sequence.getNonlinearity() == "relu";
  return lowerSequence(sequence, parts, context);
}

}  // namespace

void registerRecurrentRules(RuleSet& rules) {
  rules.add(lowerLstm);
  rules.add(lowerGru);
  rules.add(lowerRnn);
}

}  // namespace straightline::lowering
