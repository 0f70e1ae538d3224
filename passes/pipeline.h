// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_PIPELINE_H
#define STRAIGHTLINE_PASSES_PIPELINE_H

#include <functional>
#include <string>
#include <vector>

#include "dialect/kernel/kernel_dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/routes.h"

namespace straightline {

/// A registered backend with a device, and the name of its memory space.
struct DeviceChoice {
  std::string backend;
  std::string space;
};

/// What a user may choose about the pipeline.
struct PipelineOptions {
  bool freeze = true;   ///< parameters are constant between two calls of prepare
  bool poison = false;  ///< fill arena slots with NaN before their first use (debugging)
  std::string allow;    ///< "native+onednn": the backends that kernels may come from; empty: all
  /// properties of kernels that are never taken ("transforms_inputs", kernel_facts.h); empty: none
  std::string avoid;
  /// backend whose kernels are taken wherever they accept; empty: the cheapest kernel
  std::string prefer;
  std::vector<Route> routes;  ///< those first that count first
  /// measured: key of a contraction, text of a candidate
  std::vector<std::pair<std::string, std::string>> choices;
  bool listCandidates = false;  ///< record what there is to measure
  bool profile = false;         ///< emitted statements tell when they begin and end
  /// Called with the name of each group of passes and the module as the group left it; null: not
  /// called.
  std::function<void(llvm::StringRef, mlir::ModuleOp)> afterGroup;
  /// where all statements run, with copies at the edges; empty: on the caller's team
  DeviceChoice device;
  /// what the module is compiled for, as its op.target says; null: the default target
  kernel::TargetAttr target;
  bool graph = true;         ///< a run on a device may be launched as a graph
  bool branches = true;      ///< the graph of a device may run long branches at once
  bool everyBranch = false;  ///< records kernel.every_branch
  /// "convolution+matmul": which products of float32 a device may round to TF32; empty: none
  std::string tf32;
  /// tensors of a program for a device are in host memory, and each run copies them
  bool hostEdges = false;
  bool sharesPrepared = false;              ///< prepared data is that of several programs
  std::vector<std::string> preparedBefore;  ///< by programs before it (share-prepared)
};

/// All passes from a captured module (op level, with the module attributes op.target and, where
/// they say anything, op.options) to a planned one (kernel level).
void buildPipeline(mlir::OpPassManager& manager, const PipelineOptions& options);

/// For a module that is at kernel level already (written by hand, or printed by `ir("kernel")`):
/// checks and plans it.
void buildKernelLevelPipeline(mlir::OpPassManager& manager, const PipelineOptions& options);

/// Makes every pass known to straightline-opt.
void registerKernelPasses();

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_PIPELINE_H
