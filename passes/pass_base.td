// SPDX-License-Identifier: Apache-2.0
// What all of our passes share.
#ifndef STRAIGHTLINE_PASS_BASE_TD
#define STRAIGHTLINE_PASS_BASE_TD

include "mlir/Pass/PassBase.td"

class OpLevelPass<string flag, string scope> : Pass<flag, scope> {
  let dependentDialects = ["::straightline::op::OpDialect"];
}

class KernelPass<string flag> : Pass<flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::straightline::kernel::KernelDialect"];
}

#endif  // STRAIGHTLINE_PASS_BASE_TD
