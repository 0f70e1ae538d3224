// SPDX-License-Identifier: Apache-2.0
#include "passes/decompose_lstm.h"

#include <algorithm>

#include "dialect/op/canonicalize.h"
#include "llvm/Support/MathExtras.h"
#include "passes/value_builder.h"

namespace straightline::passes {

using mlir::AffineExpr;
using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

/// Weights of one layer and direction; biases may be null.
struct CellWeights {
  Value inputs, hidden, inputBias, hiddenBias;
};

/// What one pass over the steps gives: y [s, b, h], h and c [b, h].
struct Sequence {
  Value y, h, c;
};

CellWeights weightsOf(op::LstmOp lstm, int64_t cell) {
  const bool biased = lstm.getHasBiases();
  mlir::OperandRange all = lstm.getWeights();
  const int64_t first = cell * (biased ? 4 : 2);
  return {all[first], all[first + 1], biased ? all[first + 2] : Value(),
          biased ? all[first + 3] : Value()};
}

/// Entry `index` of [n, b, h] as [b, h].
Value entry(ValueBuilder& build, Value stacked, int64_t index) {
  const Value row = build.slice(stacked, 0, index, index + 1);
  return build.reshape(row, llvm::ArrayRef<AffineExpr>(build.extents(row)).drop_front());
}

/// [b, h] as [1, b, h].
Value stacked(ValueBuilder& build, Value value) {
  Extents extents = build.extents(value);
  extents.insert(extents.begin(), build.number(1));
  return build.reshape(value, extents);
}

struct CellState {
  Value h, c;
};

/// One step: gates [b, 4h] in the order i, f, g, o.
CellState step(ValueBuilder& build, Value projected, const CellState& state,
               const CellWeights& weights) {
  const Value recurrent = build.linear(state.h, weights.hidden, weights.hiddenBias);
  const Value gates = build.make<op::AddOp>(recurrent, projected);
  const int64_t hidden = llvm::cast<mlir::RankedTensorType>(state.h.getType()).getDimSize(1);
  auto gate = [&](int64_t place) {
    return build.slice(gates, 1, place * hidden, (place + 1) * hidden);
  };
  const Value in = build.make<op::SigmoidOp>(gate(0)), forget = build.make<op::SigmoidOp>(gate(1));
  const Value cell = build.make<op::TanhOp>(gate(2)), out = build.make<op::SigmoidOp>(gate(3));
  const Value kept = build.make<op::MulOp>(forget, state.c),
              added = build.make<op::MulOp>(in, cell);
  const Value c = build.make<op::AddOp>(kept, added);
  return {build.make<op::MulOp>(out, build.make<op::TanhOp>(c)), c};
}

/// The loop over steps; `reversed` counts down by index arithmetic (static number of steps).
Sequence loop(ValueBuilder& build, Value projected, const CellState& start,
              const CellWeights& weights, bool reversed) {
  mlir::OpBuilder& builder = build.builder();
  const Extents extents = build.extents(projected);
  Extents result = {extents[0]};
  llvm::append_range(result, build.extents(start.h));
  const Value y = build.full(build.type(ValueBuilder::elementOf(projected), result), 0.0);
  const llvm::SmallVector<Value> inits = {start.h, start.c, y};
  const op::DimsAttr bounds = op::DimsAttr::get(
      builder.getContext(), build.space().list({build.number(0), extents[0], build.number(1)}));
  auto forOp = op::ForOp::create(builder, build.loc(), mlir::TypeRange(mlir::ValueRange(inits)),
                                 bounds, inits);
  mlir::OpBuilder::InsertionGuard guard(builder);
  mlir::Block* body = builder.createBlock(&forOp.getBody());
  const auto indexType = mlir::RankedTensorType::get({}, builder.getI64Type());
  Value index = body->addArgument(indexType, build.loc());
  llvm::SmallVector<Value> carried;
  for (Value init : inits) {
    carried.push_back(body->addArgument(init.getType(), build.loc()));
  }
  if (reversed) {
    const int64_t last = *symbolic::constantValue(extents[0]) - 1;
    index = build.make<op::SubOp>(build.full(indexType, static_cast<double>(last)), index);
  }
  Extents row = extents;
  row[0] = build.number(1);
  const Value slice =
      build.make<op::DynamicSliceOp>(build.type(ValueBuilder::elementOf(projected), row), projected,
                                     index, /*dim=*/0, /*length=*/1);
  const Value inputs = build.reshape(slice, llvm::ArrayRef<AffineExpr>(row).drop_front());
  const CellState next = step(build, inputs, {carried[0], carried[1]}, weights);
  const Value written = build.make<op::DynamicUpdateSliceOp>(
      carried[2].getType(), carried[2], stacked(build, next.h), index, /*dim=*/0);
  op::YieldOp::create(builder, build.loc(), mlir::ValueRange{next.h, next.c, written});
  return {forOp.getResult(2), forOp.getResult(0), forOp.getResult(1)};
}

/// Whether it is a literal of zeros.
bool isZero(Value value) {
  auto number = llvm::dyn_cast_if_present<mlir::FloatAttr>(op::splatOf(value));
  return number && number.getValue().isZero();
}

/// All steps in one kernel, where it has a plan for these sizes.
std::optional<Sequence> whole(ValueBuilder& build, op::LstmOp lstm, Value x, int64_t cell, bool reversed, int64_t largestCluster) {
  constexpr int64_t kFewestSteps = 4;  // fewer are as fast by themselves
  const CellWeights weights = weightsOf(lstm, cell);
  const Extents extents = build.extents(x);
  const auto type = llvm::cast<mlir::RankedTensorType>(x.getType());
  const int64_t hidden = lstm.getH0().getType().getDimSize(2);
  if (type.isDynamicDim(1) || (!type.isDynamicDim(0) && type.getDimSize(0) < kFewestSteps) ||
      !planLstmSequence(hidden, type.getDimSize(1), type.getElementType(), largestCluster)) {
    return std::nullopt;
  }
  Value bias = weights.inputBias;
  if (bias) {
    bias = build.make<op::AddOp>(bias, weights.hiddenBias);
  }
  const Value projected = build.linear(x, weights.inputs, bias);
  Value h0, c0;
  if (!isZero(lstm.getH0()) || !isZero(lstm.getC0())) {
    h0 = entry(build, lstm.getH0(), cell);
    c0 = entry(build, lstm.getC0(), cell);
  }
  const mlir::Type element = type.getElementType();
  const Extents state = {extents[1], build.number(hidden)};
  auto made = op::LstmSequenceOp::create(build.builder(), build.loc(), build.type(element, {extents[0], extents[1], state[1]}),
                                         build.type(element, state), build.type(element, state), projected, weights.hidden, h0, c0,
                                         build.builder().getBoolAttr(reversed));
  return Sequence{made.getY(), made.getH(), made.getC()};
}

Sequence direction(ValueBuilder& build, op::LstmOp lstm, Value x, int64_t cell, bool reversed, int64_t largestCluster) {
  if (std::optional<Sequence> sequence = whole(build, lstm, x, cell, reversed, largestCluster)) {
    return *sequence;
  }
  const CellWeights weights = weightsOf(lstm, cell);
  // With a named number of steps the last index is no literal: the sequence itself is reversed.
  const bool flips = reversed && !symbolic::constantValue(build.extents(x)[0]);
  const llvm::SmallVector<int64_t> steps = {0};
  if (flips) {
    x = build.make<op::FlipOp>(x.getType(), x, steps);
  }
  const Value projected = build.linear(x, weights.inputs, weights.inputBias);
  const CellState start = {entry(build, lstm.getH0(), cell), entry(build, lstm.getC0(), cell)};
  Sequence sequence = loop(build, projected, start, weights, reversed && !flips);
  if (flips) {
    sequence.y = build.make<op::FlipOp>(sequence.y.getType(), sequence.y, steps);
  }
  return sequence;
}

struct DecomposeLstm : mlir::OpRewritePattern<op::LstmOp> {
  DecomposeLstm(mlir::MLIRContext* context, int64_t largestCluster)
      : OpRewritePattern(context), largestCluster(largestCluster) {}

  int64_t largestCluster;

  llvm::LogicalResult matchAndRewrite(op::LstmOp lstm,
                                      mlir::PatternRewriter& rewriter) const override {
    if (lstm.getH0().getType().isDynamicDim(2)) {
      return rewriter.notifyMatchFailure(lstm, "the hidden size is a named extent");
    }
    ValueBuilder build(rewriter, lstm.getLoc());
    const int64_t directions = lstm.getBidirectional() ? 2 : 1;
    Value x = lstm.getBatchFirst() ? build.permute(lstm.getX(), {1, 0, 2}) : Value(lstm.getX());
    llvm::SmallVector<Value> h, c;
    for (int64_t layer = 0; layer < static_cast<int64_t>(lstm.getNumLayers()); ++layer) {
      llvm::SmallVector<Value> y;
      for (int64_t each = 0; each < directions; ++each) {
        const Sequence sequence = direction(build, lstm, x, layer * directions + each, each == 1, largestCluster);
        y.push_back(sequence.y);
        h.push_back(stacked(build, sequence.h));
        c.push_back(stacked(build, sequence.c));
      }
      x = build.cat(y, 2);
    }
    const Value y = lstm.getBatchFirst() ? build.permute(x, {1, 0, 2}) : x;
    rewriter.replaceOp(lstm, {y, build.cat(h, 0), build.cat(c, 0)});
    return mlir::success();
  }
};

}  // namespace

std::optional<LstmSequencePlan> planLstmSequence(int64_t hidden, int64_t batch, mlir::Type element, int64_t largestCluster) {
  constexpr int64_t kGates = 4, kRun = 4;  // of the kernel: rows of the weight a unit, neighbouring columns of a lane
  constexpr int64_t kRegisters = 65536, kMost = 255;  // of a processor, a fourth for every fourth warp of a block; of a thread
  constexpr int64_t kOfARow = 13, kOthers = 40;       // registers of a thread: sums, inputs and cell of a row; addresses
  constexpr int64_t kMostThreads = 512;
  constexpr int64_t kMostRows = 4;
  constexpr int64_t kBlocks = 128;              // of a device at once
  // Fitted to an H200 (bench/results/cuda_recurrent_h200.json): us of any step, what a cluster adds, instructions of the functions.
  constexpr double kAlone = 0.35, kMeet = 0.1, kFunctions = 250, kClock = 1700, kSchedulers = 4;
  std::optional<LstmSequencePlan> best;
  const int64_t words = element.isF64() ? 2 : 1;
  for (int64_t blocks = 1; blocks <= largestCluster && hidden > 0 && batch > 0; blocks *= 2) {
    const int64_t units = llvm::divideCeil(hidden, blocks);
    const int64_t rows = llvm::divideCeil(batch, kBlocks / blocks);
    for (const int64_t lanes : {8, 16, 32}) {
      const int64_t threads = llvm::alignTo(units * lanes, 32);
      const int64_t columns = kRun * llvm::divideCeil(hidden, kRun * lanes);
      const int64_t registers = (kGates * columns + kOfARow * rows) * words + kOthers;
      const int64_t most = std::min<int64_t>(kMost, kRegisters / static_cast<int64_t>(llvm::alignTo(threads, 128)) / 8 * 8);
      if ((blocks - 1) * units >= hidden || threads > kMostThreads || registers > most || rows > kMostRows) {
        continue;
      }
      // A warp's multiply-adds and exchanges take turns on the four schedulers of a processor; a double takes two.
      const double sums = static_cast<double>(kGates) * (static_cast<double>(columns) + 2.0 * llvm::Log2_64(lanes));
      const double instructions = static_cast<double>(rows * words) * (sums + kFunctions);
      const double turns = std::max(1.0, static_cast<double>(threads) / 32 / kSchedulers);
      const double us = kAlone + (blocks > 1 ? kMeet : 0) + instructions * turns / kClock;
      if (!best || us < best->stepUs) {
        best = LstmSequencePlan{lanes, blocks, rows, threads, us};
      }
    }
  }
  return best;
}

void addLstmPatterns(mlir::RewritePatternSet& patterns, int64_t largestCluster) {
  patterns.add<DecomposeLstm>(patterns.getContext(), largestCluster);
}

}  // namespace straightline::passes
