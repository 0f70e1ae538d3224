// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_FAILURE_H
#define STRAIGHTLINE_RUNTIME_FAILURE_H

#include "straightline/abi/straightline.h"

namespace straightline {

/// Resets `ctx` for a run: no failure yet.
void clearFailure(sl_ctx* ctx);

/// Writes a message for the failure in `ctx`: the values, the op, the kernel and its library if a
/// library computed it, and the source. `extents`: sizes of the call, whose values follow the words
/// of a check that names them; null: not known.
void describeFailure(const sl_program_desc& desc, const sl_ctx& ctx, const char* prefix,
                     const int64_t* extents, sl_message* message);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_FAILURE_H
