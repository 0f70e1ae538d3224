// SPDX-License-Identifier: Apache-2.0
// Every op of the dialect, for its page of the reference.
#ifndef STRAIGHTLINE_OP_ALL_TD
#define STRAIGHTLINE_OP_ALL_TD

include "dialect/op/op_ops.td"
include "dialect/op/op_linalg.td"
include "dialect/op/op_own_kernel.td"
include "dialect/op/op_scan.td"
include "dialect/op/op_special.td"

#endif  // STRAIGHTLINE_OP_ALL_TD
