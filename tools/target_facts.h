// SPDX-License-Identifier: Apache-2.0
// What front ends ask of a target, for callers that have its name alone.
#ifndef STRAIGHTLINE_TOOLS_TARGET_FACTS_H
#define STRAIGHTLINE_TOOLS_TARGET_FACTS_H

#include <string>

#include "passes/targets/target.h"
#include "tools/compile_options.h"

namespace straightline {

/// A JSON object of FrontEndFacts, and of the other facts that front ends need, by snake_case name.
/// `target` as in CompileOptions; a user error where there is none of that name.
Failure targetFacts(const std::string& target, std::string* json);

/// Target::nearestTopk of the target.
Failure nearestTopk(const std::string& target, const TopkProblem& problem, std::string* nearest);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_TARGET_FACTS_H
