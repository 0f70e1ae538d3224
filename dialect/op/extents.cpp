// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <vector>

#include "dialect/element_type.h"
#include "dialect/op/op_dialect.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace straightline::op {

using mlir::AffineExpr;
using mlir::RankedTensorType;
using mlir::ShapedType;
using mlir::Type;
using symbolic::ExprList;

namespace {

bool isElement(Type type) {
  if (type.isF32() || type.isF64() || type.isBF16() || type.isF16() || float8Code(type)) {
    return true;
  }
  auto integer = llvm::dyn_cast<mlir::IntegerType>(type);
  if (!integer || integer.isSigned()) {
    return false;
  }
  const unsigned width = integer.getWidth();
  return width == 8 || width == 16 || width == 32 || width == 64 ||
         (width == 1 && !integer.isUnsigned());
}

Type elementOf(Type type) { return llvm::cast<RankedTensorType>(type).getElementType(); }

}  // namespace

bool isTensor(Type type) {
  auto tensor = llvm::dyn_cast<RankedTensorType>(type);
  if (!tensor || !isElement(tensor.getElementType())) {
    return false;
  }
  return tensor.hasStaticShape() ? !tensor.getEncoding()
                                 : llvm::isa_and_nonnull<DimsAttr>(tensor.getEncoding());
}

bool hasFloatElements(Type type) { return llvm::isa<mlir::FloatType>(elementOf(type)); }
bool hasBoolElements(Type type) { return elementOf(type).isInteger(1); }
bool hasIndexElements(Type type) {
  return elementOf(type).isSignlessInteger(64) || elementOf(type).isSignlessInteger(32);
}
bool isScalarIndex(Type type) {
  return llvm::cast<RankedTensorType>(type).getRank() == 0 && elementOf(type).isSignlessInteger(64);
}
bool isCondition(Type type) {
  return llvm::cast<RankedTensorType>(type).getRank() == 0 && hasBoolElements(type);
}

ExprList extentsOf(RankedTensorType type) {
  if (auto dims = llvm::dyn_cast_if_present<DimsAttr>(type.getEncoding())) {
    return dims.getList();
  }
  return symbolic::constants(type.getContext(), type.getShape());
}

RankedTensorType tensorType(Type elementType, const ExprList& extents) {
  llvm::SmallVector<int64_t> shape;
  for (AffineExpr extent : extents.exprs) {
    shape.push_back(symbolic::constantValue(extent).value_or(ShapedType::kDynamic));
  }
  const bool named = llvm::is_contained(shape, ShapedType::kDynamic);
  return RankedTensorType::get(
      shape, elementType, named ? DimsAttr::get(elementType.getContext(), extents) : DimsAttr());
}

RankedTensorType withElementType(RankedTensorType type, Type elementType) {
  return RankedTensorType::get(type.getShape(), elementType, type.getEncoding());
}

ExtentSpace::Extents ExtentSpace::of(Type type) {
  const ExprList list = extentsOf(llvm::cast<RankedTensorType>(type));
  Extents result;
  for (AffineExpr expr : list.exprs) {
    result.push_back(symbolic::rebase(expr, list.names, names_));
  }
  return result;
}

namespace {

/// A sum of products, multiplied out: of factors that are neither sums nor products, in one order,
/// to the number that a product counts.
using Terms = std::map<std::vector<const void*>, int64_t>;

void addTerms(AffineExpr expr, int64_t times, Terms& sum);

Terms productTerms(AffineExpr a, AffineExpr b) {
  Terms left, right, product;
  addTerms(a, 1, left);
  addTerms(b, 1, right);
  for (const auto& [factors, count] : left) {
    for (const auto& [others, number] : right) {
      std::vector<const void*> all = factors;
      all.insert(all.end(), others.begin(), others.end());
      llvm::sort(all);
      product[all] += count * number;
    }
  }
  return product;
}

void addTerms(AffineExpr expr, int64_t times, Terms& sum) {
  if (std::optional<int64_t> value = symbolic::constantValue(expr)) {
    sum[{}] += times * *value;
    return;
  }
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
  if (binary && expr.getKind() == mlir::AffineExprKind::Add) {
    addTerms(binary.getLHS(), times, sum);
    addTerms(binary.getRHS(), times, sum);
  } else if (binary && expr.getKind() == mlir::AffineExprKind::Mul) {
    for (const auto& [factors, count] : productTerms(binary.getLHS(), binary.getRHS())) {
      sum[factors] += times * count;
    }
  } else {
    sum[{expr.getAsOpaquePointer()}] += times;
  }
}

/// Divisions of quotients as one: (x floordiv a + y) floordiv b is (x + a * y) floordiv (a * b), as
/// torch writes what two windows leave of a size.
AffineExpr withSingleDivisions(AffineExpr expr) {
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
  if (!binary) {
    return expr;
  }
  const AffineExpr left = withSingleDivisions(binary.getLHS());
  const AffineExpr right = withSingleDivisions(binary.getRHS());
  const std::optional<int64_t> by = symbolic::constantValue(right);
  if (expr.getKind() != mlir::AffineExprKind::FloorDiv || !by || *by < 1) {
    return mlir::getAffineBinaryOpExpr(expr.getKind(), left, right);
  }
  auto quotient = [&](AffineExpr part, AffineExpr rest) -> AffineExpr {
    auto inner = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(part);
    if (!inner || inner.getKind() != mlir::AffineExprKind::FloorDiv) {
      return {};
    }
    const std::optional<int64_t> before = symbolic::constantValue(inner.getRHS());
    if (!before || *before < 1) {
      return {};
    }
    return (inner.getLHS() + rest * *before).floorDiv(*before * *by);
  };
  if (AffineExpr found = quotient(left, mlir::getAffineConstantExpr(0, expr.getContext()))) {
    return found;
  }
  auto sum = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(left);
  if (sum && left.getKind() == mlir::AffineExprKind::Add) {
    if (AffineExpr found = quotient(sum.getLHS(), sum.getRHS())) {
      return found;
    }
    if (AffineExpr found = quotient(sum.getRHS(), sum.getLHS())) {
      return found;
    }
  }
  return left.floorDiv(right);
}

}  // namespace

bool ExtentSpace::equal(AffineExpr a, AffineExpr b) const {
  if (a == b || mlir::simplifyAffineExpr(a - b, 0, names_.size()) == 0) {
    return true;
  }
  a = withSingleDivisions(a);
  b = withSingleDivisions(b);
  // Products of sums are not multiplied out by MLIR: n * (h floordiv 2 + 1).
  Terms difference;
  addTerms(a, 1, difference);
  addTerms(b, -1, difference);
  return llvm::all_of(difference, [](const auto& term) { return term.second == 0; });
}

bool ExtentSpace::equal(llvm::ArrayRef<AffineExpr> a, llvm::ArrayRef<AffineExpr> b) const {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [&](auto pair) {
           return equal(std::get<0>(pair), std::get<1>(pair));
         });
}

namespace {

/// A product as a number and factors that are no products.
struct Product {
  int64_t number = 1;
  llvm::SmallVector<AffineExpr> factors;

  void multiply(AffineExpr expr) {
    if (std::optional<int64_t> value = symbolic::constantValue(expr)) {
      number *= *value;
      return;
    }
    auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
    if (!binary || expr.getKind() != mlir::AffineExprKind::Mul) {
      factors.push_back(expr);
      return;
    }
    multiply(binary.getLHS());
    multiply(binary.getRHS());
  }
};

}  // namespace

bool ExtentSpace::equalProducts(llvm::ArrayRef<AffineExpr> a, llvm::ArrayRef<AffineExpr> b) const {
  Product left, right;
  llvm::for_each(a, [&](AffineExpr expr) { left.multiply(expr); });
  llvm::for_each(b, [&](AffineExpr expr) { right.multiply(expr); });
  if (left.number == 0 && right.number == 0) {
    return true;
  }
  llvm::SmallVector<AffineExpr> rest;
  for (AffineExpr factor : left.factors) {
    auto* found =
        llvm::find_if(right.factors, [&](AffineExpr other) { return equal(factor, other); });
    if (found == right.factors.end()) {
      rest.push_back(factor);
    } else {
      right.factors.erase(found);
    }
  }
  if (rest.empty() && right.factors.empty()) {
    return left.number == right.number;
  }
  // What is left may still be equal once multiplied out: (b + 1) * 2 against b * 2 + 2.
  mlir::MLIRContext* context = (rest.empty() ? right.factors : rest).front().getContext();
  auto multiplied = [&](int64_t number, llvm::ArrayRef<AffineExpr> factors) {
    AffineExpr product = mlir::getAffineConstantExpr(number, context);
    for (AffineExpr factor : factors) {
      product = factor * product;
    }
    return product;
  };
  return equal(multiplied(left.number, rest), multiplied(right.number, right.factors));
}

std::string ExtentSpace::print(AffineExpr expr) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  symbolic::printExpr(os, expr, names_);
  return text;
}

std::string ExtentSpace::print(llvm::ArrayRef<AffineExpr> exprs) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  symbolic::printList(os, names_, exprs);
  return text;
}

ExprList ExtentSpace::list(llvm::ArrayRef<AffineExpr> exprs) const {
  return symbolic::canonical(names_, exprs);
}

SliceRange sliceRange(AffineExpr extent, int64_t start, int64_t end, int64_t step) {
  mlir::MLIRContext* context = extent.getContext();
  const std::optional<int64_t> size = symbolic::constantValue(extent);
  if (size) {
    auto limited = [&](int64_t place) {
      return std::clamp<int64_t>(place < 0 ? place + *size : place, 0, *size);
    };
    const int64_t first = limited(start);
    const int64_t span = std::max<int64_t>(limited(end) - first, 0);
    return {mlir::getAffineConstantExpr(first, context),
            mlir::getAffineConstantExpr(span / step + (span % step != 0 ? 1 : 0), context)};
  }
  auto placed = [&](int64_t place) -> AffineExpr {
    if (place == std::numeric_limits<int64_t>::max()) {
      return extent;
    }
    return place < 0 ? extent + place : mlir::getAffineConstantExpr(place, context);
  };
  const AffineExpr first = placed(start);
  // Rounded up in the form that torch has: (n + 1) floordiv 2 for [::2], n floordiv 2 for [1::2].
  return {first,
          mlir::simplifyAffineExpr((placed(end) - first + (step - 1)).floorDiv(step), 0, 64)};
}

std::optional<int64_t> elementCount(RankedTensorType type) {
  return type.hasStaticShape() ? std::optional<int64_t>(type.getNumElements()) : std::nullopt;
}

Type scalarType(Type elementType) {
  return elementType.isUnsignedInteger()
             ? mlir::IntegerType::get(elementType.getContext(), elementType.getIntOrFloatBitWidth())
             : elementType;
}

}  // namespace straightline::op
