// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_LOWERING_ATTENTION_H
#define STRAIGHTLINE_PASSES_LOWERING_ATTENTION_H

#include "passes/lowering/context.h"

namespace straightline::lowering {

/// Whether attention, its only user, reads the two parts of its keys and of its values where they
/// are.
bool isReadInParts(op::CatOp cat, LoweringContext& context);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_ATTENTION_H
