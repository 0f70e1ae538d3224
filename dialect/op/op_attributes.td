// SPDX-License-Identifier: Apache-2.0
// All attributes of the dialect, for one run of the generator: it makes their parser and printer.
#ifndef STRAIGHTLINE_OP_ATTRIBUTES_TD
#define STRAIGHTLINE_OP_ATTRIBUTES_TD

include "dialect/op/op_dialect.td"
include "dialect/op/op_recorded.td"

#endif  // STRAIGHTLINE_OP_ATTRIBUTES_TD
