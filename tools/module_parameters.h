// SPDX-License-Identifier: Apache-2.0
// The parameters and states that a module declares, before anything is compiled.
#ifndef STRAIGHTLINE_TOOLS_MODULE_PARAMETERS_H
#define STRAIGHTLINE_TOOLS_MODULE_PARAMETERS_H

#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

namespace straightline {

/// JSON of the parameters and states of a module at op level or kernel level: see
/// sl_module_parameters.
std::string moduleParameters(mlir::ModuleOp module);
/// Their names in the same order.
std::vector<std::string> moduleParameterNames(mlir::ModuleOp module);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_MODULE_PARAMETERS_H
