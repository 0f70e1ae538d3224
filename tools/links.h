// SPDX-License-Identifier: Apache-2.0
// Which op of the op level became which statement: numbers that ops get before the passes and that
// travel in their locations, through every rewriting that keeps the locations of what it replaces.
#ifndef STRAIGHTLINE_TOOLS_LINKS_H
#define STRAIGHTLINE_TOOLS_LINKS_H

#include <map>
#include <memory>
#include <set>
#include <string>

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Location.h"
#include "mlir/Pass/PassInstrumentation.h"

namespace straightline {

/// The pass after which a number was in no location any more, by number.
using LostNumbers = std::map<int64_t, std::string>;

/// Numbers the ops of a module in the order of a walk, from 0. A copy of the module gives the same
/// numbers to the same ops.
void numberOps(mlir::ModuleOp module);

/// Watches which numbers a module still has after each pass.
std::unique_ptr<mlir::PassInstrumentation> watchNumbers(LostNumbers* lost);

/// The numbers in a location, whatever it was fused with.
std::set<int64_t> numbersIn(mlir::Location location);

/// A module's text without large constants, and the line of each of its ops. `uniqueNames`: no two
/// values have one name, whatever their regions.
std::string printedWithLines(mlir::ModuleOp module, mlir::AsmState::LocationMap* lines,
                             bool uniqueNames);

/// JSON of both levels as text and of what stands in which line: {"op_text", "kernel_text", "ops":
/// [{"id", "name", "line", "source", "lost"}], "statements": [{"number", "line", "ops"}],
/// "kernels": [{"name", "line", "end", "ops"}] (end: the line behind it, 0 for the last op),
/// "buffers": [{"number", "line", "name" in the emitted text}], "lines": [{"line", "ops"}] of all
/// ops of the kernel level}; lines count from 1, and are 0 where there is none. `opLevel` is the
/// module that was numbered, without its numbers; `kernelLevel` is what the passes made of it.
std::string linksJson(mlir::ModuleOp opLevel, mlir::ModuleOp kernelLevel, const LostNumbers& lost);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_LINKS_H
