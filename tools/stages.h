// SPDX-License-Identifier: Apache-2.0
// The interface of the compiler library to the layers below it: dialects, passes, emission. One
// implementation ties the real ones together (stages.cpp); unit tests put small ones in its place.
#ifndef STRAIGHTLINE_TOOLS_STAGES_H
#define STRAIGHTLINE_TOOLS_STAGES_H

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/jit/compile_program.h"
#include "llvm/Support/JSON.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "tools/compile_options.h"

namespace straightline {

/// The machine that a program is planned for.
struct TargetOptions {
  std::string cpu;           ///< an LLVM CPU name, never "host"
  int threads = 1;           ///< team size
  int64_t vectorBytes = 32;  ///< widest vector: 64 with AVX-512
  int64_t l1Bytes = 32768;   ///< data cache of one core
  int64_t l2Bytes = 1048576;
  bool dotBf16 = false;  ///< AVX512_BF16: sums of products of pairs of bfloat16
  /// of operands of multiply-adds begun in a cycle: 128 where two vectors of 64 bytes are
  int64_t fmaBytes = 64;
  /// of the compilation; what of it says nothing about a machine
  const CompileOptions* options = nullptr;
  /// sees the module after each group of passes; may be empty
  std::function<void(llvm::StringRef, mlir::ModuleOp)> afterGroup;
};

/// What emission made of a module at kernel level.
struct Emitted {
  std::vector<jit::Unit> units;        ///< the program's unit first, then the kernels
  std::vector<jit::Unit> deviceUnits;  ///< CUDA C++, by the name of the first kernel in each
  std::map<std::string, std::string> unitOfDeviceKernel;  ///< which of them holds a kernel
  std::string device;      ///< the backend of the device that those run on
  std::string deviceArch;  ///< what they are compiled for, "sm_90"
  std::string symbol;      ///< extern "C" name of the program's sl_program_desc
  std::string listing;     ///< all text, for people
  /// the program as a Python module; "" where a device has kernels
  std::string python;
  std::string explain;  ///< JSON
};

class Stages {
 public:
  virtual ~Stages() = default;
  virtual void registerDialects(mlir::DialectRegistry& registry) const = 0;
  /// Writes the target into the module, where passes look for it.
  virtual void setTarget(mlir::ModuleOp module, const TargetOptions& target) const = 0;
  /// Writes what the options ask of passes into the module, and adds all passes from the level of
  /// `module` (op, or kernel already) to the emitted kernel level. A pass says that something is
  /// beyond us, or that the input is wrong, by an error of that kind (dialect/error_kind.h); when
  /// any other error is among them, it is a bug.
  /// `routes` receives the rules that hold (routeJson), each with "ops", how many ops it names,
  /// "decides", about how many it decides, and "nearest", what one that names none may have meant.
  virtual Failure buildPipeline(mlir::PassManager& manager, mlir::ModuleOp module,
                                const TargetOptions& target, llvm::json::Array* routes) const = 0;
  /// Whether a module that the user wrote keeps the contract of its level (op, or kernel). What it
  /// emits names the user's own lines.
  virtual mlir::LogicalResult verifyText(mlir::ModuleOp module) const = 0;
  /// Puts numbers ("name=number") in place of named sizes of a module at op level. A user's error:
  /// what is not there, or out of bounds.
  virtual mlir::LogicalResult fixExtents(mlir::ModuleOp module,
                                         const std::vector<std::string>& sizes) const = 0;
  /// What one call is estimated to take, of a module that all passes have seen.
  virtual double estimatedUs(mlir::ModuleOp module) const = 0;
  virtual Failure emit(mlir::ModuleOp module, const TargetOptions& target,
                       Emitted* emitted) const = 0;
};

/// The product's stages.
const Stages& productStages();

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_STAGES_H
