// SPDX-License-Identifier: Apache-2.0
// Element types as DLPack names them (https://dmlc.github.io/dlpack/latest/c_api.html, DLDataTypeCode).
#ifndef STRAIGHTLINE_DIALECT_ELEMENT_TYPE_H
#define STRAIGHTLINE_DIALECT_ELEMENT_TYPE_H

#include <optional>

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/BuiltinTypes.h"

namespace straightline {

/// The code of a float of 8 bits, of which programs move the elements and libraries compute with
/// them; nothing for any other type.
inline std::optional<int> float8Code(mlir::Type type) {
  using Code = std::optional<int>;
  return llvm::TypeSwitch<mlir::Type, Code>(type)
      .Case<mlir::Float8E4M3FNType>([](auto) { return 10; })
      .Case<mlir::Float8E4M3FNUZType>([](auto) { return 11; })
      .Case<mlir::Float8E5M2Type>([](auto) { return 12; })
      .Case<mlir::Float8E5M2FNUZType>([](auto) { return 13; })
      .Case<mlir::Float8E8M0FNUType>([](auto) { return 14; })
      .Default([](auto) { return Code(); });
}

/// The code of an element type; bools have bytes of their own.
inline int dlpackCode(mlir::Type type) {
  if (std::optional<int> code = float8Code(type)) {
    return *code;
  }
  return type.isBF16()              ? 4
         : type.isInteger(1)        ? 6
         : type.isFloat()           ? 2
         : type.isUnsignedInteger() ? 1
                                    : 0;
}

}  // namespace straightline

#endif  // STRAIGHTLINE_DIALECT_ELEMENT_TYPE_H
