// SPDX-License-Identifier: Apache-2.0
// Verifiers of the family "indexing".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::failure;
using mlir::success;
using Extents = ExtentSpace::Extents;

llvm::LogicalResult EmbeddingOp::verify() {
  ExtentSpace space;
  const Extents weight = space.of(getWeight());
  if (weight.size() != 2) {
    return opError(*this) << "weight has rank " << weight.size()
                          << " but 2 is needed (embedding_c1)";
  }
  Extents expected = space.of(getIndices());
  expected.push_back(weight[1]);
  if (failed(verifyElements(*this, getResult(), "the result",
                            getWeight().getType().getElementType(), "embedding_c3"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected, "embedding_c2");
}

llvm::LogicalResult GatherOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), index = space.of(getIndex());
  const int64_t dim = getDim();
  if (x.size() != index.size()) {
    return opError(*this) << "x has rank " << x.size() << " but index has rank " << index.size()
                          << " (gather_c1)";
  }
  if (failed(verifyDim(*this, dim, x.size(), "gather_c1")) ||
      failed(verifyElements(*this, getResult(), "the result", getX().getType().getElementType(),
                            "gather_c3"))) {
    return failure();
  }
  for (auto [place, extents] : llvm::enumerate(llvm::zip(x, index))) {
    const std::optional<int64_t> whole = symbolic::constantValue(std::get<0>(extents));
    const std::optional<int64_t> read = symbolic::constantValue(std::get<1>(extents));
    if (static_cast<int64_t>(place) != dim && whole && read && *read > *whole) {
      return opError(*this) << "index has " << *read << " in dim " << place << " but x has "
                            << *whole << " (gather_c4)";
    }
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), index, "gather_c2");
}

llvm::LogicalResult IndexSelectOp::verify() {
  ExtentSpace space;
  Extents expected = space.of(getX());
  const Extents index = space.of(getIndex());
  const int64_t dim = getDim();
  if (failed(verifyDim(*this, dim, expected.size(), "index_select_c1"))) {
    return failure();
  }
  if (index.size() != 1) {
    return opError(*this) << "index has rank " << index.size()
                          << " but 1 is needed (index_select_c2)";
  }
  expected[dim] = index[0];
  if (failed(verifyElements(*this, getResult(), "the result", getX().getType().getElementType(),
                            "index_select_c3"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), expected,
                       "index_select_c3");
}

namespace {

template <class Op>
llvm::LogicalResult verifyIndexWrite(Op op) {
  ExtentSpace space;
  const Extents x = space.of(op.getX()), index = space.of(op.getIndex());
  const mlir::Type element = op.getX().getType().getElementType();
  if (failed(verifyDim(op, op.getDim(), x.size(), "index_write_c1"))) {
    return failure();
  }
  if (index.size() != 1) {
    return opError(op) << "index has rank " << index.size() << " but 1 is needed (index_write_c2)";
  }
  Extents expected = x;
  expected[op.getDim()] = index[0];
  if (failed(verifyExtents(op, space, "src", space.of(op.getSrc()), expected, "index_write_c3")) ||
      failed(verifyElements(op, op.getSrc(), "src", element, "index_write_c4")) ||
      failed(verifyElements(op, op.getResult(), "the result", element, "index_write_c4"))) {
    return failure();
  }
  return verifyExtents(op, space, "the result", space.of(op.getResult()), x, "index_write_c5");
}

}  // namespace

llvm::LogicalResult IndexCopyOp::verify() { return verifyIndexWrite(*this); }
llvm::LogicalResult IndexAddOp::verify() { return verifyIndexWrite(*this); }

}  // namespace straightline::op
