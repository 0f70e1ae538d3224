// SPDX-License-Identifier: Apache-2.0
// A sum is at most as many times another size as its terms together are, and another size is at
// least its largest term. Factors that both products have are left out. For each name, the quotient
// of the others is computed for the first values, and behind these bounded by lines:
// (a n + b) / (c n + d) lies between its value at the first n and a / c where c n + d is positive.
#include "passes/size_ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llvm/ADT/STLExtras.h"

namespace straightline::passes {
namespace {

using mlir::AffineExpr;

/// Values of a name that are tried one by one.
constexpr int64_t kTried = 512;
/// Rounding of quotients and products is far smaller.
constexpr double kSlack = 1 + 1e-9;
/// Of images and texts.
constexpr int64_t kTypical = 300;

/// The value where symbol i is values[i].
double valueAt(AffineExpr expr, llvm::ArrayRef<double> values) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    return double(constant.getValue());
  }
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
    return values[symbol.getPosition()];
  }
  const auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const double left = valueAt(binary.getLHS(), values);
  const double right = valueAt(binary.getRHS(), values);
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return left + right;
    case mlir::AffineExprKind::Mul:
      return left * right;
    case mlir::AffineExprKind::FloorDiv:
      return right == 0 ? 0 : std::floor(left / right);
    case mlir::AffineExprKind::CeilDiv:
      return right == 0 ? 0 : std::ceil(left / right);
    default:
      return right == 0 ? 0 : left - std::floor(left / right) * right;
  }
}

}  // namespace

SizeRatios::SizeRatios(llvm::ArrayRef<mlir::StringAttr> names, const symbolic::BoundsMap& bounds)
    : names_(names), known_(bounds) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (mlir::StringAttr name : names) {
    auto found = bounds.find(name);
    bounds_.push_back(found == bounds.end() ? symbolic::Bounds{0, kMost} : found->second);
  }
}

double SizeRatios::typical(AffineExpr size) const {
  llvm::SmallVector<double> values;
  for (const symbolic::Bounds& bounds : bounds_) {
    values.push_back(double(std::clamp(kTypical, bounds.lowest, bounds.highest)));
  }
  return valueAt(size, values);
}

std::optional<double> SizeRatios::most(AffineExpr size, AffineExpr other) {
  if (size == other) {
    return 1.0;
  }
  if (auto found = found_.find(std::pair(size, other)); found != found_.end()) {
    return found->second;
  }
  std::optional<double> ratio = ofProducts(size, other);
  const std::optional<double> ofTerms = ofSums(size, other);
  if (ofTerms && (!ratio || *ofTerms < *ratio)) {
    ratio = ofTerms;
  }
  found_[std::pair(size, other)] = ratio;
  return ratio;
}

std::optional<double> SizeRatios::ofSums(AffineExpr size, AffineExpr other) {
  llvm::SmallVector<AffineExpr> above, below;
  addTerms(size, 1, above);
  addTerms(other, 1, below);
  if (!llvm::all_of(below, [&](AffineExpr term) { return isPositive(term); })) {
    return std::nullopt;
  }
  const AffineExpr least = *llvm::max_element(
      below, [&](AffineExpr a, AffineExpr b) { return typical(a) < typical(b); });
  double sum = 0;
  for (AffineExpr term : above) {
    const std::optional<double> ratio = ofProducts(term, least);
    if (!ratio) {
      return std::nullopt;
    }
    sum += *ratio;
  }
  return sum;
}

void SizeRatios::addTerms(AffineExpr size, int64_t times,
                          llvm::SmallVectorImpl<AffineExpr>& terms) const {
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(size);
  if (binary && binary.getKind() == mlir::AffineExprKind::Add) {
    addTerms(binary.getLHS(), times, terms);
    addTerms(binary.getRHS(), times, terms);
    return;
  }
  if (binary && binary.getKind() == mlir::AffineExprKind::Mul) {
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS())) {
      addTerms(binary.getLHS(), times * constant.getValue(), terms);
      return;
    }
  }
  terms.push_back(size * times);
}

bool SizeRatios::isPositive(AffineExpr product) const {
  const Factors parts = factorsOf(product);
  return parts.constant >= 0 && llvm::all_of(parts.factors, [&](AffineExpr factor) {
           const int name = nameOf(factor);
           if (name < 0 || bounds_[name].lowest < 0) {
             return false;
           }
           const int64_t tried = lastTried(name);
           const auto last = double(tried);
           const std::optional<Between> lines = linesOf(factor);
           return nearBegin(name, last, {factor}, {}).has_value() &&
                  (tried == bounds_[name].highest ||
                   (lines && lines->lower.slope >= 0 && lines->lower.at(last) >= 0));
         });
}

SizeRatios::Factors SizeRatios::factorsOf(AffineExpr size) const {
  Factors result;
  llvm::SmallVector<AffineExpr> worklist = {size};
  while (!worklist.empty()) {
    const AffineExpr expr = worklist.pop_back_val();
    auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
      result.constant *= double(constant.getValue());
    } else if (binary && binary.getKind() == mlir::AffineExprKind::Mul) {
      worklist.push_back(binary.getLHS());
      worklist.push_back(binary.getRHS());
    } else {
      result.factors.push_back(expr);
    }
  }
  return result;
}

int SizeRatios::nameOf(AffineExpr factor) const {
  int name = -1;
  for (unsigned i = 0; i < names_.size(); ++i) {
    if (factor.isFunctionOfSymbol(i)) {
      if (name >= 0) {
        return -1;
      }
      name = int(i);
    }
  }
  return name;
}

std::optional<double> SizeRatios::ofProducts(AffineExpr size, AffineExpr other) {
  Factors above = factorsOf(size), below = factorsOf(other);
  if (below.constant <= 0) {
    return std::nullopt;
  }
  if (above.constant <= 0) {
    return isPositive(size * -1) ? std::optional(0.0) : std::nullopt;
  }
  llvm::erase_if(above.factors, [&](AffineExpr factor) {
    auto* same = llvm::find(below.factors, factor);
    const bool isInBoth = same != below.factors.end();
    if (isInBoth) {
      below.factors.erase(same);
    }
    return isInBoth;
  });
  double ratio = above.constant / below.constant;
  llvm::SmallVector<llvm::SmallVector<AffineExpr>> over(names_.size()), under(names_.size());
  for (AffineExpr factor : above.factors) {
    if (const int name = nameOf(factor); name >= 0) {
      over[name].push_back(factor);
      continue;
    }
    const std::optional<symbolic::Bounds> bounds = symbolic::bounds(factor, names_, known_);
    if (!bounds || bounds->lowest < 0) {
      return std::nullopt;
    }
    ratio *= double(bounds->highest);
  }
  for (AffineExpr factor : below.factors) {
    if (const int name = nameOf(factor); name >= 0) {
      under[name].push_back(factor);
      continue;
    }
    const std::optional<symbolic::Bounds> bounds = symbolic::bounds(factor, names_, known_);
    if (!bounds || bounds->lowest <= 0) {
      return std::nullopt;
    }
    ratio /= double(bounds->lowest);
  }
  for (size_t name = 0; name < names_.size(); ++name) {
    const std::optional<double> part = ofName(int(name), over[name], under[name]);
    if (!part) {
      return std::nullopt;
    }
    ratio *= *part;
  }
  return std::isfinite(ratio) ? std::optional(ratio * kSlack) : std::nullopt;
}

int64_t SizeRatios::lastTried(int name) const {
  const symbolic::Bounds& bounds = bounds_[name];
  return bounds.lowest + std::min(kTried, bounds.highest - bounds.lowest);
}

std::optional<double> SizeRatios::ofName(int name, llvm::ArrayRef<AffineExpr> factors,
                                         llvm::ArrayRef<AffineExpr> others) {
  if (factors.empty() && others.empty()) {
    return 1.0;
  }
  if (bounds_[name].lowest < 0) {
    return std::nullopt;
  }
  const int64_t tried = lastTried(name);
  const auto last = double(tried);
  const std::optional<double> near = nearBegin(name, last, factors, others);
  if (!near || tried == bounds_[name].highest) {
    return near;
  }
  const std::optional<double> far = from(last, factors, others);
  return far ? std::optional(std::max(*near, *far)) : std::nullopt;
}

std::optional<double> SizeRatios::nearBegin(int name, double last,
                                            llvm::ArrayRef<AffineExpr> factors,
                                            llvm::ArrayRef<AffineExpr> others) const {
  llvm::SmallVector<double> values(names_.size(), 0.0);
  double most = 0;
  for (values[name] = double(bounds_[name].lowest); values[name] <= last; ++values[name]) {
    double above = 1, below = 1;
    for (AffineExpr factor : factors) {
      const double value = valueAt(factor, values);
      if (value < 0) {
        return std::nullopt;
      }
      above *= value;
    }
    for (AffineExpr factor : others) {
      const double value = valueAt(factor, values);
      if (value < 0) {
        return std::nullopt;
      }
      below *= value;
    }
    if (above > 0 && below == 0) {
      return std::nullopt;
    }
    most = above > 0 ? std::max(most, above / below) : most;
  }
  return most;
}

std::optional<double> SizeRatios::from(double first, llvm::ArrayRef<AffineExpr> factors,
                                       llvm::ArrayRef<AffineExpr> others) {
  double ratio = 1;
  llvm::SmallVector<Line> above, below;
  for (AffineExpr factor : factors) {
    const std::optional<Between> lines = linesOf(factor);
    if (!lines || lines->lower.slope < 0 || lines->lower.at(first) < 0 || lines->upper.slope < 0) {
      return std::nullopt;
    }
    above.push_back(lines->upper);
  }
  for (AffineExpr factor : others) {
    const std::optional<Between> lines = linesOf(factor);
    if (!lines || lines->lower.slope < 0 || lines->lower.at(first) <= 0) {
      return std::nullopt;
    }
    below.push_back(lines->lower);
  }
  // What grows is divided by what grows.
  const auto byslope = [](const Line& a, const Line& b) { return a.slope > b.slope; };
  llvm::stable_sort(above, byslope);
  llvm::stable_sort(below, byslope);
  for (size_t i = 0; i < std::max(above.size(), below.size()); ++i) {
    const Line over = i < above.size() ? above[i] : Line{0, 1};
    const Line under = i < below.size() ? below[i] : Line{0, 1};
    if (over.slope > 0 && under.slope == 0) {
      return std::nullopt;
    }
    const double limit = under.slope > 0 ? over.slope / under.slope : 0;
    ratio *= std::max(over.at(first) / under.at(first), limit);
  }
  return ratio;
}

std::optional<SizeRatios::Between> SizeRatios::linesOf(AffineExpr expr) {
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
    const Line line{0, double(constant.getValue())};
    return Between{line, line};
  }
  if (llvm::isa<mlir::AffineSymbolExpr>(expr)) {
    return Between{{1, 0}, {1, 0}};
  }
  const auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const std::optional<Between> left = linesOf(binary.getLHS());
  if (!left) {
    return std::nullopt;
  }
  const auto scaled = [](Line line, double by, double more) {
    return Line{line.slope * by, line.start * by + more};
  };
  if (expr.getKind() == mlir::AffineExprKind::Add) {
    const std::optional<Between> right = linesOf(binary.getRHS());
    const auto sum = [](Line a, Line b) { return Line{a.slope + b.slope, a.start + b.start}; };
    return right ? std::optional(
                       Between{sum(left->lower, right->lower), sum(left->upper, right->upper)})
                 : std::nullopt;
  }
  auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
  if (!constant) {
    return std::nullopt;
  }
  const auto number = double(constant.getValue());
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Mul:
      return number >= 0 ? Between{scaled(left->lower, number, 0), scaled(left->upper, number, 0)}
                         : Between{scaled(left->upper, number, 0), scaled(left->lower, number, 0)};
    case mlir::AffineExprKind::FloorDiv:
      return number > 0 ? std::optional(Between{scaled(left->lower, 1 / number, 1 / number - 1),
                                                scaled(left->upper, 1 / number, 0)})
                        : std::nullopt;
    case mlir::AffineExprKind::CeilDiv:
      return number > 0 ? std::optional(Between{scaled(left->lower, 1 / number, 0),
                                                scaled(left->upper, 1 / number, 1 - 1 / number)})
                        : std::nullopt;
    default:
      return number > 0 ? std::optional(Between{{0, 0}, {0, number - 1}}) : std::nullopt;
  }
}

}  // namespace straightline::passes
