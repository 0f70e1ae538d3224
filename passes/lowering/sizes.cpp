// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/sizes.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::Attribute;
using mlir::Value;

namespace {

/// Stands for "no upper bound" in comparisons of sizes.
constexpr int64_t kUnbounded = int64_t{1} << 40;

}  // namespace

Sizes::Sizes(mlir::ModuleOp module) : context_(module.getContext()) {
  for (op::SymbolOp symbol : module.getOps<op::SymbolOp>()) {
    names_.push_back(symbol.getSymNameAttr());
    bounds_[symbol.getSymNameAttr()] = {static_cast<int64_t>(symbol.getMin()),
                                        static_cast<int64_t>(symbol.getMax())};
  }
  llvm::sort(names_,
             [](mlir::StringAttr a, mlir::StringAttr b) { return a.getValue() < b.getValue(); });
}

llvm::StringRef Sizes::teamQueue() const {
  return llvm::any_of(names_, [](mlir::StringAttr name) { return name.getValue() == "team"; })
             ? "caller.team"
             : "team";
}

Exprs Sizes::rebased(op::DimsAttr dims) const {
  return llvm::map_to_vector(dims.getExprs(),
                             [&](AffineExpr expr) { return rebased(expr, dims.getNames()); });
}

AffineExpr Sizes::rebased(AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> from) const {
  llvm::SmallVector<mlir::StringAttr> names(names_);
  AffineExpr result = symbolic::rebase(expr, from, names);
  assert(names.size() == names_.size() && "each named extent has a symbol in the module");
  return result;
}

Exprs Sizes::extentsOf(Value tensor) const {
  symbolic::ExprList list = op::extentsOf(llvm::cast<mlir::RankedTensorType>(tensor.getType()));
  return llvm::map_to_vector(list.exprs,
                             [&](AffineExpr expr) { return rebased(expr, list.names); });
}

Exprs Sizes::extentsOf(kernel::BufferType type) const {
  return llvm::map_to_vector(type.getExtents(),
                             [&](AffineExpr expr) { return rebased(expr, type.getNames()); });
}

Exprs Sizes::stridesOf(kernel::BufferType type) const {
  return llvm::map_to_vector(type.getStrides(),
                             [&](AffineExpr expr) { return rebased(expr, type.getNames()); });
}

Exprs Sizes::rowMajor(const Exprs& extents) const {
  Exprs strides(extents.size(), constant(1));
  for (int64_t dim = static_cast<int64_t>(extents.size()) - 2; dim >= 0; --dim) {
    strides[dim] = strides[dim + 1] * extents[dim + 1];
  }
  return strides;
}

AffineExpr Sizes::product(llvm::ArrayRef<AffineExpr> extents) const {
  AffineExpr result = constant(1);
  for (AffineExpr extent : extents) {
    result = result * extent;
  }
  return result;
}

int64_t Sizes::upperBound(AffineExpr expr) const {
  std::optional<symbolic::Bounds> bounds = symbolic::bounds(expr, names_, bounds_);
  return bounds ? std::min(bounds->highest, kUnbounded) : kUnbounded;
}

int64_t Sizes::lowerBound(AffineExpr expr) const {
  std::optional<symbolic::Bounds> bounds = symbolic::bounds(expr, names_, bounds_);
  return bounds ? std::max<int64_t>(bounds->lowest, 0) : 0;
}

Attribute Sizes::number(int64_t value) const {
  return mlir::IntegerAttr::get(mlir::IntegerType::get(context_, 64), value);
}

Attribute Sizes::number(AffineExpr expr) const {
  if (std::optional<int64_t> value = symbolic::constantValue(expr)) {
    return number(*value);
  }
  return kernel::ExtentAttr::get(context_, names_, expr);
}

Attribute Sizes::numbers(llvm::ArrayRef<AffineExpr> exprs) const {
  return mlir::ArrayAttr::get(
      context_, llvm::map_to_vector(exprs, [&](AffineExpr expr) { return number(expr); }));
}

mlir::NamedAttribute Sizes::named(llvm::StringRef key, Attribute value) const {
  return {mlir::StringAttr::get(context_, key), value};
}

bool Sizes::isStatic(const Exprs& exprs) const {
  return llvm::all_of(exprs,
                      [](AffineExpr expr) { return symbolic::constantValue(expr).has_value(); });
}

Exprs Sizes::stridesThrough(Value buffer, mlir::AffineMap map) const {
  Exprs result(map.getNumDims(), constant(0));
  const Exprs strides = stridesOf(typeOf(buffer));
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    if (auto iteration = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) {
      result[iteration.getPosition()] = result[iteration.getPosition()] + strides[dim];
    }
  }
  return result;
}

AffineExpr Sizes::sliceStart(int64_t start, AffineExpr extent) const {
  if (start < 0) {
    std::optional<int64_t> size = symbolic::constantValue(extent);
    return size ? constant(std::max<int64_t>(0, *size + start)) : extent + start;
  }
  std::optional<int64_t> size = symbolic::constantValue(extent);
  return constant(size ? std::min(start, *size) : start);
}

kernel::BufferType Sizes::type(const Exprs& extents, mlir::Type element, const Exprs& strides,
                               llvm::ArrayRef<int64_t> border) const {
  return kernel::BufferType::get(context_, names_, extents, element, strides, "host", border);
}

kernel::BufferType Sizes::contiguousType(const Exprs& extents, mlir::Type element) const {
  return type(extents, element, rowMajor(extents));
}

}  // namespace straightline::lowering
