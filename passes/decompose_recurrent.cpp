// SPDX-License-Identifier: Apache-2.0
#include "passes/decompose_recurrent.h"

#include <cmath>
#include <utility>

#include "dialect/op/canonicalize.h"
#include "passes/value_builder.h"

namespace straightline::passes {

using mlir::AffineExpr;
using mlir::Value;
using Extents = ValueBuilder::Extents;

namespace {

constexpr int64_t kLstmGates = op::LstmOp::kGates, kGruGates = op::GruOp::kGates,
                  kRnnGates = op::RnnOp::kGates;

/// Weights of one layer and direction; biases and the projection may be null.
struct CellWeights {
  Value inputs, hidden, inputBias, hiddenBias, projection;
};

/// What a step hands on: h [b, h], with a projection [b, p], and of lstm c [b, h].
using State = llvm::SmallVector<Value, 2>;

/// What one pass over the steps gives: y, all h of them, and the last state.
struct Sequence {
  Value y;
  State last;
};

/// lstm, gru or rnn, with what its layers have in common.
struct Layers {
  int64_t gates;
  Value x;
  State starts;  ///< [layers * directions, b, h] each, with projections h is [.., b, p]
  mlir::OperandRange weights;
  int64_t count;
  bool isBidirectional, isBatchFirst, isBiased;
  mlir::StringAttr nonlinearity;  ///< of rnn
  bool isProjected = false;       ///< of lstm
  bool avoidsSubnormals = false;  ///< states between steps have none

  int64_t hidden() const {
    return llvm::cast<mlir::RankedTensorType>(starts.back().getType()).getDimSize(2);
  }

  CellWeights weightsOf(int64_t cell) const {
    const int64_t biases = isBiased ? 2 : 0;
    const int64_t first = cell * (2 + biases + (isProjected ? 1 : 0));
    return {weights[first], weights[first + 1], isBiased ? weights[first + 2] : Value(),
            isBiased ? weights[first + 3] : Value(),
            isProjected ? weights[first + 2 + biases] : Value()};
  }
};

template <typename Op>
Layers layersOf(Op op) {
  Layers layers = {Op::kGates,
                   op.getX(),
                   {op.getH0()},
                   op.getWeights(),
                   static_cast<int64_t>(op.getNumLayers()),
                   op.getBidirectional(),
                   op.getBatchFirst(),
                   op.getHasBiases(),
                   {}};
  if constexpr (std::is_same_v<Op, op::LstmOp>) {
    layers.starts.push_back(op.getC0());
    const int64_t cells = layers.count * (layers.isBidirectional ? 2 : 1);
    layers.isProjected =
        static_cast<int64_t>(layers.weights.size()) != cells * (layers.isBiased ? 4 : 2);
  } else if constexpr (std::is_same_v<Op, op::RnnOp>) {
    layers.nonlinearity = op.getNonlinearityAttr();
  }
  return layers;
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

/// Gate `place` of [b, gates * h].
Value gate(ValueBuilder& build, Value gates, int64_t place, int64_t hidden) {
  return build.slice(gates, 1, place * hidden, (place + 1) * hidden);
}

/// The smallest normal number of an element type that has kernels of its own, else 0: values of 16
/// bits are computed in float32, where float16's subnormal numbers are normal ones.
double smallestNormal(mlir::Type element) {
  if (!element.isF32() && !element.isF64()) {
    return 0.0;
  }
  const llvm::fltSemantics& floats = llvm::cast<mlir::FloatType>(element).getFloatSemantics();
  return llvm::APFloat::getSmallestNormalized(floats).convertToDouble();
}

/// `value` with zeros where `magnitude`, which is not negative, is below `least`.
Value zeroBelow(ValueBuilder& build, Value value, Value magnitude, double least) {
  const mlir::Type isBelowType = build.type(build.builder().getI1Type(), build.extents(value));
  const Value isBelow =
      build.make<op::LtOp>(isBelowType, magnitude, build.fullLike(magnitude, least));
  return build.make<op::WhereOp>(isBelow, build.fullLike(value, 0.0), value);
}

/// `state` with zeros in place of subnormal numbers, which a state that fades runs through: on a
/// CPU the next step's product takes 150 cycles for each of them (docs/guides/slow_model.md).
Value withoutSubnormals(ValueBuilder& build, Value state) {
  const double least = smallestNormal(ValueBuilder::elementOf(state));
  return least > 0 ? zeroBelow(build, state, build.make<op::AbsOp>(state), least) : state;
}

/// sigmoid(x); with `closes` 0 where that is so small that its product with another such gate would
/// be subnormal (float32: below 1.1e-19, while a gate that is open is rounded to 6e-8).
Value gateOf(ValueBuilder& build, Value x, bool closes) {
  const Value opened = build.make<op::SigmoidOp>(x);
  const double least = smallestNormal(ValueBuilder::elementOf(x));
  return closes && least > 0 ? zeroBelow(build, opened, opened, std::sqrt(least)) : opened;
}

/// One step of lstm; gates in the order i, f, g, o.
State lstmStep(ValueBuilder& build, Value projected, const State& state, const CellWeights& weights,
               int64_t hidden, bool avoidsSubnormals) {
  const Value recurrent = build.linear(state[0], weights.hidden, weights.hiddenBias);
  const Value gates = build.make<op::AddOp>(recurrent, projected);
  auto sigmoid = [&](int64_t place) {
    return gateOf(build, gate(build, gates, place, hidden), avoidsSubnormals);
  };
  const Value in = sigmoid(0), forget = sigmoid(1);
  const Value cell = build.make<op::TanhOp>(gate(build, gates, 2, hidden)), out = sigmoid(3);
  const Value kept = build.make<op::MulOp>(forget, state[1]),
              added = build.make<op::MulOp>(in, cell);
  const Value c = build.make<op::AddOp>(kept, added);
  const Value h = build.make<op::MulOp>(out, build.make<op::TanhOp>(c));
  return {weights.projection ? build.linear(h, weights.projection, {}) : h, c};
}

/// One step of gru; gates in the order r, z, n.
State gruStep(ValueBuilder& build, Value projected, const State& state, const CellWeights& weights,
              int64_t hidden, bool avoidsSubnormals) {
  const Value recurrent = build.linear(state[0], weights.hidden, weights.hiddenBias);
  auto sigmoid = [&](int64_t place) {
    const Value sum = build.make<op::AddOp>(gate(build, recurrent, place, hidden),
                                            gate(build, projected, place, hidden));
    return gateOf(build, sum, avoidsSubnormals);
  };
  const Value reset = sigmoid(0), update = sigmoid(1);
  const Value candidate = build.make<op::TanhOp>(
      build.make<op::AddOp>(gate(build, projected, 2, hidden),
                            build.make<op::MulOp>(gate(build, recurrent, 2, hidden), reset)));
  const Value kept = build.make<op::MulOp>(build.make<op::SubOp>(state[0], candidate), update);
  return {build.make<op::AddOp>(kept, candidate)};
}

/// One step of rnn.
State rnnStep(ValueBuilder& build, Value projected, const State& state, const CellWeights& weights,
              llvm::StringRef nonlinearity) {
  const Value sum =
      build.make<op::AddOp>(build.linear(state[0], weights.hidden, weights.hiddenBias), projected);
  return {nonlinearity == "relu" ? Value(build.make<op::ReluOp>(sum))
                                 : Value(build.make<op::TanhOp>(sum))};
}

/// `projected` [b, gates * h].
State step(ValueBuilder& build, const Layers& layers, Value projected, const State& state,
           const CellWeights& weights) {
  const auto next = [&] {
    switch (layers.gates) {
      case kLstmGates:
        return lstmStep(build, projected, state, weights, layers.hidden(), layers.avoidsSubnormals);
      case kGruGates:
        return gruStep(build, projected, state, weights, layers.hidden(), layers.avoidsSubnormals);
      default:
        return rnnStep(build, projected, state, weights, layers.nonlinearity);
    }
  };
  State values = next();
  if (layers.avoidsSubnormals) {
    llvm::transform(values, values.begin(),
                    [&](Value value) { return withoutSubnormals(build, value); });
  }
  return values;
}

/// The loop over steps; `reversed` counts down by index arithmetic (static number of steps).
Sequence loop(ValueBuilder& build, const Layers& layers, Value projected, const State& start,
              const CellWeights& weights, bool reversed) {
  mlir::OpBuilder& builder = build.builder();
  const Extents extents = build.extents(projected);
  Extents result = {extents[0]};
  llvm::append_range(result, build.extents(start[0]));
  llvm::SmallVector<Value> inits = llvm::to_vector(start);
  inits.push_back(build.full(build.type(ValueBuilder::elementOf(projected), result), 0.0));
  const op::DimsAttr bounds = op::DimsAttr::get(
      builder.getContext(), build.space().list({build.number(0), extents[0], build.number(1)}));
  auto forOp = op::ForOp::create(builder, build.loc(), mlir::TypeRange(mlir::ValueRange(inits)),
                                 bounds, inits);
  mlir::OpBuilder::InsertionGuard guard(builder);
  mlir::Block* body = builder.createBlock(&forOp.getBody());
  const auto indexType = mlir::RankedTensorType::get({}, builder.getI64Type());
  Value index = body->addArgument(indexType, build.loc());
  State state;
  for (Value init : start) {
    state.push_back(body->addArgument(init.getType(), build.loc()));
  }
  const Value y = body->addArgument(inits.back().getType(), build.loc());
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
  llvm::SmallVector<Value> next = llvm::to_vector(step(build, layers, inputs, state, weights));
  next.push_back(build.make<op::DynamicUpdateSliceOp>(y.getType(), y, stacked(build, next[0]),
                                                      index, /*dim=*/0));
  op::YieldOp::create(builder, build.loc(), next);
  mlir::ValueRange results = forOp.getResults();
  return {results.back(), State(results.drop_back())};
}

/// Each step by itself.
Sequence unrolled(ValueBuilder& build, const Layers& layers, Value projected, const State& start,
                  const CellWeights& weights, bool reversed) {
  State state = start;
  const int64_t steps = *symbolic::constantValue(build.extents(projected)[0]);
  llvm::SmallVector<Value> y(steps);
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t index = reversed ? steps - 1 - i : i;
    state = step(build, layers, entry(build, projected, index), state, weights);
    y[index] = stacked(build, state[0]);
  }
  return {build.cat(y, 0), state};
}

/// Whether it is a literal of zeros.
bool isZero(Value value) {
  auto number = llvm::dyn_cast_if_present<mlir::FloatAttr>(op::splatOf(value));
  return number && number.getValue().isZero();
}

/// One kernel for all steps of lstm with a projection. The kernel hands m = sigmoid(o) tanh(c)
/// [b, h] on, where a step reads h = m w_hr^T: its weight is w_hh w_hr [4h, h], and y is one
/// product of all steps' m behind it. A given h0, which is the projection of no m, is added to the
/// first step's inputs.
std::optional<Sequence> wholeProjected(ValueBuilder& build, const Layers& layers, Value projected,
                                       const CellWeights& weights, int64_t cell, bool reversed) {
  const Extents extents = build.extents(projected);
  const mlir::Type element = ValueBuilder::elementOf(projected);
  const Value h0 = layers.starts[0], c0 = layers.starts[1];
  if (!isZero(h0)) {
    const std::optional<int64_t> steps = symbolic::constantValue(extents[0]);
    if (!steps) {
      return std::nullopt;  // which row is the first step's is not known, nor whether there is one
    }
    const int64_t first = reversed ? *steps - 1 : 0;
    const Value added = stacked(build, build.linear(entry(build, h0, cell), weights.hidden, {}));
    const Value row = build.make<op::AddOp>(build.slice(projected, 0, first, first + 1), added);
    projected = reversed ? build.cat({build.slice(projected, 0, 0, first), row}, 0)
                         : build.cat({row, build.slice(projected, 0, 1, *steps)}, 0);
  }
  const Extents units = {extents[1], build.number(layers.hidden())};
  const mlir::RankedTensorType state = build.type(element, units);
  const mlir::RankedTensorType y = build.type(element, {extents[0], units[0], units[1]});
  State start(2);
  if (!isZero(h0) || !isZero(c0)) {
    start = {build.full(state, 0.0), entry(build, c0, cell)};
  }
  const Value weight = build.matmul(weights.hidden, weights.projection);
  auto made =
      op::LstmSequenceOp::create(build.builder(), build.loc(), y, state, state, projected, weight,
                                 start[0], start[1], build.builder().getBoolAttr(reversed));
  return Sequence{build.linear(made.getY(), weights.projection, {}),
                  {build.linear(made.getH(), weights.projection, {}), made.getC()}};
}

/// All steps in one kernel, where the target has one for these sizes.
std::optional<Sequence> whole(ValueBuilder& build, const Layers& layers, Value x, int64_t cell,
                              bool reversed, const HasSequence& hasSequence) {
  constexpr int64_t kFewestSteps = 4;  // fewer are as fast by themselves
  const CellWeights weights = layers.weightsOf(cell);
  const Extents extents = build.extents(x);
  const auto type = llvm::cast<mlir::RankedTensorType>(x.getType());
  const int64_t hidden = layers.hidden();
  if (type.isDynamicDim(1) || (!type.isDynamicDim(0) && type.getDimSize(0) < kFewestSteps) ||
      !hasSequence({layers.gates, hidden, type.getDimSize(1), type.getElementType()})) {
    return std::nullopt;
  }
  Value bias = weights.inputBias, candidateBias;
  if (bias && layers.gates == kGruGates) {  // the one of n is multiplied by r
    candidateBias = build.slice(weights.hiddenBias, 0, 2 * hidden, 3 * hidden);
    const Value none = build.full(build.type(type.getElementType(), {build.number(hidden)}), 0.0);
    bias = build.make<op::AddOp>(
        bias, build.cat({build.slice(weights.hiddenBias, 0, 0, 2 * hidden), none}, 0));
  } else if (bias) {
    bias = build.make<op::AddOp>(bias, weights.hiddenBias);
  }
  const Value projected = build.linear(x, weights.inputs, bias);
  if (weights.projection) {
    return wholeProjected(build, layers, projected, weights, cell, reversed);
  }
  State start(layers.starts.size());
  if (!llvm::all_of(layers.starts, isZero)) {
    llvm::transform(layers.starts, start.begin(),
                    [&](Value all) { return entry(build, all, cell); });
  }
  const mlir::Type element = type.getElementType();
  const mlir::Type state = build.type(element, {extents[1], build.number(hidden)});
  const mlir::Type y = build.type(element, {extents[0], extents[1], build.number(hidden)});
  const mlir::BoolAttr isReversed = build.builder().getBoolAttr(reversed);
  if (layers.gates == kGruGates) {
    auto made = op::GruSequenceOp::create(build.builder(), build.loc(), y, state, projected,
                                          weights.hidden, candidateBias, start[0], isReversed);
    return Sequence{made.getY(), {made.getH()}};
  }
  if (layers.gates == kRnnGates) {
    auto made =
        op::RnnSequenceOp::create(build.builder(), build.loc(), y, state, projected, weights.hidden,
                                  start[0], isReversed, layers.nonlinearity);
    return Sequence{made.getY(), {made.getH()}};
  }
  auto made = op::LstmSequenceOp::create(build.builder(), build.loc(), y, state, state, projected,
                                         weights.hidden, start[0], start[1], isReversed);
  return Sequence{made.getY(), {made.getH(), made.getC()}};
}

Sequence direction(ValueBuilder& build, const Layers& layers, Value x, int64_t cell, bool reversed,
                   const HasSequence& hasSequence) {
  constexpr int64_t kMostUnrolled = 32;
  if (std::optional<Sequence> sequence = whole(build, layers, x, cell, reversed, hasSequence)) {
    return *sequence;
  }
  const CellWeights weights = layers.weightsOf(cell);
  const std::optional<int64_t> count = symbolic::constantValue(build.extents(x)[0]);
  // With a named number of steps the last index is no literal: the sequence itself is reversed.
  const bool flips = reversed && !count;
  const llvm::SmallVector<int64_t> steps = {0};
  if (flips) {
    x = build.make<op::FlipOp>(x.getType(), x, steps);
  }
  const Value projected = build.linear(x, weights.inputs, weights.inputBias);
  State start;
  for (Value all : layers.starts) {
    start.push_back(entry(build, all, cell));
  }
  const bool isFew = layers.gates != kLstmGates && count && *count > 0 && *count <= kMostUnrolled;
  Sequence sequence =
      (isFew ? unrolled : loop)(build, layers, projected, start, weights, reversed && !flips);
  if (flips) {
    sequence.y = build.make<op::FlipOp>(sequence.y.getType(), sequence.y, steps);
  }
  return sequence;
}

template <typename Op>
struct DecomposeLayers : mlir::OpRewritePattern<Op> {
  DecomposeLayers(mlir::MLIRContext* context, HasSequence hasSequence, bool avoidsSubnormals)
      : mlir::OpRewritePattern<Op>(context),
        hasSequence(std::move(hasSequence)),
        avoidsSubnormals(avoidsSubnormals) {}

  HasSequence hasSequence;
  bool avoidsSubnormals;

  llvm::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter& rewriter) const override {
    Layers layers = layersOf(op);
    layers.avoidsSubnormals = avoidsSubnormals;
    const auto h0 = llvm::cast<mlir::RankedTensorType>(layers.starts[0].getType());
    if (mlir::ShapedType::isDynamic(layers.hidden()) || h0.isDynamicDim(2)) {
      return rewriter.notifyMatchFailure(op, "the hidden size is a named extent");
    }
    ValueBuilder build(rewriter, op.getLoc());
    const int64_t directions = layers.isBidirectional ? 2 : 1;
    Value x = layers.isBatchFirst ? build.permute(layers.x, {1, 0, 2}) : layers.x;
    llvm::SmallVector<llvm::SmallVector<Value>, 2> last(layers.starts.size());
    for (int64_t layer = 0; layer < layers.count; ++layer) {
      llvm::SmallVector<Value> y;
      for (int64_t each = 0; each < directions; ++each) {
        const Sequence sequence =
            direction(build, layers, x, layer * directions + each, each == 1, hasSequence);
        y.push_back(sequence.y);
        for (auto [all, state] : llvm::zip_equal(last, sequence.last)) {
          all.push_back(stacked(build, state));
        }
      }
      x = build.cat(y, 2);
    }
    llvm::SmallVector<Value> results = {layers.isBatchFirst ? build.permute(x, {1, 0, 2}) : x};
    for (llvm::ArrayRef<Value> all : last) {
      results.push_back(build.cat(all, 0));
    }
    rewriter.replaceOp(op, results);
    return mlir::success();
  }
};

}  // namespace

void addRecurrentPatterns(mlir::RewritePatternSet& patterns, const HasSequence& hasSequence,
                          bool avoidsSubnormals) {
  patterns.add<DecomposeLayers<op::LstmOp>, DecomposeLayers<op::GruOp>, DecomposeLayers<op::RnnOp>>(
      patterns.getContext(), hasSequence, avoidsSubnormals);
}

}  // namespace straightline::passes
