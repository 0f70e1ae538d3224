// SPDX-License-Identifier: Apache-2.0
// Ties the compiler library to the layers below it: the one place that names dialects, the pipeline and emission.
#include "tools/stages.h"

#include <sstream>

#include "codegen/emit.h"
#include "codegen/explain.h"
#include "dialect/kernel/kernel_dialect.h"
#include "passes/pipeline.h"
#include "tools/register_all.h"

namespace straightline {
namespace {

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
      } else {
        return Failure::user("unknown pipeline option '" + word + "'; valid are freeze=true and freeze=false");
      }
    }
    if (module.getOps<kernel::ProgramOp>().empty()) {
      straightline::buildPipeline(manager, options);
    } else {
      buildKernelLevelPipeline(manager);
    }
    return Failure::none();
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
    return Failure::none();
  }
};

}  // namespace

const Stages& productStages() {
  static const ProductStages stages;
  return stages;
}

}  // namespace straightline
