// SPDX-License-Identifier: Apache-2.0
// Ties the compiler library to the layers below it: the one place that names dialects, the pipeline
// and emission.
#include "tools/stages.h"

#include "codegen/emit.h"
#include "codegen/explain.h"
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/kernel/recorded.h"
#include "passes/contraction_problem.h"
#include "passes/levels/levels.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/targets/target.h"
#include "passes/tuned_choices.h"
#include "tools/diagnostic_log.h"
#include "tools/pipeline_options.h"
#include "tools/register_all.h"
#include "tools/route_rules.h"

namespace straightline {
namespace {

llvm::json::Array usesJson(llvm::ArrayRef<RouteUse> uses) {
  llvm::json::Array rows;
  for (const RouteUse& use : uses) {
    llvm::json::Object row = routeJson(use.route);
    row["ops"] = use.ops;
    row["decides"] = use.decides;
    row["nearest"] = llvm::json::fixUTF8(use.nearest);
    rows.push_back(std::move(row));
  }
  return rows;
}

class ProductStages final : public Stages {
 public:
  void registerDialects(mlir::DialectRegistry& registry) const override {
    registerAllDialects(registry);
  }

  void setTarget(mlir::ModuleOp module, const TargetOptions& target) const override {
    const auto [chosen, machine] = targetIn(*target.options);
    const HostMachine host{target.cpu,     target.threads, target.vectorBytes, target.l1Bytes,
                           target.l2Bytes, target.dotBf16, target.fmaBytes};
    op::setTarget(module, chosen->attribute(module.getContext(), machine, host));
  }

  Failure buildPipeline(mlir::PassManager& manager, mlir::ModuleOp module,
                        const TargetOptions& target, llvm::json::Array* routes) const override {
    PipelineOptions options;
    if (Failure failure = readPipelineOptions(*target.options, module.getContext(), &options);
        failure.failed()) {
      return failure;
    }
    options.afterGroup = target.afterGroup;
    options.target = targetOf(module);
    if (module.getOps<kernel::ProgramOp>().empty()) {
      DiagnosticLog log(module.getContext());
      mlir::FailureOr<std::vector<RouteUse>> uses = setRoutes(module, options.routes);
      if (failed(uses)) {
        return log.failure(ErrorKind::user, "a route cannot be honoured");
      }
      *routes = usesJson(*uses);
      setChoices(module, options.choices);
      if (!options.tf32.empty() && factsOf(options.target).roundsToTf32) {
        op::setOptions(module, op::optionsOf(module).withTf32(options.tf32));
      }
      if (!options.graph) {
        op::setOptions(module, op::optionsOf(module).withLaunch("stream"));
      }
      if (options.everyBranch) {
        kernel::setPlacesEveryBranch(module);
      }
      straightline::buildPipeline(manager, options);
    } else {
      buildKernelLevelPipeline(manager, options);
    }
    return Failure::none();
  }

  mlir::LogicalResult verifyText(mlir::ModuleOp module) const override {
    mlir::PassManager manager(module.getContext());
    const auto functions = module.getOps<mlir::func::FuncOp>();
    const auto count = std::distance(functions.begin(), functions.end());
    if (!module.getOps<kernel::ProgramOp>().empty()) {
      manager.addPass(createVerifyKernelLevelPass());
    } else if (count != 1) {
      return module.emitError() << "has " << count
                                << " functions; a program is made of exactly one";
    } else if ((*functions.begin()).isDeclaration()) {
      return (*functions.begin()).emitError() << "has no body";
    } else {
      manager.addPass(passes::createVerifyOpLevel({"captured"}));
    }
    return manager.run(module);
  }

  mlir::LogicalResult fixExtents(mlir::ModuleOp module,
                                 const std::vector<std::string>& sizes) const override {
    mlir::PassManager manager(module.getContext());
    passes::FixExtentsOptions options;
    options.sizes.assign(sizes.begin(), sizes.end());
    manager.addPass(passes::createFixExtents(options));
    return manager.run(module);
  }

  double estimatedUs(mlir::ModuleOp module) const override { return codegen::estimatedUs(module); }

  Failure emit(mlir::ModuleOp module, const TargetOptions& target,
               Emitted* emitted) const override {
    mlir::FailureOr<codegen::Emitted> text =
        codegen::emitProgram(module, {.profile = target.options->internal.profile});
    if (failed(text)) {
      return Failure::internal("emission failed");
    }
    emitted->units.push_back({text->program.name, std::move(text->program.text)});
    for (codegen::EmittedUnit& kernel : text->kernels) {
      emitted->units.push_back({std::move(kernel.name), std::move(kernel.text), kernel.runsOnce});
    }
    for (codegen::DeviceUnit& unit : text->deviceUnits) {
      emitted->deviceUnits.push_back({unit.kernels.front(), std::move(unit.text)});
      for (const std::string& kernel : unit.kernels) {
        emitted->unitOfDeviceKernel[kernel] = unit.kernels.front();
      }
    }
    emitted->device = text->device;
    emitted->deviceArch = text->arch;
    emitted->explain = codegen::explainProgram(module);
    emitted->symbol = "sl_program";
    emitted->listing = std::move(text->listing);
    emitted->python = std::move(text->python);
    return Failure::none();
  }
};

}  // namespace

const Stages& productStages() {
  static const ProductStages stages;
  return stages;
}

}  // namespace straightline
