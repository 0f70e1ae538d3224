// SPDX-License-Identifier: Apache-2.0
// For plug-ins, which link nothing of the runtime: what kernel.h describes, and functions of the
// runtime that a library's kernel may want, here as inline ones. C11.
#ifndef STRAIGHTLINE_ABI_PLUGIN_H
#define STRAIGHTLINE_ABI_PLUGIN_H

#include "straightline/abi/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Records a failure with a text (UTF-8, cut to SL_FAILURE_TEXT_BYTES) that becomes part of the
/// message; the first failure of a call wins. Returns `status`, for `return sl_plugin_fail(...)` of
/// plan and run. Only thread 0 of a team may call it.
static inline int32_t sl_plugin_fail(sl_ctx* ctx, int32_t status, const char* text) {
  int32_t none = SL_OK;
  if (SL_HAS_FIELD(ctx->size, sl_ctx, text) &&
      __atomic_compare_exchange_n(&ctx->status, &none, status, 0, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED)) {
    uint64_t bytes = __builtin_strlen(text);
    if (bytes >= sizeof ctx->text) {
      bytes = sizeof ctx->text - 1;
      while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80) {
        --bytes;  // never in the middle of a character
      }
    }
    __builtin_memcpy(ctx->text, text, bytes);
    ctx->text[bytes] = 0;
  }
  return status;
}

/// The attribute of that name, 1; 0: the problem has none.
static inline int32_t sl_plugin_attribute(const sl_problem* problem, const char* name,
                                          sl_attribute* found) {
  for (int32_t i = 0; i < problem->attribute_count; ++i) {
    *found = sl_attribute_at(problem, i);
    if (__builtin_strcmp(found->name, name) == 0) {
      return 1;
    }
  }
  return 0;
}

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_PLUGIN_H
