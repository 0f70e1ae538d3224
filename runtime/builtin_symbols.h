// SPDX-License-Identifier: Apache-2.0
// Functions that the code generator may call by itself (memory moves, 128-bit division, 16-bit
// float conversion). They are in the runtime, so that compiled code finds the same ones however it
// was loaded.
#ifndef STRAIGHTLINE_RUNTIME_BUILTIN_SYMBOLS_H
#define STRAIGHTLINE_RUNTIME_BUILTIN_SYMBOLS_H

namespace straightline {

/// Address of a compiler support function, NULL when there is none of that name.
void* builtinSymbol(const char* name);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_BUILTIN_SYMBOLS_H
