// SPDX-License-Identifier: Apache-2.0
// C++ text of a planned module. Deterministic: a function of the module (its program, kernels and
// source locations) and the options; no addresses, times or folders.
#ifndef STRAIGHTLINE_CODEGEN_EMIT_H
#define STRAIGHTLINE_CODEGEN_EMIT_H

#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

namespace straightline::codegen {

/// One translation unit; it needs nothing but the folder with straightline/abi and
/// straightline/kernels.
struct EmittedUnit {
  std::string name;  ///< symbol of the kernel, or of the program
  std::string text;
  std::vector<std::string> externals;  ///< extern "C" names it calls and does not define
  bool runsOnce = false;               ///< a kernel that prepare alone starts
};

/// Kernels of a device that are compiled as one.
struct DeviceUnit {
  std::vector<std::string> kernels;  ///< their symbols
  std::string text;
};

struct Emitted {
  std::vector<EmittedUnit> kernels;  ///< one for each kernel.func that the program launches
  /// sl_program_prepare, sl_program_run and the tables with `sl_program`
  EmittedUnit program;
  /// each kernel of run by itself, then those that only prepare starts, some together
  std::vector<DeviceUnit> deviceUnits;
  std::string device;  ///< the backend of the device, "" where there is none
  std::string arch;    ///< its machine ("sm_90"); may be "" for a device of a plug-in
  /// all of it as one translation unit: what fn.code shows (kernels of a device are one of their
  /// own before it)
  std::string listing;
  /// the program as a Python module: what fn.code shows with emit="python"; "" with a device's
  /// kernels
  std::string python;
};

struct EmitOptions {
  bool profile = false;  ///< statements tell ctx->profile when they begin and end
};

/// Preconditions: one kernel.program, at planned level. Diagnostics on failure.
mlir::FailureOr<Emitted> emitProgram(mlir::ModuleOp module, const EmitOptions& options = {});

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_EMIT_H
