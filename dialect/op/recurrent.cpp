// SPDX-License-Identifier: Apache-2.0
// Verifiers of the family "recurrent".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::failure;
using mlir::success;
using mlir::Value;
using Extents = ExtentSpace::Extents;

namespace {

using Named = std::pair<llvm::StringRef, Value>;

/// What the ops of all cells have in common: a constraint is the op's name and a number.
struct CellVerifier {
  mlir::Operation* operation;
  int64_t gates;
  ExtentSpace space = {};

  template <typename Op>
  static CellVerifier of(Op op) {
    return {op.getOperation(), Op::kGates};
  }

  std::string constraint(int number) const {
    return (operation->getName().stripDialect() + "_c" + llvm::Twine(number)).str();
  }

  llvm::LogicalResult all(llvm::ArrayRef<Named> values, const Extents& expected, int number) {
    for (auto [name, value] : values) {
      if (failed(verifyExtents(operation, space, name, space.of(value), expected,
                               constraint(number)))) {
        return failure();
      }
    }
    return success();
  }

  /// c3. `hidden`: units; `output`: how wide h is; `each`: weights of a layer and direction, of
  /// which the odd one is a projection.
  llvm::LogicalResult weights(mlir::OperandRange weights, AffineExpr input, AffineExpr hidden,
                              AffineExpr output, int64_t directions, int64_t each) {
    for (auto [place, weight] : llvm::enumerate(weights)) {
      const int64_t layer = static_cast<int64_t>(place) / (each * directions);
      const int64_t kind = static_cast<int64_t>(place) % each;
      const AffineExpr features = layer == 0 ? input : output * directions;
      const bool isProjection = each % 2 == 1 && kind == each - 1;
      const Extents expected = kind == 0      ? Extents{hidden * gates, features}
                               : kind == 1    ? Extents{hidden * gates, output}
                               : isProjection ? Extents{output, hidden}
                                              : Extents{hidden * gates};
      const std::string name = ("weight #" + llvm::Twine(place)).str();
      if (failed(
              verifyExtents(operation, space, name, space.of(weight), expected, constraint(3)))) {
        return failure();
      }
    }
    return success();
  }

  /// c5 and sequence_c4: of all operands and results.
  llvm::LogicalResult equalElements(int number) const {
    llvm::SmallVector<Value> values(operation->getOperands());
    llvm::append_range(values, operation->getResults());
    const mlir::Type element =
        llvm::cast<mlir::RankedTensorType>(values.front().getType()).getElementType();
    for (Value value : values) {
      if (failed(verifyElements(operation, value, "an operand or result", element,
                                constraint(number)))) {
        return failure();
      }
    }
    return success();
  }

  /// rnn_c6 and rnn_sequence_c5.
  llvm::LogicalResult nonlinearity(llvm::StringRef name, int number) const {
    if (name == "tanh" || name == "relu") {
      return success();
    }
    return opError(operation) << "nonlinearity is \"" << name << "\" but tanh or relu is needed ("
                              << constraint(number) << ")";
  }

  /// c1 to c5 of layers. `starts` and `ends`: the states with their names, h first.
  template <typename Op>
  llvm::LogicalResult layers(Op op, llvm::ArrayRef<Named> starts, llvm::ArrayRef<Named> ends) {
    llvm::SmallVector<Named> ranked = {{"x", op.getX()}};
    llvm::append_range(ranked, starts);
    for (auto [name, value] : ranked) {
      if (const size_t rank = space.of(value).size(); rank != 3) {
        return opError(op) << name << " has rank " << rank << " but 3 is needed (" << constraint(1)
                           << ")";
      }
    }
    const Extents x = space.of(op.getX()), h0 = space.of(op.getH0());
    const int64_t directions = op.getBidirectional() ? 2 : 1;
    const AffineExpr batch = op.getBatchFirst() ? x[0] : x[1],
                     steps = op.getBatchFirst() ? x[1] : x[0];
    const int64_t cells = op.getNumLayers() * directions, plain = op.getHasBiases() ? 4 : 2;
    const int64_t found = static_cast<int64_t>(op.getWeights().size());
    const bool isProjected =
        std::is_same_v<Op, LstmOp> && cells > 0 && found == cells * (plain + 1);
    // With projections c is as wide as the cell, and h as the projection.
    const AffineExpr output = h0[2],
                     hidden = isProjected ? space.of(starts.back().second)[2] : output;
    const AffineExpr lead = mlir::getAffineConstantExpr(cells, op.getContext());
    const Extents state = {lead, batch, output}, cellState = {lead, batch, hidden};
    if (failed(all(starts.take_front(), state, 1)) ||
        failed(all(starts.drop_front(), cellState, 1))) {
      return failure();
    }
    if (!isProjected && found != cells * plain) {
      return opError(op) << "has " << found << " weights but " << cells * plain << " are needed ("
                         << constraint(2) << ")";
    }
    if (failed(weights(op.getWeights(), x[2], hidden, output, directions,
                       isProjected ? plain + 1 : plain)) ||
        failed(equalElements(5))) {
      return failure();
    }
    const AffineExpr features = output * directions;
    const Extents y =
        op.getBatchFirst() ? Extents{batch, steps, features} : Extents{steps, batch, features};
    return failed(all({{"y", op.getY()}}, y, 4)) || failed(all(ends.take_front(), state, 4))
               ? failure()
               : all(ends.drop_front(), cellState, 4);
  }

  /// c1 to c4 of a sequence. `bias` may be null, and `starts` empty.
  template <typename Op>
  llvm::LogicalResult sequence(Op op, Value bias, llvm::ArrayRef<Named> starts,
                               llvm::ArrayRef<Named> ends) {
    const Extents projected = space.of(op.getProjected()), weight = space.of(op.getWeight());
    if (projected.size() != 3 || weight.size() != 2) {
      return opError(op) << "projected and weight have ranks " << projected.size() << " and "
                         << weight.size() << " but 3 and 2 are needed (" << constraint(1) << ")";
    }
    const AffineExpr hidden = weight[1];
    if (!symbolic::constantValue(hidden)) {
      return opError(op) << "the hidden size is a named extent but a static one is needed ("
                         << constraint(1) << ")";
    }
    const Extents state = {projected[1], hidden};
    if (failed(all({{"projected", op.getProjected()}}, {projected[0], projected[1], hidden * gates},
                   1)) ||
        failed(all({{"weight", op.getWeight()}}, {hidden * gates, hidden}, 1)) ||
        (bias && failed(all({{"bias", bias}}, {hidden}, 2))) || failed(all(starts, state, 2)) ||
        failed(all({{"y", op.getY()}}, {projected[0], projected[1], hidden}, 3)) ||
        failed(all(ends, state, 3))) {
      return failure();
    }
    return equalElements(4);
  }
};

}  // namespace

llvm::LogicalResult LstmOp::verify() {
  return CellVerifier::of(*this).layers(*this, {{"h0", getH0()}, {"c0", getC0()}},
                                        {{"h", getH()}, {"c", getC()}});
}

llvm::LogicalResult GruOp::verify() {
  return CellVerifier::of(*this).layers(*this, {{"h0", getH0()}}, {{"h", getH()}});
}

llvm::LogicalResult RnnOp::verify() {
  CellVerifier verifier = CellVerifier::of(*this);
  return failed(verifier.layers(*this, {{"h0", getH0()}}, {{"h", getH()}}))
             ? failure()
             : verifier.nonlinearity(getNonlinearity(), 6);
}

llvm::LogicalResult LstmSequenceOp::verify() {
  if (!getH0() != !getC0()) {
    return opError(*this) << "has " << (getH0() ? "h0" : "c0")
                          << " alone but both or neither are needed (lstm_sequence_c2)";
  }
  const llvm::SmallVector<Named> starts =
      getH0() ? llvm::SmallVector<Named>{{"h0", getH0()}, {"c0", getC0()}}
              : llvm::SmallVector<Named>();
  return CellVerifier::of(*this).sequence(*this, {}, starts, {{"h", getH()}, {"c", getC()}});
}

llvm::LogicalResult GruSequenceOp::verify() {
  const llvm::SmallVector<Named> starts =
      getH0() ? llvm::SmallVector<Named>{{"h0", getH0()}} : llvm::SmallVector<Named>();
  return CellVerifier::of(*this).sequence(*this, getBias(), starts, {{"h", getH()}});
}

llvm::LogicalResult RnnSequenceOp::verify() {
  CellVerifier verifier = CellVerifier::of(*this);
  const llvm::SmallVector<Named> starts =
      getH0() ? llvm::SmallVector<Named>{{"h0", getH0()}} : llvm::SmallVector<Named>();
  return failed(verifier.sequence(*this, {}, starts, {{"h", getH()}}))
             ? failure()
             : verifier.nonlinearity(getNonlinearity(), 5);
}

}  // namespace straightline::op
