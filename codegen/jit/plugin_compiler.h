// SPDX-License-Identifier: Apache-2.0
// Kernels of a plug-in's device through the compiler that the plug-in brings
// (sl_device_desc.compile).
#ifndef STRAIGHTLINE_CODEGEN_JIT_PLUGIN_COMPILER_H
#define STRAIGHTLINE_CODEGEN_JIT_PLUGIN_COMPILER_H

#include <memory>
#include <string>
#include <vector>

#include "codegen/jit/device_images.h"
#include "straightline/abi/kernel.h"

namespace straightline::jit {

/// Compiles each unit for `machine`; of the options cache and onUnit count. `name`: the backend's,
/// for messages and for keys of the cache. Null with `error` set otherwise: what the compiler
/// refuses as unsupported, or as the user's, is told as such; text that it does not take is an
/// internal error, and the message names the file that keeps it. Thread-safe.
std::unique_ptr<DeviceProgram> compileByPlugin(const std::vector<Unit>& units,
                                               const std::string& name,
                                               const sl_device_desc& device,
                                               const std::string& machine,
                                               const CompileOptions& options, CompileError* error);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_PLUGIN_COMPILER_H
