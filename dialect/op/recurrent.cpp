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

/// What the layers of lstm and of gru have in common: a constraint is the op's name and a number.
struct LayersVerifier {
  mlir::Operation* operation;
  int64_t gates;
  ExtentSpace space;

  std::string constraint(int number) const {
    return (operation->getName().stripDialect() + "_c" + llvm::Twine(number)).str();
  }

  /// c3.
  llvm::LogicalResult weights(mlir::OperandRange weights, AffineExpr input, AffineExpr hidden, int64_t directions, bool biased) {
    const int64_t each = biased ? 4 : 2;
    for (auto [place, weight] : llvm::enumerate(weights)) {
      const int64_t layer = static_cast<int64_t>(place) / (each * directions);
      const int64_t kind = static_cast<int64_t>(place) % each;
      const AffineExpr features = layer == 0 ? input : hidden * directions;
      const Extents expected = kind == 0   ? Extents{hidden * gates, features}
                               : kind == 1 ? Extents{hidden * gates, hidden}
                                           : Extents{hidden * gates};
      const std::string name = ("weight #" + llvm::Twine(place)).str();
      if (failed(verifyExtents(operation, space, name, space.of(weight), expected, constraint(3)))) {
        return failure();
      }
    }
    return success();
  }

  /// c5 and sequence_c4: of all operands and results.
  llvm::LogicalResult equalElements(int number) const {
    llvm::SmallVector<Value> values(operation->getOperands());
    llvm::append_range(values, operation->getResults());
    const mlir::Type element = llvm::cast<mlir::RankedTensorType>(values.front().getType()).getElementType();
    for (Value value : values) {
      if (failed(verifyElements(operation, value, "an operand or result", element, constraint(number)))) {
        return failure();
      }
    }
    return success();
  }

  /// All but the ranks. `starts` and `ends`: the states with their names.
  template <typename Op>
  llvm::LogicalResult rest(Op op, llvm::ArrayRef<std::pair<llvm::StringRef, Value>> starts, llvm::ArrayRef<std::pair<llvm::StringRef, Value>> ends) {
    const Extents x = space.of(op.getX()), h0 = space.of(op.getH0());
    const int64_t directions = op.getBidirectional() ? 2 : 1;
    const AffineExpr batch = op.getBatchFirst() ? x[0] : x[1], steps = op.getBatchFirst() ? x[1] : x[0];
    const AffineExpr hidden = h0[2];
    const Extents state = {mlir::getAffineConstantExpr(op.getNumLayers() * directions, op.getContext()), batch, hidden};
    for (auto [name, start] : starts) {
      if (failed(verifyExtents(operation, space, name, space.of(start), state, constraint(1)))) {
        return failure();
      }
    }
    const size_t count = op.getNumLayers() * directions * (op.getHasBiases() ? 4 : 2);
    if (op.getWeights().size() != count) {
      return opError(op) << "has " << op.getWeights().size() << " weights but " << count << " are needed (" << constraint(2) << ")";
    }
    if (failed(weights(op.getWeights(), x[2], hidden, directions, op.getHasBiases())) || failed(equalElements(5))) {
      return failure();
    }
    const AffineExpr features = hidden * directions;
    const Extents y = op.getBatchFirst() ? Extents{batch, steps, features} : Extents{steps, batch, features};
    if (failed(verifyExtents(operation, space, "y", space.of(op.getY()), y, constraint(4)))) {
      return failure();
    }
    for (auto [name, end] : ends) {
      if (failed(verifyExtents(operation, space, name, space.of(end), state, constraint(4)))) {
        return failure();
      }
    }
    return success();
  }

  /// c1 of a sequence.
  template <typename Op>
  llvm::LogicalResult products(Op op) {
    const Extents projected = space.of(op.getProjected()), weight = space.of(op.getWeight());
    if (projected.size() != 3 || weight.size() != 2) {
      return opError(op) << "projected and weight have ranks " << projected.size() << " and " << weight.size() << " but 3 and 2 are needed ("
                         << constraint(1) << ")";
    }
    const AffineExpr hidden = weight[1];
    if (!symbolic::constantValue(hidden)) {
      return opError(op) << "the hidden size is a named extent but a static one is needed (" << constraint(1) << ")";
    }
    if (failed(verifyExtents(operation, space, "projected", projected, {projected[0], projected[1], hidden * gates}, constraint(1)))) {
      return failure();
    }
    return verifyExtents(operation, space, "weight", weight, {hidden * gates, hidden}, constraint(1));
  }
};

}  // namespace

llvm::LogicalResult LstmOp::verify() {
  const int64_t x = getX().getType().getRank(), h0 = getH0().getType().getRank(), c0 = getC0().getType().getRank();
  if (x != 3 || h0 != 3 || c0 != 3) {
    return opError(*this) << "x, h0 and c0 have ranks " << x << ", " << h0 << " and " << c0 << " but 3 is needed (lstm_c1)";
  }
  return LayersVerifier{getOperation(), 4, {}}.rest(*this, {{"h0", getH0()}, {"c0", getC0()}}, {{"h", getH()}, {"c", getC()}});
}

llvm::LogicalResult GruOp::verify() {
  const int64_t x = getX().getType().getRank(), h0 = getH0().getType().getRank();
  if (x != 3 || h0 != 3) {
    return opError(*this) << "x and h0 have ranks " << x << " and " << h0 << " but 3 is needed (gru_c1)";
  }
  return LayersVerifier{getOperation(), 3, {}}.rest(*this, {{"h0", getH0()}}, {{"h", getH()}});
}

llvm::LogicalResult LstmSequenceOp::verify() {
  LayersVerifier verifier{getOperation(), 4, {}};
  ExtentSpace& space = verifier.space;
  if (failed(verifier.products(*this))) {
    return failure();
  }
  if (!getH0() != !getC0()) {
    return opError(*this) << "has " << (getH0() ? "h0" : "c0") << " alone but both or neither are needed (lstm_sequence_c2)";
  }
  const Extents y = {space.of(getProjected())[0], space.of(getProjected())[1], space.of(getWeight())[1]}, state = {y[1], y[2]};
  if (getH0() && (failed(verifyExtents(*this, space, "h0", space.of(getH0()), state, "lstm_sequence_c2")) ||
                  failed(verifyExtents(*this, space, "c0", space.of(getC0()), state, "lstm_sequence_c2")))) {
    return failure();
  }
  if (failed(verifyExtents(*this, space, "y", space.of(getY()), y, "lstm_sequence_c3")) ||
      failed(verifyExtents(*this, space, "h", space.of(getH()), state, "lstm_sequence_c3")) ||
      failed(verifyExtents(*this, space, "c", space.of(getC()), state, "lstm_sequence_c3"))) {
    return failure();
  }
  return verifier.equalElements(4);
}

llvm::LogicalResult GruSequenceOp::verify() {
  LayersVerifier verifier{getOperation(), 3, {}};
  ExtentSpace& space = verifier.space;
  if (failed(verifier.products(*this))) {
    return failure();
  }
  const Extents y = {space.of(getProjected())[0], space.of(getProjected())[1], space.of(getWeight())[1]}, state = {y[1], y[2]};
  if (getBias() && failed(verifyExtents(*this, space, "bias", space.of(getBias()), {y[2]}, "gru_sequence_c2"))) {
    return failure();
  }
  if (getH0() && failed(verifyExtents(*this, space, "h0", space.of(getH0()), state, "gru_sequence_c2"))) {
    return failure();
  }
  if (failed(verifyExtents(*this, space, "y", space.of(getY()), y, "gru_sequence_c3")) ||
      failed(verifyExtents(*this, space, "h", space.of(getH()), state, "gru_sequence_c3"))) {
    return failure();
  }
  return verifier.equalElements(4);
}

}  // namespace straightline::op
