// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdlib>

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "straightline/abi/straightline.h"
#include "tools/compiler_abi.h"
#include "tools/register_all.h"

namespace {

/// Adds the backend of a shared library to the registry, or ends the process with the reason.
void loadBackend(const std::string& path) {
  using Backend = const sl_backend_desc* (*)();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto backend =
      library ? reinterpret_cast<Backend>(dlsym(library, "straightline_backend_v1")) : nullptr;
  if (!backend) {
    const char* why = dlerror();
    llvm::errs() << "--backend: " << path << " cannot be loaded: " << (why ? why : "no reason")
                 << "\n";
    std::exit(1);
  }
  sl_message message{};
  if (sl_backend_register(backend(), &message) != SL_OK) {
    llvm::errs() << "--backend: " << path << " is refused: " << message.text << "\n";
    std::exit(1);
  }
}

}  // namespace

int sl_opt_main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  straightline::registerAllDialects(registry);
  straightline::registerAllPasses();
  const llvm::cl::list<std::string> backends(
      "backend", llvm::cl::desc("shared library whose backend is registered"),
      llvm::cl::value_desc("path"),
      llvm::cl::callback([](const std::string& path) { loadBackend(path); }));
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "straightline-opt: runs passes on a module\n", registry));
}
