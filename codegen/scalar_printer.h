// SPDX-License-Identifier: Apache-2.0
// Scalar operations (arith, math) as C++ in the vocabulary of codegen/kernels/scalar.h, which lists
// the spellings.
#ifndef STRAIGHTLINE_CODEGEN_SCALAR_PRINTER_H
#define STRAIGHTLINE_CODEGEN_SCALAR_PRINTER_H

#include <string>

#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Region.h"

namespace straightline::codegen {

/// Turns operations into expressions over names of values.
class ScalarPrinter {
 public:
  /// A variable whose lanes constants take. Without a name, values are scalars.
  struct Like {
    std::string name;
    mlir::Type type;
  };
  /// `checked`: integer division reports a zero divisor through `ctx`.
  /// `mixesSigns`: values from buffers of integers may be unsigned ones.
  explicit ScalarPrinter(Like like = {}, bool checked = false, bool mixesSigns = false)
      : like_(std::move(like)), checked_(checked), mixesSigns_(mixesSigns) {}

  void bind(mlir::Value value, std::string text) { names_[value] = std::move(text); }
  std::string nameOf(mlir::Value value) const { return names_.lookup(value); }
  /// Text of the op's only result; an error on the op when there is no spelling for it.
  mlir::FailureOr<std::string> expression(mlir::Operation* op) const;
  /// Whether printing `op` as it is needs `ctx`.
  bool usesContext(mlir::Operation* op) const;

 private:
  mlir::FailureOr<std::string> conversion(mlir::Operation* op) const;
  mlir::FailureOr<std::string> comparison(mlir::Operation* op) const;
  std::string constant(mlir::Operation* op) const;
  /// Whether values of a type have the sign of the buffer that they come from.
  bool hasSignOfBuffer(mlir::Type type) const;
  std::string unsignedForm(llvm::StringRef function, mlir::Operation* op) const;
  /// Prints a number of 8 bits as int8_t, whatever type holds it, so that all operands of an op
  /// have one type; with `mixesSigns` those of 16 to 64 bits likewise.
  std::string operand(mlir::Operation* op, unsigned i) const;
  /// Prints the value unchanged, for ops that give the same for int8_t and uint8_t.
  std::string stored(mlir::Operation* op, unsigned i) const { return nameOf(op->getOperand(i)); }

  llvm::DenseMap<mlir::Value, std::string> names_;
  Like like_;
  bool checked_;
  bool mixesSigns_;
};

/// Whether a lambda in it calls a function of special.h.
bool callsSpecialFunction(mlir::Operation* operation);

/// A region as a C++ lambda: arguments by value (x0, x1, ...), yielded values by reference (y0, y1,
/// ...). Lines after the first are indented by `indent`.
mlir::FailureOr<std::string> printLambda(mlir::Region& region, bool checked, size_t indent);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_SCALAR_PRINTER_H
