// SPDX-License-Identifier: Apache-2.0
// The scalar meaning of a fusion's body: what one element of the iteration space computes, and
// through which maps it reads the operands.
#ifndef STRAIGHTLINE_PASSES_LOWERING_SCALAR_EVALUATOR_H
#define STRAIGHTLINE_PASSES_LOWERING_SCALAR_EVALUATOR_H

#include <functional>
#include <string>

#include "dialect/op/op_dialect.h"

namespace straightline::lowering {

using op::scalarType;

/// How a body value is indexed: iteration dims -> dims of the value.
using AccessMap = mlir::AffineMap;

/// Operand of a fusion read through a map.
struct Access {
  unsigned operand;
  AccessMap map;
  bool operator==(const Access&) const = default;
};

/// Evaluates a fusion's body for one element of the iteration space. `leaf` gives the scalar of an
/// operand read through a map; `known` values (results of reductions) are taken as they are.
class ScalarEvaluator {
 public:
  using Leaf = std::function<mlir::Value(unsigned operand, AccessMap map)>;
  ScalarEvaluator(op::FusionOp fusion, mlir::OpBuilder& builder, Leaf leaf)
      : fusion_(fusion), builder_(builder), leaf_(std::move(leaf)) {}
  void define(mlir::Value value, mlir::Value scalar) { known_[value] = scalar; }
  /// Fails with a diagnostic on an op that has no scalar meaning.
  mlir::FailureOr<mlir::Value> evaluate(mlir::Value value, AccessMap map);

 private:
  op::FusionOp fusion_;
  mlir::OpBuilder& builder_;
  Leaf leaf_;
  llvm::DenseMap<mlir::Value, mlir::Value> known_;
  std::vector<std::pair<std::pair<mlir::Value, AccessMap>, mlir::Value>> memo_;
};

/// The map of `expand`'s, `permute`'s or a unit-dim `reshape`'s operand, given the map of its
/// result; null otherwise.
AccessMap operandMap(mlir::Operation* view, AccessMap resultMap);

/// The scalar of a `full` or a literal with equal elements, through views; null otherwise (and for
/// null).
mlir::TypedAttr splatOf(mlir::Operation* op);
/// A literal (f64, i64 or bool attribute of an op) as a scalar of `type`.
mlir::TypedAttr scalarAttribute(mlir::Attribute value, mlir::Type type);
/// Names of the ops in a fusion, in order: "linear, relu".
std::string opNames(op::FusionOp fusion);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_SCALAR_EVALUATOR_H
