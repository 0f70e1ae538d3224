// SPDX-License-Identifier: Apache-2.0
// The one place that reads what users write about the pipeline: the option text, the environment
// and the routes file.
#ifndef STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H
#define STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H

#include <string>

#include "passes/pipeline.h"
#include "passes/targets/target.h"
#include "tools/failure.h"

namespace straightline {

/// Reads "key=value key=value" (freeze, poison, prefer, device, and route.OP for each route), then
/// the routes of the environment: STRAIGHTLINE_ROUTE_<op> ('.' of the op written '__') and the file
/// named by STRAIGHTLINE_ROUTES, whose lines are "op = backend" or "op = backend.kernel", with '#'
/// before comments. For each op the first of text, variable and file counts; every route must name
/// something that exists. `context` knows the op dialect.
Failure readPipelineOptions(const std::string& text, mlir::MLIRContext* context,
                            PipelineOptions* options);

/// A target and a machine of it, "sm_90" of "cuda:sm_90".
struct TargetChoice {
  const Target* target;
  std::string machine;
};

/// Of the option text; the default target where it names none. readPipelineOptions says whether
/// there is such a machine.
TargetChoice targetIn(const std::string& text);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H
