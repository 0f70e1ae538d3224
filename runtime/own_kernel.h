// SPDX-License-Identifier: Apache-2.0
// C functions of users, by the symbols that emitted text calls them by ("sl_own_<digest>_<name>",
// where the digest is of the library and the function's name).
#ifndef STRAIGHTLINE_RUNTIME_OWN_KERNEL_H
#define STRAIGHTLINE_RUNTIME_OWN_KERNEL_H

#include "straightline/abi/own_calls.h"

namespace straightline {

/// Null: no kernel of that symbol is open. Any thread.
void* ownKernelSymbol(const char* symbol);

/// sl_own_kernel_open of the library that `descriptor` is (below 0: errno says why it is none);
/// `path` is how dlopen finds it, and `name` how messages call it.
int32_t openOwnFunction(int descriptor, const char* path, const char* name, const char* function,
                        const char* symbol, sl_message* message);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_OWN_KERNEL_H
