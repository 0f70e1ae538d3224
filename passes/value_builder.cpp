// SPDX-License-Identifier: Apache-2.0
#include "passes/value_builder.h"

namespace straightline::passes {

llvm::SmallVector<int64_t> channelsLast(int64_t rank) {
  llvm::SmallVector<int64_t> order = {0};
  for (int64_t dim = 2; dim < rank; ++dim) {
    order.push_back(dim);
  }
  order.push_back(1);
  return order;
}

using mlir::AffineExpr;
using mlir::RankedTensorType;
using mlir::Value;

Value ValueBuilder::full(RankedTensorType type, double value) {
  const bool real = llvm::isa<mlir::FloatType>(type.getElementType());
  const mlir::Attribute scalar = real ? mlir::Attribute(builder_.getF64FloatAttr(value))
                                      : builder_.getI64IntegerAttr(static_cast<int64_t>(value));
  return make<op::FullOp>(type, scalar);
}

Value ValueBuilder::toDtype(Value value, mlir::Type element) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  return type.getElementType() == element
             ? value
             : make<op::ToDtypeOp>(op::withElementType(type, element), value);
}

Value ValueBuilder::reshape(Value value, llvm::ArrayRef<AffineExpr> extents) {
  const RankedTensorType wanted = type(elementOf(value), extents);
  return wanted == value.getType() ? value : make<op::ReshapeOp>(wanted, value);
}

Value ValueBuilder::expand(Value value, llvm::ArrayRef<AffineExpr> extents) {
  const RankedTensorType wanted = type(elementOf(value), extents);
  return wanted == value.getType() ? value : make<op::ExpandOp>(wanted, value);
}

Value ValueBuilder::permute(Value value, llvm::ArrayRef<int64_t> dims) {
  const Extents from = extents(value);
  Extents to;
  for (int64_t dim : dims) {
    to.push_back(from[dim]);
  }
  return make<op::PermuteOp>(type(elementOf(value), to), value, dims);
}

Value ValueBuilder::slice(Value value, int64_t dim, int64_t start, int64_t end) {
  Extents to = extents(value);
  to[dim] = op::sliceRange(to[dim], start, end, 1).length;
  return make<op::SliceOp>(type(elementOf(value), to), value, dim, start, end, 1);
}

Value ValueBuilder::linear(Value x, Value weight, Value bias) {
  Extents to = extents(x);
  to.back() = extents(weight)[0];
  return make<op::LinearOp>(type(elementOf(x), to), x, weight, bias);
}

Value ValueBuilder::matmul(Value a, Value b) {
  Extents to = extents(a);
  to.back() = extents(b).back();
  return make<op::MatmulOp>(type(elementOf(a), to), a, b);
}

Value ValueBuilder::cat(llvm::ArrayRef<Value> values, int64_t dim) {
  if (values.size() == 1) {
    return values[0];
  }
  Extents to = extents(values[0]);
  for (Value value : values.drop_front()) {
    to[dim] = to[dim] + extents(value)[dim];
  }
  return make<op::CatOp>(type(elementOf(values[0]), to), values, dim);
}

Value ValueBuilder::scaled(Value value, Value scale, int64_t dim) {
  const Value wide = toDtype(value, builder_.getF64Type());
  const Value factor = broadcast(toDtype(scale, builder_.getF64Type()), dim, extents(value));
  return toDtype(make<op::MulOp>(wide, factor), elementOf(value));
}

Value ValueBuilder::broadcast(Value vector, int64_t dim, llvm::ArrayRef<AffineExpr> to) {
  Extents aligned = {extents(vector)[0]};
  aligned.resize(to.size() - dim, number(1));
  return expand(reshape(vector, aligned), to);
}

}  // namespace straightline::passes
