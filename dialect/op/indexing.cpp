// SPDX-License-Identifier: Apache-2.0
// Verifiers of the family "indexing".
#include "dialect/op/op_verify.h"

namespace straightline::op {

using mlir::failure;
using mlir::success;
using mlir::Value;
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

int64_t firstIndexDim(llvm::ArrayRef<int64_t> dims) {
  return dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size()) ? dims.front() : 0;
}

namespace {

/// What op.index reads and op.index_put writes; both number their constraints alike.
struct Indexed {
  mlir::Operation* op;
  mlir::Value x;
  mlir::OperandRange indices;
  llvm::ArrayRef<int64_t> dims;
};

llvm::LogicalResult verifyIndices(const Indexed& indexed, ExtentSpace& space) {
  const std::string name = indexed.op->getName().stripDialect().str();
  const auto rank = static_cast<int64_t>(space.of(indexed.x).size());
  if (indexed.dims.empty() || indexed.dims.size() != indexed.indices.size()) {
    return opError(indexed.op) << indexed.indices.size() << " index tensors for "
                               << indexed.dims.size()
                               << " dims but one each is needed, of one dim at least (" << name
                               << "_c1)";
  }
  for (int64_t dim : indexed.dims) {
    if (failed(verifyDim(indexed.op, dim, rank, name + "_c1"))) {
      return failure();
    }
  }
  if (!llvm::is_sorted(indexed.dims, std::less_equal<>())) {
    return opError(indexed.op) << "dims must be ascending (" << name << "_c1)";
  }
  for (mlir::Value index : indexed.indices) {
    if (index.getType() != indexed.indices.front().getType()) {
      return opError(indexed.op) << "an index tensor has type " << index.getType()
                                 << " but the first has " << indexed.indices.front().getType()
                                 << " (" << name << "_c2)";
    }
  }
  return success();
}

/// The extents of what is read or written.
Extents extentsRead(const Indexed& indexed, ExtentSpace& space) {
  Extents extents;
  for (auto [dim, extent] : llvm::enumerate(space.of(indexed.x))) {
    if (!llvm::is_contained(indexed.dims, static_cast<int64_t>(dim))) {
      extents.push_back(extent);
    }
  }
  const Extents index = space.of(indexed.indices.front());
  extents.insert(extents.begin() + firstIndexDim(indexed.dims), index.begin(), index.end());
  return extents;
}

}  // namespace

llvm::LogicalResult IndexOp::verify() {
  ExtentSpace space;
  const Indexed indexed{*this, getX(), getIndices(), getDims()};
  if (failed(verifyIndices(indexed, space)) ||
      failed(verifyElements(*this, getResult(), "the result", getX().getType().getElementType(),
                            "index_c3"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()),
                       extentsRead(indexed, space), "index_c3");
}

llvm::LogicalResult IndexPutOp::verify() {
  ExtentSpace space;
  const Indexed indexed{*this, getX(), getIndices(), getDims()};
  const mlir::Type element = getX().getType().getElementType();
  if (failed(verifyIndices(indexed, space)) ||
      failed(verifyElements(*this, getValues(), "values", element, "index_put_c4")) ||
      failed(verifyElements(*this, getResult(), "the result", element, "index_put_c4")) ||
      failed(verifyExtents(*this, space, "values", space.of(getValues()),
                           extentsRead(indexed, space), "index_put_c3"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), space.of(getX()),
                       "index_put_c4");
}

llvm::LogicalResult ScatterOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), index = space.of(getIndex()), src = space.of(getSrc());
  const mlir::Type element = getX().getType().getElementType();
  const auto dim = static_cast<int64_t>(getDim());
  for (auto [what, other] : {std::pair("index", &index), {"src", &src}}) {
    if (x.size() != other->size()) {
      return opError(*this) << "x has rank " << x.size() << " but " << what << " has rank "
                            << other->size() << " (scatter_c1)";
    }
  }
  if (failed(verifyDim(*this, dim, x.size(), "scatter_c1"))) {
    return failure();
  }
  for (auto [what, other] : {std::pair("src", &src), {"x", &x}}) {
    for (size_t place = 0; place < index.size(); ++place) {
      const std::optional<int64_t> read = symbolic::constantValue(index[place]);
      const std::optional<int64_t> whole = symbolic::constantValue((*other)[place]);
      const bool isFree = other == &x && static_cast<int64_t>(place) == dim;
      if (!isFree && whole && read && *read > *whole) {
        return opError(*this) << "index has " << *read << " in dim " << place << " but " << what
                              << " has " << *whole << " (scatter_c2)";
      }
    }
  }
  if (!llvm::is_contained({"none", "sum", "prod", "amin", "amax"}, getReduce())) {
    return opError(*this) << "reduce is \"" << getReduce()
                          << "\" but none, sum, prod, amin or amax is needed (scatter_c5)";
  }
  if (failed(verifyElements(*this, getSrc(), "src", element, "scatter_c3")) ||
      failed(verifyElements(*this, getResult(), "the result", element, "scatter_c3"))) {
    return failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), x, "scatter_c4");
}

llvm::LogicalResult TreeEnsembleOp::verify() {
  ExtentSpace space;
  const Extents x = space.of(getX()), nodes = space.of(getNodes()),
                weights = space.of(getWeights());
  auto elementOf = [](Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  };
  const mlir::Type node = elementOf(getNodes()), weight = elementOf(getWeights());
  if (x.size() != 2 || nodes.size() != 2 || symbolic::constantValue(nodes[1]) != 2 ||
      !(node.isSignlessInteger(32) || node.isSignlessInteger(64))) {
    return opError(*this) << "x has extents " << space.print(x) << " and nodes "
                          << space.print(nodes) << " of " << node
                          << " but [n, f] and [m, 2] of i32 or i64 are needed (tree_ensemble_c1)";
  }
  const Extents columns = getColumns() ? space.of(getColumns()) : Extents{};
  const bool fits = !getColumns() || (columns.size() == 1 && weights.size() == 2 &&
                                      symbolic::constantValue(weights[1]) == 1 &&
                                      elementOf(getColumns()).isSignlessInteger(32));
  if (weights.size() != 2 || !(weight.isF32() || weight.isF64()) || !fits) {
    return opError(*this) << "weights have extents " << space.print(weights) << " of " << weight
                          << " but f32 or f64 [l, c] are needed, with i32 columns of rank 1 [l, 1]"
                             " (tree_ensemble_c2)";
  }
  const auto trees = static_cast<int64_t>(getTrees());
  const int64_t most = symbolic::constantValue(nodes[0]).value_or(trees);
  const int64_t named = getColumns() ? symbolic::constantValue(columns[0]).value_or(-1) : trees;
  if (trees < 1 || trees > most || trees != named) {
    return opError(*this) << "trees is " << trees << " but there are " << most << " nodes"
                          << (getColumns() ? " and " + std::to_string(named) + " columns" : "")
                          << " (tree_ensemble_c3)";
  }
  if (!llvm::is_contained({"at_most", "below", "equal", "mixed"}, getDecision()) ||
      !llvm::is_contained({"sum", "max", "min"}, getAggregate())) {
    return opError(*this) << "decision is \"" << getDecision() << "\" and aggregate \""
                          << getAggregate()
                          << "\" but at_most, below, equal or mixed, and sum, max or min are needed"
                             " (tree_ensemble_c4)";
  }
  const auto bits = static_cast<int64_t>(getFeatureBits()),
             depth = static_cast<int64_t>(getDepth());
  if (bits < 1 || bits > 24 || depth < 0) {
    return opError(*this) << "feature_bits is " << bits << " and depth " << depth
                          << " but 1 to 24, and no negative depth are needed (tree_ensemble_c5)";
  }
  if (const mlir::Type feature = elementOf(getX()); !feature.isF32() && !feature.isF64()) {
    return opError(*this) << "x has elements of " << feature
                          << " but f32 or f64 are needed (tree_ensemble_c7)";
  }
  const Extents result = space.of(getResult());
  if (failed(verifyElements(*this, getResult(), "the result", weight, "tree_ensemble_c6")) ||
      result.size() != 2) {
    return result.size() == 2 ? failure()
                              : opError(*this) << "the result has extents " << space.print(result)
                                               << " but [n, c] are needed (tree_ensemble_c6)";
  }
  return verifyExtents(*this, space, "the result", result,
                       {x[0], getColumns() ? result[1] : weights[1]}, "tree_ensemble_c6");
}

}  // namespace straightline::op
