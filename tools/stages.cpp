// SPDX-License-Identifier: Apache-2.0
// Ties the compiler library to the layers below it: the one place that names dialects, the pipeline and emission.
#include "tools/stages.h"

#include <sstream>

#include "codegen/emit.h"
#include "codegen/explain.h"
#include "dialect/kernel/kernel_dialect.h"
#include "passes/levels/levels.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "straightline/abi/straightline.h"
#include "tools/register_all.h"

namespace straightline {
namespace {

/// Finds the memory space of a backend's device in the registry.
Failure chooseDevice(const std::string& backend, DeviceChoice* choice) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* desc = sl_backend_at(i);
    if (backend == desc->name && desc->device != nullptr) {
      *choice = {backend, desc->device->space};
      return Failure::none();
    }
    if (backend == desc->name) {
      return Failure::user("backend '" + backend + "' has no device: it runs on the caller's team");
    }
  }
  return Failure::user("no backend '" + backend + "' is registered");
}

class ProductStages final : public Stages {
 public:
  void registerDialects(mlir::DialectRegistry& registry) const override {
    registerAllDialects(registry);
  }

  void setTarget(mlir::ModuleOp module, const TargetOptions& target) const override {
    module->setAttr("op.target", kernel::TargetAttr::get(module.getContext(), "cpu", target.cpu, target.threads,
                                                         target.vectorBytes, target.l1Bytes, target.l2Bytes));
  }

  Failure buildPipeline(mlir::PassManager& manager, mlir::ModuleOp module, const TargetOptions& target) const override {
    PipelineOptions options;
    std::istringstream words(target.pipeline);
    for (std::string word; words >> word;) {
      if (word == "freeze=true" || word == "freeze=false") {
        options.freeze = word == "freeze=true";
      } else if (word == "poison=true" || word == "poison=false") {
        options.poison = word == "poison=true";
      } else if (word.starts_with("allow=")) {
        options.allow = word.substr(std::string("allow=").size());
      } else if (word.starts_with("prefer=")) {
        options.prefer = word.substr(std::string("prefer=").size());
      } else if (word.starts_with("device=")) {
        if (Failure failure = chooseDevice(word.substr(std::string("device=").size()), &options.device);
            failure.failed()) {
          return failure;
        }
      } else {
        return Failure::user("unknown pipeline option '" + word +
                             "'; valid are freeze=true, freeze=false, poison=true, poison=false, allow=BACKEND+BACKEND, prefer=BACKEND and device=BACKEND");
      }
    }
    if (module.getOps<kernel::ProgramOp>().empty()) {
      straightline::buildPipeline(manager, options);
    } else {
      buildKernelLevelPipeline(manager);
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
      return module.emitError() << "has " << count << " functions; a program is made of exactly one";
    } else if ((*functions.begin()).isDeclaration()) {
      return (*functions.begin()).emitError() << "has no body";
    } else {
      manager.addPass(passes::createVerifyOpLevel({"captured"}));
    }
    return manager.run(module);
  }

  Failure emit(mlir::ModuleOp module, const TargetOptions&, Emitted* emitted) const override {
    mlir::FailureOr<codegen::Emitted> text = codegen::emitProgram(module);
    if (failed(text)) {
      return Failure::internal("emission failed");
    }
    emitted->units.push_back({text->program.name, std::move(text->program.text)});
    for (codegen::EmittedUnit& kernel : text->kernels) {
      emitted->units.push_back({std::move(kernel.name), std::move(kernel.text)});
    }
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
