// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_TOOLS_PASS_LOG_H
#define STRAIGHTLINE_TOOLS_PASS_LOG_H

#include <memory>

#include "mlir/Pass/PassInstrumentation.h"

namespace straightline {

/// STRAIGHTLINE_LOG=passes: a line for each pass with its time and the number of ops before and
/// after it.
std::unique_ptr<mlir::PassInstrumentation> makePassLog();

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_PASS_LOG_H
