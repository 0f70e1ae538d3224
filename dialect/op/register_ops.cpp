// SPDX-License-Identifier: Apache-2.0
// The ops of the dialect, of all its generated files.
#include "dialect/op/linalg.h"
#include "dialect/op/op_dialect.h"
#include "dialect/op/own_kernel.h"
#include "dialect/op/scan.h"
#include "dialect/op/special.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace straightline::op {

void OpDialect::initialize() {
  getContext()->getOrLoadDialect<mlir::arith::ArithDialect>();
  getContext()->getOrLoadDialect<mlir::math::MathDialect>();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/op/op_ops.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/op/op_linalg.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/op/op_own_kernel.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/op/op_scan.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/op/op_special.cpp.inc"
      >();
}

}  // namespace straightline::op
