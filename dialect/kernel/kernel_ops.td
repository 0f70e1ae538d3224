// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_DIALECT_KERNEL_OPS_TD
#define STRAIGHTLINE_DIALECT_KERNEL_OPS_TD

include "dialect/kernel/kernel_statements.td"
include "dialect/kernel/kernel_storage.td"

#endif
