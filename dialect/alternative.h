// SPDX-License-Identifier: Apache-2.0
// What a kernel said that did not get some work, as both levels record it.
#ifndef STRAIGHTLINE_DIALECT_ALTERNATIVE_H
#define STRAIGHTLINE_DIALECT_ALTERNATIVE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace straightline {

/// Whether it is a dictionary of `kernel` and `said`, texts, and maybe `us`, an f64.
inline bool isAlternative(mlir::Attribute value) {
  auto row = llvm::dyn_cast<mlir::DictionaryAttr>(value);
  if (!row || !row.getAs<mlir::StringAttr>("kernel") || !row.getAs<mlir::StringAttr>("said")) {
    return false;
  }
  auto us = row.getAs<mlir::FloatAttr>("us");
  return us ? us.getType().isF64() : !row.contains("us");
}

}  // namespace straightline

#endif  // STRAIGHTLINE_DIALECT_ALTERNATIVE_H
