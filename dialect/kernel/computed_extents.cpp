// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/computed_extents.h"

namespace straightline::kernel {

using mlir::AffineExpr;
using mlir::AffineExprKind;

namespace {

/// Interval arithmetic over the computed extents alone; the others stay as they are. What is
/// multiplied or divided is not negative.
class Ends {
 public:
  Ends(ProgramOp program, llvm::SmallVectorImpl<mlir::StringAttr>& names) {
    const llvm::SmallVector<mlir::StringAttr> used(names.begin(), names.end());
    for (mlir::StringAttr name : used) {
      most_.push_back({});
      least_.push_back({});
      for (auto extent : program.getBodyBlock()->getOps<ExtentOp>()) {
        const ExtentAttr bound = extent.getBoundAttr();
        if (bound && extent.getSymNameAttr() == name) {
          most_.back() = symbolic::rebase(bound.getExpr(), bound.getNames(), names);
          least_.back() = mlir::getAffineConstantExpr(extent.getMin(), program.getContext());
        }
      }
    }
  }

  bool isAnyComputed() const {
    return llvm::any_of(most_, [](AffineExpr bound) { return static_cast<bool>(bound); });
  }

  AffineExpr end(AffineExpr expr, bool largest) const {
    if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
      const AffineExpr bound = (largest ? most_ : least_)[symbol.getPosition()];
      return bound ? bound : expr;
    }
    auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
    if (!binary) {
      return expr;
    }
    const std::optional<int64_t> factor = symbolic::constantValue(binary.getRHS());
    const bool turns = expr.getKind() == AffineExprKind::Mul && factor && *factor < 0;
    const AffineExpr left = end(binary.getLHS(), largest != turns);
    const bool divides =
        expr.getKind() == AffineExprKind::FloorDiv || expr.getKind() == AffineExprKind::CeilDiv;
    const AffineExpr right = end(binary.getRHS(), largest != divides);
    if (expr.getKind() == AffineExprKind::Mod && left != binary.getLHS()) {
      return largest ? right + (-1) : mlir::getAffineConstantExpr(0, expr.getContext());
    }
    return mlir::getAffineBinaryOpExpr(expr.getKind(), left, right);
  }

 private:
  llvm::SmallVector<AffineExpr> most_, least_;  ///< by name; null: a caller gives it
};

}  // namespace

ExtentAttr largestOf(ProgramOp program, AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names) {
  llvm::SmallVector<mlir::StringAttr> all(names);
  const Ends ends(program, all);
  return ExtentAttr::get(program.getContext(), all,
                         ends.isAnyComputed() ? ends.end(expr, true) : expr);
}

}  // namespace straightline::kernel
