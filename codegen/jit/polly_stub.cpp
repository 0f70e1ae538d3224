// SPDX-License-Identifier: Apache-2.0
// Debian's libclangCodeGen.a calls Polly's registration; libPolly.a is in a package that is not
// needed otherwise. An empty registration takes its place.
#include "llvm/Plugins/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo();

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "no-polly", "0", [](llvm::PassBuilder&) {}, nullptr};
}
