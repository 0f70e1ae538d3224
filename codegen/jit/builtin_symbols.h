// SPDX-License-Identifier: Apache-2.0
// Functions that the code generator may call by itself (memory moves, 128-bit division, 16-bit
// float conversion).
#ifndef STRAIGHTLINE_CODEGEN_JIT_BUILTIN_SYMBOLS_H
#define STRAIGHTLINE_CODEGEN_JIT_BUILTIN_SYMBOLS_H

#include <string>

namespace straightline::jit {

/// Address of a compiler support function, NULL when there is none of that name.
void* builtinSymbol(const std::string& name);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_BUILTIN_SYMBOLS_H
