// SPDX-License-Identifier: Apache-2.0
// Unique C identifiers from framework names. The same names in the same order give the same
// identifiers.
#ifndef STRAIGHTLINE_CODEGEN_NAMES_H
#define STRAIGHTLINE_CODEGEN_NAMES_H

#include <string>

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

namespace straightline::codegen {

/// "layers.0.fc" -> "layers_0_fc"; never empty, never starts with a digit, never two underscores in
/// a row.
std::string identifierFrom(llvm::StringRef name);

/// "row_reduction" -> "RowReduction".
std::string camelCase(llvm::StringRef name);

/// Names in use in one scope of emitted text, C++ keywords and names of our headers among them.
class NameTable {
 public:
  NameTable();
  /// identifierFrom(preferred), with a number appended when that is taken. Also reserves the name
  /// with the endings _at (a constant offset) and _memory (an allocation).
  std::string unique(llvm::StringRef preferred);
  /// Reserves a given name (a symbol).
  void reserve(llvm::StringRef name) { taken_.insert(name); }

 private:
  llvm::StringSet<> taken_;
  llvm::StringMap<int> next_;
};

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_NAMES_H
