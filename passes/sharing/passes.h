// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_SHARING_PASSES_H
#define STRAIGHTLINE_PASSES_SHARING_PASSES_H

#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/sharing/passes.h.inc"

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_SHARING_PASSES_H
