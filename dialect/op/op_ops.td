// SPDX-License-Identifier: Apache-2.0
// All families of the dialect, for one run of the generator.
#ifndef STRAIGHTLINE_OP_OPS_TD
#define STRAIGHTLINE_OP_OPS_TD

include "dialect/op/op_structure.td"
include "dialect/op/op_elementwise.td"
include "dialect/op/op_shape.td"
include "dialect/op/op_reduction.td"
include "dialect/op/op_linear.td"
include "dialect/op/op_convolution.td"
include "dialect/op/op_indexing.td"
include "dialect/op/op_recurrent.td"
include "dialect/op/op_control.td"
include "dialect/op/op_aten.td"
include "dialect/op/op_external.td"

#endif  // STRAIGHTLINE_OP_OPS_TD
