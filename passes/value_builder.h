// SPDX-License-Identifier: Apache-2.0
// Writes chains of ops with inferred types: what decompositions are made of.
#ifndef STRAIGHTLINE_PASSES_VALUE_BUILDER_H
#define STRAIGHTLINE_PASSES_VALUE_BUILDER_H

#include "dialect/op/op_dialect.h"

namespace straightline::passes {

/// Dims of an image or a signal, [n, c, h, w], with its channels last: [n, h, w, c].
llvm::SmallVector<int64_t> channelsLast(int64_t rank);

/// Builds ops at one location; result types follow from operands.
class ValueBuilder {
 public:
  using Extents = op::ExtentSpace::Extents;

  ValueBuilder(mlir::OpBuilder& builder, mlir::Location loc) : builder_(builder), loc_(loc) {}

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location loc() const { return loc_; }
  op::ExtentSpace& space() { return space_; }
  Extents extents(mlir::Value value) { return space_.of(value); }
  mlir::AffineExpr number(int64_t value) {
    return mlir::getAffineConstantExpr(value, builder_.getContext());
  }
  static mlir::Type elementOf(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }
  mlir::RankedTensorType type(mlir::Type element, llvm::ArrayRef<mlir::AffineExpr> extents) {
    return op::tensorType(element, space_.list(extents));
  }

  template <typename Op, typename... Arguments>
  mlir::Value make(Arguments&&... arguments) {
    return Op::create(builder_, loc_, std::forward<Arguments>(arguments)...).getResult();
  }

  /// Every element is `value`, of the shape of `like` with the element type `element`.
  mlir::Value full(mlir::RankedTensorType type, double value);
  mlir::Value fullLike(mlir::Value like, double value) {
    return full(llvm::cast<mlir::RankedTensorType>(like.getType()), value);
  }
  mlir::Value toDtype(mlir::Value value, mlir::Type element);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents);
  mlir::Value expand(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> extents);
  mlir::Value permute(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t start, int64_t end);
  mlir::Value linear(mlir::Value x, mlir::Value weight, mlir::Value bias);
  mlir::Value matmul(mlir::Value a, mlir::Value b);
  mlir::Value cat(llvm::ArrayRef<mlir::Value> values, int64_t dim);
  /// `value` times `scale` [c] along dim `dim`, computed in float64 and rounded once.
  mlir::Value scaled(mlir::Value value, mlir::Value scale, int64_t dim);
  /// [c] seen as dim `dim` of a tensor with these extents.
  mlir::Value broadcast(mlir::Value vector, int64_t dim, llvm::ArrayRef<mlir::AffineExpr> extents);

 private:
  mlir::OpBuilder& builder_;
  mlir::Location loc_;
  op::ExtentSpace space_;
};

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_VALUE_BUILDER_H
