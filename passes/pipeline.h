// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_PASSES_PIPELINE_H
#define STRAIGHTLINE_PASSES_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace straightline {

/// What a user may choose about the pipeline.
struct PipelineOptions {
  bool freeze = true;   ///< parameters are constant between two calls of prepare
  bool poison = false;  ///< fill arena slots with NaN before their first use (debugging)
};

/// All passes from a captured module (op level, with the module attribute op.target) to a planned one (kernel level).
void buildPipeline(mlir::OpPassManager& manager, const PipelineOptions& options);

/// Makes every pass known to straightline-opt.
void registerKernelPasses();

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_PIPELINE_H
