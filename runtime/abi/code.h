// SPDX-License-Identifier: Apache-2.0
// What a program's linked code exports to whoever loads it: its description, and what it wants
// filled in. Linked code has no undefined symbol, so that neither the order in which libraries are
// opened nor what a process exports decides what it calls. C ABI, freestanding.
#ifndef STRAIGHTLINE_ABI_CODE_H
#define STRAIGHTLINE_ABI_CODE_H

#include "straightline/abi/entry.h"

/// The symbol of the linked code of an artifact.
#define SL_CODE_SYMBOL "sl_code_of_program"

#ifdef __cplusplus
extern "C" {
#endif

/// A function that the code calls and does not contain. The loader writes its address (sl_symbol)
/// to `*slot` before anything is called.
typedef struct sl_import {
  const char* name;
  void** slot;
} sl_import;

/// Machine code for a device, kept apart from the host's. The loader fills in `data`, `bytes` and
/// `compiler`.
typedef struct sl_image_slot {
  const char* name;  ///< of the unit that it was compiled from
  sl_device_image* image;
} sl_image_slot;

typedef struct sl_code {
  uint64_t size;         ///< sizeof(sl_code) of the one that linked it
  uint32_t abi_version;  ///< SL_ABI_VERSION of the one that compiled it
  int32_t import_count;
  const sl_import* imports;
  const sl_image_slot* images;
  int32_t image_count;
  int32_t reserved;
  const sl_program_desc* program;
} sl_code;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_CODE_H
