// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_GUARD_H
#define STRAIGHTLINE_RUNTIME_GUARD_H

#include "guard_plan.h"
#include "straightline/abi/straightline.h"

namespace straightline {

/// Precondition: `desc` passed checkDescription.
/// `device`: number of the program's device.
GuardPlan buildGuardPlan(const sl_program_desc& desc, int32_t device);

/// DLDeviceType of a memory space.
int32_t deviceTypeOf(const char* space);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_GUARD_H
