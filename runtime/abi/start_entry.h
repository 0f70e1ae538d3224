// SPDX-License-Identifier: Apache-2.0
// One kernel of a program by itself, on a device.
#ifndef STRAIGHTLINE_ABI_START_ENTRY_H
#define STRAIGHTLINE_ABI_START_ENTRY_H

#include "straightline/abi/straightline.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Enqueues one kernel of the program by itself, number `entry` of its description's entries, on
/// `queue`, which is one of the program's device. The kernel is no plan and has no handle. Whoever
/// calls it has compared what lies at `pointers` with the entry's arguments; `extents` are values
/// of all of the program's named extents, of which those that the grid depends on are read. The
/// first call loads the program's kernels. Any thread; all arrays are copied before this returns.
/// Returns sl_status.
SL_API int32_t sl_program_start(const sl_program* program, int32_t entry, sl_queue* queue,
                                void* const* pointers, const int64_t* scalars,
                                const int64_t* extents, sl_message* message);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_START_ENTRY_H
