// SPDX-License-Identifier: Apache-2.0
// Names and sizes of a program that is being lowered: expressions over the module's named extents,
// and the attributes and buffer types made of them.
#ifndef STRAIGHTLINE_PASSES_LOWERING_SIZES_H
#define STRAIGHTLINE_PASSES_LOWERING_SIZES_H

#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/op_dialect.h"
#include "dialect/symbolic/symbolic.h"
#include "mlir/IR/BuiltinOps.h"

namespace straightline::lowering {

using Exprs = llvm::SmallVector<mlir::AffineExpr>;

inline kernel::BufferType typeOf(mlir::Value buffer) {
  return llvm::cast<kernel::BufferType>(buffer.getType());
}

inline mlir::Type elementType(mlir::Value tensor) {
  return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
}

/// Every expression that a method takes or returns is over `names()`.
class Sizes {
 public:
  explicit Sizes(mlir::ModuleOp module);

  mlir::MLIRContext* context() const { return context_; }
  /// The named extents of the module, sorted.
  llvm::ArrayRef<mlir::StringAttr> names() const { return names_; }
  symbolic::Bounds boundsOf(mlir::StringAttr name) const { return bounds_.lookup(name); }
  /// Symbol of the caller's queue. Extents share its name space, and a user may have called one
  /// "team".
  llvm::StringRef teamQueue() const;

  mlir::AffineExpr constant(int64_t value) const {
    return mlir::getAffineConstantExpr(value, context_);
  }
  /// `expr`, which is over `from`.
  mlir::AffineExpr rebased(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> from) const;
  Exprs rebased(op::DimsAttr dims) const;
  Exprs extentsOf(mlir::Value tensor) const;
  Exprs extentsOf(kernel::BufferType type) const;
  Exprs stridesOf(kernel::BufferType type) const;
  /// Strides of a buffer along the iteration dims of the map that reads it; 0 where it is
  /// broadcast.
  Exprs stridesThrough(mlir::Value buffer, mlir::AffineMap map) const;
  Exprs rowMajor(const Exprs& extents) const;
  mlir::AffineExpr product(llvm::ArrayRef<mlir::AffineExpr> extents) const;
  /// Where a slice that begins at `start` (from the end when negative) begins in `extent` elements.
  mlir::AffineExpr sliceStart(int64_t start, mlir::AffineExpr extent) const;
  /// Largest value over the bounds of the named extents; a large number when unbounded.
  int64_t upperBound(mlir::AffineExpr expr) const;
  /// Smallest value over the bounds of the named extents; 0 when these do not say it.
  int64_t lowerBound(mlir::AffineExpr expr) const;
  bool isStatic(const Exprs& exprs) const;

  /// i64 when static, #kernel.extent otherwise.
  mlir::Attribute number(mlir::AffineExpr expr) const;
  mlir::Attribute number(int64_t value) const;
  mlir::Attribute numbers(llvm::ArrayRef<mlir::AffineExpr> exprs) const;
  mlir::NamedAttribute named(llvm::StringRef key, mlir::Attribute value) const;

  kernel::BufferType type(const Exprs& extents, mlir::Type element, const Exprs& strides,
                          llvm::ArrayRef<int64_t> border = {}) const;
  kernel::BufferType contiguousType(const Exprs& extents, mlir::Type element) const;

 private:
  mlir::MLIRContext* context_;
  llvm::SmallVector<mlir::StringAttr> names_;
  symbolic::BoundsMap bounds_;
};

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_SIZES_H
