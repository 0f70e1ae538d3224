// SPDX-License-Identifier: Apache-2.0
// The `op` dialect: its classes (generated), and what every family and pass needs to speak of
// extents.
#ifndef STRAIGHTLINE_DIALECT_OP_DIALECT_H
#define STRAIGHTLINE_DIALECT_OP_DIALECT_H

#include <limits>
#include <optional>
#include <string>

#include "dialect/symbolic/symbolic.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace straightline::op {

/// Unit attribute: the op depends on parameters and constants only.
inline constexpr llvm::StringLiteral kPrepare = "op.prepare";
/// On a module: the contractions that may be measured. A row has the key, a module, the candidates
/// and the extra cost of each at the edge of a graph.
inline constexpr llvm::StringLiteral kCandidates = "op.candidates";

/// A ranked tensor of a supported element type whose dynamic sizes are named by `#op.dims`.
bool isTensor(mlir::Type type);
bool hasFloatElements(mlir::Type type);
bool hasBoolElements(mlir::Type type);
bool hasIndexElements(mlir::Type type);
bool isScalarIndex(mlir::Type type);
bool isCondition(mlir::Type type);

/// Extents of a tensor, static ones as constants.
symbolic::ExprList extentsOf(mlir::RankedTensorType type);
/// The tensor type with these extents; carries an encoding exactly if some extent is no constant.
mlir::RankedTensorType tensorType(mlir::Type elementType, const symbolic::ExprList& extents);
/// `type` with another element type.
mlir::RankedTensorType withElementType(mlir::RankedTensorType type, mlir::Type elementType);

/// Extents of several tensors over one list of names, so that their expressions compare and
/// combine.
class ExtentSpace {
 public:
  using Extents = llvm::SmallVector<mlir::AffineExpr>;

  /// Extents of `type`; new names join the space.
  Extents of(mlir::Type type);
  Extents of(mlir::Value value) { return of(value.getType()); }
  bool equal(mlir::AffineExpr a, mlir::AffineExpr b) const;
  bool equal(llvm::ArrayRef<mlir::AffineExpr> a, llvm::ArrayRef<mlir::AffineExpr> b) const;
  /// Whether both lists have the same product (shapes of equal element counts).
  bool equalProducts(llvm::ArrayRef<mlir::AffineExpr> a, llvm::ArrayRef<mlir::AffineExpr> b) const;
  std::string print(mlir::AffineExpr expr) const;
  std::string print(llvm::ArrayRef<mlir::AffineExpr> exprs) const;
  /// The canonical list of `exprs`.
  symbolic::ExprList list(llvm::ArrayRef<mlir::AffineExpr> exprs) const;

 private:
  llvm::SmallVector<mlir::StringAttr> names_;
};

/// The `end` of a slice that is as long as its type says (slice_c5).
inline constexpr int64_t kSliceEndByType = std::numeric_limits<int64_t>::min();
/// `k` of op.topk: all elements of the dim.
inline constexpr int64_t kTopkAll = -1;

/// A slice with its limits applied: first element and number of elements, as expressions of the
/// extent.
struct SliceRange {
  mlir::AffineExpr first;
  mlir::AffineExpr length;
};
/// What `start`, `end`, `step` mean in a dim of this extent (ATen's rules for negative and too
/// large numbers). With a named extent, numbers that are neither negative nor "to the end" are
/// taken as lying inside.
SliceRange sliceRange(mlir::AffineExpr extent, int64_t start, int64_t end, int64_t step);

/// Product of static extents; nullopt if some extent is named.
std::optional<int64_t> elementCount(mlir::RankedTensorType type);

/// The mnemonic without the dialect: `linear`.
llvm::StringRef mnemonicOf(mlir::Operation* operation);

/// The scalar type by which `buildScalar` sees elements of a tensor (unsigned becomes signless).
mlir::Type scalarType(mlir::Type elementType);

/// Where the dims of index tensors stand in what `index` reads and `index_put` writes: those of
/// `dims` if these follow each other, else the first.
int64_t firstIndexDim(llvm::ArrayRef<int64_t> dims);

/// (elementwise_c1): operands and result have equal extents.
llvm::LogicalResult verifyElementwise(mlir::Operation* operation);

/// The elements are the operand's, at other places.
template <typename ConcreteType>
class View : public mlir::OpTrait::TraitBase<ConcreteType, View> {};

/// linear, matmul, convolution.
template <typename ConcreteType>
class Contraction : public mlir::OpTrait::TraitBase<ConcreteType, Contraction> {};

}  // namespace straightline::op

// Generated builders leave parameters unused.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "dialect/op/op_dialect.h.inc"
#include "dialect/op/op_interfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/op/op_attributes.h.inc"

#define GET_OP_CLASSES
#include "dialect/op/op_ops.h.inc"
#pragma GCC diagnostic pop

#endif  // STRAIGHTLINE_DIALECT_OP_DIALECT_H
