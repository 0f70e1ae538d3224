// SPDX-License-Identifier: Apache-2.0
// How much larger than another size, which is only known per call, a size can be.
#ifndef STRAIGHTLINE_PASSES_SIZE_RATIO_H
#define STRAIGHTLINE_PASSES_SIZE_RATIO_H

#include <optional>
#include <utility>

#include "dialect/symbolic/symbolic.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace straightline::passes {

/// Compares sums of products of factors that are over one name each: lines, columns and channels of
/// images, and their borders. One thread at a time.
class SizeRatios {
 public:
  /// `names` are what symbols of the expressions stand for; a name without bounds has any value
  /// from 0 on.
  SizeRatios(llvm::ArrayRef<mlir::StringAttr> names, const symbolic::BoundsMap& bounds);

  /// A number r with size <= r * other for all values of the names within their bounds; nullopt:
  /// none was found.
  std::optional<double> most(mlir::AffineExpr size, mlir::AffineExpr other);

  /// The value where all names have a value of usual images and texts.
  double typical(mlir::AffineExpr size) const;

 private:
  /// A constant times factors over one name each, times others.
  struct Factors {
    double constant = 1;
    llvm::SmallVector<mlir::AffineExpr> factors;
  };
  /// Lower and upper bound of an expression over one name n: slope * n + start.
  struct Line {
    double slope, start;
    double at(double n) const { return slope * n + start; }
  };
  struct Between {
    Line lower, upper;
  };

  Factors factorsOf(mlir::AffineExpr size) const;
  /// Of two products.
  std::optional<double> ofProducts(mlir::AffineExpr size, mlir::AffineExpr other);
  /// Of the sum of a size's terms over the largest term of the other.
  std::optional<double> ofSums(mlir::AffineExpr size, mlir::AffineExpr other);
  /// Terms of a sum, into which constants are multiplied.
  void addTerms(mlir::AffineExpr size, int64_t times,
                llvm::SmallVectorImpl<mlir::AffineExpr>& terms) const;
  /// Whether a product is 0 or more for all values of the names.
  bool isPositive(mlir::AffineExpr product) const;
  /// The name of all symbols of a factor; -1: several.
  int nameOf(mlir::AffineExpr factor) const;
  /// The last value of a name that is tried by itself.
  int64_t lastTried(int name) const;
  /// Of products of factors over one name.
  std::optional<double> ofName(int name, llvm::ArrayRef<mlir::AffineExpr> factors,
                               llvm::ArrayRef<mlir::AffineExpr> others);
  std::optional<double> nearBegin(int name, double last, llvm::ArrayRef<mlir::AffineExpr> factors,
                                  llvm::ArrayRef<mlir::AffineExpr> others) const;
  static std::optional<double> from(double first, llvm::ArrayRef<mlir::AffineExpr> factors,
                                    llvm::ArrayRef<mlir::AffineExpr> others);
  static std::optional<Between> linesOf(mlir::AffineExpr expr);

  llvm::ArrayRef<mlir::StringAttr> names_;
  const symbolic::BoundsMap& known_;
  llvm::SmallVector<symbolic::Bounds> bounds_;
  llvm::DenseMap<std::pair<mlir::AffineExpr, mlir::AffineExpr>, std::optional<double>> found_;
};

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_SIZE_RATIO_H
