// SPDX-License-Identifier: Apache-2.0
// Ties the compiler library to the layers below it: the one place that names dialects, the pipeline and emission.
#include "tools/stages.h"

#include <sstream>

#include "codegen/emit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include "passes/pipeline.h"
#include "tools/register_all.h"

namespace straightline {
namespace {

/// Vector width and caches of a CPU, as kernels are chosen for.
kernel::TargetAttr targetAttribute(mlir::MLIRContext* context, const TargetOptions& target) {
  llvm::SmallVector<llvm::StringRef> features;
  llvm::X86::getFeaturesForCPU(target.cpu, features);
  const int64_t vectorBytes = llvm::is_contained(features, "avx512f") ? 64 : 32;
  return kernel::TargetAttr::get(context, "cpu", target.cpu, target.threads, vectorBytes, 32768, 1048576);
}

class ProductStages final : public Stages {
 public:
  void registerDialects(mlir::DialectRegistry& registry) const override {
    registerAllDialects(registry);
  }

  Failure buildPipeline(mlir::PassManager& manager, const TargetOptions& target) const override {
    PipelineOptions options;
    std::istringstream words(target.pipeline);
    for (std::string word; words >> word;) {
      if (word == "freeze=true" || word == "freeze=false") {
        options.freeze = word == "freeze=true";
      } else {
        return Failure::user("unknown pipeline option '" + word + "'; valid are freeze=true and freeze=false");
      }
    }
    options.target = targetAttribute(manager.getContext(), target);
    straightline::buildPipeline(manager, options);
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
