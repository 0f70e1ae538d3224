// SPDX-License-Identifier: Apache-2.0
// Pieces of C++ text: types, literals, expressions over named extents, comments.
#ifndef STRAIGHTLINE_CODEGEN_CPP_TEXT_H
#define STRAIGHTLINE_CODEGEN_CPP_TEXT_H

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "dialect/kernel/kernel_dialect.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/Location.h"

namespace straightline::codegen {

/// A set of texts in the order of insertion.
using UniqueTexts = llvm::SetVector<std::string, std::vector<std::string>, std::set<std::string>>;

/// "float", "sl::bfloat16", "bool", "int64_t" (index too), ...
std::string cppType(mlir::Type type);

/// `{2, 32, 1}`: an sl_dtype.
std::string dtypeText(mlir::Type type);

/// Exact literal: shortest decimal that reads back as the same value; infinities and NaN as
/// builtins. bfloat16 and half are written as float.
std::string floatLiteral(const llvm::APFloat& value, mlir::Type type);
/// Shortest decimal that reads back as the same double; finite values only.
std::string doubleText(double value);
std::string intLiteral(const llvm::APInt& value, mlir::Type type);
std::string intLiteral(int64_t value);
/// `value` in double quotes, escaped.
std::string stringLiteral(llvm::StringRef value);
/// A typed scalar attribute.
std::string scalarLiteral(mlir::TypedAttr value);

/// Text of an expression; `identifier` says how a name is spelled. Division and remainder round
/// down: Python's `//` and `%` do, in C++ ("/") it is written out where what is divided may be
/// negative. Divisors are sizes; by 0 the C++ gives 0, as runtime/expression.cpp.
using Spelling = std::function<std::string(mlir::StringAttr)>;
std::string expression(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names,
                       const Spelling& identifier, llvm::StringRef divide = "/");

/// "fc (model.py:12)", "model.py:12" or "": file names without folders.
std::string sourceOf(mlir::Location location);

/// Whether `word` occurs in `text` as a whole word.
bool mentions(llvm::StringRef text, llvm::StringRef word);

/// All words of `text`, for repeated look-ups.
llvm::StringSet<> wordsOf(llvm::StringRef text);

/// Joins `items` by ", ", breaking before the one that would pass column 100; continuation lines
/// are indented.
std::string wrapped(llvm::ArrayRef<std::string> items, size_t column, size_t indent);

/// Text with an indentation of `step` columns a level.
class Writer {
 public:
  explicit Writer(size_t step = 2) : step_(step) {}
  /// One line; empty: an empty line without spaces.
  void line(const std::string& text);
  /// `head` + items + `tail`, wrapped.
  void call(const std::string& head, llvm::ArrayRef<std::string> items, const std::string& tail);
  void indent() { indent_ += step_; }
  void dedent() { indent_ -= step_; }
  size_t column() const { return indent_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  size_t step_;
  size_t indent_ = 0;
};

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_CPP_TEXT_H
