// SPDX-License-Identifier: Apache-2.0
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/compiler_abi.h"
#include "tools/register_all.h"

int sl_opt_main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  straightline::registerAllDialects(registry);
  straightline::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "straightline-opt: runs passes on a module\n", registry));
}
