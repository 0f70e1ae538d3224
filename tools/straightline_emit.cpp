// SPDX-License-Identifier: Apache-2.0
// straightline-emit FILE.mlir: prints the C++ of a planned kernel-level module as one translation
// unit, or its Python.
#include "codegen/emit.h"
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/op_dialect.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

int main(int argc, char** argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("FILE.mlir"),
                                   llvm::cl::init("-"));
  llvm::cl::opt<std::string> unit(
      "unit", llvm::cl::desc("print one unit: a kernel's name, or the program's"));
  llvm::cl::opt<bool> profile("profile", llvm::cl::desc("with calls of the profiling hook"));
  llvm::cl::opt<bool> python("python", llvm::cl::desc("print the program as Python"));
  llvm::cl::ParseCommandLineOptions(argc, argv,
                                    "straightline-emit: C++ of a planned kernel-level module\n");

  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::math::MathDialect,
                  straightline::kernel::KernelDialect, straightline::op::OpDialect>();
  mlir::MLIRContext context(registry);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler diagnostics(sources, &context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(input, sources, &context);
  if (!module) {
    return 1;
  }
  mlir::FailureOr<straightline::codegen::Emitted> emitted =
      straightline::codegen::emitProgram(*module, {.profile = profile});
  if (failed(emitted)) {
    return 1;
  }
  if (python) {
    llvm::outs() << emitted->python;
    return 0;
  }
  if (unit.empty()) {
    llvm::outs() << emitted->listing;
    return 0;
  }
  emitted->kernels.push_back(emitted->program);
  for (const straightline::codegen::EmittedUnit& candidate : emitted->kernels) {
    if (candidate.name == unit) {
      llvm::outs() << candidate.text;
      return 0;
    }
  }
  llvm::errs() << "there is no unit '" << unit << "' in '" << input << "'\n";
  return 1;
}
