// SPDX-License-Identifier: Apache-2.0
// CUDA C++ to machine code by NVIDIA's run-time compiler, which is opened when it is first used and
// needs no device.
#ifndef STRAIGHTLINE_CODEGEN_JIT_NVRTC_H
#define STRAIGHTLINE_CODEGEN_JIT_NVRTC_H

#include <memory>
#include <string>
#include <vector>

#include "codegen/jit/device_images.h"

namespace straightline::jit {

/// Compiles each unit for `arch`: "sm_90", or "compute_90" for PTX, which the driver of that and of
/// each later device compiles; of the options cache and onUnit count. Null with
/// `error` set otherwise: without the library or when it knows no such device that is unsupported;
/// text that it refuses is an internal error, and the message names the file that keeps it.
/// Thread-safe.
std::unique_ptr<DeviceProgram> compileForDevice(const std::vector<Unit>& units,
                                                const std::string& arch,
                                                const CompileOptions& options, CompileError* error);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_NVRTC_H
