// SPDX-License-Identifier: Apache-2.0
// The generated definitions of the ops: builders, syntax, and verifiers that call those of
// op_verify.h.
#include "dialect/op/op_dialect.h"
#include "dialect/op/op_verify.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_ops.cpp.inc"
#pragma GCC diagnostic pop
