// SPDX-License-Identifier: Apache-2.0
// Ties the compiler library to the layers below it: the one place that names dialects, the pipeline and emission.
#include "tools/stages.h"

#include "tools/register_all.h"

namespace straightline {
namespace {

class ProductStages final : public Stages {
 public:
  void registerDialects(mlir::DialectRegistry& registry) const override {
    registerAllDialects(registry);
  }

  Failure buildPipeline(mlir::PassManager&, const TargetOptions&) const override {
    return Failure::unsupported("this build has no pass pipeline");
  }

  Failure emit(mlir::ModuleOp, const TargetOptions&, Emitted*) const override {
    return Failure::unsupported("this build has no emission");
  }
};

}  // namespace

const Stages& productStages() {
  static const ProductStages stages;
  return stages;
}

}  // namespace straightline
