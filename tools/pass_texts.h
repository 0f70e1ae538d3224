// SPDX-License-Identifier: Apache-2.0
// The module after each pass, as text whose lines have the numbers of the ops that they came from
// (links.h).
#ifndef STRAIGHTLINE_TOOLS_PASS_TEXTS_H
#define STRAIGHTLINE_TOOLS_PASS_TEXTS_H

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassInstrumentation.h"

namespace straightline {

/// A module as text. No two of its values have one name; large constants are left out.
struct NumberedText {
  std::string text;
  /// the numbers of the ops that line `i` has, counted from 0; empty: none
  std::vector<std::set<int64_t>> numbers;
};

/// One pass that ran.
struct PassText {
  std::string name;     ///< its argument: "fold-pad"
  std::string summary;  ///< as passes.td has it
  bool changed = false;
  NumberedText after;  ///< empty unless it changed what is printed, or whence a line came
};

/// All passes of a compilation, in the order in which they ran.
struct PassTexts {
  NumberedText before;
  std::vector<PassText> passes;
};

/// The module, whose ops have numbers, before any pass.
PassTexts textBeforePasses(mlir::ModuleOp module);

/// Adds each pass that has a name to `texts`, which began as textBeforePasses of the same module.
/// For one thread; `texts` is borrowed.
std::unique_ptr<mlir::PassInstrumentation> recordTexts(PassTexts* texts);

/// {"before": TEXT, "passes": [{"name", "summary", "changed", and TEXT as "after" if it did}]},
/// where a TEXT is {"text", "ops": the numbers of each line}.
std::string passesJson(const PassTexts& texts);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_PASS_TEXTS_H
