// SPDX-License-Identifier: Apache-2.0
// The one place that reads what users write about the pipeline: the option text, the environment
// and the routes file.
#ifndef STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H
#define STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H

#include <string>

#include "passes/pipeline.h"
#include "tools/failure.h"

namespace straightline {

/// Reads "key=value key=value" (freeze, poison, prefer, device, and route.OP for each route), then
/// the routes of the environment: STRAIGHTLINE_ROUTE_<op> ('.' of the op written '__') and the file
/// named by STRAIGHTLINE_ROUTES, whose lines are "op = backend" or "op = backend.kernel", with '#'
/// before comments. For each op the first of text, variable and file counts; every route must name
/// something that exists. `context` knows the op dialect.
Failure readPipelineOptions(const std::string& text, mlir::MLIRContext* context,
                            PipelineOptions* options);

/// "sm_90" where the options have target=cuda:sm_90, "" where they have none.
std::string cudaArchOf(const std::string& text);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_PIPELINE_OPTIONS_H
