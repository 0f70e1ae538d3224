// SPDX-License-Identifier: Apache-2.0
// What emitted text and front ends call around C functions of users. The functions themselves
// include own_kernel.h alone.
#ifndef STRAIGHTLINE_ABI_OWN_CALLS_H
#define STRAIGHTLINE_ABI_OWN_CALLS_H

#include "straightline/abi/straightline.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens the shared library at `path` and makes its `function` what `symbol` is. The symbol has the
/// digest of both, so that one that is known is the same function, and nothing is done. The library
/// stays open until the process ends. Otherwise SL_INVALID_ARGUMENT, and the message names library,
/// function and what is wrong: no such file, a library of another machine, a missing symbol. Any
/// thread.
SL_API int32_t sl_own_kernel_open(const char* path, const char* function, const char* symbol,
                                  sl_message* message);
/// What a function takes at most: integers and addresses, and doubles.
#define SL_OWN_INTEGERS 32
#define SL_OWN_NUMBERS 8

/// Calls such a function in a run. `integers` are its arguments that are integers, addresses, and
/// an sl_dtype in the low bytes, in order; `numbers` those that are doubles. With `has_status` it
/// gets one more, the place for its message, and what it returns is looked at. An exception, and
/// another status than 0, become a failure of `ctx` that begins with `name`. Returns sl_status.
SL_API int32_t sl_own_call(sl_ctx* ctx, const char* name, void (*function)(void),
                           const int64_t* integers, int32_t integer_count, const double* numbers,
                           int32_t number_count, int32_t has_status);
/// The same outside of a run, for the function of a symbol; the failure is in `message`.
SL_API int32_t sl_own_invoke(const char* symbol, const char* name, const int64_t* integers,
                             int32_t integer_count, const double* numbers, int32_t number_count,
                             int32_t has_status, sl_message* message);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_OWN_CALLS_H
