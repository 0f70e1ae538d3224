// SPDX-License-Identifier: Apache-2.0
#include "codegen/names.h"

#include "llvm/ADT/StringExtras.h"

namespace straightline::codegen {
namespace {

// Keywords, alternative tokens, common macros, and names that emitted text uses itself; the same
// set serves C++ and Python.
constexpr llvm::StringLiteral kReserved[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept",
    "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "co_await",
    "co_return", "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast",
    "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
    "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
    "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq", "NULL", "EOF", "assert", "errno", "linux", "unix", "main", "stdin",
    "stdout", "stderr", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t",
    "uint32_t", "uint64_t", "size_t", "ctx", "team", "io", "sl", "abs", "exp", "log", "sin", "cos",
    "tan", "sqrt", "pow", "floor", "ceil", "round", "trunc", "malloc", "free", "memcpy", "memset",
    "printf", "exit", "signal", "y0", "j0", "y1", "j1", "gamma", "index", "time", "div", "read",
    "write",
    // Keywords of Python, and names that emitted Python uses itself.
    "False", "None", "True", "as", "async", "await", "def", "del", "elif", "except", "finally",
    "from", "global", "import", "in", "is", "lambda", "nonlocal", "pass", "raise", "with", "yield",
    "range", "alone", "prepare", "run"};

}  // namespace

std::string identifierFrom(llvm::StringRef name) {
  std::string result;
  for (char c : name) {
    if (llvm::isAlnum(c)) {
      result.push_back(c);
    } else if (!result.empty() && result.back() != '_') {
      result.push_back('_');
    }
  }
  while (!result.empty() && result.back() == '_') {
    result.pop_back();
  }
  if (result.empty()) {
    return "v";
  }
  // An underscore followed by a capital is reserved for the implementation, so our names start with
  // a letter.
  return llvm::isDigit(result.front()) ? "v" + result : result;
}

std::string camelCase(llvm::StringRef name) {
  std::string result;
  bool upper = true;
  for (char c : name) {
    if (!llvm::isAlnum(c)) {
      upper = true;
      continue;
    }
    result.push_back(upper ? llvm::toUpper(c) : c);
    upper = false;
  }
  return result;
}

NameTable::NameTable() {
  for (llvm::StringRef name : kReserved) {
    taken_.insert(name);
  }
}

std::string NameTable::unique(llvm::StringRef preferred) {
  const std::string base = identifierFrom(preferred);
  std::string name = base;
  int& next = next_[base];
  while (taken_.contains(name) || taken_.contains(name + "_at") ||
         taken_.contains(name + "_memory")) {
    name = base + "_" + std::to_string(++next);
  }
  taken_.insert(name);
  taken_.insert(name + "_at");
  taken_.insert(name + "_memory");
  return name;
}

}  // namespace straightline::codegen
