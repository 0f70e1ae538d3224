// SPDX-License-Identifier: Apache-2.0
// Verifier of the family "recurrent".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::failure;
using mlir::success;
using mlir::Value;
using Extents = ExtentSpace::Extents;

namespace {

llvm::LogicalResult verifyWeights(LstmOp op, ExtentSpace& space, AffineExpr input,
                                  AffineExpr hidden) {
  const int64_t directions = op.getBidirectional() ? 2 : 1;
  const int64_t each = op.getHasBiases() ? 4 : 2;
  for (auto [place, weight] : llvm::enumerate(op.getWeights())) {
    const int64_t layer = static_cast<int64_t>(place) / (each * directions);
    const int64_t kind = static_cast<int64_t>(place) % each;
    const AffineExpr features = layer == 0 ? input : hidden * directions;
    const Extents expected = kind == 0   ? Extents{hidden * 4, features}
                             : kind == 1 ? Extents{hidden * 4, hidden}
                                         : Extents{hidden * 4};
    const std::string name = ("weight #" + llvm::Twine(place)).str();
    if (failed(verifyExtents(op, space, name, space.of(weight), expected, "lstm_c3"))) {
      return failure();
    }
  }
  return success();
}

/// Of all operands and results.
llvm::LogicalResult verifyEqualElements(mlir::Operation* operation, mlir::Type element, llvm::StringRef constraint) {
  llvm::SmallVector<Value> values(operation->getOperands());
  llvm::append_range(values, operation->getResults());
  for (Value value : values) {
    if (failed(verifyElements(operation, value, "an operand or result", element, constraint))) {
      return failure();
    }
  }
  return success();
}

}  // namespace

llvm::LogicalResult LstmOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), h0 = space.of(getH0()), c0 = space.of(getC0());
  if (x.size() != 3 || h0.size() != 3 || c0.size() != 3) {
    return opError(*this) << "x, h0 and c0 have ranks " << x.size() << ", " << h0.size() << " and "
                          << c0.size() << " but 3 is needed (lstm_c1)";
  }
  const int64_t directions = getBidirectional() ? 2 : 1;
  const AffineExpr batch = getBatchFirst() ? x[0] : x[1], steps = getBatchFirst() ? x[1] : x[0];
  const AffineExpr hidden = h0[2];
  const Extents state = {mlir::getAffineConstantExpr(getNumLayers() * directions, getContext()),
                         batch, hidden};
  if (failed(verifyExtents(*this, space, "h0", h0, state, "lstm_c1")) ||
      failed(verifyExtents(*this, space, "c0", c0, state, "lstm_c1"))) {
    return failure();
  }
  const size_t count = getNumLayers() * directions * (getHasBiases() ? 4 : 2);
  if (getWeights().size() != count) {
    return opError(*this) << "has " << getWeights().size() << " weights but " << count
                          << " are needed (lstm_c2)";
  }
  if (failed(verifyWeights(*this, space, x[2], hidden))) {
    return failure();
  }
  if (failed(verifyEqualElements(*this, getX().getType().getElementType(), "lstm_c5"))) {
    return failure();
  }
  const AffineExpr features = hidden * directions;
  const Extents y =
      getBatchFirst() ? Extents{batch, steps, features} : Extents{steps, batch, features};
  if (failed(verifyExtents(*this, space, "y", space.of(getY()), y, "lstm_c4")) ||
      failed(verifyExtents(*this, space, "h", space.of(getH()), h0, "lstm_c4"))) {
    return failure();
  }
  return verifyExtents(*this, space, "c", space.of(getC()), c0, "lstm_c4");
}

llvm::LogicalResult LstmSequenceOp::verify() {
  ExtentSpace space;
  const Extents projected = space.of(getProjected()), weight = space.of(getWeight());
  if (projected.size() != 3 || weight.size() != 2) {
    return opError(*this) << "projected and weight have ranks " << projected.size() << " and " << weight.size()
                          << " but 3 and 2 are needed (lstm_sequence_c1)";
  }
  const AffineExpr hidden = weight[1];
  if (!symbolic::constantValue(hidden)) {
    return opError(*this) << "the hidden size is a named extent but a static one is needed (lstm_sequence_c1)";
  }
  if (failed(verifyExtents(*this, space, "projected", projected, {projected[0], projected[1], hidden * 4}, "lstm_sequence_c1")) ||
      failed(verifyExtents(*this, space, "weight", weight, {hidden * 4, hidden}, "lstm_sequence_c1"))) {
    return failure();
  }
  if (!getH0() != !getC0()) {
    return opError(*this) << "has " << (getH0() ? "h0" : "c0") << " alone but both or neither are needed (lstm_sequence_c2)";
  }
  const Extents state = {projected[1], hidden};
  if (getH0() && (failed(verifyExtents(*this, space, "h0", space.of(getH0()), state, "lstm_sequence_c2")) ||
                  failed(verifyExtents(*this, space, "c0", space.of(getC0()), state, "lstm_sequence_c2")))) {
    return failure();
  }
  if (failed(verifyExtents(*this, space, "y", space.of(getY()), {projected[0], projected[1], hidden}, "lstm_sequence_c3")) ||
      failed(verifyExtents(*this, space, "h", space.of(getH()), state, "lstm_sequence_c3")) ||
      failed(verifyExtents(*this, space, "c", space.of(getC()), state, "lstm_sequence_c3"))) {
    return failure();
  }
  return verifyEqualElements(*this, getProjected().getType().getElementType(), "lstm_sequence_c4");
}

}  // namespace straightline::op
