// SPDX-License-Identifier: Apache-2.0
// The op of a user's own C function.
#ifndef STRAIGHTLINE_DIALECT_OP_OWN_KERNEL_H
#define STRAIGHTLINE_DIALECT_OP_OWN_KERNEL_H

#include "dialect/op/op_dialect.h"

// Generated builders leave parameters unused.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_own_kernel.h.inc"
#pragma GCC diagnostic pop

#endif  // STRAIGHTLINE_DIALECT_OP_OWN_KERNEL_H
