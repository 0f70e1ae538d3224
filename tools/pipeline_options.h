// SPDX-License-Identifier: Apache-2.0
// From the options of a compilation, the environment and the routes file to what the passes are
// told.
#ifndef STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H
#define STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H

#include <string>

#include "passes/pipeline.h"
#include "passes/targets/target.h"
#include "tools/compile_options.h"

namespace straightline {

/// What the passes are told: the options, and the rules of the environment behind theirs
/// (route_rules.h). `context` knows the op dialect.
Failure readPipelineOptions(const CompileOptions& given, mlir::MLIRContext* context,
                            PipelineOptions* options);

/// A user error where the target, or its machine, is none, or where an option has a value that is
/// not valid on that target.
Failure checkTarget(const CompileOptions& options);

/// A target and a machine of it, "sm_90" of "cuda:sm_90".
struct TargetChoice {
  const Target* target;
  std::string machine;
};

/// Of the options; the default target where they name none that exists (readPipelineOptions says
/// so).
TargetChoice targetIn(const CompileOptions& options);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H
