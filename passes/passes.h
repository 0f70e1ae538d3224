// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_PASSES_H
#define STRAIGHTLINE_PASSES_PASSES_H

#include <memory>
#include <string>

#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/op_dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace straightline::passes {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/passes.h.inc"

}  // namespace straightline::passes

#endif  // STRAIGHTLINE_PASSES_PASSES_H
