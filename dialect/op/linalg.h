// SPDX-License-Identifier: Apache-2.0
// The ops of the family "linalg".
#ifndef STRAIGHTLINE_DIALECT_OP_LINALG_H
#define STRAIGHTLINE_DIALECT_OP_LINALG_H

#include "dialect/op/op_dialect.h"

// Generated builders leave parameters unused.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_linalg.h.inc"
#pragma GCC diagnostic pop

#endif  // STRAIGHTLINE_DIALECT_OP_LINALG_H
