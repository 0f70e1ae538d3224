// SPDX-License-Identifier: Apache-2.0
#include "tools/module_context.h"

#include "codegen/jit/fatal_guard.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tools/compiler_abi.h"
#include "tools/diagnostic_log.h"

namespace straightline {
namespace {

/// Constants with more elements are shortened by SL_PRINT_ELIDE.
constexpr int64_t kShownElements = 16;

}  // namespace

ModuleContext::ModuleContext(const Stages& chosen)
    : stages(chosen), context(mlir::MLIRContext::Threading::DISABLED) {
  mlir::DialectRegistry registry;
  stages.registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

Failure parseModule(const Stages& stages, std::string_view text, const std::string& name,
                    std::unique_ptr<Module>* out) {
  auto context = std::make_shared<ModuleContext>(stages);
  DiagnosticLog log(&context->context);
  mlir::OwningOpRef<mlir::ModuleOp> op;
  std::string fatal;
  const bool survived = jit::runGuarded(
      [&] {
        op = mlir::parseSourceString<mlir::ModuleOp>(llvm::StringRef(text.data(), text.size()),
                                                     mlir::ParserConfig(&context->context), name);
      },
      &fatal);
  if (!survived) {
    return Failure::internal("the parser gave up on " + name + ": " + fatal);
  }
  if (!op) {
    return Failure::user("malformed module" + (log.empty() ? "" : ":\n" + log.text()));
  }
  *out = std::make_unique<Module>();
  (*out)->context = context;
  (*out)->op = std::move(op);
  (*out)->isText = true;
  return Failure::none();
}

Failure withSizes(const Module& module, const std::vector<std::string>& sizes,
                  std::unique_ptr<Module>* out) {
  const std::lock_guard<std::mutex> lock(module.context->mutex);
  DiagnosticLog log(&module.context->context);
  auto copy = std::make_unique<Module>();
  copy->context = module.context;
  copy->op = module.op.get().clone();
  copy->isText = module.isText;
  if (failed(module.context->stages.fixExtents(*copy->op, sizes))) {
    return log.failure(ErrorKind::internal, "named sizes cannot become numbers");
  }
  *out = std::move(copy);
  return Failure::none();
}

std::string printModule(mlir::ModuleOp module, unsigned flags) {
  mlir::OpPrintingFlags printing;
  if ((flags & SL_PRINT_LOCATIONS) != 0) {
    printing.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false).useLocalScope();
  }
  if ((flags & SL_PRINT_GENERIC) != 0) {
    printing.printGenericOpForm();
  }
  if ((flags & SL_PRINT_ELIDE) != 0) {
    printing.elideLargeElementsAttrs(kShownElements);
    printing.elideLargeResourceString(kShownElements);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, printing);
  return text + "\n";
}

}  // namespace straightline
